"""The client: enqueue, look, wait, answer, operate."""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Union
from urllib.parse import urlencode

from .errors import Error, IdExpired, make, of_problem
from .events import EventCalls
from .forms import Dependency, Duration, Enqueued, Job, NewJob, Parent, Responded, depend_forms, encode, id_of, listed, plain, seconds_text, typed, wrap
from .schedules import Schedules
from .transport import Transport
from .workflows import Workflows

BLOCK = 1000  # ids that are drawn at once
PAGE = 1000  # jobs of one answer


class Client(EventCalls):
    """A server's jobs. Safe for use by several threads; each has a connection of its own, which is kept.

    ``token`` is one of ``sojourn token create``. ``context`` is for certificates of one's own. ``timeout`` is how long a whole answer may take,
    beside the time that a call is meant to wait: default 60 s. ``retry_for`` is how long calls are repeated while the server is away,
    overloaded, shutting down or limiting the token's rate, or something in between answers in its place: default 10 s, 0 for not at all. Only
    calls with the same effect as once are repeated: an enqueue has its id and a response its message id before the first try. Over http:// to
    another machine a token is only sent with ``cleartext=True``. The variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY are honoured, in lower case
    too; a server on this machine is reached directly.
    """

    def __init__(self, url: str = "http://127.0.0.1:7575", *, token: Optional[str] = None, context: Optional[ssl.SSLContext] = None,
                 timeout: float = 60.0, retry_for: float = 10.0, cleartext: bool = False) -> None:
        self._transport = Transport(url, token, context, timeout, retry_for, cleartext)
        self._ids = _Ids(self)
        #: The calls about schedules.
        self.schedules = Schedules(self._transport)
        #: The calls about workflows.
        self.workflows = Workflows(self._transport)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the calls under way and closes the connections."""
        self._transport.close()

    def request(self, method: str, path: str, body: Any = None, *, safe: bool = False) -> Any:
        """Any other call of the API, such as ``request("GET", "/v1/queues")``. Bytes come as ``bytes``. ``safe``: it may be repeated."""
        return self._transport.call(method, path, body, safe=safe or method == "GET")

    # Enqueue.

    def enqueue(self, job: Union[str, NewJob], args: Any = None, **options: Any) -> Enqueued:
        """Stores a job: a kind with args and the fields of NewJob as options, or a NewJob. It is on disk when this returns.

        After ``UnknownOutcome`` or ``Unavailable``, calling again with the same NewJob is safe.
        """
        if isinstance(job, NewJob):
            if args is not None or options:
                raise make("invalid", "give a NewJob alone, or a kind with args and options", field="job")
        else:
            job = NewJob(job, args, **options)
        try:
            return self.enqueue_many([job])[0]
        except Error as e:
            e.index = None
            raise

    def enqueue_many(self, jobs: Sequence[NewJob], *, partial: bool = False) -> List[Enqueued]:
        """Stores up to 1,000 jobs, all or none. With ``partial`` each for itself: ``Enqueued.error`` has what was wrong with it."""
        mine = {id(j) for j in jobs if not j.id}
        self._ids.give([j for j in jobs if id(j) in mine])
        try:
            out = self._send(jobs, partial)
            again = [i for i, e in enumerate(out) if isinstance(e.error, IdExpired) and id(jobs[i]) in mine]
        except IdExpired:
            if not mine:
                raise
            out, again = [Enqueued(0, "none")] * len(jobs), list(range(len(jobs)))
        if again:  # ids out of an old block, which the server has refused before it wrote anything
            self._ids.drop()
            self._ids.give([jobs[i] for i in again if id(jobs[i]) in mine])
            for i, e in zip(again, self._send([jobs[i] for i in again], partial)):
                out[i] = e
        return out

    def _send(self, jobs: Sequence[NewJob], partial: bool) -> List[Enqueued]:
        if not jobs:
            return []
        forms = []
        for i, j in enumerate(jobs):
            try:
                forms.append(j.form())
            except Error as e:
                e.index = i
                raise
        out: List[Enqueued] = self._transport.call("POST", "/v1/jobs/batch", {"jobs": forms, "partial": partial}, safe=True,
                                                   read=lambda a: [Enqueued.of(e) for e in listed(a, "jobs", len(forms))])
        return out

    def draw_ids(self, count: int) -> int:
        """Draws 1 to 10,000 ids and returns the first; they are consecutive, and good for new jobs for 15 minutes."""
        first: int = self._transport.call("POST", "/v1/ids", {"count": count}, safe=True, read=lambda a: typed(a["first"], int))
        return first

    # Look.

    def get(self, id: int) -> Job:
        """A job, complete. NotFound if there is none."""
        job: Job = self._transport.call("GET", "/v1/jobs/%d" % id, safe=True, read=lambda a: _job(a, id))
        return job

    def get_by_key(self, kind: str, key: str) -> Job:
        """The live job of a kind that has the key, else the newest final one. NotFound if there is none."""
        found = self.find(kind=kind, key=key, full=True)
        if not found:
            raise make("not_found", "no job of kind %s has the key %s" % (kind, key), status=404)
        return found[0]

    def find(self, **filter: Any) -> List[Job]:
        """Lists jobs by the fields of ``POST /v1/jobs/find``: ids, kind, key, queue, states, group, tag, reason, failure,
        ended_after, ended_before, after, limit, newest, full, …, and where: conditions as text, such as ``kind:charge age:>10m``."""
        jobs: List[Job] = self._transport.call("POST", "/v1/jobs/find", plain(filter, "filter"), safe=True,
                                               read=lambda a: [Job(j) for j in listed(a, "jobs")])
        return jobs

    def parents(self, id: int) -> List[Job]:
        """The jobs that a job depends on, complete, also those that have ended, in the order of their ids."""
        return self._related("parents_of", id)

    def children(self, id: int) -> List[Job]:
        """The jobs that depend on a job, complete, in the order of their ids."""
        return self._related("children_of", id)

    def awaited(self, id: int) -> List[Job]:
        """The children that a job has stored and awaits (``AwaitJobs``), complete, in the order of their ids."""
        return self._related("awaited_by", id)

    def _related(self, how: str, id: int) -> List[Job]:
        out: List[Job] = []
        page: Optional[List[Job]] = None
        while page is None or len(page) == PAGE:
            page = self.find(full=True, limit=PAGE, after=out[-1].id if out else 0, **{how: id})
            out += page
        return out

    def wait(self, id: int, timeout: Optional[float] = None) -> Job:
        """The job once it is completed, failed or cancelled. TimeoutError after ``timeout`` seconds; default: no limit."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            poll = 30.0 if end is None else min(30.0, max(end - time.monotonic(), 0))
            path = "/v1/jobs/%d?%s" % (id, urlencode({"wait": seconds_text(poll, "wait")}))
            job: Job = self._transport.call("GET", path, safe=True, wait=poll, read=lambda a: _job(a, id))
            if job.final:
                return job
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("job %d is still %s after %s s" % (id, job.state, timeout))

    def history(self, id: int) -> List[Dict[str, Any]]:
        """What happened to a job, oldest first."""
        out: List[Dict[str, Any]] = self._transport.call("GET", "/v1/jobs/%d/history" % id, safe=True, read=lambda a: listed(a, "history"))
        return out

    # Answer.

    def respond(self, kind: str = "", key: str = "", body: Any = None, *, job: int = 0, token: str = "", message_id: str = "", source: str = "",
                content_type: str = "", failed: bool = False, progress: bool = False, reason: str = "", error: str = "",
                ttl: Optional[Duration] = None) -> Responded:
        """Answers the job that has a key, or a job by its id, or the attempt to which a token belongs. It is on disk when this returns.

        ``message_id`` is the sender's own: a repeat of it is a duplicate. Without one, a random one makes repeats of this very call safe.
        ``failed`` makes it an error response, which ends the attempt with ``reason`` and ``error``. ``progress`` makes it a sign of life.
        """
        form: Dict[str, Any] = {"message_id": message_id or secrets.token_hex(16)}
        texts = {"kind": kind, "key": key, "job": job, "token": token, "source": source, "failed": failed, "progress": progress, "reason": reason,
                 "error": error, "content_type": content_type}
        form.update({k: v for k, v in texts.items() if v})
        if body is not None:
            b, form["content_type"] = encode(body, content_type, "body")
            form["body"] = wrap(b)
        if ttl is not None:
            form["ttl"] = seconds_text(ttl, "ttl")
        answer: Responded = self._transport.call("POST", "/v1/responses", form, safe=True, read=lambda a: Responded(
            typed(a["outcome"], str), typed(a.get("job", 0), int), typed(a.get("seq", 0), int)))
        return answer

    # Operate.

    def cancel(self, id: int, *, by: str = "", reason: str = "", refuse_running: bool = False, dependents: str = "") -> None:
        """Cancels a live job, a running one at once. Conflict if it ended otherwise; one that is cancelled already is no error.

        ``dependents`` says what becomes of blocked jobs that would wait for ever: ``cancel`` or ``release`` them. Without it Conflict names them.
        """
        self._edit(id, {"action": "cancel", "by": by, "reason": reason, "refuse": refuse_running, "dependents": dependents}, safe=True)

    def fail(self, id: int, *, by: str = "", reason: str = "", refuse_running: bool = False) -> None:
        """Fails a live job."""
        self._edit(id, {"action": "fail", "by": by, "reason": reason, "refuse": refuse_running}, safe=True)

    def redrive(self, id: int, *, generation: int = 0, by: str = "") -> None:
        """Runs a failed or cancelled job again, in the next generation. With ``generation``, the present one, a second call is a Conflict."""
        self._edit(id, {"action": "redrive", "generation": generation, "by": by}, safe=False)

    def release(self, id: int, *, by: str = "", reason: str = "") -> None:
        """Ends the lease of a running job, which goes on with its attempt at the next claim. Its worker's report is refused. Conflict if it does not run."""
        self._edit(id, {"action": "release", "by": by, "reason": reason}, safe=False)

    def purge(self, id: int, *, by: str = "", reason: str = "", dependents: str = "") -> None:
        """Deletes a final job; its id is never used again. For ``dependents`` see ``cancel``."""
        self._edit(id, {"action": "purge", "by": by, "reason": reason, "dependents": dependents}, safe=False)

    def depend(self, id: int, *parents: Union[Parent, Dependency], by: str = "") -> None:
        """Adds dependencies to a blocked job. Conflict if it is not blocked, or if they would form a cycle."""
        if not parents:
            raise make("invalid", "name the jobs to wait for", field="depend_on")
        self._edit(id, {"action": "change", "by": by, "change": {"depend_on": depend_forms(parents)}}, safe=True)

    def undepend(self, id: int, *parents: Parent, by: str = "") -> None:
        """Removes dependencies of a blocked job. It is released if none is left."""
        if not parents:
            raise make("invalid", "name the jobs to wait for no more, or call undepend_all", field="undepend")
        self._edit(id, {"action": "change", "by": by, "change": {"undepend": [id_of(p) for p in parents]}}, safe=True)

    def undepend_all(self, id: int, *, by: str = "") -> None:
        """Removes all dependencies of a blocked job, which releases it."""
        self._edit(id, {"action": "change", "by": by, "change": {"undepend": []}}, safe=True)

    def _edit(self, id: int, edit: Dict[str, Any], safe: bool) -> None:
        body = {"filter": {"ids": [id]}, "edit": {k: v for k, v in edit.items() if v}}
        errors = self._transport.call("POST", "/v1/jobs/edit", body, safe=safe, read=lambda a: [
            of_problem(i["error"]) if i.get("error") is not None else None for i in listed(a, "items")])
        if not errors:
            raise make("not_found", "no job has the id %d" % id, status=404)
        if errors[0]:
            raise errors[0]


def _job(answer: Any, id: int) -> Job:
    job = Job(answer)
    if job.id != id:
        raise ValueError("another job")
    return job


class _Ids:
    """Hands out ids from a block, so that most enqueues need no request for theirs."""

    def __init__(self, client: Client) -> None:
        self._client, self._lock = client, threading.Lock()
        self._at = self._limit = 0

    def give(self, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        with self._lock:
            if self._limit - self._at < len(jobs):
                count = max(BLOCK, len(jobs))
                self._at = self._client.draw_ids(count)
                self._limit = self._at + count
            for j in jobs:
                j.id, self._at = self._at, self._at + 1

    def drop(self) -> None:
        with self._lock:
            self._at = self._limit = 0
