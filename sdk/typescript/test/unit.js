// What the scenario and the table of faults do not show: unit.js URL [CASE...], with the token in SOJOURN_TOKEN. Prints a line for each case.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import * as sojourn from "../dist/index.js";

const patience = 60; // seconds for what must happen
const [url, ...names] = process.argv.slice(2);
const token = process.env.SOJOURN_TOKEN || undefined;
const client = () => new sojourn.Client(url, { token, cleartext: true });
const policy = { maxAttempts: 1 };
let unhandled = 0;
process.on("unhandledRejection", () => unhandled++).on("uncaughtException", () => unhandled++);

/** Runs a worker of one queue with handlers while fn runs. */
async function working(queue, handlers, fn, options = {}) {
  const c = client();
  const worker = new sojourn.Worker(c, { queues: [queue], warn: () => {}, ...options }).handle("probe", () => "here");
  Object.entries(handlers).forEach(([kind, h]) => worker.handle(kind, h));
  const running = worker.run({ signals: false });
  const done = async (kind, args, o = {}) => c.wait((await c.enqueue(kind, args, { queue, ...o })).id, { timeout: patience });
  try {
    await fn(done, c, worker);
  } finally {
    worker.stop();
    await running;
  }
}

const bad = {
  map: () => new Map([[1, 2]]), set: () => ({ deep: [new Set([1])] }), date: () => ({ at: new Date(NaN) }), nan: () => [NaN],
  promise: () => ({ p: Promise.resolve(1) }), bytes: () => ({ b: new Uint8Array(2) }),
  circular: () => {
    const a = {};
    a.a = a;
    return a;
  },
};

const cases = {
  async failures_are_logged() {
    const lines = [];
    await working("logged", { failing: () => { throw new TypeError("gateway down"); } }, async (done) => {
      const job = await done("failing", undefined, { policy: { maxAttempts: 2, backoff: { first: 0.01 } } });
      await done("probe");
      const own = lines.filter((line) => line.includes(`job=${job.id} `));
      assert.deepEqual(own.map((line) => line.split(" error=")[0]), [
        `sojourn: an attempt failed: kind=failing queue=logged job=${job.id} attempt=1 reason=TypeError state=scheduled`,
        `sojourn: a job failed: kind=failing queue=logged job=${job.id} attempt=2 reason=TypeError state=failed`,
      ]);
      assert.ok(own.every((line) => line.includes("gateway down")));
    }, { warn: (line) => lines.push(line) });
  },

  async thrown_values() {
    const mute = new Error("x");
    Object.defineProperty(mute, "message", { get() { throw new Error("no message"); } });
    const stackless = new Error("x");
    Object.defineProperty(stackless, "stack", { get() { throw new Error("no stack"); } });
    const symbol = new Error("named by a symbol");
    symbol.name = Symbol("name");
    class Odd extends sojourn.Verdict {
      outcome() {
        throw mute;
      }
    }
    const thrown = { mute, stackless, symbol, null_prototype: Object.create(null), value: Symbol("v"), none: undefined, odd: new Odd(),
      trap: new Proxy({}, { getPrototypeOf() { throw mute; }, get() { throw mute; } }), fail: new sojourn.Fail(Object.create(null)?.x, "r\ud800") };
    const handlers = Object.fromEntries(Object.entries(thrown).map(([kind, e]) => [kind, () => { throw e; }]));
    handlers.rejected = () => Promise.reject(mute);
    handlers.thenable = () => ({ get then() { throw mute; } });
    await working("thrown", handlers, async (done) => {
      for (const kind of Object.keys(handlers)) {
        const job = await done(kind, undefined, { policy });
        assert.deepEqual([kind, job.state, job.crashes], [kind, "failed", 0]);
      }
      assert.equal((await done("probe")).result, "here"); // the one slot is free
    }, { concurrency: 1 });
  },

  async results_that_json_has_not() {
    await working("results", bad, async (done, c) => {
      for (const kind of Object.keys(bad)) {
        const job = await done(kind, undefined, { policy });
        assert.deepEqual([kind, job.state, job.reason], [kind, "failed", "invalid"]);
        const before = (await c.find({ kind: "never" })).length;
        await assert.rejects(c.enqueue("never", bad[kind]()), (e) => e instanceof sojourn.Invalid && e.field === "args");
        assert.equal((await c.find({ kind: "never" })).length, before);
      }
      await assert.rejects(c.enqueue("never", 1, { runAt: new Date(NaN) }), (e) => e instanceof sojourn.Invalid && e.field === "run_at");
    });
  },

  async surrogates_in_the_log() {
    const log = async (job) => {
      job.log("a\ud800b \u{1f600}", "\udc00");
      await job.setProgress("p\ud800");
      return "good";
    };
    await working("surrogates", { log, fail: () => { throw new Error("\ud800"); } }, async (done, c) => {
      const job = await done("log");
      assert.deepEqual([job.state, job.result, job.attempt, job.failures], ["completed", "good", 1, 0]);
      assert.equal((await c.request("GET", `/v1/jobs/${job.id}/log`)).log.at(-1).text, "a\ufffdb \u{1f600}");
      assert.equal((await done("fail", undefined, { policy })).reason, "Error");
    });
  },

  async sigterm_during_a_hung_claim() {
    const server = createServer((s) => s.once("data", () => process.kill(process.pid, "SIGTERM")).on("error", () => {}));
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const worker = new sojourn.Worker(new sojourn.Client(`http://127.0.0.1:${server.address().port}`), { lease: 3600, warn: () => {} });
    worker.handle("k", () => undefined);
    const began = performance.now();
    await worker.run();
    assert.ok(performance.now() - began < patience * 1000); // and not the 20 minutes that the claim may take
    server.close();
  },

  // The lease of a repeated claim is nearly over, and nobody answers its first extend.
  async extend_without_an_answer() {
    const long = async (job) => {
      for (const until = job.until; job.until === until; ) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        job.check();
      }
      return "extended";
    };
    await working("beside", { long }, async (done, c, worker) => {
      const call = worker.client.transport.call.bind(worker.client.transport);
      let asked = false;
      worker.client.transport.call = async (method, path, ...rest) => {
        if (path === "/v1/extend" && !asked) {
          asked = true;
          await new Promise(() => {});
        }
        const answer = await call(method, path, ...rest);
        (path === "/v1/claim" ? answer : []).forEach((job) => (job.until = performance.now() / 1000 + 120 / 6 + 10)); // stopped in 10 s
        return answer;
      };
      await done("probe"); // ends the claim that began before
      const job = await done("long", undefined, { policy });
      assert.deepEqual([job.state, job.result, asked], ["completed", "extended", true]);
    }, { lease: 120 });
  },

  async follow_ups() {
    const c = new sojourn.Client(url, { token });
    const job = new sojourn.NewJob("nobody");
    const field = (name) => (e) => e instanceof sojourn.Invalid && e.field === name;
    assert.throws(() => new sojourn.Then(Array(1001).fill(job)), field("next"));
    assert.throws(() => new sojourn.NewJob("nobody", 1, { dependsOn: [job] }).form(), field("depends_on"));
    await assert.rejects(c.undepend(1, []), field("undepend"));
    await assert.rejects(c.depend(1, []), field("depend_on"));
    assert.throws(() => new sojourn.Advance("", { delay: -1 }), field("delay"));
    assert.throws(() => new sojourn.Fail("x", "", { checkpoint: { n: NaN } }), field("checkpoint"));
    assert.equal(typeof sojourn.then, "undefined"); // a module with this name cannot be imported dynamically
    const worker = new sojourn.Worker(c, { queues: ["follow"], concurrency: 2, warn: () => {} });
    worker.handle("follow_probe", () => undefined);
    worker.handle("many", () => new sojourn.Then(
      Array.from({ length: 300 }, (_, i) => new sojourn.NewJob("follow_probe", i, { queue: "follow", key: `many-${i}` })), { result: 300 }));
    worker.handle("twice", async (j) => (j.stage === 2 ? j.checkpoint : new sojourn.Advance("", { priority: 3, checkpoint: j.stage })));
    worker.handle("bad", () => new sojourn.Then([new sojourn.NewJob("no kind")]));
    const running = worker.run({ signals: false });
    const done = async (kind, meta) => c.wait((await c.enqueue(kind, undefined, { queue: "follow", meta, policy: { maxAttempts: 1 } })).id, { timeout: patience });
    const trace = { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tracestate: "a=1" };
    assert.equal((await done("many", { ...trace, tenant: "a" })).result, 300);
    const followed = await c.wait((await c.getByKey("follow_probe", "many-299")).id, { timeout: patience });
    assert.deepEqual([followed.state, { ...followed.meta }], ["completed", trace]);
    const twice = await done("twice");
    assert.deepEqual([twice.stage, twice.priority, twice.result], [2, 3, 1]);
    const bad = await done("bad");
    assert.deepEqual([bad.state, bad.reason], ["failed", "invalid"]);
    worker.stop();
    await running;
  },

  async tail_is_stopped_while_the_server_is_away() {
    const c = new sojourn.Client("http://127.0.0.1:1");
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 300);
    for await (const event of c.tailEvents("nobody", { signal: stop.signal })) {
      assert.fail(event);
    }
    setTimeout(() => c.close(), 300);
    await assert.rejects(c.tailEvents("nobody").next(), (e) => e.code === "closed");
  },

  async refused_for_a_minute() {
    let claims = 0;
    const worker = new sojourn.Worker(new sojourn.Client(url, { token: "sj_wrong" }), { warn: () => claims++ }).handle("k", () => undefined);
    worker.refusedFor = 0.5;
    await assert.rejects(worker.run({ signals: false }), sojourn.Unauthorized);
    assert.ok(claims > 1);
  },

  async warnings_that_throw() {
    const worker = new sojourn.Worker(new sojourn.Client("http://127.0.0.1:1"), { warn: () => { throw new Error("full"); } }).handle("k", () => undefined);
    const running = worker.run({ signals: false });
    await new Promise((later) => setTimeout(later, 0));
    worker.stop();
    await running;
  },
};

if (names[0] === "proxied") { // a call through the proxy that the environment names
  const c = new sojourn.Client(url, { token, cleartext: true, retryFor: 0 });
  console.log("proxied", (await c.get((await c.enqueue("nobody")).id)).state);
  process.exit(0);
}
for (const name of names.length ? names : Object.keys(cases)) {
  try {
    await cases[name]();
    console.log("ok", name);
  } catch (e) {
    console.log("FAIL", name, e.stack);
  }
}
console.log(unhandled === 0 ? "ok unhandled" : `FAIL unhandled ${unhandled}`);
process.exit(0);
