"""Requests over kept connections, repeated where that is safe."""

from __future__ import annotations

import http.client
import random
import selectors
import socket
import ssl
import threading
import time
import weakref
from ipaddress import ip_address
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from .errors import Error, make, of_problem
from .forms import dumps, loads_answer

FIRST_PAUSE = 0.05  # seconds before the second try; each following pause is twice as long
LAST_PAUSE = 2.0
CONNECT_TIMEOUT = 10.0


class Pauses:
    """Growing pauses with jitter, so that many callers of a server that was away do not come back in step."""

    def __init__(self, first: float, limit: float) -> None:
        self.first, self.limit, self.now = first, limit, 0.0

    def next(self) -> float:
        self.now = min(max(self.now * 2, self.first), self.limit)
        return self.now * random.uniform(0.5, 1)

    def reset(self) -> None:
        self.now = 0.0


class Unsent(OSError):
    """No connection: the server has not seen the request."""


class Line:
    """One connection to the server, for one thread at a time; only abort may be called from others, and from signal handlers."""

    def __init__(self, transport: "Transport") -> None:
        self._t, self._aborted = transport, False
        self._conn: Optional[http.client.HTTPConnection] = None

    def send(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str], timeout: float) -> "tuple[int, Any, bytes]":
        """Sends a request and reads the answer. Unsent, or another OSError or HTTPException if the answer did not come."""
        if self._aborted:
            raise Unsent("the connection was given up")
        try:
            conn = self._connected()
            conn.sock.settimeout(timeout)
            conn.request(method, path, body, headers)
            answer = conn.getresponse()
            return answer.status, answer.headers, answer.read()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> http.client.HTTPConnection:
        if self._conn is not None and self._ended():
            self.close()
        if self._conn is None:
            conn = self._t.connection()
            self._conn = conn
            try:
                conn.connect()
            except OSError as e:
                raise Unsent(str(e)) from e
        return self._conn

    def _ended(self) -> bool:
        """Whether the server has closed the connection meanwhile: then it is readable, though nothing is due."""
        sock = self._conn.sock if self._conn else None
        if sock is None:
            return True
        with selectors.DefaultSelector() as s:
            s.register(sock, selectors.EVENT_READ)
            return bool(s.select(0))

    def abort(self) -> None:
        """Ends the request under way, and all later ones."""
        self._aborted = True
        conn = self._conn
        sock = conn.sock if conn else None
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of ssl, which pulls the connection from under its reader
            except OSError:
                pass

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


class Transport:
    """Calls to one server. Safe for use by several threads: each has a connection of its own."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext], timeout: float, retry_for: float, cleartext: bool) -> None:
        u = urlsplit(url.rstrip("/"))
        if u.scheme not in ("http", "https") or not u.hostname or u.username or u.query or u.fragment:
            raise make("invalid", "is no address of a server: use http://HOST:PORT or https://HOST:PORT, and give a token as token=", field="url")
        if token and u.scheme == "http" and not cleartext and not _loopback(u.hostname):
            raise make("invalid", "a token would go to %s in clear text: use https://, or cleartext=True in a network that you trust" % u.hostname,
                       field="url")
        self._url, self._prefix = u, u.path
        self._context = context
        self._timeout, self.retry_for = timeout, retry_for
        self._headers = {"Sojourn-Bytes": "base64", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._mine = threading.local()
        self._lines: "weakref.WeakSet[Line]" = weakref.WeakSet()
        self._lock = threading.Lock()  # guards _lines
        self._closed = False

    def connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT)

    def line(self) -> Line:
        """A connection of its own."""
        line = Line(self)
        with self._lock:
            self._lines.add(line)
        return line

    def call(self, method: str, path: str, body: Any = None, *, safe: bool, wait: float = 0, retry_for: Optional[float] = None,
             timeout: Optional[float] = None, line: Optional[Line] = None) -> Any:
        """Sends a request, again while that is safe and for retry_for seconds, and decodes the answer.

        safe: the same call again has the same effect. wait: seconds that the server may take longer.
        """
        if line is None:
            line = getattr(self._mine, "line", None)
            if line is None:
                line = self._mine.line = self.line()
        raw = None if body is None else dumps(body, "body")
        end = time.monotonic() + (self.retry_for if retry_for is None else retry_for)
        pauses = Pauses(FIRST_PAUSE, LAST_PAUSE)
        while True:
            if self._closed:
                raise make("closed", "the client is closed")
            try:
                return self._once(line, method, path, raw, (timeout or self._timeout) + wait)
            except Error as e:
                pause = max(pauses.next(), min(e.retry_after, LAST_PAUSE))
                if not self._again(e, safe) or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)

    @staticmethod
    def _again(e: Error, safe: bool) -> bool:
        if e.code in ("overloaded", "draining") or e.code == "unavailable" and e.status == 0 and e.outcome == "not_stored":
            return True  # nothing has happened
        return safe and e.retryable and e.code in ("unavailable", "unknown_outcome", "closed")

    def _once(self, line: Line, method: str, path: str, raw: Optional[bytes], timeout: float) -> Any:
        headers = self._headers if raw is None else dict(self._headers, **{"Content-Type": "application/json"})
        try:
            status, head, b = line.send(method, self._prefix + path, raw, headers, timeout)
        except Unsent as e:
            raise make("unavailable", "the server cannot be reached: %s" % e, retryable=True, outcome="not_stored") from e
        except (OSError, http.client.HTTPException) as e:
            raise _unanswered(method, "%s: %s" % (type(e).__name__, e)) from e
        if 200 <= status < 300:
            try:
                return loads_answer(b) if head.get_content_type() == "application/json" else b
            except ValueError as e:
                raise _unanswered(method, "it is not JSON: %s" % e) from e
        problem = None
        if head.get_content_type() == "application/problem+json":
            try:
                problem = of_problem(loads_answer(b))
            except ValueError:
                pass
        if problem is None:  # it comes from something in between
            code = "unknown_outcome" if status >= 500 and method != "GET" else "unavailable"
            raise make(code, "the answer is not that of a Sojourn server: status %d" % status, status=status, retryable=status >= 500)
        after = head.get("Retry-After", "")
        problem.retry_after = float(after) if after.isdigit() else 0.0
        raise problem

    def close(self) -> None:
        self._closed = True
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.abort()


def _unanswered(method: str, why: str) -> Error:
    if method == "GET":
        return make("unavailable", "the server's answer did not come (%s)" % why, retryable=True)
    return make("unknown_outcome", "the server's answer did not come (%s); the call may or may not have been executed" % why, retryable=True,
                outcome="unknown")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
