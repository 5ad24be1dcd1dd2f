import { LeaseLost, make, ofProblem } from "./errors.js";
import type { SojournError } from "./errors.js";
import { Job, listed, secondsOf, typed, wellFormed, wrap } from "./forms.js";
import type { Raw, Response } from "./forms.js";
import { stringify } from "./json.js";
import { sleep } from "./transport.js";
import { Await } from "./verdicts.js";
import type { WaitOptions } from "./verdicts.js";
import type { Worker } from "./worker.js";

/**
 * Why a handler should stop: the grace of a stop is over; somebody ended the job; another worker may have it; its leases are not extended; a limit of the
 * job has passed; its windows have closed.
 */
export type StopReason = "shutdown" | "cancelled" | "lease_lost" | "lease_over" | "run_timeout" | "timeout" | "deadline" | "window";

/** The reason of `signal` of a job that should stop, thrown by `check` and `sleep`. A handler may let it pass, or clean up first. */
export class Stopped extends Error {
  override name = "Stopped";
  readonly reason: StopReason;

  constructor(reason: StopReason) {
    super("the job should stop: " + reason);
    this.reason = reason;
  }
}

/** @internal Seconds on a clock that only goes forward. */
export const clock = () => performance.now() / 1000;

/**
 * The job that a handler gets. Its methods write under the job's lease.
 *
 * A handler that takes long passes `signal` on, or calls `check` or `sleep`. After the reasons cancelled and lease_lost nothing of the step is stored.
 */
export class RunningJob extends Job {
  /** Send it back as it is with calls of your own under the lease. */
  readonly lease: { id: number; epoch: number; worker: string };
  readonly purpose: string;
  /** Capability of this attempt: whoever has it may answer it. */
  readonly token: string;
  /** @internal */ phase: "running" | "reported" | "gone" = "running";
  /** @internal */ until: number;
  /** @internal */ extends: boolean;
  /** @internal When its outcome was first sent; 0 before. */ reported = 0;
  /** @internal */ readonly limits: [StopReason, number][];
  /** @internal */ readonly lines: Raw[] = [];
  private readonly worker: Worker;
  private readonly stop = new AbortController();

  /** @internal */
  constructor(worker: Worker, claimed: Raw, sent: number) {
    super(claimed.job);
    this.worker = worker;
    typed(claimed.lease.epoch, "number");
    typed(claimed.lease.worker, "string");
    if (claimed.lease.id !== this.id) {
      throw new TypeError("the lease of another job");
    }
    this.lease = claimed.lease;
    this.purpose = typed(claimed.purpose, "string");
    this.token = claimed.job.token ?? "";
    this.rawResult = undefined; // of an earlier generation, if anything
    this.resultType = "";
    this.until = sent + (secondsOf(claimed.lease_for) || worker.lease);
    const policy = claimed.job.policy ?? {};
    this.extends = !policy.no_extend;
    const limits: [StopReason, unknown][] = [["run_timeout", policy.run_timeout], ["timeout", claimed.timeout], ["deadline", claimed.deadline],
      ["window", claimed.window]];
    this.limits = limits.flatMap(([name, text]): [StopReason, number][] => (text ? [[name, clock() + secondsOf(text)]] : []));
  }

  /** Aborted when the handler should stop, with a Stopped as its reason. */
  get signal(): AbortSignal {
    return this.stop.signal;
  }

  get stopReason(): StopReason | undefined {
    return (this.stop.signal.reason as Stopped | undefined)?.reason;
  }

  /** Throws Stopped if the handler should stop. */
  check(): void {
    if (this.stop.signal.aborted) {
      throw this.stop.signal.reason;
    }
  }

  /** Sleeps, and throws Stopped as soon as the handler should stop. */
  async sleep(seconds: number): Promise<void> {
    await sleep(seconds, this.signal);
    this.check();
  }

  /**
   * Stores a checkpoint, which this and later attempts find in `checkpoint`: a Uint8Array, or anything that encodes as JSON. It is on disk when this
   * resolves, and the lease is extended. LeaseLost if the step does not own the job any more.
   */
  async save(checkpoint: unknown): Promise<void> {
    const bytes = checkpoint instanceof Uint8Array ? checkpoint : new TextEncoder().encode(stringify(checkpoint, "checkpoint"));
    await this.write({ checkpoint: wrap(bytes) });
    this.rawCheckpoint = bytes;
  }

  /** Stores a short text for people. */
  async setProgress(text: string): Promise<void> {
    await this.write({ progress: wellFormed(String(text)) });
  }

  /** Gives a job without a key its key, at once and durably, so that responses find it. Conflict if another live job of the kind has it. */
  async setKey(key: string): Promise<void> {
    await this.write({ key });
    this.key = key;
  }

  /** Adds a line to the job's own log, stored when the step ends: the first and the newest 99 are kept. */
  log(text: string, level = "info"): void {
    this.lines.push({ attempt: this.attempt, level: wellFormed(String(level)), text: wellFormed(String(text)) });
    if (this.lines.length > 100) {
      const [dropped] = this.lines.splice(1, 1);
      this.lines[1]!.dropped = (this.lines[1]!.dropped ?? 0) + (dropped!.dropped ?? 0) + 1;
    }
  }

  /**
   * The answer in hand. Without one the step ends here: the job is parked, holds no room in the worker, and its handler is called anew, from its
   * beginning, when the answer has come. So ask the other side only `if (!job.response)`.
   *
   * With keys, the answer under any of them. Throw an Await yourself to wait for a second answer.
   */
  awaitAnswer(options: WaitOptions & { keys?: string[] } = {}): Response {
    const r = this.response;
    if (r && (!options.keys?.length || options.keys.includes(r.key))) {
      return r;
    }
    throw new Await(options);
  }

  /** One answer under each of the keys, in their order. The step ends here until all are there, as with `awaitAnswer`. */
  awaitAll(keys: string[], options: WaitOptions = {}): Response[] {
    const have = keys.map((k) => this.responses.find((r) => r.key === k));
    if (keys.length > 0 && have.every(Boolean)) {
      return have as Response[];
    }
    throw new Await({ ...options, keys, all: true });
  }

  /**
   * The jobs that this one depended on when it became blocked, with their results, in the order of their ids. The token needs `read_args` for them; those
   * that it may not read are left out.
   */
  parents(): Promise<Job[]> {
    return this.worker.client.parents(this.id);
  }

  /**
   * The children that this job has stored in its stage (AwaitJobs), with their results, in the order of their ids. The token needs `read_args` for them;
   * those that it may not read are left out.
   */
  children(): Promise<Job[]> {
    return this.worker.client.awaited(this.id);
  }

  private async write(item: Raw): Promise<void> {
    if (this.phase !== "running") {
      throw make("lease_lost", "the step does not own its job any more");
    }
    const sent = clock();
    const lease = this.worker.lease;
    const e: SojournError | null = await this.worker.client.transport.call("POST", "/v1/save", { items: [{ ...item, lease: this.lease }] }, { safe: true,
      timeout: Math.max(lease / 2, 1), retryFor: Math.max(lease, 10), read: (a) => (listed(a, "errors", 1)[0] === null ? null : ofProblem(a.errors[0])) });
    if (!e) {
      this.worker.extended([this], sent);
      return;
    }
    if (e instanceof LeaseLost) {
      this.worker.lose(this, "ended");
    }
    throw e;
  }

  /** @internal */
  askToStop(reason: StopReason): void {
    if (!this.stop.signal.aborted) {
      this.stop.abort(new Stopped(reason));
    }
  }
}
