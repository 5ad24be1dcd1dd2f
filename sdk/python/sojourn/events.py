"""Events: the changes of jobs' states, read by followers."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence
from urllib.parse import quote

from .errors import Error
from .forms import listed, seconds_text, time_of, typed
from .transport import Pauses, Transport

PAGE = 1000  # events of one read of a tail
MAX_WAIT = 60.0  # seconds that a read waits for an event
NAP = 0.1  # seconds after which a pause looks whether it was stopped


class Event:
    """A change of a job's state. ``type`` is ``transition``, or ``gap``: then events are missing, only ``position`` is set, and the jobs that matter
    should be read again. ``from_state`` is empty for a job that was enqueued or redriven. ``raw`` has every field of the answer."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.type: str = typed(raw["type"], str)
        self.position: str = typed(raw["position"], str)
        self.job: int = typed(raw.get("job", 0), int)
        self.at: Optional[datetime] = time_of(raw.get("at"))
        self.queue, self.kind, self.key = str(raw.get("queue") or ""), str(raw.get("kind") or ""), str(raw.get("key") or "")
        self.tags: List[str] = list(raw.get("tags") or ())
        self.from_state, self.state = str(raw.get("from") or ""), str(raw.get("state") or "")
        self.generation: int = raw.get("generation", 0)
        self.attempt: int = raw.get("attempt", 0)

    def __repr__(self) -> str:
        return "<Event %s %s, job %d: %s -> %s>" % (self.type, self.position, self.job, self.from_state or "-", self.state or "-")


class EventPage:
    """The events of one read. ``next`` acknowledges all of them, and those in between that do not match the filter."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.events: List[Event] = [Event(e) for e in listed(raw, "events")]
        self.next: str = typed(raw["next"], str)


class Follower:
    """A named reader of events. ``position`` is the last acknowledged event. ``lag`` counts the stored events after it, at most 10,000, and ``behind`` is
    the age of the oldest of them in seconds. ``gap``: events were deleted before they were read. ``raw`` has every field of the answer."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.name: str = typed(raw["name"], str)
        self.owner = str(raw.get("owner") or "")
        self.filter: Dict[str, Any] = dict(raw.get("filter") or {})
        self.position: str = typed(raw["position"], str)
        self.lag: int = raw.get("lag", 0)
        self.behind = float(raw.get("behind", 0))
        self.gap = bool(raw.get("gap"))
        self.created_at, self.seen_at = time_of(raw.get("created_at")), time_of(raw.get("seen_at"))

    def __repr__(self) -> str:
        return "<Follower %s, lag %d>" % (self.name, self.lag)


class Tail(Iterator[Event]):
    """The events of a follower, one after the other, without an end: ``client.tail_events(name)``. For one thread at a time; only ``stop`` may be
    called from others."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport, self._name, self._stopped = transport, name, False
        self._line = transport.line()  # its own, so that stop ends the read under way and no other call
        self._events = self._walk()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def stop(self) -> None:
        """Ends the loop after the present event, at once if it waits for one. May be called from any thread and from signal handlers."""
        self._stopped = True
        self._line.abort()

    def _walk(self) -> Iterator[Event]:
        pauses = Pauses(0.1, 5.0)
        failing = 0.0  # when the first of the present errors came
        ack = ""
        try:
            while not self._stopped:
                try:
                    page = _read(self._transport, self._name, ack, PAGE, MAX_WAIT, retry_for=0, line=self._line)
                except Error as e:
                    if self._stopped:
                        return
                    failing = failing or time.monotonic()
                    brief = e.code == "internal" and time.monotonic() - failing < self._transport.retry_for
                    if not e.retryable and not brief:
                        raise
                    self._pause(max(pauses.next(), e.retry_after))
                    continue
                pauses.reset()
                failing = 0.0
                for event in page.events:
                    if self._stopped:
                        return
                    yield event
                ack = page.next
        finally:
            self._line.close()

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopped and time.monotonic() < end:
            time.sleep(max(min(NAP, end - time.monotonic()), 0))


class EventCalls:
    """The calls about events, which a client has."""

    _transport: Transport

    def follow(self, name: str, *, queue: str = "", kind: str = "", key: str = "", tag: str = "", states: Sequence[str] = ()) -> Follower:
        """Makes a follower: all changes of states that are committed after it returns are events for it. Everything that is given must match the job
        as it was at the change; ``states`` are those after it. The same call again changes nothing; with another filter it is a Conflict."""
        given = {"queue": queue, "kind": kind, "key": key, "tag": tag, "states": [states] if isinstance(states, str) else list(states)}
        form = {k: v for k, v in given.items() if v}
        out: Follower = self._transport.call("PUT", _path(name), form, safe=True, read=Follower)
        return out

    def followers(self) -> List[Follower]:
        """The followers of this token, in the order of their names."""
        out: List[Follower] = self._transport.call("GET", "/v1/followers", safe=True, read=lambda a: [Follower(f) for f in listed(a, "followers")])
        return out

    def unfollow(self, name: str) -> None:
        """Deletes a follower. NotFound if there is none."""
        self._transport.call("DELETE", _path(name), safe=False)

    def read_events(self, name: str, *, ack: str = "", limit: int = 100, wait: float = 0) -> EventPage:
        """Acknowledges all events up to the position ``ack``, that of an event or the ``next`` of a page, and reads the events after it: up to
        ``limit``, at most 1,000. Without any it waits up to ``wait`` seconds, at most 60. Events that are not acknowledged come again."""
        return _read(self._transport, name, ack, limit, wait)

    def tail_events(self, name: str) -> Tail:
        """Walks through the events of a follower, and waits for more until ``stop`` of the returned Tail is called. A page of up to 1,000 events is
        acknowledged when the loop has come to its end: after a crash, or after the loop was left, the events of the last page come again. Errors that
        are ``retryable`` are retried with pauses; another error ends it."""
        return Tail(self._transport, name)


def _read(transport: Transport, name: str, ack: str, limit: int, wait: float, **how: Any) -> EventPage:
    wait = min(wait, MAX_WAIT)
    form: Dict[str, Any] = {"limit": limit, "wait": seconds_text(wait, "wait")}
    if ack:
        form["ack"] = ack
    out: EventPage = transport.call("POST", _path(name) + "/read", form, safe=True, wait=wait, read=EventPage, **how)
    return out


def _path(name: str) -> str:
    return "/v1/followers/" + quote(name, safe="")
