// Runs sdk/scenario.json: scenario.js FILE URL, with the token in SOJOURN_TOKEN. Prints the number of steps that passed.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import * as sojourn from "../dist/index.js";
import { parse } from "../dist/json.js";

const patience = 30; // seconds for what must happen
const [, , file, url] = process.argv;
const client = new sojourn.Client(url, { token: process.env.SOJOURN_TOKEN });
const ids = new Map();
const next = new Map(); // what acknowledges the last page of a follower
const records = new Map();
let worker, running;

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

function record(at, text) {
  records.set(at, [...(records.get(at) ?? []), text]);
}

const once = (verdict) => (job) => {
  if (job.epoch === 1) {
    throw verdict;
  }
  return "ran";
};

const kinds = {
  echo: (job) => job.args,
  line: (job) => record("line", job.args),
  steps: async (job) => {
    if (job.attempt === 1) {
      await job.save({ done: 2 });
      record("steps", String(job.checkpoint.done));
      throw new Error("the first attempt");
    }
    return job.checkpoint;
  },
  ask: (job) => job.awaitAnswer({ within: 60 }).body,
  choose: (job) => job.awaitAnswer({ keys: job.args, within: 60 }).key,
  both: (job) => job.awaitAll(job.args, { within: 60 }).map((r) => r.body),
  named: async (job) => {
    if (!job.response) {
      await job.setKey(job.args);
    }
    return job.awaitAnswer({ within: 60 }).body;
  },
  flaky: (job) => {
    if (job.attempt < 3) {
      throw new sojourn.Retry("not yet", { after: 0 });
    }
    return job.attempt;
  },
  doomed: () => {
    throw new sojourn.Fail("no money", "declined");
  },
  broken: () => {
    throw new Error("broken");
  },
  held: once(new sojourn.Hold(1)),
  snoozer: once(new sojourn.Snooze(0.05)),
  huge: () => "x".repeat(300_000),
  endless: async (job) => {
    record(job.id, "began");
    try {
      await job.sleep(patience);
    } finally {
      record(job.id, job.stopReason);
    }
  },
  taken: async (job) => {
    if (job.epoch > 1) {
      return "fresh";
    }
    await client.request("POST", "/v1/finish", { outcomes: [{ lease: job.lease, type: "released" }] });
    await job.sleep(patience).catch((e) => record(job.id, e.reason));
    await job.save("zombie").catch((e) => record(job.id, e instanceof sojourn.LeaseLost ? e.code : String(e)));
    return "zombie";
  },
};

Object.assign(kinds, {
  follow: (job) => new sojourn.Then([new sojourn.NewJob("echo", job.args, { key: job.args })], { result: "began" }),
  staged: (job) => {
    if (job.stage === 0) {
      throw new sojourn.Advance("held", { checkpoint: { from: 0 } });
    }
    return job.checkpoint;
  },
  detailed: () => {
    throw new sojourn.Fail("no stock", "declined", { result: { left: 0 }, checkpoint: { row: 17 }, detail: { sku: 4 } });
  },
  collect: async (job) => (await job.parents()).map((p) => p.result),
  split: async (job) => {
    if (!job.childrenDone) {
      throw new sojourn.AwaitJobs(job.args.map((part) => new sojourn.NewJob("echo", part, { name: part })), { within: 60 });
    }
    return (await job.children()).map((c) => [c.name, c.result]);
  },
  refused: (job) => (job.epoch === 1 ? new sojourn.Then([new sojourn.NewJob("echo", undefined, { dependsOn: [999999] })]) : "ran"),
});

const changed = (e) => `${e.key} ${e.from ?? "-"} ${e.state}`;

const camel = { content_type: "contentType", on_conflict: "onConflict" };

/** What a name stands for: a number itself, a job of the same call, or a job of an earlier step. */
const named = (name, batch) => (typeof name === "number" ? name : batch?.get(name) ?? ids.get(name));

function newJob({ kind, args_json, args_base64, args_size, depends_on, ...rest }, batch) {
  let args;
  if (args_json !== undefined) {
    args = parse(args_json);
  } else if (args_base64 !== undefined) {
    args = new Uint8Array(Buffer.from(args_base64, "base64"));
  } else if (args_size) {
    args = "x".repeat(args_size);
  }
  const options = Object.fromEntries(Object.entries(rest).map(([k, v]) => [camel[k] ?? k, v]));
  if (depends_on) {
    options.dependsOn = depends_on.map((d) => ({ jobs: d.jobs.map((n) => named(n, batch)), onFailure: d.on_failure }));
  }
  return new sojourn.NewJob(kind, args, options);
}

async function eventually(done, seconds = patience) {
  for (const end = Date.now() + seconds * 1000; !(await done()) && Date.now() < end; ) {
    await pause(0.01);
  }
}

const steps = {
  unauthorized: () => new sojourn.Client(url, { token: "sj_wrong" }).get(1),
  get: (s) => client.get(s.id ?? ids.get(s.job)),
  enqueue: async (s) => {
    const e = await client.enqueue(newJob(s.job));
    ids.set(s.as, e.id);
    return e;
  },
  enqueue_many: async (s) => {
    const batch = new Map();
    const jobs = s.jobs.map((j, i) => {
      const job = newJob(j, batch);
      batch.set(s.as?.[i], job);
      return job;
    });
    const es = await client.enqueueMany(jobs, { partial: s.partial });
    (s.as ?? []).forEach((name, i) => ids.set(name, es[i].id));
    return es;
  },
  queue: (s) => client.request("PUT", "/v1/queues/" + s.queue, s.settings, { safe: true }),
  by_key: async (s) => ids.set(s.as, (await client.getByKey(s.kind, s.key)).id),
  cancel: (s) => client.cancel(ids.get(s.job), { reason: s.reason, dependents: s.dependents }),
  purge: (s) => client.purge(ids.get(s.job)),
  depend: (s) => client.depend(ids.get(s.job), s.on.map((n) => ids.get(n))),
  undepend: (s) => (s.on ? client.undepend(ids.get(s.job), s.on.map((n) => ids.get(n))) : client.undependAll(ids.get(s.job))),
  schedule: async (s) => {
    if (s.schedule) {
      const { catch_up, job, ...rest } = s.schedule;
      return client.schedules[s.how]({ ...rest, catchUp: catch_up, job: newJob(job) });
    }
    const out = await client.schedules[s.how](s.name);
    if (s.how === "run") {
      ids.set(s.as, out);
    }
    return s.how === "list" ? out.map((d) => d.name) : out;
  },
  workflow: async (s) => {
    const calls = client.workflows;
    const members = (s.members ?? []).map(({ job, on_failure, ...m }) => ({ ...m, onFailure: on_failure, job: newJob(job) }));
    switch (s.how) {
      case "start":
        return calls.start({ name: s.name, members, open: s.open, onEnd: s.on_end && newJob(s.on_end) });
      case "append":
        return calls.append(s.name, members);
      case "wait":
        return calls.wait(s.name, { timeout: patience });
      case "cancel":
        return calls.cancel(s.name, s.reason);
      case "members":
        return (await calls.members(s.name)).map((m) => `${m.name} ${m.state}`);
      case "list":
        return (await calls.list(s.name)).map((w) => w.name);
    }
    return calls[s.how](s.name);
  },
  events: async (s) => {
    switch (s.how) {
      case "follow":
        return client.follow(s.name, s.filter);
      case "list":
        return (await client.followers()).map((f) => f.name);
      case "unfollow":
        return client.unfollow(s.name);
      case "read": {
        const page = await client.readEvents(s.name, { ack: next.get(s.name), wait: s.wait });
        next.set(s.name, page.next);
        return page.events.map(changed);
      }
    }
    const got = [];
    const stop = new AbortController();
    if (s.expect.length === 0) { // it waits until it is stopped
      setTimeout(() => stop.abort(), 200);
    }
    for await (const e of client.tailEvents(s.name, { signal: stop.signal })) {
      got.push(changed(e));
      if (got.length === s.expect.length) {
        stop.abort();
      }
    }
    return got;
  },
  redrive: (s) => client.redrive(ids.get(s.job), { generation: s.generation }),
  find: async (s) => {
    const names = new Map([...ids].filter(([name]) => name !== "again").map(([name, id]) => [id, name]));
    const { parents_of, children_of, ...rest } = s.filter;
    return (await client.find({ ...rest, parentsOf: ids.get(parents_of), childrenOf: ids.get(children_of) })).map((j) => names.get(j.id));
  },
  respond: (s) => client.respond({ kind: s.kind, key: s.key, messageId: s.message_id, failed: s.failed, reason: s.reason,
    job: s.job && ids.get(s.job), ...(s.body_json && { body: new TextEncoder().encode(s.body_json), contentType: "application/json" }) }),
  history: async (s) => (await client.history(ids.get(s.job))).map((h) => h.outcome),
  wait: (s) => client.wait(ids.get(s.job), { timeout: patience }),
  until: async (s) => {
    let found = [];
    await eventually(async () => {
      found = await client.find({ ids: [ids.get(s.job)], states: [s.state], wait: 5 });
      return found.length > 0;
    });
    if (found.length === 0) {
      throw new Error("the job is not " + s.state);
    }
  },
  recorded: async (s) => {
    const at = s.job ? ids.get(s.job) : s.kind;
    await eventually(() => (records.get(at) ?? []).length >= s.expect.length);
    return records.get(at) ?? [];
  },
  start: (s) => {
    worker = new sojourn.Worker(client, s.worker);
    Object.entries(kinds).forEach(([kind, fn]) => worker.handle(kind, fn));
    running = worker.run();
  },
  stop: async (s) => {
    worker.grace = s.grace;
    worker.stop();
    await running;
  },
};

const names = { result_type: "resultType", content_type: "contentType", waits_for: "waitsFor" };

function field(got, name) {
  switch (name) {
    case "code":
      return got instanceof Error ? got.code : got.error?.code;
    case "class":
      return got.constructor.name;
    case "result_json":
      return Buffer.from(got.rawResult ?? []).toString();
    case "checkpoint_json":
      return Buffer.from(got.rawCheckpoint ?? []).toString();
    case "error_detail_json":
      return Buffer.from(got.rawErrorDetail ?? []).toString();
    case "next":
      return got.next.length;
    case "result_base64":
      return Buffer.from(got.rawResult ?? []).toString("base64");
  }
  return got[names[name] ?? name];
}

/** Everything that stands in want is the same in got. */
function compare(got, want) {
  if (Array.isArray(want)) {
    if (got.length !== want.length) {
      throw new Error(`${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
    }
    want.forEach((w, i) => compare(got[i], w));
  } else if (want !== null && typeof want === "object") {
    Object.entries(want).forEach(([name, w]) => compare(field(got, name), w));
  } else if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  }
}

async function step(s) {
  let got;
  try {
    got = await steps[s.do](s);
  } catch (e) {
    if (!s.error || !(e instanceof sojourn.SojournError)) {
      throw e;
    }
    return compare(e, s.error);
  }
  if (s.error) {
    throw new Error("no error");
  }
  if (s.expect !== undefined) {
    compare(got, s.expect);
  }
}

const all = JSON.parse(readFileSync(file, "utf8")).steps;
for (const [i, s] of all.entries()) {
  try {
    await step(s);
  } catch (e) {
    console.log(`step ${i + 1} ${JSON.stringify(s)}: ${e.stack}`);
    process.exit(1); // a worker may still run
  }
}
console.log(`passed ${all.length}`);
