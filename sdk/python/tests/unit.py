"""What the scenario and the table of faults do not show: unit.py URL [CASE...], with the token in SOJOURN_TOKEN. Prints a line for each case."""

import asyncio
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sojourn  # noqa: E402
from sojourn.proxies import excluded  # noqa: E402

PATIENCE = 60.0  # seconds for what must happen
URL, TOKEN = sys.argv[1], os.environ.get("SOJOURN_TOKEN") or None
logging.getLogger("sojourn").setLevel(logging.CRITICAL)
once = {"max_attempts": 1}


def client() -> sojourn.Client:
    return sojourn.Client(URL, token=TOKEN)


class Working:
    """A worker of one queue in a thread."""

    def __init__(self, queue: str, **options: Any) -> None:
        self.client, self.queue = client(), queue
        self.worker = sojourn.Worker(self.client, queues=[queue], **options)
        self.failed: List[BaseException] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as e:
            self.failed.append(e)

    def __enter__(self) -> "Working":
        self.worker.handle("probe", lambda job: "here")
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.worker.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive() and not self.failed, self.failed

    def done(self, kind: str, args: Any = None, **options: Any) -> sojourn.Job:
        return self.client.wait(self.client.enqueue(kind, args, queue=self.queue, **options).id, timeout=PATIENCE)


def test_async_handlers() -> None:
    w = Working("async", concurrency=2, grace=5)
    met, cancelled = [], threading.Event()

    async def meet(job: sojourn.RunningJob) -> Any:
        met.append(job.id)
        while len(met) < 2:  # both run at the same time, in one loop
            await asyncio.sleep(0.01)
        return threading.current_thread().ident

    async def ask(job: sojourn.RunningJob) -> Any:
        await asyncio.sleep(0)
        return job.await_answer(within=60).body

    async def leave(job: sojourn.RunningJob) -> Any:
        raise SystemExit(3)

    async def endless(job: sojourn.RunningJob) -> Any:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            assert job.stop_reason == "cancelled"
            cancelled.set()
            raise

    class Callable_:
        async def __call__(self, job: sojourn.RunningJob) -> Any:
            raise sojourn.Fail("no", reason="declined")
    for kind, fn in (("meet", meet), ("ask", ask), ("leave", leave), ("endless", endless), ("fail", Callable_())):
        w.worker.handle(kind, fn)
    with w:
        first = w.client.enqueue("meet", queue="async").id
        assert w.done("meet").result == w.client.wait(first, timeout=PATIENCE).result
        asked = w.client.enqueue("ask", queue="async").id
        w.client.respond(job=asked, body=7)
        assert w.client.wait(asked, timeout=PATIENCE).result == 7
        left = w.done("leave", policy=once)
        assert left.state == "failed" and "SystemExit" in left.error, left.error
        failed = w.done("fail")
        assert (failed.state, failed.reason, failed.attempt) == ("failed", "declined", 1)
        running = w.client.enqueue("endless", queue="async").id
        while not w.client.find(ids=[running], states=["running"], wait="5s"):
            pass
        w.client.cancel(running)
        assert w.worker.lease == 30 or cancelled.wait(PATIENCE)
        assert w.done("probe").result == "here"


def test_exceptions_that_fail() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")
        __repr__ = __str__

    class Base(BaseException):
        def __str__(self) -> str:
            raise SystemExit(1)

    class Odd(sojourn.Verdict):
        def outcome(self) -> Any:
            raise KeyboardInterrupt

    class Keys(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise Mute()
    w = Working("mute", concurrency=1)
    raised = {"mute": Mute(), "base": Base(), "odd": Odd(), "exit": SystemExit(), "interrupt": KeyboardInterrupt(), "object": sojourn.Fail(Mute())}  # type: ignore[arg-type]

    def throw(e: BaseException) -> Callable[[Any], Any]:
        def handler(job: sojourn.RunningJob) -> Any:
            raise e
        return handler
    for kind, e in raised.items():
        w.worker.handle(kind, throw(e))
    w.worker.handle("keys", lambda job: Keys(a=1))
    w.worker.handle("surrogate", lambda job: "\ud800")
    with w:
        for kind in list(raised) + ["keys", "surrogate"]:
            job = w.done(kind, policy=once)
            assert job.state == "failed" and job.crashes == 0, (kind, job.state, job.error)
        assert w.done("probe").result == "here"  # the one slot is free


def test_failures_are_logged() -> None:
    records: List[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    def failing(job: sojourn.RunningJob) -> None:
        raise ValueError("gateway down")
    logger, kept = logging.getLogger("sojourn"), Kept()
    logger.addHandler(kept)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    w = Working("logged")
    w.worker.handle("failing", failing)
    try:
        with w:
            job = w.done("failing", policy={"max_attempts": 2, "backoff": {"first": "0.01s"}})
            w.done("probe")
    finally:
        logger.removeHandler(kept)
        logger.setLevel(logging.CRITICAL)
        logger.propagate = True
    lines = [(r.levelname, r.getMessage().split(" error=")[0]) for r in records if "job=%d " % job.id in r.getMessage()]
    assert lines == [
        ("WARNING", "sojourn: an attempt failed: kind=failing queue=logged job=%d attempt=1 reason=ValueError state=scheduled" % job.id),
        ("ERROR", "sojourn: a job failed: kind=failing queue=logged job=%d attempt=2 reason=ValueError state=failed" % job.id),
    ], lines
    assert all("gateway down" in r.getMessage() for r in records if "job=%d " % job.id in r.getMessage())


def test_surrogates_in_the_log() -> None:
    w = Working("surrogates")

    def log(job: sojourn.RunningJob) -> str:
        job.log("a\ud800b \ud83d\ude00", level="\udc00")
        job.set_progress("p\ud800")
        return "good"
    w.worker.handle("log", log)

    def fail(job: sojourn.RunningJob) -> None:
        raise sojourn.Fail("text \ud800", reason="r\ud800")
    w.worker.handle("fail", fail)
    with w:
        job = w.done("log")
        assert (job.state, job.result, job.attempt, job.failures) == ("completed", "good", 1, 0), job.error
        lines = w.client.request("GET", "/v1/jobs/%d/log" % job.id)["log"]
        assert lines[-1]["text"] == "a\ufffdb \U0001f600", lines
        assert w.done("fail").reason == "r\ufffd"


def hung() -> "tuple[str, threading.Event]":
    """A server that takes requests and never answers; the event is set with the first one."""
    server, asked = socket.create_server(("127.0.0.1", 0)), threading.Event()
    kept = []

    def serve() -> None:
        while True:
            conn, _ = server.accept()
            kept.append(conn)
            if conn.recv(1):
                asked.set()
    threading.Thread(target=serve, daemon=True).start()
    return "http://127.0.0.1:%d" % server.getsockname()[1], asked


def test_sigterm_during_a_hung_claim() -> None:
    url, asked = hung()
    worker = sojourn.Worker(sojourn.Client(url), lease=3600)
    worker.handle("k", lambda job: None)

    def stop() -> None:
        asked.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=stop, daemon=True).start()
    began = time.monotonic()
    worker.run()
    assert time.monotonic() - began < PATIENCE  # and not the 20 minutes that the claim may take


def test_refused_for_a_minute() -> None:
    worker = sojourn.Worker(sojourn.Client(URL, token="sj_wrong"))
    worker.handle("k", lambda job: None)
    worker._refused_for = 0.5
    claims = []
    call = worker.client._transport.call
    worker.client._transport.call = lambda *a, **k: (claims.append(1), call(*a, **k))[1]  # type: ignore[method-assign]
    try:
        worker.run()
        raise AssertionError("no error")
    except sojourn.Unauthorized:
        assert len(claims) > 1, claims


def beaten(heartbeat: str) -> "tuple[sojourn.Job, int]":
    """A job whose handler holds Python's lock for more than two leases, the first time."""
    w = Working("gil-" + heartbeat, lease=3, heartbeat=heartbeat)
    began = []

    def hold(job: sojourn.RunningJob) -> None:
        began.append(job.epoch)
        if len(began) == 1:
            ctypes.PyDLL(None).sleep(7)  # a call that does not release the lock
    w.worker.handle("hold", hold)
    with w:
        return w.done("hold"), len(began)


def test_heartbeat_process() -> None:
    job, began = beaten("process")
    assert (job.state, job.epoch, job.crashes, began) == ("completed", 1, 0, 1), (job.state, job.epoch, job.crashes, began)


def test_heartbeat_thread_control() -> None:
    job, _ = beaten("thread")
    assert job.epoch > 1, "the handler does not hold the lock long enough to show anything"


def test_heartbeat_process_ends() -> None:
    """The process ends with its worker, however that ends: the pipe that both have open is then closed."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import sojourn\n" \
        "w = sojourn.Worker(sojourn.Client(sys.argv[2]), heartbeat='process'); w.handle('k', lambda job: None)\n" \
        "w._process.start(); print(w._process._child.pid, flush=True); sys.stdin.read()"
    parent = subprocess.Popen([sys.executable, "-c", program, str(Path(__file__).resolve().parents[1]), URL], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert parent.stdout and parent.stderr and int(parent.stdout.readline()) > 0
    parent.kill()
    parent.stderr.read()
    parent.wait()


def test_heartbeat_process_is_restarted() -> None:
    w = Working("restart", lease=2, heartbeat="process")
    w.worker.handle("long", lambda job: job.sleep(6))
    with w:
        id = w.client.enqueue("long", queue="restart").id
        while not w.client.find(ids=[id], states=["running"], wait="5s"):
            pass
        w.worker._process._child.kill()  # type: ignore[union-attr]
        job = w.client.wait(id, timeout=PATIENCE)
        assert (job.state, job.epoch) == ("completed", 1), (job.state, job.epoch)


def test_extend_without_an_answer() -> None:
    """The lease of a repeated claim is nearly over, and nobody answers its first extend."""
    w = Working("beside", lease=120)
    call, asked, given = w.client._transport.call, threading.Event(), threading.Event()

    def slow(method: str, path: str, *args: Any, **options: Any) -> Any:
        if path == "/v1/extend" and not asked.is_set():
            asked.set()
            given.wait(PATIENCE)
        answer = call(method, path, *args, **options)
        for job in answer if path == "/v1/claim" else ():
            job._until = time.monotonic() + w.worker.lease / 6 + 10  # its handler is stopped in 10 s
        return answer

    def long(job: sojourn.RunningJob) -> str:
        until = job._until
        while job._until == until:
            job.sleep(0.05)
        return "extended"
    w.client._transport.call = slow  # type: ignore[method-assign]
    w.worker.handle("long", long)
    with w:
        job = w.done("long", policy=once)
        given.set()
        assert (job.state, job.result) == ("completed", "extended"), (job.state, job.reason)
        assert asked.is_set()


def test_follow_ups() -> None:
    def code(call: Callable[[], Any]) -> str:
        try:
            call()
        except sojourn.Invalid as e:
            return e.field
        return "no error"
    c = client()
    job = sojourn.NewJob("nobody")
    assert code(lambda: sojourn.Then(*[job] * 1001)) == "next"
    assert code(lambda: sojourn.NewJob("nobody", depends_on=[job]).form()) == "depends_on"
    assert code(lambda: c.undepend(1)) == "undepend" and code(lambda: c.depend(1)) == "depend_on"
    assert code(lambda: sojourn.Advance(delay=-1)) == "delay"
    assert code(lambda: sojourn.Then(job, result={1j})) == "result" and code(lambda: sojourn.Fail("x", checkpoint={1j})) == "checkpoint"
    assert sojourn.Dependency([7], missing_ok=True, on_stage=True).form() == {"jobs": [7], "missing_ok": True, "on_stage": True}
    w = Working("follow", concurrency=2)

    async def many(job: sojourn.RunningJob) -> Any:
        return sojourn.Then(*[sojourn.NewJob("probe", i, queue="follow", key="many-%d" % i) for i in range(300)], result=300)

    async def twice(job: sojourn.RunningJob) -> Any:
        if job.stage == 2:
            return job.raw_checkpoint
        raise sojourn.Advance(priority=3, checkpoint=b"%d" % job.stage)
    w.worker.handle("many", many)
    w.worker.handle("twice", twice)
    w.worker.handle("bad", lambda job: sojourn.Then(sojourn.NewJob("no kind")))
    with w:
        trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1"}
        assert w.done("many", meta=dict(trace, tenant="a")).result == 300
        followed = w.client.wait(w.client.get_by_key("probe", "many-299").id, timeout=PATIENCE)
        assert followed.state == "completed" and followed.meta == trace, followed.raw
        job2 = w.done("twice")
        assert (job2.stage, job2.priority, job2.raw_result) == (2, 3, b"1"), job2.raw
        refused = w.done("bad", policy=once)
        assert (refused.state, refused.reason) == ("failed", "invalid"), refused.raw


def test_tail_is_stopped_while_the_server_is_away() -> None:
    c = sojourn.Client("http://127.0.0.1:1")
    tail = c.tail_events("nobody")
    threading.Timer(0.3, tail.stop).start()
    assert list(tail) == []
    tail = c.tail_events("nobody")
    threading.Timer(0.3, c.close).start()
    try:
        next(tail)
        raise AssertionError("an event without a server")
    except sojourn.Unavailable as e:
        assert e.code == "closed"


def test_no_proxy() -> None:
    for host, port, rules, want in [
        ("a.example.com", 80, "example.com", True), ("example.com", 80, "example.com", True), ("example.com", 80, ".example.com", False),
        ("a.example.com", 80, ".example.com", True), ("notexample.com", 80, "example.com", False), ("10.1.2.3", 80, "10.0.0.0/8", True),
        ("11.1.2.3", 80, "10.0.0.0/8", False), ("example.com", 80, "example.com:81, x", False), ("example.com", 81, "x,example.com:81", True),
        ("x", 80, "*", True), ("::1", 80, "[::1]:80", True), ("fd00::1", 80, "fd00::/8", True), ("x", 80, "", False)]:
        assert excluded(host, port, rules) == want, (host, port, rules)


def proxied() -> None:
    """Not one of the cases: a call through the proxy that the environment names."""
    c = sojourn.Client(URL, token=TOKEN, cleartext=True, retry_for=0)
    print("proxied", c.get(c.enqueue("nobody").id).state)


def main() -> None:
    if sys.argv[2:] == ["proxied"]:
        return proxied()
    cases = {name[5:]: fn for name, fn in globals().items() if name.startswith("test_")}
    for name in sys.argv[2:] or cases:
        try:
            cases[name]()
            print("ok", name, flush=True)
        except BaseException as e:
            import traceback
            print("FAIL", name, "".join(traceback.format_exception(type(e), e, e.__traceback__)), flush=True)
    os._exit(0)


main()
