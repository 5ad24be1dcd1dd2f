"""Requests over kept connections, repeated where that is safe."""

from __future__ import annotations

import errno
import http.client
import io
import random
import re
import selectors
import socket
import ssl
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import urlsplit

from .errors import Error, make, of_problem
from .forms import dumps, loads_answer
from .proxies import loopback, proxy_for

FIRST_PAUSE = 0.05  # seconds before the second try; each following pause is twice as long
LAST_PAUSE = 2.0
CONNECT_TIMEOUT = 10.0
MAX_ANSWER = 64 << 20  # bytes of a body
CHUNK = 1 << 16
NOTHING_HAPPENED = ("overloaded", "draining", "rate_limited")  # the server has refused the call before it began


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


class _Wire:
    """A connected socket whose sends and receives end at one deadline, however slowly the bytes come.

    It is what http.client needs of a socket. As there, close takes effect once the answer that reads from it is closed too.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.end = sock, 0.0
        self._readers, self._closed = 0, False

    def _bounded(self) -> None:
        left = self.end - time.monotonic()
        if left <= 0:
            raise socket.timeout("the time for the answer is over")
        self.sock.settimeout(left)

    def sendall(self, data: Any) -> None:
        view = memoryview(data)
        for i in range(0, len(view), CHUNK):
            self._bounded()
            self.sock.sendall(view[i:i + CHUNK])

    def receive(self, buffer: Any) -> int:
        self._bounded()
        return self.sock.recv_into(buffer)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self), CHUNK)

    def released(self) -> None:
        self._readers -= 1
        if self._closed and self._readers <= 0:
            self.sock.close()

    def close(self) -> None:
        self._closed = True
        if self._readers <= 0:
            self.sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._wire.receive(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._wire.released()


class Line:
    """One connection to the server, for one thread at a time; only abort may be called from others, and from signal handlers."""

    def __init__(self, transport: "Transport") -> None:
        self._t, self._aborted = transport, False
        self._conn: Optional[http.client.HTTPConnection] = None
        self._wire: Optional[_Wire] = None
        self._sock: Optional[socket.socket] = None  # also while it is being connected

    def send(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str], timeout: float) -> "tuple[int, Any, bytes]":
        """Sends a request and reads the answer, all within timeout. Unsent, or another exception if the answer did not come."""
        if self._aborted:
            raise Unsent("the connection was given up")
        end = time.monotonic() + timeout
        try:
            conn, wire = self._connected(end)
            wire.end = end
            conn.request(method, path, body, headers)
            answer = conn.getresponse()
            return answer.status, answer.headers, _body(answer)
        except BaseException:
            self.close()
            raise

    def _connected(self, end: float) -> "tuple[http.client.HTTPConnection, _Wire]":
        if self._conn is not None and self._ended():
            self.close()
        if self._conn is None or self._wire is None:
            try:
                self._wire = _Wire(self._open(end))
            except (OSError, http.client.HTTPException, ValueError) as e:
                raise Unsent(str(e) or type(e).__name__) from e
            self._conn = http.client.HTTPConnection(self._t.host, self._t.port)
            self._conn.sock = self._wire  # type: ignore[assignment]
        return self._conn, self._wire

    def _open(self, end: float) -> socket.socket:
        """Connects, through the proxy if there is one. Looking up the name of a host is the one step that the deadline does not end."""
        t = self._t
        end = min(end, time.monotonic() + CONNECT_TIMEOUT)
        proxy = t.proxy
        sock = self._dial(proxy.host if proxy else t.host, proxy.port if proxy else t.port, end)
        if t.context is None:
            return sock
        if proxy:
            self._tunnel(sock, end)
        tls = t.context.wrap_socket(sock, server_hostname=t.host, do_handshake_on_connect=False)
        self._sock = tls
        tls.settimeout(max(end - time.monotonic(), 0.001))
        tls.do_handshake()
        return tls

    def _dial(self, host: str, port: int, end: float) -> socket.socket:
        failed: OSError = OSError("%s has no address" % host)
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            sock = self._sock = socket.socket(family, kind, protocol)
            try:
                self._connect(sock, address, end)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
            except OSError as e:
                failed = e
                sock.close()
        raise failed

    def _connect(self, sock: socket.socket, address: Any, end: float) -> None:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK, 10035):
            with selectors.DefaultSelector() as s:
                s.register(sock, selectors.EVENT_WRITE)
                while not s.select(min(0.1, max(end - time.monotonic(), 0))):
                    if self._aborted or time.monotonic() >= end:  # a socket that is not connected yet cannot be shut down everywhere
                        raise socket.timeout("no connection in time")
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "%s: %s" % (address, errno.errorcode.get(code, code)))

    def _tunnel(self, sock: socket.socket, end: float) -> None:
        t, wire = self._t, _Wire(sock)
        wire.end = end
        login = "Proxy-Authorization: %s\r\n" % t.proxy.authorization if t.proxy and t.proxy.authorization else ""
        host = "[%s]" % t.host if ":" in t.host else t.host
        wire.sendall(("CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n%s\r\n" % (host, t.port, host, t.port, login)).encode("latin-1"))
        answer = http.client.HTTPResponse(wire, method="CONNECT")  # type: ignore[arg-type]
        answer.begin()
        if answer.status != 200:
            raise OSError("the proxy refuses the connection: status %d" % answer.status)

    def _ended(self) -> bool:
        """Whether the server has closed the connection meanwhile: then it is readable, though nothing is due."""
        sock = self._wire.sock if self._wire and self._conn and self._conn.sock else None
        if sock is None or sock.fileno() < 0:
            return True
        with selectors.DefaultSelector() as s:
            s.register(sock, selectors.EVENT_READ)
            return bool(s.select(0))

    def abort(self) -> None:
        """Ends the request under way, and all later ones."""
        self._aborted = True
        sock = self._sock
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of ssl, which pulls the connection from under its reader
            except OSError:
                pass

    def close(self) -> None:
        self._conn = self._wire = None
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()


def _body(answer: http.client.HTTPResponse) -> bytes:
    """The whole body, at most MAX_ANSWER. IncompleteRead if it ends before its length."""
    length = answer.length
    parts: List[bytes] = []
    size = 0
    while length is None or length <= MAX_ANSWER:
        b = answer.read(CHUNK)
        if not b:
            if length is not None and size < length:
                raise http.client.IncompleteRead(b"", length - size)
            return b"".join(parts)
        parts.append(b)
        size += len(b)
        if size > MAX_ANSWER:
            break
    raise OSError("the answer has more than %d MiB" % (MAX_ANSWER >> 20))


class Transport:
    """Calls to one server. Safe for use by several threads: each has a connection of its own."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext], timeout: float, retry_for: float, cleartext: bool) -> None:
        u = urlsplit(url.rstrip("/"))
        try:
            port = u.port
        except ValueError:
            port = -1
        if u.scheme not in ("http", "https") or not u.hostname or port == -1 or u.username or u.query or u.fragment:
            raise make("invalid", "is no address of a server: use http://HOST:PORT or https://HOST:PORT, and give a token as token=", field="url")
        if token and u.scheme == "http" and not cleartext and not loopback(u.hostname):
            raise make("invalid", "a token would go to %s in clear text: use https://, or cleartext=True in a network that you trust" % u.hostname,
                       field="url")
        self.settings = {"url": url, "token": token, "cleartext": cleartext}
        self.own_context = context is not None
        self.host, self.port = u.hostname, port or (443 if u.scheme == "https" else 80)
        self.context = (context or ssl.create_default_context()) if u.scheme == "https" else None
        self.proxy = proxy_for(u)
        self._prefix = u.path
        self._timeout, self.retry_for = timeout, retry_for
        self._headers = {"Host": u.netloc, "Sojourn-Bytes": "base64", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        if self.proxy and u.scheme == "http":
            self._prefix = "http://%s%s" % (u.netloc, u.path)
            if self.proxy.authorization:
                self._headers["Proxy-Authorization"] = self.proxy.authorization
        self._mine = threading.local()
        self._lines: "weakref.WeakSet[Line]" = weakref.WeakSet()
        self._lock = threading.Lock()  # guards _lines
        self._closed = False

    def line(self) -> Line:
        """A connection of its own."""
        line = Line(self)
        with self._lock:
            self._lines.add(line)
        return line

    def call(self, method: str, path: str, body: Any = None, *, safe: bool, read: Optional[Callable[[Any], Any]] = None, wait: float = 0,
             retry_for: Optional[float] = None, timeout: Optional[float] = None, line: Optional[Line] = None) -> Any:
        """Sends a request, again while that is safe and for retry_for seconds, and decodes the answer.

        safe: the same call again has the same effect. read takes the answer apart; an answer on which it raises is not that of a Sojourn
        server. wait: seconds that the server may take longer. All errors are sojourn.Error.
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
                return self._once(line, method, path, raw, (timeout or self._timeout) + wait, read)
            except Error as e:
                pause = max(pauses.next(), e.retry_after)
                if not self._again(e, safe) or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)

    @staticmethod
    def _again(e: Error, safe: bool) -> bool:
        return nothing_happened(e) or safe and (e.code == "internal" or e.retryable and e.code in ("unavailable", "unknown_outcome", "closed"))

    def _once(self, line: Line, method: str, path: str, raw: Optional[bytes], timeout: float, read: Optional[Callable[[Any], Any]]) -> Any:
        headers = self._headers if raw is None else dict(self._headers, **{"Content-Type": "application/json"})
        try:
            status, head, b = line.send(method, self._prefix + path, raw, headers, timeout)
        except Unsent as e:
            raise make("unavailable", "the server cannot be reached: %s" % e, retryable=True, outcome="not_stored") from e
        except Exception as e:  # OSError, HTTPException, and what http.client raises for headers that it cannot read
            raise _unanswered(method, "the server's answer did not come (%s: %s)" % (type(e).__name__, e)) from e
        try:
            problem = None
            if 200 <= status < 300:
                answer = loads_answer(b) if head.get_content_type() == "application/json" else b
                return answer if read is None else read(answer)
            if head.get_content_type() == "application/problem+json":
                problem = _problem(status, loads_answer(b))
        except Exception as e:  # whatever is wrong with it, it is not ours
            raise _unanswered(method, "the answer is not that of a Sojourn server: status %d, %s: %s" % (status, type(e).__name__, e), status) from e
        if problem is None:
            raise _unanswered(method, "the answer is not that of a Sojourn server: status %d" % status, status)
        problem.retry_after = _seconds(head.get("Retry-After", ""))
        raise problem

    def close(self) -> None:
        self._closed = True
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.abort()


def nothing_happened(e: Error) -> bool:
    """Whether an error says that the call was not executed and may be sent again, whatever it is."""
    return e.code in NOTHING_HAPPENED or e.code == "unavailable" and e.status == 0 and e.outcome == "not_stored"


def _problem(status: int, p: Any) -> Optional[Error]:
    """The error of a problem document that our API has written: others have no code, or another status than their answer."""
    if (not isinstance(p, dict) or p.get("status") != status or not isinstance(p.get("code"), str) or not p["code"]
            or not isinstance(p.get("detail"), str) or not isinstance(p.get("retryable"), bool)):
        return None
    return of_problem(p)


def _seconds(text: str) -> float:
    """What Retry-After says in seconds; 0 for anything else."""
    return float(text) if re.fullmatch("[0-9]{1,6}", text) else 0.0


def _unanswered(method: str, why: str, status: int = 0) -> Error:
    if method == "GET":
        return make("unavailable", why, status=status, retryable=True)
    return make("unknown_outcome", why + "; the call may or may not have been executed", status=status, retryable=True, outcome="unknown")
