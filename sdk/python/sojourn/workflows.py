"""Workflows: named groups of jobs that are stored together and wait for each other by name."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence
from urllib.parse import quote, urlencode

from .errors import make
from .forms import FINAL, Duration, NewJob, listed, seconds_of, seconds_text, time_of, typed
from .transport import Transport

PAGE = 1000  # workflows or members of one answer


@dataclass
class Member:
    """A member of a workflow: a job with a name. It is blocked until the members in ``after`` have completed; ``on_failure`` says, by their names,
    what becomes of it when one of them fails or is cancelled: ``wait`` (default), ``cancel``, ``fail`` or ``ignore``."""

    name: str
    job: NewJob
    after: Sequence[str] = ()
    on_failure: Mapping[str, str] = field(default_factory=dict)

    def form(self) -> Dict[str, Any]:
        """The form in which it goes to the server."""
        out: Dict[str, Any] = {"name": self.name, "job": self.job.form()}
        if self.after:
            out["after"] = list(self.after)
        if self.on_failure:
            out["on_failure"] = dict(self.on_failure)
        return out


@dataclass
class Workflow:
    """A workflow to be started. ``on_end`` is enqueued when all members are final, ``on_first_failure`` when the first one fails or is cancelled.
    ``open``: it takes further members until it is closed. ``keep``: how long it and its name are kept after its end; default 7 days."""

    name: str
    members: List[Member] = field(default_factory=list)
    on_end: Optional[NewJob] = None
    on_first_failure: Optional[NewJob] = None
    open: bool = False
    keep: Optional[Duration] = None

    def add(self, name: str, job: NewJob, *, after: Sequence[str] = (), on_failure: Optional[Mapping[str, str]] = None) -> "Workflow":
        """Adds a member, and returns the workflow."""
        self.members.append(Member(name, job, after, on_failure or {}))
        return self

    def form(self) -> Dict[str, Any]:
        """The form in which it goes to the server."""
        out: Dict[str, Any] = {"members": [m.form() for m in self.members]}
        if self.on_end is not None:
            out["on_end"] = self.on_end.form()
        if self.on_first_failure is not None:
            out["on_first_failure"] = self.on_first_failure.form()
        if self.open:
            out["open"] = True
        if self.keep is not None:
            out["keep"] = seconds_text(self.keep, "keep")
        return out


class StoredWorkflow:
    """A workflow as the server shows it. ``state`` is ``open``, ``running``, ``completed``, ``failed`` or ``cancelled``. ``counts`` has the number of
    members by state; in lists those of final ones only. ``end_job`` and ``failure_job`` are the callbacks that were enqueued last, 0 for none.
    ``problem`` says why a callback was not enqueued or a member not redriven. ``duplicate``: of start and append, all was there before."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.name: str = typed(raw["name"], str)
        self.state: str = typed(raw["state"], str)
        self.generation: int = raw.get("generation", 0)
        self.total: int = raw.get("total", 0)
        self.counts: Dict[str, int] = dict(raw.get("counts") or {})
        self.end_job: int = raw.get("end_job", 0)
        self.failure_job: int = raw.get("failure_job", 0)
        self.doing, self.problem, self.owner = str(raw.get("doing") or ""), str(raw.get("problem") or ""), str(raw.get("owner") or "")
        self.keep = seconds_of(raw.get("keep"))
        self.duplicate = bool(raw.get("duplicate"))
        self.created_at, self.ended_at = time_of(raw.get("created_at")), time_of(raw.get("ended_at"))

    @property
    def final(self) -> bool:
        """Whether all members are final. A redrive can reopen it."""
        return self.state in FINAL

    def __repr__(self) -> str:
        return "<StoredWorkflow %s %s>" % (self.name, self.state)


@dataclass(frozen=True)
class StoredMember:
    """A member as the server shows it. ``kind`` and ``queue`` are empty if retention has deleted its job."""

    name: str
    job: int
    state: str
    kind: str = ""
    queue: str = ""
    reason: str = ""

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "StoredMember":
        return cls(typed(d["name"], str), typed(d["job"], int), typed(d["state"], str), *(str(d.get(k) or "") for k in ("kind", "queue", "reason")))


class Workflows:
    """The calls about workflows: ``client.workflows``. Safe for use by several threads."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start(self, workflow: Workflow) -> StoredWorkflow:
        """Stores all members in one transaction, at most 1,000. The same workflow again changes nothing: ``duplicate``. Conflict if another one has
        the name."""
        return self._send("PUT", _path(workflow.name), workflow.form())

    def append(self, name: str, *members: Member) -> StoredWorkflow:
        """Adds members to an open workflow, all or none, at most 1,000. Those that are there with the same content are skipped."""
        return self._send("POST", _path(name, "/members"), {"members": [m.form() for m in members]})

    def close(self, name: str) -> StoredWorkflow:
        """Ends the time in which an open workflow takes members."""
        return self._send("POST", _path(name, "/close"), {})

    def cancel(self, name: str, reason: str = "") -> StoredWorkflow:
        """Cancels every member that is not final. Jobs outside of the workflow that wait for a member go on waiting."""
        return self._send("POST", _path(name, "/cancel"), {"reason": reason} if reason else {})

    def redrive(self, name: str, reason: str = "") -> StoredWorkflow:
        """Runs all failed and cancelled members again, in the order of their dependencies. A workflow that has ended begins its next generation."""
        return self._send("POST", _path(name, "/redrive"), {"reason": reason} if reason else {})

    def get(self, name: str) -> StoredWorkflow:
        """One workflow, with the number of its members by state. NotFound if there is none."""
        return self._one(name, 0)

    def wait(self, name: str, timeout: Optional[float] = None) -> StoredWorkflow:
        """The workflow once all members are final. TimeoutError after ``timeout`` seconds; default: no limit."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._one(name, 30.0 if end is None else min(30.0, max(end - time.monotonic(), 0)))
            if found.final:
                return found
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("workflow %s is still %s after %s s" % (name, found.state, timeout))

    def list(self, prefix: str = "", *states: str) -> List[StoredWorkflow]:
        """The workflows whose names begin with ``prefix`` and that are in one of the states (none: all), in the order of their names."""
        return self._pages(lambda after: self._page([("prefix", prefix), ("after", after), ("limit", str(PAGE))] + [("state", s) for s in states]))

    def members(self, name: str, *states: str) -> List[StoredMember]:
        """The members that are in one of the states (none: all), in the order of their names."""
        return self._pages(lambda after: self._list(_path(name, "/members"), [("after", after), ("limit", str(PAGE))] + [("state", s) for s in states],
                                                    "members", StoredMember.of))

    def _one(self, name: str, wait: float) -> StoredWorkflow:
        query = [("name", name)] + ([("wait", seconds_text(wait, "wait"))] if wait else [])
        found = self._page(query, wait)
        if not found:
            raise make("not_found", "there is no workflow %s" % name, status=404)
        return found[0]

    def _pages(self, page: Callable[[str], List[Any]]) -> List[Any]:
        out: List[Any] = []
        found: Optional[List[Any]] = None
        while found is None or found:
            found = page(out[-1].name if out else "")
            out += found
        return out

    def _page(self, query: List[Any], wait: float = 0) -> List[StoredWorkflow]:
        return self._list("/v1/workflows", query, "workflows", StoredWorkflow, wait)

    def _list(self, path: str, query: List[Any], name: str, of: Callable[[Any], Any], wait: float = 0) -> List[Any]:
        path += "?" + urlencode([(k, v) for k, v in query if v])
        out: List[Any] = self._transport.call("GET", path, None, safe=True, wait=wait, read=lambda a: [of(d) for d in listed(a, name)])
        return out

    def _send(self, method: str, path: str, form: Dict[str, Any]) -> StoredWorkflow:
        out: StoredWorkflow = self._transport.call(method, path, form, safe=True, read=StoredWorkflow)
        return out


def _path(name: str, part: str = "") -> str:
    return "/v1/workflows/" + quote(name, safe="") + part
