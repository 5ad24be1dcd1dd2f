"""Schedules: jobs that are made again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import quote, urlencode

from .errors import make
from .forms import Duration, NewJob, listed, seconds_text, time_of, time_text, typed
from .transport import Transport

PAGE = 1000  # schedules of one answer


@dataclass
class Schedule:
    """A schedule to be stored: ``cron`` in the time ``zone`` (default UTC), or ``every`` so long, moved by ``offset``.

    ``job`` is the template, without run_at, delay and depends_on. ``catch_up`` is how many missed ticks become jobs, the latest ones: default 1, up
    to 1,000, -1 for none. ``overlap`` says what a tick does while an earlier job is not final: ``allow`` (default), ``skip``, ``queue`` or
    ``cancel_previous``. ``jitter`` delays each job by up to so long. No tick is before ``start`` or after ``end``.
    """

    name: str
    job: NewJob
    cron: str = ""
    zone: str = ""
    every: Optional[Duration] = None
    offset: Optional[Duration] = None
    jitter: Optional[Duration] = None
    start: Optional[datetime] = None
    end: Optional[datetime] = None
    catch_up: int = 0
    overlap: str = ""

    def form(self) -> Dict[str, Any]:
        """The form in which it goes to the server."""
        out: Dict[str, Any] = {"job": self.job.form()}
        out.update({k: v for k, v in (("cron", self.cron), ("zone", self.zone), ("catch_up", self.catch_up), ("overlap", self.overlap)) if v})
        out.update({k: seconds_text(v, k) for k, v in (("every", self.every), ("offset", self.offset), ("jitter", self.jitter)) if v is not None})
        out.update({k: time_text(v, k) for k, v in (("start", self.start), ("end", self.end)) if v is not None})
        return out


class StoredSchedule:
    """A schedule as the server shows it. ``text`` says in words when it is due, ``next`` are its next ticks, up to five. ``problem`` says why ticks
    make no jobs; it is empty while they do. ``raw`` has every field of the answer."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.name: str = typed(raw["name"], str)
        self.cron, self.zone = str(raw.get("cron") or ""), str(raw.get("zone") or "")
        self.text, self.problem, self.owner = str(raw.get("text") or ""), str(raw.get("problem") or ""), str(raw.get("owner") or "")
        self.next: List[datetime] = [t for t in map(time_of, raw.get("next") or ()) if t]
        self.paused = bool(raw.get("paused"))
        self.last_tick = time_of(raw.get("last_tick"))
        self.last_job: int = raw.get("last_job", 0)
        self.runs: int = raw.get("runs", 0)
        self.skipped: int = raw.get("skipped", 0)
        self.revision: int = raw.get("revision", 0)

    def __repr__(self) -> str:
        return "<StoredSchedule %s, %s>" % (self.name, self.text)


class Schedules:
    """The calls about schedules: ``client.schedules``. Safe for use by several threads."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def set(self, schedule: Schedule) -> StoredSchedule:
        """Stores a schedule, in the place of one with the same name. An unchanged one keeps its next tick; a changed one makes no job of a past
        tick. A pause stays."""
        return self._put(schedule, "PUT", "")

    def declare(self, schedule: Schedule) -> StoredSchedule:
        """Stores a schedule for a program, at its start: as ``set``, except that the same declaration changes nothing. So what an operator has set
        since stays until the program declares something else."""
        return self._put(schedule, "PUT", "/declared")

    def test(self, schedule: Schedule) -> StoredSchedule:
        """Checks a schedule, and returns it with its next ticks and a sentence. It stores nothing."""
        return self._put(schedule, "POST", "/test")

    def get(self, name: str) -> StoredSchedule:
        """One schedule. NotFound if there is none."""
        found = self._page({"name": name})
        if not found:
            raise make("not_found", "there is no schedule %s" % name, status=404)
        return found[0]

    def list(self, prefix: str = "") -> List[StoredSchedule]:
        """The schedules whose names begin with ``prefix``, in the order of their names."""
        out: List[StoredSchedule] = []
        page: Optional[List[StoredSchedule]] = None
        while page is None or len(page) == PAGE:
            page = self._page({"prefix": prefix, "after": out[-1].name if out else "", "limit": str(PAGE)})
            out += page
        return out

    def pause(self, name: str) -> None:
        """Stops the ticks until ``resume``. Jobs that it has made go on."""
        self._change(name, "/pause")

    def resume(self, name: str) -> None:
        """Ends a pause. ``catch_up`` decides about the ticks that came meanwhile."""
        self._change(name, "/resume")

    def run(self, name: str) -> int:
        """Makes one job now, and returns its id. A call repeated after an unknown outcome makes another job."""
        return self._change(name, "/run", safe=False).last_job

    def delete(self, name: str) -> None:
        """Removes a schedule. Jobs that it has made go on. NotFound if there is none."""
        self._change(name, "", method="DELETE", safe=False)

    def _put(self, schedule: Schedule, method: str, part: str) -> StoredSchedule:
        out: StoredSchedule = self._transport.call(method, _path(schedule.name, part), schedule.form(), safe=True, read=StoredSchedule)
        return out

    def _change(self, name: str, part: str, method: str = "POST", safe: bool = True) -> StoredSchedule:
        out: StoredSchedule = self._transport.call(method, _path(name, part), None, safe=safe, read=StoredSchedule)
        return out

    def _page(self, query: Dict[str, str]) -> List[StoredSchedule]:
        path = "/v1/schedules?" + urlencode({k: v for k, v in query.items() if v})
        out: List[StoredSchedule] = self._transport.call("GET", path, None, safe=True,
                                                         read=lambda a: [StoredSchedule(s) for s in listed(a, "schedules")])
        return out


def _path(name: str, part: str) -> str:
    return "/v1/schedules/" + quote(name, safe="") + part
