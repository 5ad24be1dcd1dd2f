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
        self.next: Dict[str, str] = {}  # what acknowledges the last page of a follower
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

    def follow(self, job: sojourn.RunningJob) -> Any:
        return sojourn.Then(sojourn.NewJob("echo", job.args, key=job.args), result="began")

    def staged(self, job: sojourn.RunningJob) -> Any:
        if job.stage == 0:
            raise sojourn.Advance("held", checkpoint={"from": 0})
        return job.checkpoint

    def detailed(self, job: sojourn.RunningJob) -> None:
        raise sojourn.Fail("no stock", reason="declined", result={"left": 0}, checkpoint={"row": 17}, detail={"sku": 4})

    def collect(self, job: sojourn.RunningJob) -> Any:
        return [p.result for p in job.parents()]

    def split(self, job: sojourn.RunningJob) -> Any:
        if not job.children_done:
            raise sojourn.AwaitJobs(*(sojourn.NewJob("echo", part, name=part) for part in job.args), within=60)
        return [[c.name, c.result] for c in job.children()]

    def refused(self, job: sojourn.RunningJob) -> Any:
        if job.epoch == 1:
            return sojourn.Then(sojourn.NewJob("echo", depends_on=[999999]))
        return "ran"

    # Steps.

    def new(self, j: Dict[str, Any], batch: Any = ()) -> sojourn.NewJob:
        """The job of a step. ``batch`` are the jobs before it in its call, by name."""
        options = {k: v for k, v in j.items() if not k.startswith("args_")}
        if "depends_on" in j:
            options["depends_on"] = [sojourn.Dependency(**dict(d, jobs=[self.job(p, dict(batch)) for p in d["jobs"]])) for d in j["depends_on"]]
        if "args_json" in j:
            options["args"] = json.loads(j["args_json"])
        if "args_base64" in j:
            options["args"] = base64.b64decode(j["args_base64"])
        if "args_size" in j:
            options["args"] = "x" * j["args_size"]
        return sojourn.NewJob(**options)

    def job(self, name: Any, batch: Dict[str, sojourn.NewJob]) -> Any:
        """What a name stands for: a number itself, a job of the same call, or a job of an earlier step."""
        return name if isinstance(name, int) else batch.get(name) or self.ids[name]

    def do_by_key(self, s: Dict[str, Any]) -> Any:
        self.ids[s["as"]] = self.client.get_by_key(s["kind"], s["key"]).id

    def do_purge(self, s: Dict[str, Any]) -> Any:
        self.client.purge(self.ids[s["job"]])

    def do_depend(self, s: Dict[str, Any]) -> Any:
        self.client.depend(self.ids[s["job"]], *(self.ids[n] for n in s["on"]))

    def do_undepend(self, s: Dict[str, Any]) -> Any:
        if "on" in s:
            self.client.undepend(self.ids[s["job"]], *(self.ids[n] for n in s["on"]))
        else:
            self.client.undepend_all(self.ids[s["job"]])

    def do_schedule(self, s: Dict[str, Any]) -> Any:
        call = getattr(self.client.schedules, s["how"])
        if "schedule" in s:
            return call(sojourn.Schedule(**dict(s["schedule"], job=self.new(s["schedule"]["job"]))))
        out = call(s["name"])
        if s["how"] == "run":
            self.ids[s["as"]] = out
        return [d.name for d in out] if s["how"] == "list" else out

    def do_workflow(self, s: Dict[str, Any]) -> Any:
        calls = self.client.workflows
        if s["how"] in ("start", "append"):
            members = [sojourn.Member(m["name"], self.new(m["job"]), m.get("after", ()), m.get("on_failure", {})) for m in s["members"]]
            if s["how"] == "append":
                return calls.append(s["name"], *members)
            w = sojourn.Workflow(s["name"], members, open=s.get("open", False), on_end=self.new(s["on_end"]) if "on_end" in s else None)
            return calls.start(w)
        if s["how"] in ("cancel", "redrive"):
            return getattr(calls, s["how"])(s["name"], s.get("reason", ""))
        if s["how"] == "wait":
            return calls.wait(s["name"], timeout=PATIENCE)
        out = getattr(calls, s["how"])(s["name"])
        if s["how"] == "members":
            return [m.name + " " + m.state for m in out]
        return [w.name for w in out] if s["how"] == "list" else out

    def do_events(self, s: Dict[str, Any]) -> Any:
        calls, name = self.client, s["name"]
        if s["how"] == "follow":
            return calls.follow(name, **s["filter"])
        if s["how"] == "list":
            return [f.name for f in calls.followers()]
        if s["how"] == "unfollow":
            return calls.unfollow(name)
        if s["how"] == "read":
            page = calls.read_events(name, ack=self.next.get(name, ""), wait=s.get("wait", 0))
            self.next[name] = page.next
            return [changed(e) for e in page.events]
        assert s["how"] == "tail"
        got: List[str] = []
        tail = calls.tail_events(name)
        if not s["expect"]:  # it waits until it is stopped
            threading.Timer(0.2, tail.stop).start()
        for e in tail:
            got.append(changed(e))
            if len(got) == len(s["expect"]):
                tail.stop()
        return got

    def do_unauthorized(self, s: Dict[str, Any]) -> Any:
        return sojourn.Client(self.url, token="sj_wrong").get(1)

    def do_get(self, s: Dict[str, Any]) -> Any:
        return self.client.get(s["id"] if "id" in s else self.ids[s["job"]])

    def do_enqueue(self, s: Dict[str, Any]) -> Any:
        e = self.client.enqueue(self.new(s["job"]))
        self.ids[s.get("as", "")] = e.id
        return e

    def do_enqueue_many(self, s: Dict[str, Any]) -> Any:
        jobs: Dict[str, sojourn.NewJob] = {}
        for name, j in zip(s.get("as", map(str, range(1000))), s["jobs"]):
            jobs[name or "#%d" % len(jobs)] = self.new(j, jobs)
        es = self.client.enqueue_many(list(jobs.values()), partial=s.get("partial", False))
        self.ids.update(zip(s.get("as", ()), (e.id for e in es)))
        return es

    def do_queue(self, s: Dict[str, Any]) -> Any:
        self.client.request("PUT", "/v1/queues/" + s["queue"], s["settings"], safe=True)

    def do_cancel(self, s: Dict[str, Any]) -> Any:
        self.client.cancel(self.ids[s["job"]], reason=s.get("reason", ""), dependents=s.get("dependents", ""))

    def do_redrive(self, s: Dict[str, Any]) -> Any:
        self.client.redrive(self.ids[s["job"]], generation=s["generation"])

    def do_find(self, s: Dict[str, Any]) -> Any:
        names = {id: name for name, id in self.ids.items() if name != "again"}
        return [names[j.id] for j in self.client.find(**{k: self.ids[v] if k.endswith("_of") else v for k, v in s["filter"].items()})]

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
                     "taken", "follow", "staged", "detailed", "collect", "refused", "split"):
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


def changed(e: sojourn.Event) -> str:
    return "%s %s %s" % (e.key, e.from_state or "-", e.state)


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
            elif name == "checkpoint_json":
                g = (got.raw_checkpoint or b"").decode()
            elif name == "error_detail_json":
                g = (got.raw_error_detail or b"").decode()
            elif name == "next" and isinstance(got, sojourn.StoredSchedule):
                g = len(got.next)
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
