import { IdExpired, make, ofProblem, SojournError } from "./errors.js";
import { EventCalls } from "./events.js";
import { dependForms, durationText, encode, enqueuedOf, idOf, Job, listed, NewJob, typed, wrap } from "./forms.js";
import type { Dependency, Duration, Enqueued, JobOptions, JobState, Parent, Raw, Responded } from "./forms.js";
import { random } from "./json.js";
import { Schedules } from "./schedules.js";
import { Transport } from "./transport.js";
import { Workflows } from "./workflows.js";

const block = 1000; // ids that are drawn at once
const page = 1000; // jobs of one answer

/** Options of a client. */
export interface ClientOptions {
  /** One of `sojourn token create`. */
  token?: string;
  /** Seconds that a whole answer may take, beside the time that a call is meant to wait. Default 60. */
  timeout?: number;
  /**
   * Seconds for which calls are repeated while the server is away, overloaded, shutting down or limiting the token's rate, or something in between answers
   * in its place. Default 10, 0 for not at all.
   */
  retryFor?: number;
  /** Sends the token over http:// to another machine too. */
  cleartext?: boolean;
}

/** What `find` looks for. Everything that is set must match. */
export interface JobFilter {
  ids?: number[];
  kind?: string;
  /** With kind: the live job of the key, else the newest final one. */
  key?: string;
  queue?: string;
  states?: JobState[];
  group?: string;
  tag?: string;
  reason?: string;
  createdAfter?: Date;
  createdBefore?: Date;
  /** Only final jobs that ended after it. */
  endedAfter?: Date;
  /** Only final jobs that ended before it. */
  endedBefore?: Date;
  /** More conditions as text, such as `kind:charge state:awaiting age:>10m`. One that another field has is refused. */
  where?: string;
  /** The id of a failure group: its failed jobs, and live jobs whose last step failed with this cause. */
  failure?: string;
  /** The last id of the page before. */
  after?: number;
  /** 1 to 1,000; default 100. */
  limit?: number;
  newest?: boolean;
  /** With args, result, checkpoint and responses. */
  full?: boolean;
  /** With ids: wait up to this long until one matches; at most 60 s. */
  wait?: Duration;
  /** The jobs that this job depends on, also those that have ended. */
  parentsOf?: number;
  /** The jobs that depend on this one. */
  childrenOf?: number;
  /** The children that this job has stored and awaits. */
  awaitedBy?: number;
}

/** An answer to a job: by kind and key, by job, or by the token of one attempt. */
export interface NewResponse {
  kind?: string;
  key?: string;
  job?: number;
  token?: string;
  /** A Uint8Array, or anything that encodes as JSON. */
  body?: unknown;
  contentType?: string;
  /** The sender's own: a repeat of it is a duplicate. Without one, a random one makes repeats of this very call safe. */
  messageId?: string;
  source?: string;
  /** An error response, which ends the attempt with reason and error. */
  failed?: boolean;
  /** A sign of life, which answers nothing. */
  progress?: boolean;
  reason?: string;
  error?: string;
  ttl?: Duration;
}

/** Who ends a job, and why. */
export interface EditOptions {
  by?: string;
  reason?: string;
  /** Leave a running job alone: Conflict. */
  refuseRunning?: boolean;
}

/** What becomes of blocked jobs that would wait for ever: they are cancelled or released. Without it Conflict names them. */
export interface DependentsOptions {
  dependents?: "cancel" | "release";
}

/**
 * A server's jobs.
 *
 * Only calls with the same effect as once are repeated: an enqueue has its id and a response its message id before the first try. Connections are kept
 * by fetch. Under Node the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY are honoured, in lower case too; a server on this machine is reached directly.
 */
export class Client extends EventCalls {
  /** The calls about schedules. */
  readonly schedules: Schedules;
  /** The calls about workflows. */
  readonly workflows: Workflows;
  private at = 0;
  private limit = 0;
  private drawing: Promise<unknown> = Promise.resolve();

  constructor(url = "http://127.0.0.1:7575", options: ClientOptions = {}) {
    const retryFor = options.retryFor ?? 10;
    super(new Transport(url, { token: options.token ?? "", timeout: options.timeout ?? 60, retryFor, cleartext: options.cleartext ?? false }), retryFor);
    this.schedules = new Schedules(this.transport);
    this.workflows = new Workflows(this.transport);
  }

  /** Ends the calls under way. */
  close(): void {
    this.transport.close();
  }

  /** Any other call of the API, such as `request("GET", "/v1/queues")`. Bytes come as Uint8Array. `safe`: it may be repeated. */
  request(method: string, path: string, body?: unknown, options: { safe?: boolean } = {}): Promise<any> {
    return this.transport.call(method, path, body, { safe: options.safe || method === "GET" });
  }

  /**
   * Stores a job: a kind with args and options, or a NewJob. It is on disk when this resolves. After UnknownOutcome or Unavailable, calling again with
   * the same NewJob is safe.
   */
  async enqueue(job: string | NewJob, args?: unknown, options?: JobOptions): Promise<Enqueued> {
    try {
      return (await this.enqueueMany([typeof job === "string" ? new NewJob(job, args, options) : job]))[0]!;
    } catch (e) {
      if (e instanceof SojournError) {
        e.index = undefined;
      }
      throw e;
    }
  }

  /** Stores up to 1,000 jobs, all or none. With `partial` each for itself: `Enqueued.error` has what was wrong with it. */
  async enqueueMany(jobs: NewJob[], options: { partial?: boolean } = {}): Promise<Enqueued[]> {
    const mine = new Set(jobs.filter((j) => !j.id));
    await this.giveIds([...mine]);
    let out: Enqueued[], again: number[];
    try {
      out = await this.send(jobs, options.partial ?? false);
      again = out.flatMap((e, i) => (e.error instanceof IdExpired && mine.has(jobs[i]!) ? [i] : []));
    } catch (e) {
      if (!(e instanceof IdExpired) || mine.size === 0) {
        throw e;
      }
      out = [];
      again = jobs.map((_, i) => i);
    }
    if (again.length > 0) { // ids out of an old block, which the server has refused before it wrote anything
      this.at = this.limit = 0;
      await this.giveIds(again.map((i) => jobs[i]!).filter((j) => mine.has(j)));
      const answers = await this.send(again.map((i) => jobs[i]!), options.partial ?? false);
      again.forEach((i, k) => { out[i] = answers[k]!; });
    }
    return out;
  }

  private async send(jobs: NewJob[], partial: boolean): Promise<Enqueued[]> {
    if (jobs.length === 0) {
      return [];
    }
    const forms = jobs.map((j, i) => {
      try {
        return j.form();
      } catch (e) {
        if (e instanceof SojournError) {
          e.index = i;
        }
        throw e;
      }
    });
    return this.transport.call("POST", "/v1/jobs/batch", { jobs: forms, partial },
      { safe: true, read: (a) => listed(a, "jobs", forms.length).map(enqueuedOf) });
  }

  /** Gives ids out of a block, so that most enqueues need no request for theirs. One at a time draws a block. */
  private giveIds(jobs: NewJob[]): Promise<void> {
    const give = async () => {
      if (this.limit - this.at < jobs.length) {
        const count = Math.max(block, jobs.length);
        this.at = await this.drawIds(count);
        this.limit = this.at + count;
      }
      jobs.forEach((j) => { j.id = this.at++; });
    };
    const given = this.drawing.then(give);
    this.drawing = given.catch(() => undefined);
    return given;
  }

  /** Draws 1 to 10,000 ids and returns the first; they are consecutive, and good for new jobs for 15 minutes. */
  async drawIds(count: number): Promise<number> {
    return this.transport.call("POST", "/v1/ids", { count }, { safe: true, read: (a) => typed(a.first, "number") });
  }

  /** A job, complete. NotFound if there is none. */
  async get(id: number): Promise<Job> {
    return this.transport.call("GET", `/v1/jobs/${id}`, undefined, { safe: true, read: (a) => jobOf(a, id) });
  }

  /** The live job of a kind that has the key, else the newest final one. NotFound if there is none. */
  async getByKey(kind: string, key: string): Promise<Job> {
    const [job] = await this.find({ kind, key, full: true });
    if (!job) {
      throw make("not_found", `no job of kind ${kind} has the key ${key}`, { status: 404 });
    }
    return job;
  }

  /** Lists jobs. */
  async find(f: JobFilter): Promise<Job[]> {
    const body = { ids: f.ids, kind: f.kind, key: f.key, queue: f.queue, states: f.states, group: f.group, tag: f.tag, reason: f.reason,
      created_after: f.createdAfter, created_before: f.createdBefore, ended_after: f.endedAfter,
      ended_before: f.endedBefore, failure: f.failure, after: f.after, limit: f.limit, newest: f.newest, full: f.full,
      parents_of: f.parentsOf, children_of: f.childrenOf, awaited_by: f.awaitedBy, where: f.where,
      wait: f.wait === undefined ? undefined : durationText(f.wait, "wait") };
    return this.transport.call("POST", "/v1/jobs/find", body, { safe: true, read: (a) => listed(a, "jobs").map((j: Raw) => new Job(j)) });
  }

  /** The jobs that a job depends on, complete, also those that have ended, in the order of their ids. */
  parents(id: number): Promise<Job[]> {
    return this.related({ parentsOf: id });
  }

  /** The jobs that depend on a job, complete, in the order of their ids. */
  children(id: number): Promise<Job[]> {
    return this.related({ childrenOf: id });
  }

  /** The children that a job has stored and awaits (AwaitJobs), complete, in the order of their ids. */
  awaited(id: number): Promise<Job[]> {
    return this.related({ awaitedBy: id });
  }

  private async related(of: JobFilter): Promise<Job[]> {
    const all: Job[] = [];
    for (;;) {
      const found = await this.find({ ...of, full: true, limit: page, after: all.at(-1)?.id });
      all.push(...found);
      if (found.length < page) {
        return all;
      }
    }
  }

  /** The job once it is completed, failed or cancelled. A DOMException named TimeoutError after `timeout` seconds; default: no limit. */
  async wait(id: number, options: { timeout?: number; signal?: AbortSignal } = {}): Promise<Job> {
    const end = options.timeout === undefined ? Infinity : performance.now() / 1000 + options.timeout;
    for (;;) {
      const poll = Math.max(Math.min(30, end - performance.now() / 1000), 0);
      const job: Job = await this.transport.call("GET", `/v1/jobs/${id}?wait=${durationText(poll, "wait")}`, undefined,
        { safe: true, wait: poll, signal: options.signal, read: (a) => jobOf(a, id) });
      if (job.final) {
        return job;
      }
      if (performance.now() / 1000 >= end) {
        throw new DOMException(`job ${id} is still ${job.state} after ${options.timeout} s`, "TimeoutError");
      }
    }
  }

  /** What happened to a job, oldest first, as the API writes it. */
  async history(id: number): Promise<Raw[]> {
    return this.transport.call("GET", `/v1/jobs/${id}/history`, undefined, { safe: true, read: (a) => listed(a, "history") });
  }

  /** Answers a job. It is on disk when this resolves. */
  async respond(r: NewResponse): Promise<Responded> {
    const form: Raw = { kind: r.kind, key: r.key, job: r.job, token: r.token, message_id: r.messageId || random(16), source: r.source, failed: r.failed,
      progress: r.progress, reason: r.reason, error: r.error, content_type: r.contentType };
    if (r.body !== undefined) {
      const { bytes, contentType } = encode(r.body, r.contentType ?? "", "body");
      form.body = wrap(bytes);
      form.content_type = contentType;
    }
    if (r.ttl !== undefined) {
      form.ttl = durationText(r.ttl, "ttl");
    }
    return this.transport.call("POST", "/v1/responses", form, { safe: true,
      read: (a) => ({ outcome: typed(a.outcome, "string"), job: typed(a.job ?? 0, "number"), seq: typed(a.seq ?? 0, "number") }) });
  }

  /** Cancels a live job, a running one at once. Conflict if it ended otherwise; one that is cancelled already is no error. */
  cancel(id: number, o: EditOptions & DependentsOptions = {}): Promise<void> {
    return this.edit(id, { action: "cancel", by: o.by, reason: o.reason, refuse: o.refuseRunning, dependents: o.dependents }, true);
  }

  /** Ends the lease of a running job, which goes on with its attempt at the next claim. Its worker's report is refused. Conflict if it does not run. */
  release(id: number, o: { by?: string; reason?: string } = {}): Promise<void> {
    return this.edit(id, { action: "release", by: o.by, reason: o.reason }, false);
  }

  /** Deletes a final job; its id is never used again. */
  purge(id: number, o: { by?: string; reason?: string } & DependentsOptions = {}): Promise<void> {
    return this.edit(id, { action: "purge", by: o.by, reason: o.reason, dependents: o.dependents }, false);
  }

  /** Adds dependencies to a blocked job. Conflict if it is not blocked, or if they would form a cycle. */
  async depend(id: number, parents: (Parent | Dependency)[], o: { by?: string } = {}): Promise<void> {
    await this.edit(id, { action: "change", by: o.by, change: { depend_on: dependForms(named(parents, "depend_on")) } }, true);
  }

  /** Removes dependencies of a blocked job. It is released if none is left. */
  async undepend(id: number, parents: Parent[], o: { by?: string } = {}): Promise<void> {
    await this.edit(id, { action: "change", by: o.by, change: { undepend: named(parents, "undepend").map(idOf) } }, true);
  }

  /** Removes all dependencies of a blocked job, which releases it. */
  undependAll(id: number, o: { by?: string } = {}): Promise<void> {
    return this.edit(id, { action: "change", by: o.by, change: { undepend: [] } }, true);
  }

  /** Fails a live job. */
  fail(id: number, o: EditOptions = {}): Promise<void> {
    return this.edit(id, { action: "fail", by: o.by, reason: o.reason, refuse: o.refuseRunning }, true);
  }

  /** Runs a failed or cancelled job again, in the next generation. With `generation`, the present one, a second call is a Conflict. */
  redrive(id: number, o: { generation?: number; by?: string } = {}): Promise<void> {
    return this.edit(id, { action: "redrive", generation: o.generation, by: o.by }, false);
  }

  private async edit(id: number, edit: Raw, safe: boolean): Promise<void> {
    const errors: (SojournError | undefined)[] = await this.transport.call("POST", "/v1/jobs/edit", { filter: { ids: [id] }, edit },
      { safe, read: (a) => listed(a, "items").map((i) => i.error && ofProblem(i.error)) });
    if (errors.length === 0) {
      throw make("not_found", `no job has the id ${id}`, { status: 404 });
    }
    if (errors[0]) {
      throw errors[0];
    }
  }
}

/** The list, if it is not empty: an empty one would mean all. */
function named<T>(list: T[], field: string): T[] {
  if (list.length === 0) {
    throw make("invalid", "name at least one job", { field });
  }
  return list;
}

function jobOf(answer: Raw, id: number): Job {
  const job = new Job(answer);
  if (job.id !== id) {
    throw new TypeError("another job");
  }
  return job;
}
