// Runs sdk/scenario.json: scenario.js FILE URL, with the token in SOJOURN_TOKEN. Prints the number of steps that passed.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import * as sojourn from "../dist/index.js";
import { parse } from "../dist/json.js";

const patience = 30; // seconds for what must happen
const [, , file, url] = process.argv;
const client = new sojourn.Client(url, { token: process.env.SOJOURN_TOKEN });
const ids = new Map();
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

const camel = { content_type: "contentType", on_conflict: "onConflict" };

function newJob({ kind, args_json, args_base64, args_size, ...rest }) {
  let args;
  if (args_json !== undefined) {
    args = parse(args_json);
  } else if (args_base64 !== undefined) {
    args = new Uint8Array(Buffer.from(args_base64, "base64"));
  } else if (args_size) {
    args = "x".repeat(args_size);
  }
  const options = Object.fromEntries(Object.entries(rest).map(([k, v]) => [camel[k] ?? k, v]));
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
    const es = await client.enqueueMany(s.jobs.map(newJob), { partial: s.partial });
    (s.as ?? []).forEach((name, i) => ids.set(name, es[i].id));
    return es;
  },
  queue: (s) => client.request("PUT", "/v1/queues/" + s.queue, s.settings, { safe: true }),
  cancel: (s) => client.cancel(ids.get(s.job), { reason: s.reason }),
  redrive: (s) => client.redrive(ids.get(s.job), { generation: s.generation }),
  find: async (s) => {
    const names = new Map([...ids].filter(([name]) => name !== "again").map(([name, id]) => [id, name]));
    return (await client.find(s.filter)).map((j) => names.get(j.id));
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

const names = { result_type: "resultType", content_type: "contentType" };

function field(got, name) {
  switch (name) {
    case "code":
      return got instanceof Error ? got.code : got.error?.code;
    case "class":
      return got.constructor.name;
    case "result_json":
      return Buffer.from(got.rawResult ?? []).toString();
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
