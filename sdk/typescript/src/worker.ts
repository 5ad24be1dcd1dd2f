import type { Client } from "./client.js";
import { LeaseLost, make, SojournError } from "./errors.js";
import { encode, Undecodable, wrap } from "./forms.js";
import type { Raw } from "./forms.js";
import { random } from "./json.js";
import { clock, RunningJob } from "./running.js";
import { Bell, Pauses, sleep } from "./transport.js";
import { Verdict } from "./verdicts.js";

/** Runs one step of a job. What it resolves to is the result: undefined for none, a Uint8Array, or anything that encodes as JSON. */
export type Handler = (job: RunningJob) => unknown;

/** Options of a worker. */
export interface WorkerOptions {
  /** Handlers that run at the same time. Default 10. */
  concurrency?: number;
  /** In the order in which to look. Default: "default". */
  queues?: string[];
  /** Seconds for which a dead worker keeps its jobs: 1 to 3600, default 30. A living one extends every third of it. */
  lease?: number;
  /** Seconds for which handlers may go on after a stop. Default 30. */
  grace?: number;
  /** A label for people. Default: "node". */
  name?: string;
  /** Gets what goes wrong between worker and server. Default: console.warn. */
  warn?: (message: string) => void;
}

const maxBatch = 1000; // leases of one call
const maxText = 32 << 10; // characters of an error with its stack
const react = 1.5; // seconds for handlers to return after they were asked to stop
const report = 2; // seconds for the server to take the last reports

declare const process: { on(name: string, fn: () => void): void; off(name: string, fn: () => void): void } | undefined;

/**
 * Runs handlers, `concurrency` at a time.
 *
 * An error that a handler throws lets the job be tried again by its policy; the verdicts (Await, Snooze, Hold, Retry, Fail, Cancel) end the step
 * otherwise. Leases are extended by a timer: a handler that computes without awaiting anything for longer than a sixth of the lease costs its lease, so
 * such work belongs in a worker thread.
 *
 * While the server is away the worker goes on: it asks again, at growing intervals of up to 5 s, and repeats its reports until they are answered.
 */
export class Worker {
  readonly client: Client;
  readonly concurrency: number;
  readonly queues: string[];
  readonly lease: number;
  grace: number;
  /** Random per worker. */
  readonly id: string;
  private readonly warn: (message: string) => void;
  private readonly handlers = new Map<string, Handler>();
  private readonly steps = new Map<string, RunningJob>();
  private readonly stopping = new Bell();
  private readonly ended = new Bell();
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
    this.warn = options.warn ?? ((m) => console.warn(m));
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
   * Under Node SIGINT and SIGTERM stop it, unless `signals` is false. A SojournError that no repetition helps, such as Unauthorized, ends it too and
   * rejects.
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
      await Promise.all(loops);
      signals.forEach((s) => process!.off(s, stop));
    }
  }

  /** Makes `run` claim nothing more and drain. */
  stop(): void {
    this.stopping.abort();
  }

  // Claims.

  private async claimLoop(): Promise<void> {
    const pauses = new Pauses(0.1, 5);
    while (!this.stopping.aborted) {
      const room = Math.min(this.concurrency - this.steps.size, maxBatch);
      if (room <= 0) {
        await this.change(this.lease);
        continue;
      }
      try {
        await this.claim(room, this.stopping);
        pauses.reset();
      } catch (e) {
        if (this.stopping.aborted) {
          break;
        }
        if (e instanceof SojournError && e.code === "worker_drained") { // an operator wants it to end; nothing was taken
          this.unknown = false;
          break;
        }
        if (!(e instanceof SojournError) || !e.retryable) {
          throw e;
        }
        this.warn(`sojourn: claim: ${e.message}`);
        await sleep(pauses.next(), this.stopping);
      }
    }
    if (this.unknown) { // the claim that was broken off may have taken jobs
      await this.claim(this.concurrency).catch((e) => this.warn(`sojourn: claim: ${e.message}`));
    }
  }

  /**
   * Takes jobs and starts them. After a claim whose outcome is unknown the next one carries the same number and does not wait, so that no job is lost to
   * an answer that nobody got.
   */
  private async claim(room: number, signal?: Bell): Promise<void> {
    const wait = this.unknown ? 0 : Math.min(30, this.lease / 3);
    const body = { worker: this.id, number: this.number + 1, queues: this.queues, kinds: [...this.handlers.keys()], max: room, lease: `${this.lease}s`,
      wait: `${wait}s` };
    this.unknown = true;
    const sent = clock();
    const a = await this.client.transport.call("POST", "/v1/claim", body, { safe: true, wait, retryFor: 0, timeout: this.lease, signal });
    this.number++;
    this.unknown = false;
    for (const claimed of a.jobs ?? []) {
      const job = new RunningJob(this, claimed, sent);
      this.steps.set(keyOf(job.lease), job);
      void (this.stopping.aborted ? this.report(job, { type: "released" }) : this.step(job).then((o) => this.report(job, o)));
    }
  }

  // Leases. A claim waits a third of the lease at most, all leases are extended every third of it in one call, and a handler is asked to stop a sixth
  // before the lease ends, counted from before the request was sent that won or extended it. So two requests in a row may fail before a handler is
  // stopped, and it is stopped before another worker can have its job.

  private async extendLoop(): Promise<void> {
    const every = this.lease / 3;
    for (let pause = every; ; ) {
      await sleep(pause, this.ended);
      if (this.ended.aborted) {
        return;
      }
      pause = every;
      const steps = [...this.steps.values()].filter((s) => s.extends);
      for (let i = 0; i < steps.length; i += maxBatch) {
        try {
          await this.extend(steps.slice(i, i + maxBatch), every);
        } catch (e) {
          this.warn(`sojourn: extend: ${(e as Error).message}`);
          pause = every / 10;
        }
      }
    }
  }

  private async extend(steps: RunningJob[], limit: number): Promise<void> {
    const sent = clock();
    const a = await this.client.transport.call("POST", "/v1/extend", { leases: steps.map((s) => s.lease) },
      { safe: true, retryFor: 0, timeout: limit, signal: this.ended });
    const lost = new Map<string, string>((a.lost ?? []).map((l: Raw) => [keyOf(l.lease), l.reason]));
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
        if (now >= s.until - this.lease / 6) {
          s.askToStop(s.extends ? "lease_lost" : "lease_over");
        }
      }
    }
  }

  // Steps.

  /** Runs the handler and says what became of the step. */
  private async step(job: RunningJob): Promise<Raw> {
    const fn = this.handlers.get(job.kind);
    if (!fn || (job.purpose !== "start" && job.purpose !== "resume")) {
      return { type: "released" }; // a server that hands out what nobody asked for
    }
    try {
      void job.args;
    } catch (e) {
      return { type: "undecodable", reason: "undecodable", error: (e as Undecodable).message };
    }
    try {
      const result = await fn(job);
      if (result === undefined) {
        return { type: "completed" };
      }
      const { bytes, contentType } = encode(result, "", "result");
      return { type: "completed", result: wrap(bytes), result_type: contentType };
    } catch (e) {
      const outcome = e instanceof Verdict ? e.outcome() : { type: "error", reason: reasonOf(e), error: textOf(e) };
      return outcome.type === "error" ? endedBy(job, outcome) : outcome;
    }
  }

  /**
   * Reports until it is answered, because repeating is safe; the lease is extended meanwhile. The first report of a step counts, and one that was lost
   * has none.
   */
  private async report(job: RunningJob, o: Raw): Promise<void> {
    if (job.phase !== "running") {
      return;
    }
    job.phase = "reported";
    let outcome: Raw = { ...o, lease: job.lease, log: job.lines };
    const pauses = new Pauses(0.05, 5);
    for (let refused = 0; !this.ended.aborted; ) {
      let code: string, text: string;
      try {
        const a = await this.client.transport.call("POST", "/v1/finish", { outcomes: [outcome] },
          { safe: true, retryFor: 0, timeout: this.lease, signal: this.ended });
        const answer = a.outcomes[0];
        if (answer.status === "lost") {
          this.warn(`sojourn: job ${job.id}: the lease is lost: ${answer.reason ?? ""}`);
        }
        if (answer.status !== "refused") {
          break;
        }
        code = answer.error?.code ?? "invalid";
        text = answer.error?.detail ?? "the server refused the outcome";
      } catch (e) {
        if (e instanceof LeaseLost) {
          break;
        }
        if (e instanceof SojournError && e.retryable) {
          this.warn(`sojourn: finish: ${e.message}`);
          await sleep(pauses.next(), this.ended);
          continue;
        }
        code = e instanceof SojournError ? (e.code === "body_too_large" ? "too_large" : e.code) : "invalid";
        text = (e as Error).message;
      }
      if (++refused > 2) {
        this.warn(`sojourn: job ${job.id}: the server refuses each report; its lease will end: ${text}`);
        break;
      }
      // The error in the place of what the server refuses: once with the log, once without.
      outcome = { type: "error", reason: code, error: text, lease: job.lease, log: refused === 1 ? job.lines : [] };
    }
    this.forget(job);
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

function reasonOf(e: unknown): string {
  return e instanceof SojournError ? e.code : e instanceof Error ? e.name : typeof e;
}

function textOf(e: unknown): string {
  const text = e instanceof Error ? `${e.name}: ${e.message}\n${e.stack ?? ""}` : String(e);
  return text.slice(0, maxText);
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
