import { make } from "./errors.js";
import { durationText, encode, timeText, wrap } from "./forms.js";
import type { Duration, NewJob, Raw } from "./forms.js";
import { stringify } from "./json.js";

const maxNext = 1000; // jobs of one Then

/**
 * Thrown or returned by a handler, it ends the step in another way than done or failed. A handler that catches errors itself throws on what is
 * `instanceof Verdict`.
 */
export abstract class Verdict extends Error {
  /** The form in which it goes to the server. */
  abstract outcome(): Raw;
}

/** How long a job waits for its answer. */
export interface WaitOptions {
  /** Default: the attempt's timeout. */
  within?: Duration;
  /** Ends the wait when no progress response came for so long. */
  beat?: Duration;
}

/**
 * Parks the job until an answer comes; it holds no room in a worker meanwhile. The handler then runs again, with `job.response` set.
 *
 * Without keys the answer comes under the job's own key, by its id or by its token. With keys, any of them ends the wait, or all with `all: true`.
 */
export class Await extends Verdict {
  readonly wait: Raw = {};

  constructor(options: WaitOptions & { keys?: string[]; all?: boolean } = {}) {
    super("await");
    if (options.keys?.length) {
      this.wait.keys = options.keys;
      this.wait.mode = options.all ? "all" : "any";
    }
    if (options.within !== undefined) {
      this.wait.within = durationText(options.within, "within");
    }
    if (options.beat !== undefined) {
      this.wait.beat = durationText(options.beat, "beat");
    }
  }

  outcome(): Raw {
    return { type: "await", wait: this.wait };
  }
}

/** Runs the job again after so long. Counts neither as an error nor as an attempt. */
export class Snooze extends Verdict {
  readonly after: string;

  constructor(after: Duration) {
    super("snooze");
    this.after = durationText(after, "after");
  }

  outcome(): Raw {
    return { type: "snooze", delay: this.after };
  }
}

/**
 * Closes a queue for everybody for so long, such as when the other side answers 429. Default: the job's own queue. The job goes back to its place and
 * has used up nothing. At least a second; cut at 24 hours.
 */
export class Hold extends Verdict {
  readonly delay: string;
  readonly queue: string;

  constructor(delay: Duration, queue = "") {
    super("hold");
    this.delay = durationText(delay, "delay");
    this.queue = queue;
  }

  outcome(): Raw {
    return { type: "hold", delay: this.delay, queue: this.queue };
  }
}

/** What is stored with the end of a job. */
export interface Details {
  /** A Uint8Array, or anything that encodes as JSON. */
  result?: unknown;
  /** As the argument of `RunningJob.save`. */
  checkpoint?: unknown;
  /** Of an error: anything that encodes as JSON, of at most 64 KiB. It is stored with the error. */
  detail?: unknown;
}

function detailForm(d: Details): Raw {
  const out: Raw = {};
  if (d.result !== undefined) {
    const { bytes, contentType } = encode(d.result, "", "result");
    out.result = wrap(bytes);
    out.result_type = contentType;
  }
  if (d.checkpoint !== undefined) {
    const bytes = d.checkpoint instanceof Uint8Array ? d.checkpoint : new TextEncoder().encode(stringify(d.checkpoint, "checkpoint"));
    out.verdict = { checkpoint: wrap(bytes) };
  }
  if (d.detail !== undefined) {
    out.error_detail = wrap(new TextEncoder().encode(stringify(d.detail, "detail")));
  }
  return out;
}

/**
 * Completes the job, and enqueues jobs in the same transaction: either all of this happens, or nothing. A repeated report makes none twice. At most 1,000
 * jobs, in queues that the worker's token may enqueue to. What refuses one of them makes the step an error.
 */
export class Then extends Verdict {
  private readonly fields: Raw;

  constructor(jobs: NewJob[], options: { result?: unknown } = {}) {
    super("then");
    if (jobs.length > maxNext) {
      throw make("invalid", `${jobs.length} jobs exceed the limit of ${maxNext}`, { field: "next" });
    }
    this.fields = { ...detailForm({ result: options.result }), next: jobs.map((j) => j.form()) };
  }

  outcome(): Raw {
    return { ...this.fields, type: "completed" };
  }
}

/**
 * Stores children and parks the job until all of them are final, in whatever state. It holds no room in a worker and no weight meanwhile. The handler then
 * runs again with `job.childrenDone`: look at it first. `job.children()` has the results.
 *
 * A child is known by its name, by default its place ("0", "1", …), within the stage of the job: a step that runs again stores none twice. At most 1,000
 * children. `within` bounds the wait; default: the attempt's timeout.
 */
export class AwaitJobs extends Verdict {
  private readonly fields: Raw;

  constructor(children: NewJob[], options: { within?: Duration } = {}) {
    super("await jobs");
    if (children.length > maxNext) {
      throw make("invalid", `${children.length} jobs exceed the limit of ${maxNext}`, { field: "children" });
    }
    const next = children.map((j, i): Raw => ({ ...j.form(), name: j.options.name || String(i) }));
    if (new Set(next.map((j) => j.name)).size < next.length) {
      throw make("invalid", "two children have the same name", { field: "name" });
    }
    this.fields = { next, wait: { within: options.within === undefined ? undefined : durationText(options.within, "within") } };
  }

  outcome(): Raw {
    return { ...this.fields, type: "await_jobs" };
  }
}

/** Options of the next stage. What is left out stays as it was, also the checkpoint. */
export interface StageOptions {
  delay?: Duration;
  runAt?: Date;
  priority?: number;
  weight?: number;
  checkpoint?: unknown;
}

/**
 * Ends this stage of the job and goes on with the next one, in a queue (default: the same). The job keeps its id, key, args and history, and `job.stage`
 * rises by one; attempts count anew.
 */
export class Advance extends Verdict {
  private readonly fields: Raw;

  constructor(queue = "", o: StageOptions = {}) {
    super("advance");
    this.fields = { ...detailForm({ checkpoint: o.checkpoint }), queue: queue || undefined, priority: o.priority, weight: o.weight,
      delay: o.delay === undefined ? undefined : durationText(o.delay, "delay"), run_at: timeText(o.runAt, "run_at") };
  }

  outcome(): Raw {
    return { ...this.fields, type: "advance" };
  }
}

/**
 * Fails the job for good, whatever attempts remain. `reason` is the short stable class by which failures are grouped. A result and a checkpoint are stored
 * with the job, as details.
 */
export class Fail extends Verdict {
  readonly reason: string;
  private readonly fields: Raw;

  constructor(message = "", reason = "", details: Details = {}) {
    super(message);
    this.reason = reason;
    this.fields = detailForm(details);
  }

  outcome(): Raw {
    return { ...this.fields, type: "abort", reason: this.reason, error: this.message };
  }
}

/** Ends the job as cancelled. For the rest see Fail. */
export class Cancel extends Verdict {
  readonly reason: string;
  private readonly fields: Raw;

  constructor(message = "", reason = "", details: Details = {}) {
    super(message);
    this.reason = reason;
    this.fields = detailForm(details);
  }

  outcome(): Raw {
    return { ...this.fields, type: "cancel", reason: this.reason, error: this.message };
  }
}

/**
 * An error with its own pause before the next attempt, 0 for none. Without `after` the job's backoff decides, as for any other error.
 * `again: true` asks for a fresh request: the answer in hand is put down, and the next attempt runs without it.
 */
export class Retry extends Verdict {
  readonly reason: string;
  readonly verdict: Raw = {};
  private readonly fields: Raw;

  constructor(message = "", options: { after?: Duration; reason?: string; again?: boolean; detail?: unknown } = {}) {
    super(message);
    this.fields = detailForm({ detail: options.detail });
    this.reason = options.reason ?? "retry";
    if (options.again) {
      this.verdict.again = true;
    }
    if (options.after !== undefined) {
      const text = durationText(options.after, "after");
      this.verdict.delay = text === "0s" ? "now" : text; // 0 would mean the stored backoff
    }
  }

  outcome(): Raw {
    return { ...this.fields, type: "error", reason: this.reason, error: this.message, verdict: this.verdict };
  }
}
