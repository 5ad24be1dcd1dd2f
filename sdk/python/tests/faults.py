"""Runs rows of sdk/faults.json: reads {"url", "token", "lease", "limit", "rows"} and prints a line of JSON for each row that has ended."""

import json
import logging
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sojourn  # noqa: E402

PATIENCE = 90.0  # seconds for what must happen
logging.getLogger("sojourn").setLevel(logging.CRITICAL)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Row:
    def __init__(self, given: Dict[str, Any], n: int, call: str) -> None:
        self.n, self.call, self.lease, self.queue = n, call, given["lease"], "r%d" % n
        self.url = "%s/r%d" % (given["url"], n)
        self.client = sojourn.Client(self.url, token=given["token"], timeout=3, retry_for=3)
        self.end = time.monotonic() + PATIENCE
        self.began, self.job = 0, 0

    def tell(self, path: str) -> None:
        direct.open(self.url + path, timeout=PATIENCE).read()

    def again(self, name: str, call: Callable[[], Any]) -> Any:
        """Repeats a call until it succeeds. Its errors must be typed."""
        while True:
            try:
                return call()
            except (sojourn.Error, TimeoutError) as e:
                if time.monotonic() > self.end:
                    raise RuntimeError("%s: %s" % (name, e)) from e
            except Exception as e:
                raise RuntimeError("%s: an error without a type: %r" % (name, e)) from e
            time.sleep(0.05)

    def work(self, job: sojourn.RunningJob) -> str:
        self.began += 1
        if self.call == "respond":
            return job.await_answer(within=60).body
        job.log("begun")
        job.save("saved")
        if self.call == "extend":
            self.tell("/extended")
        return "row"

    def run(self) -> None:
        job = sojourn.NewJob("work", queue=self.queue)
        self.job = self.again("enqueue", lambda: self.client.enqueue(job)).id
        worker = sojourn.Worker(self.client, queues=[self.queue], concurrency=1, lease=self.lease, grace=10)
        worker.handle("work", self.work)
        worker.handle("probe", lambda job: None)
        failed = []

        def working() -> None:
            try:
                worker.run()
            except BaseException as e:
                failed.append(e)
        thread = threading.Thread(target=working, daemon=True)
        thread.start()
        try:
            if self.call == "respond":
                self.again("respond", lambda: self.client.respond(job=self.job, body="row", message_id="m-" + self.queue))
            self.completed(self.job, failed)
            probe = sojourn.NewJob("probe", queue=self.queue)
            self.completed(self.again("enqueue", lambda: self.client.enqueue(probe)).id, failed)
        finally:
            worker.stop()
            thread.join(PATIENCE)
        if failed or thread.is_alive():
            raise RuntimeError("the worker ended with %r" % failed)

    def completed(self, id: int, failed: Any) -> None:
        def look() -> None:
            if failed:
                raise RuntimeError("the worker ended with %r" % failed)
            self.client.wait(id, timeout=5)
        self.again("wait", look)


def main() -> None:
    given = json.load(sys.stdin)

    def one(r: Dict[str, Any]) -> None:
        row = Row(given, r["n"], r["call"])
        wrong = ""
        try:
            row.run()
        except BaseException as e:
            wrong = "%s: %s" % (type(e).__name__, e)
        row.tell("/over")
        sys.stdout.write(json.dumps({"n": row.n, "job": row.job, "began": row.began, "wrong": wrong}) + "\n")  # one write a line
        sys.stdout.flush()
    with ThreadPoolExecutor(given["limit"]) as pool:
        list(pool.map(one, given["rows"]))


main()
