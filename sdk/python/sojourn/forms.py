"""The forms of jobs, responses, durations and bytes."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .errors import Error, make, of_problem, said

#: Seconds, or a timedelta.
Duration = Union[int, float, timedelta]

FINAL = ("completed", "failed", "cancelled")


class Undecodable(ValueError):
    """Bytes that are said to be JSON are not."""


def seconds_text(d: Duration, name: str) -> str:
    """A duration as the API writes it: ``"90s"``."""
    seconds = d.total_seconds() if isinstance(d, timedelta) else d
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds < 0:
        raise make("invalid", "%r is not a duration: give seconds, 0 or more, or a timedelta" % (d,), field=name)
    return (("%.9f" % seconds).rstrip("0").rstrip(".") or "0") + "s"


def seconds_of(text: Optional[str]) -> Optional[float]:
    """What an answer says of a duration; they are all in seconds."""
    return float(text[:-1]) if text else None


def time_text(t: datetime, name: str) -> str:
    if t.tzinfo is None:
        raise make("invalid", "a time needs its zone: datetime.now(timezone.utc), for example", field=name)
    return t.isoformat()


def plain(value: Any, name: str) -> Any:
    """Replaces durations and times anywhere in a value, such as a policy."""
    if isinstance(value, timedelta):
        return seconds_text(value, name)
    if isinstance(value, datetime):
        return time_text(value, name)
    if isinstance(value, Mapping):
        return {k: plain(v, str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, name) for v in value]
    return value


def dumps(value: Any, name: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except Exception as e:  # also those of the value's own methods
        raise make("invalid", "does not encode as JSON: %s" % said(e), field=name) from None


def loads(text: Union[str, bytes]) -> Any:
    return json.loads(text)


def loads_answer(text: bytes) -> Any:
    """An answer in the exact form: what is not plain JSON in it comes as base64 and becomes bytes. ValueError or RecursionError if it is none."""
    return json.loads(text.decode("utf-8"), object_hook=_unwrap, parse_constant=_no_number)


def _no_number(name: str) -> Any:
    raise ValueError("%s is no number of JSON" % name)


def listed(answer: Any, name: str, count: Optional[int] = None) -> List[Any]:
    """The list of that name in an answer. ValueError if there is none, or one of another length."""
    items = answer[name] if isinstance(answer, dict) else None
    if not isinstance(items, list) or count is not None and len(items) != count:
        raise ValueError("%s is not the list that was asked for" % name)
    return items


def typed(value: Any, kind: type) -> Any:
    """The value, if it is of that type. ValueError otherwise."""
    if type(value) is not kind:
        raise ValueError("%.64r is no %s" % (value, kind.__name__))
    return value


def mended(text: str) -> str:
    """The text with each lone surrogate replaced, which no UTF-8 has."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unwrap(o: Dict[str, Any]) -> Any:
    return base64.b64decode(o["$base64"]) if len(o) == 1 and isinstance(o.get("$base64"), str) else o


def wrap(b: bytes) -> Dict[str, str]:
    """Bytes as the API takes them, exactly."""
    return {"$base64": base64.b64encode(b).decode("ascii")}


def encode(value: Any, content_type: str, name: str) -> "tuple[bytes, str]":
    """bytes stay as they are, everything else becomes JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), content_type or "application/octet-stream"
    return dumps(value, name), content_type or "application/json"


def decode(b: Optional[bytes], content_type: str) -> Any:
    """JSON if the content type says so, or if there is none and they are; else the bytes themselves. None for no bytes."""
    if b is None:
        return None
    media = content_type.partition(";")[0].strip().lower()
    if media and media != "application/json" and not media.endswith("+json"):
        return b
    try:
        return loads(b)
    except (ValueError, RecursionError) as e:
        if media:
            raise Undecodable("said to be %s, but it is not: %s" % (media, e)) from None
        return b


def time_of(text: Any) -> Optional[datetime]:
    if not text:
        return None
    head, dot, rest = str(text).replace("Z", "+00:00").partition(".")
    if dot:  # Python knows microseconds, and before 3.11 nothing else
        digits = rest[:len(rest) - len(rest.lstrip("0123456789"))]
        head += "." + (digits + "000000")[:6] + rest[len(digits):]
    return datetime.fromisoformat(head)


def _text(v: Any) -> str:
    return v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v or "")


def _bytes(v: Any) -> Optional[bytes]:
    return v if v is None or isinstance(v, bytes) else dumps(v, "answer")


@dataclass
class Dependency:
    """Jobs that another job waits for: ids, or jobs themselves, such as a NewJob that is earlier in the same ``enqueue_many``.

    ``on_failure`` says what becomes of the waiting job when one of them fails or is cancelled: ``wait`` (default: it stays blocked, because a redrive
    can still release it), ``cancel``, ``fail`` or ``ignore``. ``on_stage``: the end of the present stage is enough. ``missing_ok``: a job that does
    not exist any more counts as completed; NotFound otherwise.
    """

    jobs: "Sequence[Parent]"
    on_failure: str = ""
    on_stage: bool = False
    missing_ok: bool = False

    def form(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {"jobs": [id_of(j) for j in self.jobs]}
        out.update({k: v for k, v in (("on_failure", self.on_failure), ("on_stage", self.on_stage), ("missing_ok", self.missing_ok)) if v})
        return out


def id_of(parent: "Parent") -> int:
    """The id of a job that another one waits for."""
    id = parent if isinstance(parent, int) else parent.id
    if not id:
        raise make("invalid", "a job has no id yet: enqueue it before, or in the same enqueue_many", field="depends_on")
    return id


def depend_forms(depends_on: "Sequence[Union[Parent, Dependency]]") -> List[Dict[str, Any]]:
    """Dependencies as the API takes them. Jobs without a Dependency around them have the defaults."""
    plain_ones = [d for d in depends_on if not isinstance(d, Dependency)]
    out = [d.form() for d in depends_on if isinstance(d, Dependency)]
    return ([Dependency(plain_ones).form()] if plain_ones else []) + out


@dataclass
class NewJob:
    """A job to be enqueued. ``args`` are bytes, or anything that encodes as JSON; None for none. ``depends_on`` are the jobs that it waits for: ids,
    jobs, or a Dependency, which says more. ``name`` is for children, see ``AwaitJobs``.

    ``id`` is filled in by the first call that sends the job, so that sending the same object again means the same job.
    """

    kind: str
    args: Any = None
    queue: str = ""
    key: str = ""
    group: str = ""
    content_type: str = ""
    priority: Optional[int] = None
    weight: Optional[int] = None
    tags: Sequence[str] = ()
    meta: Mapping[str, str] = field(default_factory=dict)
    run_at: Optional[datetime] = None
    delay: Optional[Duration] = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    on_conflict: str = ""
    id: int = 0
    depends_on: "Sequence[Union[Parent, Dependency]]" = ()
    name: str = ""

    def form(self) -> Dict[str, Any]:
        """The form in which it goes to the server."""
        out: Dict[str, Any] = {"kind": self.kind}
        for name in ("queue", "key", "group", "on_conflict", "id", "name"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        for name in ("priority", "weight"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        if self.args is not None:
            b, content_type = encode(self.args, self.content_type, "args")
            out["args"], out["content_type"] = wrap(b), content_type
        elif self.content_type:
            out["content_type"] = self.content_type
        if self.tags:
            out["tags"] = list(self.tags)
        if self.meta:
            out["meta"] = dict(self.meta)
        if self.run_at is not None:
            out["run_at"] = time_text(self.run_at, "run_at")
        if self.delay is not None:
            out["delay"] = seconds_text(self.delay, "delay")
        if self.policy:
            out["policy"] = plain(self.policy, "policy")
        if self.depends_on:
            out["depends_on"] = depend_forms(self.depends_on)
        return out


@dataclass(frozen=True)
class Enqueued:
    """What became of one job of an enqueue. ``duplicate``: it was there before. ``error`` is set for items of a partial call only."""

    id: int
    state: str
    duplicate: bool = False
    replaced: bool = False
    error: Optional[Error] = None

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Enqueued":
        if d.get("error") is not None:
            return cls(typed(d.get("id", 0), int), str(d.get("state", "none")), error=of_problem(d["error"]))
        return cls(typed(d["id"], int), typed(d["state"], str), bool(d.get("duplicate")), bool(d.get("replaced")))


@dataclass(frozen=True)
class Responded:
    """What became of a response: ``applied``, ``early``, ``duplicate``, ``late`` or ``stale``. ``job`` is 0 if no job has it."""

    outcome: str
    job: int = 0
    seq: int = 0


@dataclass(frozen=True)
class Response:
    """An answer in hand. ``raw_body`` are its bytes, ``body`` what they mean; see ``Job``."""

    kind: str
    key: str
    message_id: str
    content_type: str
    raw_body: Optional[bytes]
    failed: bool
    reason: str
    error: str
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def body(self) -> Any:
        return decode(self.raw_body, self.content_type)

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Response":
        return cls(_text(d.get("kind")), _text(d.get("key")), _text(d.get("message_id")), _text(d.get("content_type")), _bytes(d.get("body")),
                   bool(d.get("failed")), _text(d.get("reason")), _text(d.get("error")), d)


class Job:
    """A job as the server shows it.

    ``raw_args``, ``raw_result`` and ``raw_checkpoint`` are the bytes that were stored, exactly. ``args``, ``result`` and ``checkpoint`` are what
    they mean: decoded if the content type says JSON, or if there is no content type and they are JSON; else the bytes. Integers of any size are
    exact. ``Undecodable`` is raised for bytes that are said to be JSON and are not. ``raw`` has every field of the answer.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.id: int = typed(raw["id"], int)
        self.kind, self.queue, self.key, self.group = _text(raw.get("kind")), _text(raw.get("queue")), _text(raw.get("key")), _text(raw.get("group"))
        self.state, self.reason, self.error = _text(raw.get("state")), _text(raw.get("reason")), _text(raw.get("error"))
        self.content_type, self.result_type = _text(raw.get("content_type")), _text(raw.get("result_type"))
        self.raw_args, self.raw_result = _bytes(raw.get("args")), _bytes(raw.get("result"))
        self.raw_checkpoint = _bytes(raw.get("checkpoint"))
        self.raw_error_detail = _bytes(raw.get("error_detail"))
        self.priority: int = raw.get("priority", 0)
        self.weight: int = raw.get("weight", 0)
        self.attempt: int = raw.get("attempt", 0)
        self.failures: int = raw.get("failures", 0)
        self.crashes: int = raw.get("crashes", 0)
        self.generation: int = raw.get("generation", 0)
        self.stage: int = raw.get("stage", 0)
        self.epoch: int = raw.get("epoch", 0)
        self.waits_for: int = raw.get("waits_for", 0)  # of a blocked job: dependencies that are not resolved yet
        self.name = _text(raw.get("name"))  # of a child, within its parent
        self.children_done = bool(raw.get("children_done"))  # the children that it has stored in this stage are final
        self.workflow, self.member = _text(raw.get("workflow")), _text(raw.get("member"))
        self.schedule = _text(raw.get("schedule"))  # that has made it, for its tick at scheduled_for
        self.scheduled_for = time_of(raw.get("scheduled_for"))
        self.progress = _text(raw.get("progress"))
        self.tags: List[str] = [_text(t) for t in raw.get("tags") or ()]
        self.meta: Dict[str, str] = {k: _text(v) for k, v in (raw.get("meta") or {}).items()}
        self.policy: Mapping[str, Any] = raw.get("policy") or {}
        self.run_at, self.created_at = time_of(raw.get("run_at")), time_of(raw.get("created_at"))
        self.finished_at = time_of(raw.get("finished_at"))
        self.response = Response.of(raw["response"]) if raw.get("response") else None
        self.responses = [Response.of(r) for r in raw.get("responses") or ()]

    @property
    def args(self) -> Any:
        return decode(self.raw_args, self.content_type)

    @property
    def result(self) -> Any:
        return decode(self.raw_result, self.result_type)

    @property
    def checkpoint(self) -> Any:
        return decode(self.raw_checkpoint, "")

    @property
    def error_detail(self) -> Any:
        """The JSON that came with ``error``, of a job that was read with all fields."""
        return decode(self.raw_error_detail, "")

    @property
    def final(self) -> bool:
        """Whether it is completed, failed or cancelled, and so never changes."""
        return self.state in FINAL

    @property
    def idempotency_key(self) -> str:
        """For the outside, so that it recognises a repeated request: the same over all attempts of a stage, different after a redrive."""
        return "%s-%d-%d-%d" % (self.raw.get("instance", ""), self.id, self.generation, self.stage)

    def __repr__(self) -> str:
        return "<%s %d %s %s>" % (type(self).__name__, self.id, self.kind, self.state)


#: A job that another one waits for: its id, or itself.
Parent = Union[int, NewJob, Enqueued, Job]
