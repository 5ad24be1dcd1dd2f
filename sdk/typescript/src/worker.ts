import type { Client } from "./client.js";
import { Forbidden, LeaseLost, make, ofProblem, said, SojournError, Unauthorized } from "./errors.js";
import { encode, listed, typed, Undecodable, wellFormed, wrap } from "./forms.js";
import type { Raw } from "./forms.js";
import { random } from "./json.js";
import { clock, RunningJob } from "./running.js";
import { Bell, nothingHappened, Pauses, sleep } from "./transport.js";
import { Verdict } from "./verdicts.js";

/** Runs one step of a job. What it resolves to is the result: undefined for none, a Uint8Array, or anything that encodes as JSON. */
export type Handler = (job: RunningJob) => unknown;

/** Options of a worker. */
export interface WorkerOptions {
  /** Handlers that run at the same time. Default 10. */
  concurrency?: number;
  /** In the order in which to look: names, patterns such as `payments-*` and exclusions such as `!payments-test`. Default: "default". */
  queues?: string[];
  /** Seconds for which a dead worker keeps its jobs: 1 to 3600, default 30. A living one extends every third of it. */
  lease?: number;
  /** Seconds for which handlers may go on after a stop. Default 30. */
  grace?: number;
  /** A label for people. Default: "node". */
  name?: string;
  /** Gets the errors between worker and server, and each failed attempt once. Default: console.warn. */
  warn?: (message: string) => void;
}

const maxBatch = 1000; // leases of one call
const maxText = 32 << 10; // characters of an error with its stack
const react = 1.5; // seconds for handlers to return after they were asked to stop
const report = 2; // seconds for the server to take the last reports
const leave = 0.5; // seconds for the server to take the worker off its list
const repeatClaim = 0.9; // seconds, at the end, to learn what a claim that was broken off has taken
const longestWait = 30; // seconds of what Retry-After may ask a worker for
const leastExtend = 1; // seconds for the answer to an extend, or a sixth of the lease if that is longer
const leastBeside = 0.1; // seconds after which, at the earliest, another extend is sent beside one without an answer
const reportLeases = 10; // a report that only others answer is repeated, and its lease extended, for so many lengths of the lease
const known = 10_000; // claimed steps that a worker remembers, so that an answer that comes twice starts nothing twice

// Refusals of an outcome as such: it is replaced by an error. All else is repeated, because it says nothing about the outcome.
const refusals = ["invalid", "too_large", "body_too_large", "invalid_json", "invalid_utf8", "too_deep"];

declare const process: { on(name: string, fn: () => void): void; off(name: string, fn: () => void): void } | undefined;

/**
 * Runs handlers, `concurrency` at a time.
 *
 * An error that a handler throws lets the job be tried again by its policy; the verdicts (Await, Snooze, Hold, Retry, Fail, Cancel) end the step
 * otherwise. Leases are extended by a timer: a handler that computes without awaiting anything for longer than a sixth of the lease costs its lease, so
 * such work belongs in a worker thread.
 *
 * Whatever the server, or something in between, answers, the worker goes on: it asks again at growing intervals of up to 5 s, and repeats its reports
 * unchanged. Only 401 or 403 of the server itself for a minute end `run`.
 */
export class Worker {
  readonly client: Client;
  readonly concurrency: number;
  readonly queues: string[];
  readonly lease: number;
  grace: number;
  /** Random per worker. */
  readonly id: string;
  private readonly tell: (message: string) => void;
  private readonly handlers = new Map<string, Handler>();
  private readonly steps = new Map<string, RunningJob>();
  private readonly stopping = new Bell();
  private readonly ended = new Bell();
  private early = new Bell(); // a lease is to be extended at once
  private readonly inside = new Set<RunningJob>(); // whose handlers have not returned, lost ones too
  private readonly known = new Set<string>();
  /** @internal Seconds of 401 or 403 until run ends. */ refusedFor = 60;
  private changed: (() => void)[] = [];
  private number = 0;
  private unknown = false;
  private ran = false;

  constructor(client: Client, options: WorkerOptions = {}) {
    this.client = client;
    this.concurrency = options.concurrency ?? 10;
    this.queues = options.queues ?? ["default"];
    this.lease = options.lease ?? 30;
    this.grace = options.grace ?? 30;
    this.tell = options.warn ?? ((m) => console.warn(m));
    this.id = `${(options.name ?? "node").replace(/[^A-Za-z0-9_.:/-]/g, "-").slice(0, 80)}.${random(8)}`;
    if (!Number.isInteger(this.concurrency) || this.concurrency < 1) {
      throw make("invalid", `${this.concurrency} is out of range: at least 1`, { field: "concurrency" });
    }
    if (!(this.lease >= 1 && this.lease <= 3600)) {
      throw make("invalid", `${this.lease} is out of range: 1 to 3600 seconds`, { field: "lease" });
    }
  }

  /** Gives a kind its handler. Call it before `run`. */
  handle(kind: string, fn: Handler): this {
    if (this.handlers.has(kind)) {
      throw make("invalid", `${kind} has a handler already`, { field: "kind" });
    }
    this.handlers.set(kind, fn);
    return this;
  }

  /**
   * Works until `stop`, then drains: what runs may go on for `grace`, and what still runs then is handed back. Call it once.
   *
   * Under Node SIGINT and SIGTERM stop it, unless `signals` is false. Unauthorized and Forbidden, once the server has answered with them for a minute,
   * end it too and reject.
   */
  async run(options: { signals?: boolean } = {}): Promise<void> {
    if (this.ran || this.handlers.size === 0) {
      throw make("invalid", "register handlers, then call run once", { field: "worker" });
    }
    this.ran = true;
    const stop = () => this.stop();
    const signals = options.signals !== false && typeof process !== "undefined" && typeof process?.on === "function" ? ["SIGINT", "SIGTERM"] : [];
    signals.forEach((s) => process!.on(s, stop));
    const loops = [this.extendLoop(), this.watchLoop()];
    try {
      await this.claimLoop();
    } finally {
      this.stop();
      await this.drain();
      await this.leave();
      await Promise.all(loops);
      signals.forEach((s) => process!.off(s, stop));
    }
  }

  /** Makes `run` claim nothing more and drain. */
  stop(): void {
    this.stopping.abort();
  }

  private warn(message: string): void {
    try {
      this.tell(message);
    } catch {
      // what takes warnings must not end the worker
    }
  }

  // Claims.

  private async claimLoop(): Promise<void> {
    const pauses = new Pauses(0.1, 5);
    for (let refused = 0; !this.stopping.aborted; ) { // refused: when the server began to answer 401 or 403
      const room = Math.min(this.concurrency - new Set([...this.inside, ...this.steps.values()]).size, maxBatch);
      if (room <= 0) {
        await this.change(this.lease);
        continue;
      }
      try {
        await this.claim(room, Math.max(this.lease / 3, 1), this.stopping);
        pauses.reset();
        refused = 0;
      } catch (e) {
        if (this.stopping.aborted) {
          break;
        }
        if (e instanceof SojournError && e.code === "worker_drained") { // an operator wants it to end; nothing was taken
          this.unknown = false;
          break;
        }
        refused = e instanceof Unauthorized || e instanceof Forbidden ? refused || clock() : 0;
        if ((e instanceof SojournError && e.code === "closed" && e.status === 0) || (refused && clock() - refused >= this.refusedFor)) {
          throw e;
        }
        this.warn(`sojourn: claim: ${said(e)}`);
        await sleep(Math.max(pauses.next(), waitOf(e)), this.stopping);
      }
    }
    if (this.unknown) { // the claim that was broken off may have taken jobs
      await this.claim(this.concurrency, repeatClaim, undefined, true).catch((e) => this.warn(`sojourn: claim: ${said(e)}`));
    }
  }

  /**
   * Takes jobs and starts them. After a claim whose outcome is unknown the next one carries the same number and does not wait, so that no job is lost to
   * an answer that nobody got. The answer has a third of the lease, so that what was taken can still run after a repetition.
   */
  private async claim(room: number, timeout: number, signal?: Bell, close = false): Promise<void> {
    const wait = this.unknown ? 0 : Math.min(30, this.lease / 3);
    const body = { worker: this.id, number: this.number + 1, queues: this.queues, kinds: [...this.handlers.keys()], max: room, lease: `${this.lease}s`,
      wait: `${wait}s`,
      ...(close && { close }) }; // takes nothing: the claim of this number that was broken off may still be on its way, and then takes nothing either
    this.unknown = true;
    const sent = clock();
    const jobs: RunningJob[] = await this.client.transport.call("POST", "/v1/claim", body, { safe: true, wait, retryFor: 0, timeout, signal,
      read: (a) => listed(a, "jobs").map((claimed) => new RunningJob(this, claimed, sent)) });
    this.number++;
    this.unknown = false;
    jobs.forEach((job) => this.start(job, sent));
  }

  private start(job: RunningJob, sent: number): void {
    const key = keyOf(job.lease);
    if (this.known.has(key)) {
      this.warn(`sojourn: claim: job ${job.id} came twice; it runs once`);
      return;
    }
    this.known.add(key);
    if (this.known.size > known) {
      this.known.delete(this.known.values().next().value!);
    }
    this.steps.set(key, job);
    this.inside.add(job);
    if (job.until < sent + this.lease * 0.9) { // a repeated claim: part of the lease is over
      this.early.abort();
    }
    void this.work(job);
  }

  /** Runs a step and reports. Its room in the worker is free afterwards, whatever has happened. */
  private async work(job: RunningJob): Promise<void> {
    try {
      await this.report(job, this.stopping.aborted ? { type: "released" } : await this.step(job));
    } catch (e) {
      this.warn(`sojourn: job ${job.id}: its report failed: ${said(e)}`);
    } finally {
      this.inside.delete(job);
      this.wake();
    }
  }

  // Leases. A claim waits a third of the lease at most, all leases are extended every third of it in one call, and a handler is asked to stop a sixth
  // before the lease ends, counted from before the request was sent that won or extended it. So two requests in a row may fail, or not be answered, before a handler is
  // stopped, and it is stopped before another worker can have its job. A repeated claim returns leases that may be nearly over: they are extended at
  // once, and if half of the time that is left until a handler would be stopped passes without an answer, another request is sent beside the first.

  private async extendLoop(): Promise<void> {
    const every = this.lease / 3;
    const limit = Math.max(every / 2, Math.min(every, leastExtend));
    for (let pause = every; ; ) {
      await sleep(pause, this.early);
      if (this.ended.aborted) {
        return;
      }
      this.early = new Bell();
      for (const s of this.steps.values()) {
        if (s.reported && clock() - s.reported > reportLeases * this.lease) {
          s.extends = false;
        }
      }
      const patience = new Bell();
      const done = await Promise.race([
        this.extendAll(limit),
        sleep(Math.min(limit, Math.max(this.left() / 2, leastBeside)), patience), // the call goes on: a slow answer counts too
      ]);
      patience.abort();
      pause = done === undefined ? 0 : done ? every : Math.min(every / 10, Math.max(this.left() / 4, 0.01));
    }
  }

  /** Extends the leases of all steps, and says whether all calls were answered. */
  private async extendAll(limit: number): Promise<boolean> {
    let done = true;
    const steps = [...this.steps.values()].filter((s) => s.extends);
    for (let i = 0; i < steps.length; i += maxBatch) {
      try {
        await this.extend(steps.slice(i, i + maxBatch), limit);
      } catch (e) {
        done = false;
        if (!this.ended.aborted) {
          this.warn(`sojourn: extend: ${said(e)}`);
        }
      }
    }
    return done;
  }

  /** Seconds until the first handler is asked to stop unless its lease is extended. */
  private left(): number {
    const running = [...this.steps.values()].filter((s) => s.phase === "running" && s.extends);
    return Math.min(this.lease, ...running.map((s) => this.handlerEnd(s) - clock()));
  }

  private async extend(steps: RunningJob[], limit: number): Promise<void> {
    const sent = clock();
    const lost: Map<string, string> = await this.client.transport.call("POST", "/v1/extend", { leases: steps.map((s) => s.lease) },
      { safe: true, retryFor: 0, timeout: limit, signal: this.ended,
        read: (a) => new Map(listed(a, "lost").map((l) => [keyOf(l.lease), typed<string>(l.reason, "string")])) });
    for (const s of steps) {
      const reason = lost.get(keyOf(s.lease));
      if (reason !== undefined) {
        this.lose(s, reason);
      }
    }
    this.extended(steps.filter((s) => !lost.has(keyOf(s.lease))), sent);
  }

  /** @internal */
  extended(steps: RunningJob[], sent: number): void {
    for (const s of steps) {
      if (s.extends) {
        s.until = Math.max(s.until, sent + this.lease);
      }
    }
  }

  /** @internal Takes a step out of the worker's hands. One whose report is on its way is not lost: the report itself may have ended the lease. */
  lose(job: RunningJob, reason: string): void {
    if (job.phase !== "running") {
      return;
    }
    this.forget(job);
    job.askToStop(reason === "cancelled" ? "cancelled" : "lease_lost");
    this.warn(`sojourn: job ${job.id}: the lease is lost: ${reason}`);
  }

  private forget(job: RunningJob): void {
    job.phase = "gone";
    this.steps.delete(keyOf(job.lease));
    this.wake();
  }

  private wake(): void {
    this.changed.splice(0).forEach((wake) => wake());
  }

  /** Asks handlers to stop whose time is over, and reports for those that do not, a lease later. */
  private async watchLoop(): Promise<void> {
    const tick = Math.min(Math.max(this.lease / 30, 0.02), 0.5);
    for (;;) {
      await sleep(tick, this.ended);
      if (this.ended.aborted) {
        return;
      }
      const now = clock();
      for (const s of [...this.steps.values()].filter((x) => x.phase === "running")) {
        for (const [name, end] of s.limits) {
          if (now >= end) {
            s.askToStop(name);
          }
          if (name === s.stopReason && name !== "window" && now > end + this.lease) {
            this.warn(`sojourn: job ${s.id}: its handler goes on after ${name}`);
            void this.report(s, endedBy(s, { type: "error", error: `${name} is over, and the handler has not returned since` }));
          }
        }
        if (now >= this.handlerEnd(s)) {
          s.askToStop(s.extends ? "lease_lost" : "lease_over");
        }
      }
    }
  }

  private handlerEnd(s: RunningJob): number {
    return s.until - this.lease / 6;
  }

  // Steps.

  /** Runs the handler and says what became of the step. */
  private async step(job: RunningJob): Promise<Raw> {
    const fn = this.handlers.get(job.kind);
    if (!fn || (job.purpose !== "start" && job.purpose !== "resume") || clock() >= this.handlerEnd(job)) {
      return { type: "released" }; // a server that hands out what nobody asked for, or a lease that is over before the handler begins
    }
    try {
      void job.args;
    } catch (e) {
      return { type: "undecodable", reason: "undecodable", error: (e as Undecodable).message };
    }
    try {
      const result = await fn(job);
      if (result instanceof Verdict) {
        throw result;
      }
      if (result === undefined) {
        return { type: "completed" };
      }
      const { bytes, contentType } = encode(result, "", "result");
      return { type: "completed", result: wrap(bytes), result_type: contentType };
    } catch (e) {
      const outcome = outcomeOf(e);
      return outcome.type === "error" ? endedBy(job, outcome) : follow(job, outcome);
    }
  }

  /**
   * Reports until the server has answered, because repeating is safe; the lease is extended meanwhile, see reportLeases. The first report of a step
   * counts, and one that was lost has none.
   */
  private async report(job: RunningJob, o: Raw): Promise<void> {
    if (job.phase !== "running") {
      return;
    }
    job.phase = "reported";
    job.reported = clock();
    try {
      await this.repeat(job, { ...o, lease: job.lease, log: job.lines });
    } finally {
      this.forget(job);
    }
  }

  private async repeat(job: RunningJob, outcome: Raw): Promise<void> {
    const pauses = new Pauses(0.05, 5);
    for (let refused = 0; !this.ended.aborted; ) {
      let code: string, text: string;
      try {
        const { lost, refusal, state } = await this.client.transport.call("POST", "/v1/finish", { outcomes: [outcome] },
          { safe: true, retryFor: 0, timeout: Math.max(this.lease / 2, 1), signal: this.ended, read: finishedOf });
        if (refusal && (refusal.retryable || refusal instanceof LeaseLost)) {
          throw refusal;
        }
        if (lost) {
          this.warn(`sojourn: job ${job.id}: the lease is lost: ${lost}`);
        }
        if (!refusal) {
          if (!lost) {
            this.warnFailure(job, outcome, state ?? "");
          }
          return;
        }
        code = refusal.code; // of this outcome, whatever the code is
        text = said(refusal);
      } catch (e) {
        if (e instanceof LeaseLost) {
          this.warn(`sojourn: job ${job.id}: the lease is lost: ${e.message}`);
          return;
        }
        code = e instanceof SojournError ? e.code : "invalid";
        if (!refusals.includes(code) && !(code === "insufficient_scope" && outcome.type === "hold")) {
          this.warn(`sojourn: finish: ${said(e)}`);
          if (clock() >= job.until && clock() - job.reported > reportLeases * this.lease && !nothingHappened(e as SojournError)) {
            this.warn(`sojourn: job ${job.id}: nobody takes its report; its lease has ended, and it runs again`);
            return;
          }
          await sleep(Math.max(pauses.next(), waitOf(e)), this.ended);
          continue;
        }
        code = code === "body_too_large" ? "too_large" : code;
        text = said(e);
      }
      if (++refused > 2) {
        this.warn(`sojourn: job ${job.id}: the server refuses each report; its lease will end: ${text}`);
        return;
      }
      // The error in the place of what the server refuses: once with the log, once without.
      outcome = { type: "error", reason: code, error: wellFormed(text), lease: job.lease, log: refused === 1 ? job.lines : [] };
    }
  }

  /** Tells of an attempt that the server has accepted as failed, once. The history of the job has the whole error with its stack. */
  private warnFailure(job: RunningJob, outcome: Raw, state: string): void {
    if (["error", "abort", "undecodable"].includes(String(outcome.type))) {
      this.warn(`sojourn: ${state === "failed" ? "a job failed" : "an attempt failed"}: kind=${job.kind} queue=${job.queue} job=${job.id} ` +
        `attempt=${job.attempt} reason=${outcome.reason ?? ""} state=${state} error=${String(outcome.error ?? "").split("\n")[0]}`);
    }
  }

  // The end.

  private async drain(): Promise<void> {
    const running = () => [...this.steps.values()].filter((s) => s.phase === "running");
    await this.until(this.grace, () => this.steps.size === 0);
    running().forEach((s) => s.askToStop("shutdown"));
    await this.until(react, () => running().length === 0);
    running().forEach((s) => void this.report(s, { type: "released" }));
    await this.until(report, () => this.steps.size === 0);
    if (this.steps.size > 0) {
      this.warn(`sojourn: stopped before the server has taken the reports about ${this.steps.size} jobs; they run again when their leases end`);
    }
    this.ended.abort();
    this.early.abort();
  }

  /** Takes the worker off the server's list. If the call fails, the worker is listed until it has been silent for long enough. */
  private async leave(): Promise<void> {
    try {
      await this.client.transport.call("POST", `/v1/workers/${encodeURIComponent(this.id)}/leave`, undefined, { safe: true, retryFor: 0, timeout: leave });
    } catch {
      // it is over anyway
    }
  }

  private async until(seconds: number, done: () => boolean): Promise<void> {
    for (const end = clock() + seconds; !done() && clock() < end; ) {
      await this.change(end - clock());
    }
  }

  /** Waits until a step has ended, or the worker is told to stop, at most for so long. */
  private async change(seconds: number): Promise<void> {
    const woken = new Bell();
    const wake = () => woken.abort();
    this.changed.push(wake);
    if (!this.stopping.aborted) {
      this.stopping.addEventListener("abort", wake);
    }
    await sleep(seconds, woken);
    this.stopping.removeEventListener("abort", wake);
    this.changed = this.changed.filter((w) => w !== wake);
  }
}

function keyOf(lease: { id: number; epoch: number }): string {
  return `${lease.id}.${lease.epoch}`;
}

/** What Retry-After asks for, in seconds. */
function waitOf(e: unknown): number {
  return e instanceof SojournError ? Math.min(e.retryAfter, longestWait) : 0;
}

/** Of an answer to one outcome: why the lease was lost, if it was, why the outcome was refused, and the state of the job. Throws if the answer is not ours. */
function finishedOf(answer: any): { lost: string; refusal?: SojournError; state?: string } {
  const [one] = listed(answer, "outcomes", 1);
  switch (one.status) {
    case "refused":
      return { lost: "", refusal: ofProblem(one.error) };
    case "lost":
      return { lost: String(one.reason || "ended") };
    case "applied":
    case "repeated":
      return { lost: "", state: String(one.state ?? "") };
  }
  throw new TypeError("no status of an outcome");
}

/** What a thrown value makes of the step, also one whose own methods fail. */
function outcomeOf(e: unknown): Raw {
  let reason = "error";
  try {
    if (e instanceof Verdict) {
      const outcome = e.outcome();
      for (const name of ["reason", "error"]) {
        if (outcome[name] !== undefined) {
          outcome[name] = wellFormed(String(outcome[name]));
        }
      }
      return outcome;
    }
    reason = wellFormed(e instanceof SojournError ? e.code : e instanceof Error ? String(e.name) : typeof e);
  } catch {
    // of the value's own methods
  }
  return { type: "error", reason, error: textOf(e) };
}

function textOf(e: unknown): string {
  let text = said(e);
  try {
    if (e instanceof Error) {
      text = `${String(e.name)}: ${text}\n${String(e.stack ?? "")}`;
    }
  } catch {
    // of the value's own methods
  }
  return wellFormed(text.slice(0, maxText));
}

/** Gives the jobs that follow, and children, the trace context of the job, if they have none. */
function follow(job: RunningJob, outcome: Raw): Raw {
  const { traceparent, tracestate } = job.meta;
  if (traceparent === undefined || !Array.isArray(outcome.next)) {
    return outcome;
  }
  const trace = tracestate === undefined ? { traceparent } : { traceparent, tracestate };
  return { ...outcome, next: outcome.next.map((n: Raw) => (n.meta?.traceparent === undefined ? { ...n, meta: { ...n.meta, ...trace } } : n)) };
}

/** What an error means that comes after the handler was asked to stop. What is not the job's fault hands it back and uses up nothing. */
function endedBy(job: RunningJob, outcome: Raw): Raw {
  switch (job.stopReason) {
    case undefined:
      return outcome;
    case "run_timeout":
    case "timeout":
    case "deadline":
      return { ...outcome, reason: job.stopReason, verdict: { final: job.stopReason === "deadline" } };
    case "lease_over":
      return { ...outcome, reason: "lease_lost" };
    default:
      return { type: "released" };
  }
}
