"""The worker: it claims jobs, keeps their leases, runs their handlers and reports."""

from __future__ import annotations

import logging
import os
import queue
import re
import secrets
import signal
import socket
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .client import Client
from .errors import Error, LeaseLost, make
from .forms import Undecodable, encode, wrap
from .running import GONE, REPORTED, RUNNING, RunningJob
from .transport import Line, Pauses
from .verdicts import Verdict

Handler = Callable[[RunningJob], Any]

log = logging.getLogger("sojourn")

MAX_BATCH = 1000  # leases of one call
MAX_TEXT = 32 << 10  # characters of an error with its traceback
REACT = 1.5  # seconds for handlers to return after they were asked to stop
REPORT = 2.0  # seconds for the server to take the last reports


class Worker:
    """Runs handlers in ``concurrency`` threads.

    ``queues`` are taken in this order. ``lease`` is how long a dead worker keeps its jobs: 1 s to 1 h, default 30 s; a living one extends every
    third of it, in a thread of its own. ``grace`` is how long handlers may go on after a stop: default 30 s. ``name`` is for people: default
    host-pid.

    A handler gets a RunningJob. What it returns is the result: None for none, bytes, or anything that encodes as JSON. An exception is an error,
    and the job is tried again by its policy; the verdicts (Await, Snooze, Hold, Retry, Fail, Cancel) end the step otherwise. Code that holds
    Python's global lock for longer than a sixth of the lease costs the lease.

    While the server is away the worker goes on: it asks again, at growing intervals of up to 5 s, and repeats its reports until they are answered.
    """

    def __init__(self, client: Client, *, concurrency: int = 10, queues: Sequence[str] = ("default",), lease: float = 30.0, grace: float = 30.0,
                 name: str = "") -> None:
        if concurrency < 1:
            raise make("invalid", "%r is out of range: at least 1" % concurrency, field="concurrency")
        if not 1 <= lease <= 3600:
            raise make("invalid", "%r is out of range: 1 to 3600 seconds" % lease, field="lease")
        if isinstance(queues, str) or not queues:
            raise make("invalid", "%r is not a list of names" % (queues,), field="queues")
        self.client, self.concurrency, self.queues = client, concurrency, list(queues)
        self.lease, self.grace = lease, grace
        label = name or "%s-%d" % (socket.gethostname(), os.getpid())
        self.id = "%s.%s" % (re.sub(r"[^A-Za-z0-9_.:/-]", "-", label)[:80], secrets.token_hex(8))
        self._handlers: Dict[str, Handler] = {}
        self._changed = threading.Condition()  # guards the steps, their phases and leases; notified when one ends
        self._steps: Dict[Tuple[int, int], RunningJob] = {}
        self._work: "queue.SimpleQueue[Optional[RunningJob]]" = queue.SimpleQueue()
        self._stopping = False  # plain, because a signal handler sets it
        self._ended = threading.Event()
        self._poll: Optional[Line] = None
        self._number, self._unknown, self._ran = 0, False, False

    def handler(self, kind: str) -> Callable[[Handler], Handler]:
        """Decorates the handler of a kind."""
        def register(fn: Handler) -> Handler:
            self.handle(kind, fn)
            return fn
        return register

    def handle(self, kind: str, fn: Handler) -> None:
        """Gives a kind its handler. Call it before ``run``."""
        if kind in self._handlers:
            raise make("invalid", "%s has a handler already" % kind, field="kind")
        self._handlers[kind] = fn

    def run(self, *, signals: bool = True) -> None:
        """Works until ``stop``, then drains: what runs may go on for ``grace``, and what still runs then is handed back. Call it once.

        In the main thread SIGINT and SIGTERM stop it, unless ``signals`` is False. An Error that no repetition helps, such as Unauthorized, ends
        it too and is raised.
        """
        if self._ran or not self._handlers:
            raise make("invalid", "register handlers, then call run once", field="worker")
        self._ran = True
        self._poll = self.client._transport.line()
        for target in [self._extend_loop, self._watch_loop] + [self._work_loop] * self.concurrency:
            threading.Thread(target=target, daemon=True, name="sojourn").start()
        before = self._catch_signals() if signals and threading.current_thread() is threading.main_thread() else {}
        try:
            self._claim_loop()
        finally:
            self._stopping = True
            self._drain()
            for number, old in before.items():
                signal.signal(number, old)

    def stop(self) -> None:
        """Makes ``run`` claim nothing more and drain. May be called from any thread and from signal handlers."""
        self._stopping = True
        if self._poll is not None:
            self._poll.abort()

    def _catch_signals(self) -> Dict[int, Any]:
        return {n: signal.signal(n, lambda *_: self.stop()) for n in (signal.SIGINT, signal.SIGTERM)}

    # Claims.

    def _claim_loop(self) -> None:
        pauses = Pauses(0.1, 5.0)
        while not self._stopping:
            with self._changed:
                room = min(self.concurrency - len(self._steps), MAX_BATCH)
                if room <= 0:
                    self._changed.wait(0.2)  # a signal handler cannot notify
                    continue
            try:
                self._claim(room)
                pauses.reset()
            except Error as e:
                if self._stopping:
                    break
                if e.code == "worker_drained":  # an operator wants it to end; nothing was taken
                    self._unknown = False
                    break
                if not e.retryable:
                    raise
                log.warning("sojourn: claim: %s", e)
                self._pause(pauses.next())
        if self._unknown:  # the claim that was broken off may have taken jobs
            try:
                self._claim(self.concurrency, self.client._transport.line(), retry_for=0)
            except Error as e:
                log.warning("sojourn: claim: %s", e)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < end:
            time.sleep(min(0.1, max(end - time.monotonic(), 0)))

    def _claim(self, room: int, line: Optional[Line] = None, retry_for: float = 0) -> None:
        """Takes jobs and starts them. After a claim whose outcome is unknown the next one carries the same number and does not wait, so that no job
        is lost to an answer that nobody got."""
        wait = 0.0 if self._unknown else min(30.0, self.lease / 3)
        body = {"worker": self.id, "number": self._number + 1, "queues": self.queues, "kinds": sorted(self._handlers), "max": room,
                "lease": "%gs" % self.lease, "wait": "%gs" % wait}
        self._unknown = True
        sent = time.monotonic()
        a = self.client._transport.call("POST", "/v1/claim", body, safe=True, wait=wait, retry_for=retry_for, timeout=self.lease, line=line or self._poll)
        self._number, self._unknown = self._number + 1, False
        for claimed in a["jobs"] or ():
            job = RunningJob(self, claimed, sent)
            with self._changed:
                self._steps[job.id, job.lease["epoch"]] = job
            if self._stopping:
                self._report(job, {"type": "released"}, until=time.monotonic() + REPORT)
            else:
                self._work.put(job)

    # Leases. A claim waits a third of the lease at most, all leases are extended every third of it in one call, and a handler is asked to stop a
    # sixth before the lease ends, counted from before the request was sent that won or extended it. So two requests in a row may fail before a
    # handler is stopped, and it is stopped before another worker can have its job.

    def _extend_loop(self) -> None:
        every = self.lease / 3
        pause = every
        while not self._ended.wait(pause):
            pause = every
            with self._changed:
                steps = [s for s in self._steps.values() if s._extends]
            for i in range(0, len(steps), MAX_BATCH):
                try:
                    self._extend(steps[i:i + MAX_BATCH], every)
                except Error as e:
                    log.warning("sojourn: extend: %s", e)
                    pause = every / 10

    def _extend(self, steps: List[RunningJob], limit: float) -> None:
        sent = time.monotonic()
        a = self.client._transport.call("POST", "/v1/extend", {"leases": [s.lease for s in steps]}, safe=True, retry_for=0, timeout=limit)
        lost = {(x["lease"]["id"], x["lease"]["epoch"]): x["reason"] for x in a["lost"] or ()}
        for s in steps:
            if (s.id, s.lease["epoch"]) in lost:
                self._lose(s, lost[s.id, s.lease["epoch"]])
        self._extended([s for s in steps if (s.id, s.lease["epoch"]) not in lost], sent)

    def _extended(self, steps: List[RunningJob], sent: float) -> None:
        with self._changed:
            for s in steps:
                if s._extends:
                    s._until = max(s._until, sent + self.lease)

    def _lose(self, job: RunningJob, reason: str) -> None:
        """Takes a step out of the worker's hands. One whose report is on its way is not lost: the report itself may have ended the lease."""
        with self._changed:
            if job._phase != RUNNING:
                return
        self._forget(job)
        job._ask_to_stop("cancelled" if reason == "cancelled" else "lease_lost")
        log.warning("sojourn: job %d: the lease is lost: %s", job.id, reason)

    def _forget(self, job: RunningJob) -> None:
        with self._changed:
            job._phase = GONE
            self._steps.pop((job.id, job.lease["epoch"]), None)
            self._changed.notify_all()

    def _watch_loop(self) -> None:
        """Asks handlers to stop whose time is over, and reports for those that do not, a lease later."""
        while not self._ended.wait(min(max(self.lease / 30, 0.02), 0.5)):
            now = time.monotonic()
            with self._changed:
                running = [s for s in self._steps.values() if s._phase == RUNNING]
            for s in running:
                for name, end in s._limits.items():
                    if now >= end:
                        s._ask_to_stop(name)
                if now >= s._until - self.lease / 6:
                    s._ask_to_stop("lease_lost" if s._extends else "lease_over")
                name = s.stop_reason
                if name in s._limits and name != "window" and now > s._limits[name] + self.lease:
                    log.error("sojourn: job %d: its handler goes on after %s", s.id, name)
                    outcome = _ended(s, {"type": "error", "error": "%s is over, and the handler has not returned since" % name})
                    threading.Thread(target=self._report, args=(s, outcome), daemon=True, name="sojourn").start()

    # Steps.

    def _work_loop(self) -> None:
        while True:
            job = self._work.get()
            if job is None:
                return
            self._report(job, self._handle(job))

    def _handle(self, job: RunningJob) -> Dict[str, Any]:
        """Runs the handler and says what became of the step. Verdicts are no exceptions, hence the wide net."""
        fn = self._handlers.get(job.kind)
        if fn is None or job.purpose not in ("start", "resume"):
            return {"type": "released"}  # a server that hands out what nobody asked for
        try:
            job.args
        except Undecodable as e:
            return {"type": "undecodable", "reason": "undecodable", "error": str(e)}
        try:
            result = fn(job)
            if result is None:
                return {"type": "completed"}
            b, content_type = encode(result, "", "result")
            return {"type": "completed", "result": wrap(b), "result_type": content_type}
        except Verdict as v:
            outcome = v.outcome()
        except BaseException as e:
            reason = getattr(e, "code", "") if isinstance(e, Error) else type(e).__name__
            outcome = {"type": "error", "reason": reason, "error": _text_of(e)}
        return _ended(job, outcome) if outcome["type"] == "error" else outcome

    def _report(self, job: RunningJob, outcome: Dict[str, Any], until: Optional[float] = None) -> None:
        """Reports until it is answered, because repeating is safe; the lease is extended meanwhile. The first report of a step counts, and one that
        was lost has none."""
        with self._changed:
            if job._phase != RUNNING:
                return
            job._phase = REPORTED
        outcome = dict(outcome, lease=job.lease, log=job._log)
        pauses, refused = Pauses(0.05, 5.0), 0
        while not self._ended.is_set() and (until is None or time.monotonic() < until):
            try:
                a = self.client._transport.call("POST", "/v1/finish", {"outcomes": [outcome]}, safe=True, retry_for=0, timeout=self.lease)
                answer = a["outcomes"][0]
                if answer["status"] == "lost":
                    log.warning("sojourn: job %d: the lease is lost: %s", job.id, answer.get("reason", ""))
                if answer["status"] != "refused":
                    break
                problem = answer.get("error") or {}
                code, text = problem.get("code") or "invalid", problem.get("detail") or "the server refused the outcome"
            except LeaseLost:
                break
            except Error as e:
                if e.retryable:
                    log.warning("sojourn: finish: %s", e)
                    self._ended.wait(pauses.next())
                    continue
                code, text = ("too_large" if e.code == "body_too_large" else e.code), str(e)
            refused += 1
            if refused > 2:
                log.error("sojourn: job %d: the server refuses each report; its lease will end: %s", job.id, text)
                break
            # The error in the place of what the server refuses: once with the log, once without.
            outcome = {"type": "error", "reason": code, "error": text, "lease": job.lease, "log": job._log if refused == 1 else []}
        self._forget(job)

    # The end.

    def _drain(self) -> None:
        self._wait(self.grace, lambda s: True)
        for s in self._phased(RUNNING):
            s._ask_to_stop("shutdown")
        self._wait(REACT, lambda s: s._phase == RUNNING)
        threads = [threading.Thread(target=self._report, args=(s, {"type": "released"}), daemon=True) for s in self._phased(RUNNING)]
        for t in threads:
            t.start()
        self._wait(REPORT, lambda s: True)
        self._ended.set()
        for _ in range(self.concurrency):
            self._work.put(None)
        if self._steps:
            log.error("sojourn: stopped before the server has taken the reports about %d jobs; they run again when their leases end", len(self._steps))

    def _phased(self, phase: int) -> List[RunningJob]:
        with self._changed:
            return [s for s in self._steps.values() if s._phase == phase]

    def _wait(self, seconds: float, counts: Callable[[RunningJob], bool]) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while any(counts(s) for s in self._steps.values()) and time.monotonic() < end:
                self._changed.wait(min(0.2, max(end - time.monotonic(), 0.001)))


def _text_of(e: BaseException) -> str:
    head = "%s: %s\n" % (type(e).__name__, e)
    trace = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    return (head[:MAX_TEXT // 2] + trace[-MAX_TEXT // 2:]).encode("utf-8", "replace").decode()


def _ended(job: RunningJob, outcome: Dict[str, Any]) -> Dict[str, Any]:
    """What an error means that comes after the handler was asked to stop. What is not the job's fault hands it back and uses up nothing."""
    reason = job.stop_reason
    if not reason:
        return outcome
    if reason in ("run_timeout", "timeout", "deadline"):
        return dict(outcome, reason=reason, verdict={"final": reason == "deadline"})
    if reason == "lease_over":
        return dict(outcome, reason="lease_lost")
    return {"type": "released"}
