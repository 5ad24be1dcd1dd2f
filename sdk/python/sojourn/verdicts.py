"""What a handler raises or returns to end its step in another way than done or failed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Optional

from .errors import make
from .forms import Duration, NewJob, dumps, encode, seconds_text, time_text, wrap

MAX_NEXT = 1000  # jobs of one Then


class Verdict(BaseException):
    """Raised or returned by a handler, it says what becomes of the job. Not an Exception, so that ``except Exception`` in a handler does not swallow it."""

    def outcome(self) -> Dict[str, Any]:
        """The form in which it goes to the server."""
        raise NotImplementedError


class Await(Verdict):
    """Park the job until an answer comes; it holds no worker meanwhile. The handler then runs again, with ``job.response`` set.

    Without keys the answer comes under the job's own key, by its id or by its token. With keys, any of them ends the wait, or all with
    ``all=True``. ``within`` bounds the wait (default: the attempt's timeout). ``beat`` ends it when no progress response came for so long.
    """

    def __init__(self, *keys: str, within: Optional[Duration] = None, beat: Optional[Duration] = None, all: bool = False) -> None:
        super().__init__("await")
        self.wait: Dict[str, Any] = {}
        if keys:
            self.wait.update(keys=list(keys), mode="all" if all else "any")
        if within is not None:
            self.wait["within"] = seconds_text(within, "within")
        if beat is not None:
            self.wait["beat"] = seconds_text(beat, "beat")

    def outcome(self) -> Dict[str, Any]:
        return {"type": "await", "wait": self.wait}


class Snooze(Verdict):
    """Run the job again after so long. Counts neither as an error nor as an attempt."""

    def __init__(self, after: Duration) -> None:
        super().__init__("snooze")
        self.after = seconds_text(after, "after")

    def outcome(self) -> Dict[str, Any]:
        return {"type": "snooze", "delay": self.after}


class Hold(Verdict):
    """Close a queue for everybody for so long, such as when the other side answers 429. Default: the job's own queue. The job goes back to its
    place and has used up nothing. At least a second; cut at 24 hours."""

    def __init__(self, delay: Duration, queue: str = "") -> None:
        super().__init__("hold")
        self.delay, self.queue = seconds_text(delay, "delay"), queue

    def outcome(self) -> Dict[str, Any]:
        return {"type": "hold", "delay": self.delay, "queue": self.queue}


def details(result: Any, checkpoint: Any) -> Dict[str, Any]:
    """The fields of an outcome with a result and a checkpoint; None for none."""
    out: Dict[str, Any] = {}
    if result is not None:
        b, out["result_type"] = encode(result, "", "result")
        out["result"] = wrap(b)
    if checkpoint is not None:
        b = bytes(checkpoint) if isinstance(checkpoint, (bytes, bytearray)) else dumps(checkpoint, "checkpoint")
        out["verdict"] = {"checkpoint": wrap(b)}
    return out


class Then(Verdict):
    """Complete the job, and enqueue jobs in the same transaction: either all of this happens, or nothing. A repeated report makes none twice.

    At most 1,000 jobs, in queues that the worker's token may enqueue to. What refuses one of them makes the step an error.
    """

    def __init__(self, *jobs: NewJob, result: Any = None) -> None:
        super().__init__("then")
        if len(jobs) > MAX_NEXT:
            raise make("invalid", "%d jobs exceed the limit of %d" % (len(jobs), MAX_NEXT), field="next")
        self.fields = details(result, None)
        self.next = [j.form() for j in jobs]

    def outcome(self) -> Dict[str, Any]:
        return dict(self.fields, type="completed", next=self.next)


class AwaitJobs(Verdict):
    """Store children and park the job until all of them are final, in whatever state. It holds no worker and no weight meanwhile. The handler then
    runs again with ``job.children_done``: look at it first. ``job.children()`` has the results.

    A child is known by its ``name``, by default its place ("0", "1", …), within the stage of the job: a step that runs again stores none twice. At
    most 1,000 children. ``within`` bounds the wait (default: the attempt's timeout).
    """

    def __init__(self, *children: NewJob, within: Optional[Duration] = None) -> None:
        super().__init__("await jobs")
        if len(children) > MAX_NEXT:
            raise make("invalid", "%d jobs exceed the limit of %d" % (len(children), MAX_NEXT), field="children")
        self.next = [dict(j.form(), name=j.name or str(i)) for i, j in enumerate(children)]
        if len({j["name"] for j in self.next}) < len(self.next):
            raise make("invalid", "two children have the same name", field="name")
        self.wait = {} if within is None else {"within": seconds_text(within, "within")}

    def outcome(self) -> Dict[str, Any]:
        return {"type": "await_jobs", "wait": self.wait, "next": self.next}


class Advance(Verdict):
    """End this stage of the job and go on with the next one, in a queue (default: the same). The job keeps its id, key, args and history, and
    ``job.stage`` rises by one; attempts count anew. ``checkpoint`` replaces the checkpoint, if it is given."""

    def __init__(self, queue: str = "", *, delay: Optional[Duration] = None, run_at: Optional[datetime] = None, priority: Optional[int] = None,
                 weight: Optional[int] = None, checkpoint: Any = None) -> None:
        super().__init__("advance")
        self.fields = details(None, checkpoint)
        self.fields.update({k: v for k, v in (("queue", queue or None), ("priority", priority), ("weight", weight)) if v is not None})
        if delay is not None:
            self.fields["delay"] = seconds_text(delay, "delay")
        if run_at is not None:
            self.fields["run_at"] = time_text(run_at, "run_at")

    def outcome(self) -> Dict[str, Any]:
        return dict(self.fields, type="advance")


class _Failure(Verdict):
    def __init__(self, message: str = "", *, reason: str = "", result: Any = None, checkpoint: Any = None, detail: Any = None) -> None:
        super().__init__(message)
        self.message, self.reason, self.fields = message, reason, details(result, checkpoint)
        if detail is not None:
            self.fields["error_detail"] = wrap(dumps(detail, "detail"))


class Fail(_Failure):
    """Fail the job for good, whatever attempts remain. ``reason`` is the short stable class by which failures are grouped. ``result`` and
    ``checkpoint`` are stored with the job. ``detail`` is stored with the error: anything that encodes as JSON, of at most 64 KiB."""

    def outcome(self) -> Dict[str, Any]:
        return dict(self.fields, type="abort", reason=self.reason, error=self.message)


class Cancel(_Failure):
    """End the job as cancelled. For the rest see Fail."""

    def outcome(self) -> Dict[str, Any]:
        return dict(self.fields, type="cancel", reason=self.reason, error=self.message)


class Retry(_Failure):
    """An error with its own pause before the next attempt, 0 for none. Without ``after`` the job's backoff decides, as for any other exception.

    ``again=True`` asks for a fresh request: the answer in hand is put down, and the next attempt runs without it.
    """

    def __init__(self, message: str = "", *, after: Optional[Duration] = None, reason: str = "", again: bool = False,
                 detail: Any = None) -> None:
        super().__init__(message, reason=reason, detail=detail)
        self.verdict: Dict[str, Any] = {"again": True} if again else {}
        if after is not None:
            text = seconds_text(after, "after")
            self.verdict["delay"] = "now" if text == "0s" else text  # 0 would mean the stored backoff

    def outcome(self) -> Dict[str, Any]:
        return dict(self.fields, type="error", reason=self.reason or "retry", error=self.message, verdict=self.verdict)
