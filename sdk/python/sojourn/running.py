"""A job in a worker's hands."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from .errors import Error, LeaseLost, make, of_problem
from .forms import Duration, Job, Response, dumps, listed, mended, seconds_of, typed, wrap
from .verdicts import Await

if TYPE_CHECKING:
    from .worker import Worker

# Phases of a step.
RUNNING = 0  # its handler may still report
REPORTED = 1  # an outcome is on its way; what the handler still does is ignored
GONE = 2  # answered or lost


class Stopped(Exception):
    """Raised by ``check`` and ``sleep`` of a job that should stop; ``reason`` says why. A handler may let it pass, or clean up first."""

    def __init__(self, reason: str) -> None:
        super().__init__("the job should stop: " + reason)
        self.reason = reason


class RunningJob(Job):
    """The job that a handler gets. Its methods write under the job's lease.

    A handler that takes long looks at ``stopped`` now and then, or calls ``check`` or ``sleep``. ``stop_reason`` is one of ``shutdown`` (the
    grace of a stop is over), ``cancelled`` (somebody ended the job), ``lease_lost`` (another worker may have it), ``lease_over`` (its leases are
    not extended), ``run_timeout``, ``timeout``, ``deadline``, ``window``. After ``cancelled`` and ``lease_lost`` nothing of the step is stored.
    """

    def __init__(self, worker: "Worker", claimed: Mapping[str, Any], sent: float) -> None:
        super().__init__(claimed["job"])
        self._worker, self.lease = worker, dict(claimed["lease"])
        self.purpose: str = typed(claimed["purpose"], str)
        typed(self.lease["epoch"], int)
        typed(self.lease["worker"], str)
        if self.lease["id"] != self.id:
            raise ValueError("the lease of another job")
        self.token = str(self.raw.get("token") or "")
        self.raw_result, self.result_type = None, ""  # of an earlier generation, if anything
        self._began = time.monotonic()
        self._until = sent + (seconds_of(claimed.get("lease_for")) or worker.lease)
        self._limits = {name: self._began + left for name, left in _limits(claimed, self.policy).items()}
        self._extends = not self.policy.get("no_extend")
        self._phase = RUNNING
        self._reported = 0.0  # when its outcome was first sent
        self._number = 0  # of the message that told the heartbeat process of the lease
        self._stop = threading.Event()
        self._on_stop: Optional[Callable[[], None]] = None
        self._stop_reason = ""
        self._log: List[Dict[str, Any]] = []

    @property
    def stopped(self) -> bool:
        """Whether the handler should stop."""
        return self._stop.is_set()

    @property
    def stop_reason(self) -> str:
        return self._stop_reason

    def check(self) -> None:
        """Raises Stopped if the handler should stop."""
        if self._stop.is_set():
            raise Stopped(self._stop_reason)

    def sleep(self, seconds: float) -> None:
        """Sleeps, and raises Stopped as soon as the handler should stop."""
        self._stop.wait(seconds)
        self.check()

    def save(self, checkpoint: Any) -> None:
        """Stores a checkpoint, which this and later attempts find in ``checkpoint``: bytes, or anything that encodes as JSON. It is on disk when
        this returns, and the lease is extended. LeaseLost if the step does not own the job any more."""
        b = bytes(checkpoint) if isinstance(checkpoint, (bytes, bytearray)) else dumps(checkpoint, "checkpoint")
        self._save({"checkpoint": wrap(b)})
        self.raw_checkpoint = b

    def set_progress(self, text: str) -> None:
        """Stores a short text for people."""
        self._save({"progress": mended(str(text))})

    def set_key(self, key: str) -> None:
        """Gives a job without a key its key, at once and durably, so that responses find it. Conflict if another live job of the kind has it."""
        self._save({"key": key})
        self.key = key

    def log(self, text: str, level: str = "info") -> None:
        """Adds a line to the job's own log, stored when the step ends: the first and the newest 99 are kept."""
        self._log.append({"attempt": self.attempt, "level": mended(str(level)), "text": mended(str(text))})
        if len(self._log) > 100:
            dropped = self._log.pop(1)
            self._log[1]["dropped"] = self._log[1].get("dropped", 0) + dropped.get("dropped", 0) + 1

    def await_answer(self, *keys: str, within: Optional[Duration] = None, beat: Optional[Duration] = None) -> Response:
        """The answer in hand. Without one the step ends here: the job is parked, holds no worker, and its handler is called anew, from its
        beginning, when the answer has come. So ask the other side only ``if job.response is None``.

        With keys, the answer under any of them. See ``Await`` for ``within`` and ``beat``, and raise it yourself to wait for a second answer.
        """
        r = self.response
        if r is not None and (not keys or r.key in keys):
            return r
        raise Await(*keys, within=within, beat=beat)

    def await_all(self, *keys: str, within: Optional[Duration] = None, beat: Optional[Duration] = None) -> List[Response]:
        """One answer under each of the keys, in their order. The step ends here until all are there, as with ``await_answer``."""
        have = {r.key: r for r in self.responses}
        if keys and all(k in have for k in keys):
            return [have[k] for k in keys]
        raise Await(*keys, within=within, beat=beat, all=True)

    def parents(self) -> List[Job]:
        """The jobs that this one depended on when it became blocked, with their results, in the order of their ids. The token needs ``read_args``
        for them; those that it may not read are left out."""
        return self._worker.client.parents(self.id)

    def children(self) -> List[Job]:
        """The children that this job has stored in its stage (``AwaitJobs``), with their results, in the order of their ids. The token needs
        ``read_args`` for them; those that it may not read are left out."""
        return self._worker.client.awaited(self.id)

    def _save(self, item: Dict[str, Any]) -> None:
        if self._phase != RUNNING:
            raise make("lease_lost", "the step does not own its job any more")
        item["lease"] = self.lease
        sent = time.monotonic()
        lease = self._worker.lease
        e: Optional[Error] = self._worker.client._transport.call(
            "POST", "/v1/save", {"items": [item]}, safe=True, timeout=max(lease / 2, 1), retry_for=max(lease, 10),
            read=lambda a: None if listed(a, "errors", 1)[0] is None else of_problem(a["errors"][0]))
        if e is None:
            self._worker._extended([self], sent)
            return
        if isinstance(e, LeaseLost):
            self._worker._lose(self, "ended")
        raise e

    def _ask_to_stop(self, reason: str) -> None:
        if not self._stop.is_set():
            self._stop_reason = reason
            self._stop.set()
            if self._on_stop:
                self._on_stop()

    def _when_stopped(self, fn: Callable[[], None]) -> None:
        """Calls fn once the handler should stop, perhaps twice."""
        self._on_stop = fn
        if self._stop.is_set():
            fn()


def _limits(claimed: Mapping[str, Any], policy: Mapping[str, Any]) -> Dict[str, float]:
    """What ends the handler, in seconds from the claim's answer."""
    all = {"run_timeout": policy.get("run_timeout"), "timeout": claimed.get("timeout"), "deadline": claimed.get("deadline"),
           "window": claimed.get("window")}
    return {name: seconds_of(text) or 0.0 for name, text in all.items() if text}
