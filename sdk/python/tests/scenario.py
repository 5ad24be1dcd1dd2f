"""Runs sdk/scenario.json: scenario.py FILE URL, with the token in SOJOURN_TOKEN. Prints the number of steps that passed."""

import base64
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sojourn  # noqa: E402

PATIENCE = 30.0  # seconds for what must happen


class Driver:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.client = url, sojourn.Client(url, token=token)
        self.ids: Dict[str, int] = {}
        self.records: Dict[Any, List[str]] = {}
        self.worker: Any = None
        self.thread: Any = None

    def record(self, at: Any, text: str) -> None:
        self.records.setdefault(at, []).append(text)

    # Kinds.

    def echo(self, job: sojourn.RunningJob) -> Any:
        return job.args

    def line(self, job: sojourn.RunningJob) -> None:
        self.record("line", job.args)

    def steps(self, job: sojourn.RunningJob) -> Any:
        if job.attempt == 1:
            job.save({"done": 2})
            self.record("steps", str(job.checkpoint["done"]))
            raise RuntimeError("the first attempt")
        return job.checkpoint

    def ask(self, job: sojourn.RunningJob) -> Any:
        return job.await_answer(within=60).body

    def choose(self, job: sojourn.RunningJob) -> Any:
        return job.await_answer(*job.args, within=60).key

    def both(self, job: sojourn.RunningJob) -> Any:
        return [r.body for r in job.await_all(*job.args, within=60)]

    def named(self, job: sojourn.RunningJob) -> Any:
        if job.response is None:
            job.set_key(job.args)
        return job.await_answer(within=60).body

    def flaky(self, job: sojourn.RunningJob) -> int:
        if job.attempt < 3:
            raise sojourn.Retry("not yet", after=0)
        return job.attempt

    def doomed(self, job: sojourn.RunningJob) -> None:
        raise sojourn.Fail("no money", reason="declined")

    def broken(self, job: sojourn.RunningJob) -> None:
        raise RuntimeError("broken")

    def held(self, job: sojourn.RunningJob) -> str:
        if job.epoch == 1:
            raise sojourn.Hold(1)
        return "ran"

    def snoozer(self, job: sojourn.RunningJob) -> str:
        if job.epoch == 1:
            raise sojourn.Snooze(0.05)
        return "ran"

    def huge(self, job: sojourn.RunningJob) -> str:
        return "x" * 300_000

    def endless(self, job: sojourn.RunningJob) -> None:
        self.record(job.id, "began")
        try:
            job.sleep(PATIENCE)
        finally:
            self.record(job.id, job.stop_reason)

    def taken(self, job: sojourn.RunningJob) -> str:
        if job.epoch > 1:
            return "fresh"
        self.client.request("POST", "/v1/finish", {"outcomes": [{"lease": job.lease, "type": "released"}]})
        try:
            job.sleep(PATIENCE)
        except sojourn.Stopped as e:
            self.record(job.id, e.reason)
        try:
            job.save("zombie")
        except sojourn.LeaseLost as e:
            self.record(job.id, e.code)
        return "zombie"

    # Steps.

    def new(self, j: Dict[str, Any]) -> sojourn.NewJob:
        options = {k: v for k, v in j.items() if not k.startswith("args_")}
        if "args_json" in j:
            options["args"] = json.loads(j["args_json"])
        if "args_base64" in j:
            options["args"] = base64.b64decode(j["args_base64"])
        if "args_size" in j:
            options["args"] = "x" * j["args_size"]
        return sojourn.NewJob(**options)

    def do_unauthorized(self, s: Dict[str, Any]) -> Any:
        return sojourn.Client(self.url, token="sj_wrong").get(1)

    def do_get(self, s: Dict[str, Any]) -> Any:
        return self.client.get(s["id"] if "id" in s else self.ids[s["job"]])

    def do_enqueue(self, s: Dict[str, Any]) -> Any:
        e = self.client.enqueue(self.new(s["job"]))
        self.ids[s.get("as", "")] = e.id
        return e

    def do_enqueue_many(self, s: Dict[str, Any]) -> Any:
        es = self.client.enqueue_many([self.new(j) for j in s["jobs"]], partial=s.get("partial", False))
        self.ids.update(zip(s.get("as", ()), (e.id for e in es)))
        return es

    def do_queue(self, s: Dict[str, Any]) -> Any:
        self.client.request("PUT", "/v1/queues/" + s["queue"], s["settings"], safe=True)

    def do_cancel(self, s: Dict[str, Any]) -> Any:
        self.client.cancel(self.ids[s["job"]], reason=s.get("reason", ""))

    def do_redrive(self, s: Dict[str, Any]) -> Any:
        self.client.redrive(self.ids[s["job"]], generation=s["generation"])

    def do_find(self, s: Dict[str, Any]) -> Any:
        names = {id: name for name, id in self.ids.items() if name != "again"}
        return [names[j.id] for j in self.client.find(**s["filter"])]

    def do_respond(self, s: Dict[str, Any]) -> Any:
        options = {k: s[k] for k in ("kind", "key", "message_id", "failed", "reason") if k in s}
        if "body_json" in s:
            options["body"], options["content_type"] = s["body_json"].encode(), "application/json"
        if "job" in s:
            options["job"] = self.ids[s["job"]]
        return self.client.respond(**options)

    def do_history(self, s: Dict[str, Any]) -> Any:
        return [h["outcome"] for h in self.client.history(self.ids[s["job"]])]

    def do_wait(self, s: Dict[str, Any]) -> Any:
        return self.client.wait(self.ids[s["job"]], timeout=PATIENCE)

    def do_until(self, s: Dict[str, Any]) -> Any:
        found: List[sojourn.Job] = []
        end = time.monotonic() + PATIENCE
        while not found and time.monotonic() < end:
            found = self.client.find(ids=[self.ids[s["job"]]], states=[s["state"]], wait="5s")
        assert found, "the job is not %s" % s["state"]

    def do_recorded(self, s: Dict[str, Any]) -> Any:
        at = self.ids[s["job"]] if "job" in s else s["kind"]
        end = time.monotonic() + PATIENCE
        while len(self.records.get(at, ())) < len(s["expect"]) and time.monotonic() < end:
            time.sleep(0.01)
        return self.records.get(at, [])

    def do_start(self, s: Dict[str, Any]) -> Any:
        self.worker = sojourn.Worker(self.client, **s["worker"])
        for kind in ("echo", "line", "steps", "ask", "choose", "both", "named", "flaky", "doomed", "broken", "held", "snoozer", "huge", "endless",
                     "taken"):
            self.worker.handle(kind, getattr(self, kind))
        self.thread = threading.Thread(target=self.worker.run)
        self.thread.start()

    def do_stop(self, s: Dict[str, Any]) -> Any:
        self.worker.grace = s["grace"]
        self.worker.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "run has not returned"

    def step(self, s: Dict[str, Any]) -> None:
        try:
            got = getattr(self, "do_" + s["do"])(s)
        except sojourn.Error as e:
            if "error" not in s:
                raise
            compare(e, s["error"])
            return
        assert "error" not in s, "no error, but %r" % (got,)
        if "expect" in s:
            compare(got, s["expect"])


def compare(got: Any, want: Any) -> None:
    """Everything that stands in want is the same in got."""
    if isinstance(want, list):
        assert len(got) == len(want), "%r, not %r" % (got, want)
        for g, w in zip(got, want):
            compare(g, w)
    elif isinstance(want, dict):
        for name, w in want.items():
            if name == "code" and isinstance(got, sojourn.Enqueued):
                g: Any = got.error and got.error.code
            elif name == "class":
                g = type(got).__name__
            elif name == "result_json":
                g = (got.raw_result or b"").decode()
            elif name == "result_base64":
                g = base64.b64encode(got.raw_result or b"").decode()
            else:
                g = getattr(got, name)
            assert g == w, "%s is %r, not %r" % (name, g, w)
    else:
        assert got == want, "%r, not %r" % (got, want)


def main() -> None:
    steps = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["steps"]
    driver = Driver(sys.argv[2], os.environ["SOJOURN_TOKEN"])
    for i, s in enumerate(steps):
        try:
            driver.step(s)
        except BaseException as e:
            print("step %d %s: %s: %s" % (i + 1, json.dumps(s), type(e).__name__, e), flush=True)
            os._exit(1)  # a worker may still run
    print("passed %d" % len(steps))


main()
