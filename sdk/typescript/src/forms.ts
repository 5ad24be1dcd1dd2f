// The forms of jobs, responses, durations and bytes.

import { make, ofProblem, SojournError } from "./errors.js";
import { parse, stringify } from "./json.js";

/** Seconds, or a text with its unit, such as "90s", "1.5h" or "1h30m". */
export type Duration = number | string;

export type JobState = "blocked" | "scheduled" | "ready" | "running" | "awaiting" | "errored" | "completed" | "failed" | "cancelled";

/** Bytes that are said to be JSON are not. */
export class Undecodable extends Error {
  override name = "Undecodable";
}

/** An object of the API. */
export type Raw = Record<string, any>;

/** A duration as the API writes it. */
export function durationText(d: Duration, name: string): string {
  if (typeof d === "string") {
    return d; // the server checks it
  }
  if (!Number.isFinite(d) || d < 0) {
    throw make("invalid", `${d} is not a duration: give seconds, 0 or more, or a text such as "90s"`, { field: name });
  }
  return d.toFixed(9).replace(/\.?0+$/, "") + "s";
}

/** What an answer says of a duration, in seconds; they are all written in seconds. */
export function secondsOf(text: unknown): number {
  return typeof text === "string" ? Number(text.slice(0, -1)) : 0;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const mended = new TextDecoder("utf-8", { ignoreBOM: true });

/** The text with each lone surrogate replaced, which no UTF-8 has. */
export function wellFormed(text: string): string {
  return mended.decode(new TextEncoder().encode(text));
}

/** The list of that name in an answer. TypeError if there is none, or one of another length. */
export function listed(answer: any, name: string, count?: number): any[] {
  const items = answer?.[name];
  if (!Array.isArray(items) || (count !== undefined && items.length !== count)) {
    throw new TypeError(`${name} is not the list that was asked for`);
  }
  return items;
}

/** The value, if it is of that type. TypeError otherwise. */
export function typed<T extends number | string>(value: unknown, type: "number" | "string"): T {
  if (typeof value !== type) {
    throw new TypeError(`a ${typeof value} is no ${type}`);
  }
  return value as T;
}

export function timeText(t: Date | undefined, name: string): string | undefined {
  if (t !== undefined && !(t instanceof Date && Number.isFinite(t.getTime()))) {
    throw make("invalid", "is not a valid Date", { field: name });
  }
  return t?.toISOString();
}

/** Bytes as the API takes them, exactly. */
export function wrap(b: Uint8Array): Raw {
  let text = "";
  for (let i = 0; i < b.length; i += 0x8000) { // more arguments at once overflow the stack
    text += String.fromCharCode(...b.subarray(i, i + 0x8000));
  }
  return { $base64: btoa(text) };
}

/** An answer in the exact form: what is not plain JSON in it comes as base64 and becomes bytes. */
export function parseAnswer(text: string): unknown {
  return parse(text, (v) => {
    if (v !== null && typeof v === "object" && typeof (v as Raw).$base64 === "string" && Object.keys(v).length === 1) {
      return Uint8Array.from(atob((v as Raw).$base64), (c) => c.charCodeAt(0));
    }
    return v;
  });
}

/** Uint8Array and ArrayBuffer stay as they are, everything else becomes JSON. */
export function encode(value: unknown, contentType: string, name: string): { bytes: Uint8Array; contentType: string } {
  if (value instanceof ArrayBuffer) {
    value = new Uint8Array(value);
  }
  if (value instanceof Uint8Array) {
    return { bytes: value, contentType: contentType || "application/octet-stream" };
  }
  return { bytes: new TextEncoder().encode(stringify(value, name)), contentType: contentType || "application/json" };
}

/** JSON if the content type says so, or if there is none and they are; else the bytes themselves. undefined for no bytes. */
export function decode(b: Uint8Array | undefined, contentType: string): any {
  if (b === undefined) {
    return undefined;
  }
  const media = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  if (media && media !== "application/json" && !media.endsWith("+json")) {
    return b;
  }
  try {
    return parse(utf8.decode(b));
  } catch (e) {
    if (media) {
      throw new Undecodable(`said to be ${media}, but it is not: ${(e as Error).message}`);
    }
    return b;
  }
}

function textOf(v: unknown): string {
  return v instanceof Uint8Array ? mended.decode(v) : String(v ?? "");
}

function bytesOf(v: unknown): Uint8Array | undefined {
  return v instanceof Uint8Array ? v : v === undefined || v === null ? undefined : new TextEncoder().encode(stringify(v, "answer"));
}

export function timeOf(v: unknown): Date | undefined {
  return typeof v === "string" ? new Date(v) : undefined;
}

/** The pause before the next attempt: first, first × factor, …, at most limit; jitter is the random part, 0 to 1. */
export interface Backoff {
  first?: Duration;
  factor?: number;
  limit?: Duration;
  jitter?: number;
}

/** How a job is retried and bounded. What is left out comes from its queue and the server. */
export interface Policy {
  maxAttempts?: number;
  maxCrashes?: number;
  runTimeout?: Duration;
  timeout?: Duration;
  deadline?: Duration;
  decideWithin?: Duration;
  keepKey?: Duration;
  backoff?: Backoff;
  onLost?: "retry" | "fail";
  lateToInbox?: boolean;
  noExtend?: boolean;
  windows?: unknown[];
  stopAtWindowEnd?: boolean;
}

const durations = new Set(["run_timeout", "timeout", "deadline", "decide_within", "keep_key", "first", "limit"]);

/** The names and durations of a policy as the API writes them. */
function policyForm(policy: object): Raw {
  const out: Raw = {};
  for (const [name, value] of Object.entries(policy)) {
    const snake = name.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase());
    if (snake === "backoff") {
      out[snake] = policyForm(value as object);
    } else {
      out[snake] = durations.has(snake) && typeof value === "number" ? durationText(value, snake) : value;
    }
  }
  return out;
}

/** A job that another one waits for: its id, or itself, such as a NewJob that is earlier in the same `enqueueMany`. */
export type Parent = number | { readonly id: number };

/** Jobs that another job waits for, and what becomes of it if they do not complete. */
export interface Dependency {
  jobs: Parent[];
  /** Default "wait": it stays blocked, because a redrive can still release it. */
  onFailure?: "wait" | "cancel" | "fail" | "ignore";
  /** The end of the present stage is enough. */
  onStage?: boolean;
  /** A job that does not exist any more counts as completed; NotFound otherwise. */
  missingOk?: boolean;
}

/** The id of a job that another one waits for. */
export function idOf(parent: Parent): number {
  const id = typeof parent === "number" ? parent : parent.id;
  if (!id) {
    throw make("invalid", "a job has no id yet: enqueue it before, or in the same enqueueMany", { field: "depends_on" });
  }
  return id;
}

/** Dependencies as the API takes them. Jobs without a Dependency around them have the defaults. */
export function dependForms(dependsOn: (Parent | Dependency)[]): Raw[] {
  const plain: Parent[] = [];
  const out: Raw[] = [];
  for (const d of dependsOn) {
    if (typeof d === "object" && "jobs" in d) {
      out.push({ jobs: d.jobs.map(idOf), on_failure: d.onFailure, on_stage: d.onStage, missing_ok: d.missingOk });
    } else {
      plain.push(d);
    }
  }
  return plain.length > 0 ? [{ jobs: plain.map(idOf) }, ...out] : out;
}

/** Options of a job. */
export interface JobOptions {
  /** The jobs that it waits for. */
  dependsOn?: (Parent | Dependency)[];
  /** Of a child, see AwaitJobs. */
  name?: string;
  queue?: string;
  /** The application's own name, unique per kind while the job is live; responses find the job by it. */
  key?: string;
  group?: string;
  contentType?: string;
  /** Lower first. */
  priority?: number;
  weight?: number;
  tags?: string[];
  meta?: Record<string, string>;
  runAt?: Date;
  delay?: Duration;
  policy?: Policy;
  onConflict?: "existing" | "error" | "replace";
}

/**
 * A job to be enqueued. `args` are a Uint8Array, or anything that encodes as JSON; undefined for none.
 *
 * `id` is filled in by the first call that sends the job, so that sending the same object again means the same job.
 */
export class NewJob {
  id = 0;
  readonly kind: string;
  readonly args: unknown;
  readonly options: JobOptions;

  constructor(kind: string, args?: unknown, options: JobOptions = {}) {
    this.kind = kind;
    this.args = args;
    this.options = options;
  }

  /** The form in which it goes to the server. */
  form(): Raw {
    const o = this.options;
    const out: Raw = { id: this.id || undefined, kind: this.kind, name: o.name, queue: o.queue, key: o.key, group: o.group, content_type: o.contentType,
      priority: o.priority, weight: o.weight, tags: o.tags, meta: o.meta, run_at: timeText(o.runAt, "run_at"), on_conflict: o.onConflict };
    if (this.args !== undefined) {
      const { bytes, contentType } = encode(this.args, o.contentType ?? "", "args");
      out.args = wrap(bytes);
      out.content_type = contentType;
    }
    if (o.delay !== undefined) {
      out.delay = durationText(o.delay, "delay");
    }
    if (o.policy) {
      out.policy = policyForm(o.policy);
    }
    if (o.dependsOn?.length) {
      out.depends_on = dependForms(o.dependsOn);
    }
    return out;
  }
}

/** What became of one job of an enqueue. `duplicate`: it was there before. `error` is set for items of a partial call only. */
export interface Enqueued {
  id: number;
  state: JobState | "none";
  duplicate: boolean;
  replaced: boolean;
  error?: SojournError;
}

export function enqueuedOf(d: Raw): Enqueued {
  if (d.error !== undefined && d.error !== null) {
    return { id: typed(d.id ?? 0, "number"), state: d.state ?? "none", duplicate: false, replaced: false, error: ofProblem(d.error) };
  }
  return { id: typed(d.id, "number"), state: typed(d.state, "string"), duplicate: !!d.duplicate, replaced: !!d.replaced };
}

/** What became of a response: "applied", "early", "duplicate", "late" or "stale". `job` is 0 if no job has it. */
export interface Responded {
  outcome: string;
  job: number;
  seq: number;
}

/** An answer in hand. `rawBody` are its bytes, `body` what they mean; see Job. */
export class Response {
  readonly kind: string;
  readonly key: string;
  readonly messageId: string;
  readonly contentType: string;
  readonly rawBody: Uint8Array | undefined;
  readonly raw: Raw;

  constructor(raw: Raw) {
    this.raw = raw;
    this.kind = textOf(raw.kind);
    this.key = textOf(raw.key);
    this.messageId = textOf(raw.message_id);
    this.contentType = textOf(raw.content_type);
    this.rawBody = bytesOf(raw.body);
  }

  get body(): any {
    return decode(this.rawBody, this.contentType);
  }
}

/**
 * A job as the server shows it.
 *
 * `rawArgs`, `rawResult` and `rawCheckpoint` are the bytes that were stored, exactly. `args`, `result` and `checkpoint` are what they mean: decoded if
 * the content type says JSON, or if there is no content type and they are JSON; else the bytes. Integers beyond 2^53 are bigint. Undecodable is thrown
 * for bytes that are said to be JSON and are not. `raw` has every field of the answer.
 */
export class Job {
  readonly raw: Raw;
  readonly id: number;
  readonly kind: string;
  readonly queue: string;
  key: string;
  readonly group: string;
  readonly state: JobState;
  readonly reason: string;
  readonly error: string;
  readonly contentType: string;
  resultType: string;
  readonly rawArgs: Uint8Array | undefined;
  rawResult: Uint8Array | undefined;
  rawCheckpoint: Uint8Array | undefined;
  readonly rawErrorDetail: Uint8Array | undefined;
  readonly priority: number;
  readonly weight: number;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly generation: number;
  /** How often the job has advanced to a next stage. */
  readonly stage: number;
  /** Number of claims ever. */
  readonly epoch: number;
  /** Of a blocked job: dependencies that are not resolved yet. */
  readonly waitsFor: number;
  /** Of a child, within its parent. */
  readonly name: string;
  /** The children that it has stored in this stage are final. */
  readonly childrenDone: boolean;
  /** The workflow that it belongs to, and its name there. A callback of a workflow is no member. */
  readonly workflow: string;
  readonly member: string;
  /** The schedule that has made it, for its tick at scheduledFor. */
  readonly schedule: string;
  readonly scheduledFor: Date | undefined;
  readonly progress: string;
  readonly tags: string[];
  readonly meta: Record<string, string>;
  readonly runAt: Date | undefined;
  readonly createdAt: Date | undefined;
  readonly finishedAt: Date | undefined;
  readonly response: Response | undefined;
  readonly responses: Response[];

  constructor(raw: Raw) {
    this.raw = raw;
    this.id = typed(raw.id, "number");
    this.kind = textOf(raw.kind);
    this.queue = textOf(raw.queue);
    this.key = textOf(raw.key);
    this.group = textOf(raw.group);
    this.state = raw.state;
    this.reason = textOf(raw.reason);
    this.error = textOf(raw.error);
    this.contentType = textOf(raw.content_type);
    this.resultType = textOf(raw.result_type);
    this.rawArgs = bytesOf(raw.args);
    this.rawResult = bytesOf(raw.result);
    this.rawCheckpoint = bytesOf(raw.checkpoint);
    this.rawErrorDetail = bytesOf(raw.error_detail);
    this.priority = raw.priority ?? 0;
    this.weight = raw.weight ?? 0;
    this.attempt = raw.attempt ?? 0;
    this.failures = raw.failures ?? 0;
    this.crashes = raw.crashes ?? 0;
    this.generation = raw.generation ?? 0;
    this.stage = raw.stage ?? 0;
    this.epoch = raw.epoch ?? 0;
    this.waitsFor = raw.waits_for ?? 0;
    this.name = textOf(raw.name);
    this.childrenDone = !!raw.children_done;
    this.workflow = textOf(raw.workflow);
    this.member = textOf(raw.member);
    this.schedule = textOf(raw.schedule);
    this.scheduledFor = timeOf(raw.scheduled_for);
    this.progress = textOf(raw.progress);
    this.tags = (raw.tags ?? []).map(textOf);
    this.meta = Object.fromEntries(Object.entries(raw.meta ?? {}).map(([k, v]) => [k, textOf(v)]));
    this.runAt = timeOf(raw.run_at);
    this.createdAt = timeOf(raw.created_at);
    this.finishedAt = timeOf(raw.finished_at);
    this.response = raw.response ? new Response(raw.response) : undefined;
    this.responses = (raw.responses ?? []).map((r: Raw) => new Response(r));
  }

  get args(): any {
    return decode(this.rawArgs, this.contentType);
  }

  get result(): any {
    return decode(this.rawResult, this.resultType);
  }

  get checkpoint(): any {
    return decode(this.rawCheckpoint, "");
  }

  /** The JSON that came with `error`, of a job that was read with all fields. */
  get errorDetail(): any {
    return decode(this.rawErrorDetail, "");
  }

  /** Whether it is completed, failed or cancelled, and so never changes. */
  get final(): boolean {
    return this.state === "completed" || this.state === "failed" || this.state === "cancelled";
  }

  /** For the outside, so that it recognises a repeated request: the same over all attempts of a stage, different after a redrive. */
  get idempotencyKey(): string {
    return `${this.raw.instance ?? ""}-${this.id}-${this.generation}-${this.stage}`;
  }
}
