// Runs rows of sdk/faults.json: reads {"url", "token", "lease", "limit", "rows"} and prints a line of JSON for each row that has ended.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import * as sojourn from "../dist/index.js";

const patience = 90_000; // ms for what must happen
const given = JSON.parse(readFileSync(0, "utf8"));
process.on("unhandledRejection", (e) => { // it would end the process
  console.error("unhandled:", e);
  process.exit(1);
});

class Row {
  began = 0;
  job = 0;
  end = Date.now() + patience;

  constructor({ n, call }) {
    this.n = n;
    this.call = call;
    this.queue = "r" + n;
    this.url = `${given.url}/r${n}`;
    this.client = new sojourn.Client(this.url, { token: given.token, timeout: 3, retryFor: 3 });
  }

  async tell(path) {
    await (await fetch(this.url + path)).text();
  }

  /** Repeats a call until it succeeds. Its errors must be typed. */
  async again(name, call) {
    for (;;) {
      try {
        return await call();
      } catch (e) {
        if (!(e instanceof sojourn.SojournError) && e.name !== "TimeoutError") {
          throw new Error(`${name}: an error without a type: ${e?.stack ?? e}`);
        }
        if (Date.now() > this.end) {
          throw new Error(`${name}: ${e.message}`);
        }
      }
      await pause(50);
    }
  }

  async work(job) {
    this.began++;
    if (this.call === "respond") {
      return job.awaitAnswer({ within: 60 }).body;
    }
    job.log("begun");
    await job.save("saved");
    if (this.call === "extend") {
      await this.tell("/extended");
    }
    return "row";
  }

  async run() {
    const job = new sojourn.NewJob("work", undefined, { queue: this.queue });
    this.job = (await this.again("enqueue", () => this.client.enqueue(job))).id;
    const worker = new sojourn.Worker(this.client, { queues: [this.queue], concurrency: 1, lease: given.lease, grace: 10, warn: () => {} });
    worker.handle("work", (j) => this.work(j)).handle("probe", () => undefined);
    let failed;
    const running = worker.run({ signals: false }).catch((e) => { failed = e; });
    const completed = (id) => this.again("wait", () => {
      if (failed) {
        throw new Error(`the worker ended with ${failed?.stack ?? failed}`);
      }
      return this.client.wait(id, { timeout: 5 });
    });
    try {
      if (this.call === "respond") {
        await this.again("respond", () => this.client.respond({ job: this.job, body: "row", messageId: "m-" + this.queue }));
      }
      await completed(this.job);
      const probe = new sojourn.NewJob("probe", undefined, { queue: this.queue });
      await completed((await this.again("enqueue", () => this.client.enqueue(probe))).id);
    } finally {
      worker.stop();
      await Promise.race([running, pause(patience, undefined, { ref: false })]);
    }
    if (failed) {
      throw new Error(`the worker ended with ${failed?.stack ?? failed}`);
    }
  }
}

const rows = [...given.rows];
await Promise.all(Array.from({ length: given.limit }, async () => {
  for (let next = rows.shift(); next; next = rows.shift()) {
    const row = new Row(next);
    let wrong = "";
    try {
      await row.run();
    } catch (e) {
      wrong = e.message;
    }
    await row.tell("/over");
    console.log(JSON.stringify({ n: row.n, job: row.job, began: row.began, wrong }));
  }
}));
process.exit(0); // some answers hang
