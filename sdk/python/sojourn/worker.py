"""The worker: it claims jobs, keeps their leases, runs their handlers and reports."""

from __future__ import annotations

import asyncio
import inspect
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
from collections import OrderedDict
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union
from urllib.parse import quote

from .client import Client
from .errors import Error, Forbidden, LeaseLost, Unauthorized, make, of_problem, said
from .forms import Undecodable, encode, listed, mended, typed, wrap
from .heartbeat import MAX_BATCH, Beside, Process, lost_of
from .running import GONE, REPORTED, RUNNING, RunningJob
from .transport import Line, Pauses, nothing_happened
from .verdicts import Verdict

#: A function, or a coroutine function (``async def``), that runs one step of a job.
Handler = Union[Callable[[RunningJob], Any], Callable[[RunningJob], Awaitable[Any]]]

log = logging.getLogger("sojourn")

MAX_TEXT = 32 << 10  # characters of an error with its traceback
REACT = 1.5  # seconds for handlers to return after they were asked to stop
REPORT = 2.0  # seconds for the server to take the last reports
LEAVE = 0.5  # seconds for the server to take the worker off its list
REPEAT_CLAIM = 0.9  # seconds, at the end, to learn what a claim that was broken off has taken
LONGEST_WAIT = 30.0  # seconds of what Retry-After may ask a worker for
LEAST_EXTEND = 1.0  # seconds for the answer to an extend, or a sixth of the lease if that is longer
REPORT_LEASES = 10  # a report that only others answer is repeated, and its lease extended, for so many lengths of the lease
KNOWN = 10_000  # claimed steps that a worker remembers, so that an answer that comes twice starts nothing twice

# Refusals of an outcome as such: it is replaced by an error. All else is repeated, because it says nothing about the outcome.
REFUSALS = ("invalid", "too_large", "body_too_large", "invalid_json", "invalid_utf8", "too_deep")


class Worker:
    """Runs handlers in ``concurrency`` threads, and coroutines in one event loop with as many at a time.

    ``queues`` are taken in this order: names, patterns such as ``payments-*`` and exclusions such as ``!payments-test``. ``lease`` is how long a dead worker keeps its jobs: 1 s to 1 h, default 30 s; a living one extends every
    third of it. ``grace`` is how long handlers may go on after a stop: default 30 s. ``name`` is for people: default host-pid. ``heartbeat``
    says what extends the leases: ``"thread"``, the default, or ``"process"``, for handlers that hold Python's global lock for longer than a
    sixth of the lease and would lose it otherwise (POSIX only).

    A handler gets a RunningJob. What it returns is the result: None for none, bytes, or anything that encodes as JSON. An exception is an error,
    and the job is tried again by its policy; the verdicts (Await, Then, Advance, Snooze, Hold, Retry, Fail, Cancel), raised or returned, end the step
    otherwise. A coroutine is cancelled (asyncio.CancelledError) when its job should stop.

    Whatever the server, or something in between, answers, the worker goes on: it asks again at growing intervals of up to 5 s, and repeats its
    reports unchanged. Only 401 or 403 of the server itself for a minute end ``run``.
    """

    _refused_for = 60.0  # seconds of 401 or 403 until run ends

    def __init__(self, client: Client, *, concurrency: int = 10, queues: Sequence[str] = ("default",), lease: float = 30.0, grace: float = 30.0,
                 name: str = "", heartbeat: str = "thread") -> None:
        if concurrency < 1:
            raise make("invalid", "%r is out of range: at least 1" % concurrency, field="concurrency")
        if not 1 <= lease <= 3600:
            raise make("invalid", "%r is out of range: 1 to 3600 seconds" % lease, field="lease")
        if isinstance(queues, str) or not queues:
            raise make("invalid", "%r is not a list of names" % (queues,), field="queues")
        if heartbeat not in ("thread", "process"):
            raise make("invalid", '%r is neither "thread" nor "process"' % (heartbeat,), field="heartbeat")
        self.client, self.concurrency, self.queues = client, concurrency, list(queues)
        self.lease, self.grace = lease, grace
        label = name or "%s-%d" % (socket.gethostname(), os.getpid())
        self.id = "%s.%s" % (re.sub(r"[^A-Za-z0-9_.:/-]", "-", label)[:80], secrets.token_hex(8))
        self._process = Process(client._transport, lease) if heartbeat == "process" else None
        self._handlers: Dict[str, Handler] = {}
        self._changed = threading.Condition()  # guards what is known of steps; notified when one ends
        self._steps: Dict[Tuple[int, int], RunningJob] = {}
        self._inside: Set[RunningJob] = set()  # whose handlers have not returned, lost ones too: each has a thread
        self._known: "OrderedDict[Tuple[int, int], None]" = OrderedDict()
        self._work: "queue.SimpleQueue[Optional[RunningJob]]" = queue.SimpleQueue()
        self._stopping = False  # plain, because a signal handler sets it
        self._ended = threading.Event()
        self._early = threading.Event()  # a lease is to be extended at once
        self._poll: Optional[Line] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._number, self._unknown, self._ran = 0, False, False

    def handler(self, kind: str) -> Callable[[Handler], Handler]:
        """Decorates the handler of a kind, a function or a coroutine function."""
        def register(fn: Handler) -> Handler:
            self.handle(kind, fn)
            return fn
        return register

    def handle(self, kind: str, fn: Handler) -> None:
        """Gives a kind its handler, a function or a coroutine function. Call it before ``run``."""
        if kind in self._handlers:
            raise make("invalid", "%s has a handler already" % kind, field="kind")
        self._handlers[kind] = fn

    def run(self, *, signals: bool = True) -> None:
        """Works until ``stop``, then drains: what runs may go on for ``grace``, and what still runs then is handed back. Call it once.

        In the main thread SIGINT and SIGTERM stop it, unless ``signals`` is False. Unauthorized and Forbidden, once the server has answered
        with them for a minute, end it too and are raised.
        """
        if self._ran or not self._handlers:
            raise make("invalid", "register handlers, then call run once", field="worker")
        self._ran = True
        self._poll = self.client._transport.line()
        if self._process:
            self._process.start()
        for target in [self._extend_loop, self._watch_loop] + [self._work_loop] * self.concurrency:
            threading.Thread(target=target, daemon=True, name="sojourn").start()
        before = self._catch_signals() if signals and threading.current_thread() is threading.main_thread() else {}
        try:
            self._claim_loop()
        finally:
            self._stopping = True
            self._drain()
            self._leave()
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
        refused = 0.0  # when the server began to answer 401 or 403
        while not self._stopping:
            with self._changed:
                room = min(self.concurrency - len(self._inside.union(self._steps.values())), MAX_BATCH)
                if room <= 0:
                    self._changed.wait(0.2)  # a signal handler cannot notify
                    continue
            try:
                self._claim(room, self._poll, max(self.lease / 3, 1))
                pauses.reset()
                refused = 0.0
            except Exception as e:
                code = getattr(e, "code", "")
                if self._stopping:
                    break
                if code == "worker_drained":  # an operator wants it to end; nothing was taken
                    self._unknown = False
                    break
                refused = (refused or time.monotonic()) if isinstance(e, (Unauthorized, Forbidden)) else 0.0
                if code == "closed" and getattr(e, "status", 0) == 0 or refused and time.monotonic() - refused >= self._refused_for:
                    raise
                log.warning("sojourn: claim: %s", said(e))
                self._pause(max(pauses.next(), min(getattr(e, "retry_after", 0.0), LONGEST_WAIT)))
        if self._unknown:  # the claim that was broken off may have taken jobs
            try:
                self._claim(self.concurrency, None, REPEAT_CLAIM, close=True)
            except Exception as e:
                log.warning("sojourn: claim: %s", said(e))

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < end:
            time.sleep(min(0.1, max(end - time.monotonic(), 0)))

    def _claim(self, room: int, line: Optional[Line], timeout: float, close: bool = False) -> None:
        """Takes jobs and starts them. After a claim whose outcome is unknown the next one carries the same number and does not wait, so that no job
        is lost to an answer that nobody got. The answer has a third of the lease, so that what was taken can still run after a repetition."""
        wait = 0.0 if self._unknown else min(30.0, self.lease / 3)
        body = {"worker": self.id, "number": self._number + 1, "queues": self.queues, "kinds": sorted(self._handlers), "max": room,
                "lease": "%gs" % self.lease, "wait": "%gs" % wait}
        if close:  # takes nothing: the claim of this number that was broken off may still be on its way, and then takes nothing either
            body["close"] = True
        self._unknown = True
        sent = time.monotonic()
        jobs: List[RunningJob] = self.client._transport.call(
            "POST", "/v1/claim", body, safe=True, wait=wait, retry_for=0, timeout=timeout, line=line,
            read=lambda a: [RunningJob(self, claimed, sent) for claimed in listed(a, "jobs")])
        self._number, self._unknown = self._number + 1, False
        for job in jobs:
            self._start(job, sent)

    def _start(self, job: RunningJob, sent: float) -> None:
        at = job.id, job.lease["epoch"]
        with self._changed:
            if at in self._known:
                log.warning("sojourn: claim: job %d came twice; it runs once", job.id)
                return
            self._known[at] = None
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
            self._steps[at] = job
            self._inside.add(job)
        early = job._until < sent + self.lease * 0.9  # a repeated claim: part of the lease is over
        if self._process and job._extends:
            left = {"early": self._handler_end(job) - time.monotonic()} if early else {}
            job._number = self._process.tell({"add": job.lease, **left})
        if early:
            self._early.set()
        if self._stopping:
            self._finish(job, {"type": "released"}, until=time.monotonic() + REPORT)
        else:
            self._work.put(job)

    # Leases. A claim waits a third of the lease at most, all leases are extended every third of it in one call, and a handler is asked to stop a
    # sixth before the lease ends, counted from before the request was sent that won or extended it. So two requests in a row may fail, or not be answered, before a
    # handler is stopped, and it is stopped before another worker can have its job. A repeated claim returns leases that may be nearly over: they are
    # extended at once, and if half of the time that is left until a handler would be stopped passes without an answer, another request is sent.

    def _extend_loop(self) -> None:
        every = self.lease / 3
        limit = max(every / 2, min(every, LEAST_EXTEND))
        pause, beside = every, Beside()
        while not self._ended.is_set():
            self._early.wait(pause)
            self._early.clear()
            pause = every / 10
            try:
                self._let_go()
                done = self._ended.is_set() or self._beaten() or beside.call(lambda: self._beat(limit), min(limit, self._left() / 2))
                pause = 0 if done is None else every if done else min(every / 10, max(self._left() / 4, 0.01))
            except BaseException as e:  # the heartbeat goes on whatever comes
                log.warning("sojourn: extend: %s", said(e))
        beside.stop()

    def _beat(self, limit: float) -> None:
        try:
            self._extend_all(limit)
        except BaseException as e:
            if not self._ended.is_set():
                log.warning("sojourn: extend: %s", said(e))
            raise

    def _left(self) -> float:
        """Seconds until the first handler is asked to stop unless its lease is extended."""
        now = time.monotonic()
        with self._changed:
            return min([self._handler_end(s) - now for s in self._steps.values() if s._phase == RUNNING and s._extends], default=self.lease)

    def _let_go(self) -> None:
        """Stops extending the leases of steps whose reports nobody of ours answers."""
        with self._changed:
            for s in self._steps.values():
                if s._extends and s._reported and time.monotonic() - s._reported > REPORT_LEASES * self.lease:
                    s._extends = False
                    if self._process:
                        self._process.tell({"drop": s.lease})

    def _beaten(self) -> bool:
        """Whether a process extends the leases. One that has ended is started again; this thread stands in for it once."""
        if not self._process:
            return False
        if self._process.alive():
            self._process.tell({})
            return True
        log.warning("sojourn: the process that extends leases has ended; another one is started")
        with self._changed:
            self._process.start()
            for s in self._steps.values():
                if s._extends:
                    s._number = self._process.tell({"add": s.lease})
        return False

    def _extend_all(self, limit: float) -> None:
        with self._changed:
            steps = [s for s in self._steps.values() if s._extends]
        for i in range(0, len(steps), MAX_BATCH):
            part = steps[i:i + MAX_BATCH]
            sent = time.monotonic()
            lost = self.client._transport.call("POST", "/v1/extend", {"leases": [s.lease for s in part]}, safe=True, retry_for=0, timeout=limit,
                                               read=lost_of)
            self._apply(part, lost, sent)

    def _apply(self, steps: List[RunningJob], lost: Dict[Tuple[int, int], str], sent: float) -> None:
        for s in steps:
            if (s.id, s.lease["epoch"]) in lost:
                self._lose(s, lost[s.id, s.lease["epoch"]])
        self._extended([s for s in steps if (s.id, s.lease["epoch"]) not in lost], sent)

    def _extended(self, steps: List[RunningJob], sent: float) -> None:
        with self._changed:
            for s in steps:
                if s._extends:
                    s._until = max(s._until, sent + self.lease)

    def _hear(self) -> None:
        """Notes what the process has extended."""
        for m in self._process.read() if self._process else ():
            with self._changed:
                steps = [s for s in self._steps.values() if s._extends and s._number <= m["n"]]
            self._apply(steps, {(id, epoch): reason for id, epoch, reason in m["lost"]}, m["sent"])

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
            if self._steps.pop((job.id, job.lease["epoch"]), None) and self._process:
                self._process.tell({"drop": job.lease})
            self._changed.notify_all()

    def _returned(self, job: RunningJob) -> None:
        with self._changed:
            self._inside.discard(job)
            self._changed.notify_all()

    def _watch_loop(self) -> None:
        """Asks handlers to stop whose time is over, and reports for those that do not, a lease later."""
        while not self._ended.wait(min(max(self.lease / 30, 0.02), 0.5)):
            try:
                self._hear()
                with self._changed:
                    running = [s for s in self._steps.values() if s._phase == RUNNING]
                for s in running:
                    self._watch(s, time.monotonic())
            except BaseException as e:
                log.warning("sojourn: %s", said(e))

    def _watch(self, s: RunningJob, now: float) -> None:
        for name, end in s._limits.items():
            if now >= end:
                s._ask_to_stop(name)
        if now >= self._handler_end(s):
            s._ask_to_stop("lease_lost" if s._extends else "lease_over")
        name = s.stop_reason
        if name in s._limits and name != "window" and now > s._limits[name] + self.lease:
            log.error("sojourn: job %d: its handler goes on after %s", s.id, name)
            outcome = _ended(s, {"type": "error", "error": "%s is over, and the handler has not returned since" % name})
            threading.Thread(target=self._report, args=(s, outcome), daemon=True, name="sojourn").start()

    def _handler_end(self, s: RunningJob) -> float:
        return s._until - self.lease / 6

    # Steps.

    def _work_loop(self) -> None:
        while True:
            job = self._work.get()
            if job is None:
                return
            try:
                outcome = self._handle(job)
            except BaseException:  # of the exception's own methods
                outcome = _ended(job, {"type": "error", "reason": "error", "error": "the handler raised an exception that cannot be read"})
            self._finish(job, outcome)

    def _finish(self, job: RunningJob, outcome: Dict[str, Any], until: Optional[float] = None) -> None:
        """Reports for a handler that has returned. The step's room in the worker is free afterwards, whatever has happened."""
        try:
            self._report(job, outcome, until)
        except BaseException as e:
            log.error("sojourn: job %d: its report failed: %s", job.id, said(e))
        finally:
            self._returned(job)

    def _handle(self, job: RunningJob) -> Dict[str, Any]:
        """Runs the handler and says what became of the step. Verdicts are no exceptions, hence the wide net."""
        fn = self._handlers.get(job.kind)
        if fn is None or job.purpose not in ("start", "resume") or time.monotonic() >= self._handler_end(job):
            return {"type": "released"}  # a server that hands out what nobody asked for, or a lease that is over before the handler begins
        try:
            job.args
        except Undecodable as e:
            return {"type": "undecodable", "reason": "undecodable", "error": str(e)}
        try:
            result = fn(job)
            if inspect.isawaitable(result):
                result = self._await(job, result)
            if isinstance(result, Verdict):
                raise result
            if result is None:
                return {"type": "completed"}
            b, content_type = encode(result, "", "result")
            return {"type": "completed", "result": wrap(b), "result_type": content_type}
        except BaseException as e:
            outcome = _outcome_of(e)
        return _ended(job, outcome) if outcome["type"] == "error" else _follow(job, outcome)

    def _await(self, job: RunningJob, awaitable: Awaitable[Any]) -> Any:
        """Runs a coroutine in the worker's event loop. It is cancelled when the job should stop."""
        with self._changed:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True, name="sojourn").start()
            loop = self._loop

        async def guarded() -> "tuple[bool, Any]":
            # Nothing is raised here: a loop ends with SystemExit and KeyboardInterrupt, and the other coroutines with it.
            task = asyncio.current_task()
            cancelled: List[bool] = []

            def cancel() -> None:
                if task and not cancelled:
                    cancelled.append(True)
                    task.cancel()
            try:
                job._when_stopped(lambda: _soon(loop, cancel))
                return False, await awaitable
            except BaseException as e:
                return True, e

        raised, value = asyncio.run_coroutine_threadsafe(guarded(), loop).result()
        if raised:
            raise value
        return value

    def _report(self, job: RunningJob, outcome: Dict[str, Any], until: Optional[float] = None) -> None:
        """Reports until the server has answered, because repeating is safe; the lease is extended meanwhile, see REPORT_LEASES. The first report
        of a step counts, and one that was lost has none."""
        with self._changed:
            if job._phase != RUNNING:
                return
            job._phase, job._reported = REPORTED, time.monotonic()
        try:
            self._repeat(job, outcome, until)
        finally:
            self._forget(job)

    def _repeat(self, job: RunningJob, outcome: Dict[str, Any], until: Optional[float]) -> None:
        outcome = dict({k: mended(v) if isinstance(v, str) else v for k, v in outcome.items()}, lease=job.lease, log=list(job._log))
        pauses, refused = Pauses(0.05, 5.0), 0
        while not self._ended.is_set() and (until is None or time.monotonic() < until):
            try:
                limit = max(self.lease / 2, 1)
                if until is not None:
                    limit = min(limit, max(until - time.monotonic(), 0.1))
                lost, refusal, state = self.client._transport.call("POST", "/v1/finish", {"outcomes": [outcome]}, safe=True, retry_for=0,
                                                            timeout=limit, read=_finished)
                if refusal and (refusal.retryable or isinstance(refusal, LeaseLost)):
                    raise refusal
                if lost:
                    log.warning("sojourn: job %d: the lease is lost: %s", job.id, lost)
                if not refusal:
                    if not lost:
                        _log_failure(job, outcome, state)
                    return
                code, text = refusal.code, said(refusal)  # of this outcome, whatever the code is
            except LeaseLost as e:
                log.warning("sojourn: job %d: the lease is lost: %s", job.id, e)
                return
            except Exception as e:
                code = getattr(e, "code", "invalid")
                if code not in REFUSALS and not (code == "insufficient_scope" and outcome["type"] == "hold"):
                    log.warning("sojourn: finish: %s", said(e))
                    now = time.monotonic()
                    if now >= job._until and now - job._reported > REPORT_LEASES * self.lease and not nothing_happened(e):
                        log.error("sojourn: job %d: nobody takes its report; its lease has ended, and it runs again", job.id)
                        return
                    self._ended.wait(max(pauses.next(), min(getattr(e, "retry_after", 0.0), LONGEST_WAIT)))
                    continue
                code, text = ("too_large" if code == "body_too_large" else code), said(e)
            refused += 1
            if refused > 2:
                log.error("sojourn: job %d: the server refuses each report; its lease will end: %s", job.id, text)
                return
            # The error in the place of what the server refuses: once with the log, once without.
            outcome = {"type": "error", "reason": code, "error": mended(text), "lease": job.lease, "log": list(job._log) if refused == 1 else []}

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
        self._early.set()
        if self._process:
            self._process.stop()
        if self._loop:
            _soon(self._loop, self._loop.stop)
        for _ in range(self.concurrency):
            self._work.put(None)
        if self._steps:
            log.error("sojourn: stopped before the server has taken the reports about %d jobs; they run again when their leases end", len(self._steps))

    def _leave(self) -> None:
        """Takes the worker off the server's list. If the call fails, the worker is listed until it has been silent for long enough."""
        try:
            self.client._transport.call("POST", "/v1/workers/" + quote(self.id, safe="") + "/leave", safe=True, retry_for=0, timeout=LEAVE)
        except Exception as e:
            log.debug("sojourn: leave: %s", said(e))

    def _phased(self, phase: int) -> List[RunningJob]:
        with self._changed:
            return [s for s in self._steps.values() if s._phase == phase]

    def _wait(self, seconds: float, counts: Callable[[RunningJob], bool]) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while any(counts(s) for s in self._steps.values()) and time.monotonic() < end:
                self._changed.wait(min(0.2, max(end - time.monotonic(), 0.001)))


def _soon(loop: asyncio.AbstractEventLoop, fn: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(fn)
    except RuntimeError:  # it is closed
        pass


def _finished(answer: Any) -> "tuple[str, Optional[Error], str]":
    """Of an answer to one outcome: why the lease was lost, if it was, why the outcome was refused, and the state of the job. ValueError if the
    answer is not ours."""
    one = listed(answer, "outcomes", 1)[0]
    status = typed(one["status"], str)
    if status == "refused":
        return "", of_problem(one["error"]), ""
    if status not in ("applied", "repeated", "lost"):
        raise ValueError("an outcome is not %.64r" % status)
    return (str(one.get("reason") or "ended") if status == "lost" else ""), None, str(one.get("state") or "")


def _log_failure(job: RunningJob, outcome: Dict[str, Any], state: str) -> None:
    """Logs an attempt that the server has accepted as failed, once: as an error if the job has failed for good, else as a warning. The
    history of the job has the whole error with its traceback."""
    if outcome["type"] not in ("error", "abort", "undecodable"):
        return
    level, message = (logging.ERROR, "a job failed") if state == "failed" else (logging.WARNING, "an attempt failed")
    log.log(level, "sojourn: %s: kind=%s queue=%s job=%d attempt=%d reason=%s state=%s error=%s", message, job.kind, job.queue, job.id, job.attempt,
            outcome.get("reason", ""), state, str(outcome.get("error", "")).partition("\n")[0])


def _outcome_of(e: BaseException) -> Dict[str, Any]:
    """What an exception of a handler makes of the step, also one whose own methods fail."""
    try:
        if isinstance(e, Verdict):
            return {k: str(v) if k in ("reason", "error") else v for k, v in e.outcome().items()}
        reason = str(getattr(e, "code", "")) if isinstance(e, Error) else type(e).__name__
    except BaseException:
        reason = "error"
    return {"type": "error", "reason": reason, "error": _text_of(e)}


def _text_of(e: BaseException) -> str:
    try:
        trace = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    except BaseException:
        trace = ""
    return "%s: %s\n" % (type(e).__name__, said(e)[:MAX_TEXT // 2]) + trace[-MAX_TEXT // 2:]


def _follow(job: RunningJob, outcome: Dict[str, Any]) -> Dict[str, Any]:
    """Gives the jobs that follow, and children, the trace context of the job, if they have none."""
    trace = {k: job.meta[k] for k in ("traceparent", "tracestate") if k in job.meta}
    if "traceparent" not in trace or not outcome.get("next"):
        return outcome
    return dict(outcome, next=[n if "traceparent" in n.get("meta", {}) else dict(n, meta={**n.get("meta", {}), **trace}) for n in outcome["next"]])


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
