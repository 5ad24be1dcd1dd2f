"""A process of its own that extends a worker's leases, for handlers that hold Python's global lock.

The worker writes lines of JSON to the process: {"url": …} first, then {"add": lease}, {"drop": lease} or {} as a sign of life, each with its
number n. "early" beside a lease is the time left, in seconds, of one that is nearly over. The process extends what it has been given every third
of the lease, and writes {"n": the last number it knew, "sent": when it asked, "lost": [[id, epoch, reason]]}. Times are those of time.monotonic, which all processes of a machine share. It ends when the pipe does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .errors import make, said
from .forms import listed, typed
from .transport import Transport

SILENCE = 3600.0  # seconds without a sign of life after which nothing is extended any more
MAX_BATCH = 1000
LEAST_BESIDE = 0.1  # seconds after which, at the earliest, another extend is sent beside one without an answer
MOST_BESIDE = 4  # extends on their way at the same time


def lost_of(answer: Any) -> Dict[Tuple[int, int], str]:
    """What the answer of an extend says is lost: reasons by id and epoch."""
    lost: Dict[Tuple[int, int], str] = {}
    for one in listed(answer, "lost"):
        lost[typed(one["lease"]["id"], int), typed(one["lease"]["epoch"], int)] = typed(one["reason"], str)
    return lost


class Beside:
    """Makes calls in threads: one that gets no answer goes on while the next is made, because a slow answer counts too."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_BESIDE, "sojourn-extend")

    def call(self, do: Callable[[], None], patience: float) -> Optional[bool]:
        """Whether do succeeded; None if it still runs after so many seconds."""
        going = self._threads.submit(do)
        return going.exception() is None if wait([going], max(patience, LEAST_BESIDE)).done else None

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


class Process:
    """The worker's end. Safe for use by several threads."""

    def __init__(self, transport: Transport, lease: float) -> None:
        if os.name != "posix" or not sys.executable:
            raise make("invalid", "a heartbeat in a process of its own needs a POSIX system and sys.executable", field="heartbeat")
        if transport.own_context:
            raise make("invalid", "an SSLContext cannot be handed to a process; name the certificates with SSL_CERT_FILE instead", field="heartbeat")
        self._config = dict(transport.settings, lease=lease)
        self._lock = threading.Lock()
        self._number, self._rest = 0, b""
        self._child: Any = None

    def start(self) -> None:
        """Starts the process, which knows of no lease yet."""
        self.stop()
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        program = "import sys; sys.path.insert(0, sys.argv[1]); from sojourn.heartbeat import main; main()"
        with self._lock:
            self._rest = b""
            self._child = subprocess.Popen([sys.executable, "-c", program, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            os.set_blocking(self._child.stdout.fileno(), False)
            self._write(self._config)

    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def tell(self, message: Mapping[str, Any]) -> int:
        """Sends a message and returns its number. One to a process that has ended is lost."""
        with self._lock:
            self._number += 1
            self._write(dict(message, n=self._number))
            return self._number

    def _write(self, message: Mapping[str, Any]) -> None:
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
        except (OSError, ValueError):
            pass

    def read(self) -> List[Dict[str, Any]]:
        """What the process has said since the last call, without waiting."""
        with self._lock:
            try:
                while self._child is not None:
                    b = os.read(self._child.stdout.fileno(), 1 << 16)
                    if not b:
                        break
                    self._rest += b
            except (OSError, ValueError):  # nothing there, or it is closed
                pass
            *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]

    def stop(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()


class _Extender:
    """The process's end."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.lease: float = config["lease"]
        self.transport = Transport(config["url"], config["token"], None, self.lease / 3, 0, config["cleartext"])
        self.lock, self.early, self.left = threading.Lock(), threading.Event(), self.lease
        self.leases: Dict[Tuple[int, int], Mapping[str, Any]] = {}
        self.number, self.heard = 0, time.monotonic()

    def listen(self) -> None:
        for line in sys.stdin.buffer:
            m = json.loads(line)
            with self.lock:
                self.number, self.heard = m["n"], time.monotonic()
                for name in ("add", "drop"):
                    if name in m:
                        at = (m[name]["id"], m[name]["epoch"])
                        self.leases.pop(at, None)
                        if name == "add":
                            self.leases[at] = m[name]
            if "early" in m:
                self.left = m["early"]
                self.early.set()
        os._exit(0)

    def extend(self) -> None:
        with self.lock:
            number, leases = self.number, list(self.leases.values())
            if time.monotonic() - self.heard > SILENCE:
                return
        sent, lost = time.monotonic(), []
        for i in range(0, len(leases), MAX_BATCH):
            found = self.transport.call("POST", "/v1/extend", {"leases": leases[i:i + MAX_BATCH]}, safe=True, read=lost_of)
            lost += [[id, epoch, reason] for (id, epoch), reason in found.items()]
        if leases:
            with self.lock:
                sys.stdout.buffer.write(json.dumps({"n": number, "sent": sent, "lost": lost}).encode() + b"\n")
                sys.stdout.buffer.flush()

    def beat(self) -> None:
        try:
            self.extend()
        except Exception as failed:
            print("sojourn: extend: " + said(failed), file=sys.stderr)
            raise


def main() -> None:
    """Extends leases until the parent is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the worker, which goes on for its grace
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    e = _Extender(json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=e.listen, daemon=True).start()
    beside, pause = Beside(), e.lease / 6
    while os.getppid() == parent:
        e.early.wait(pause)
        e.early.clear()
        done = beside.call(e.beat, min(e.left / 2, e.lease / 6))
        pause = 0 if done is None else e.lease / 3 if done else e.lease / 30
        if done:
            e.left = e.lease
