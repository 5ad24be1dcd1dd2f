// Workflows: named groups of jobs that are stored together and wait for each other by name.

import { make } from "./errors.js";
import { durationText, listed, timeOf, typed } from "./forms.js";
import type { Duration, JobState, NewJob, Raw } from "./forms.js";
import type { Transport } from "./transport.js";

const page = 1000; // workflows or members of one answer

/** A member of a workflow: a job with a name. */
export interface Member {
  name: string;
  job: NewJob;
  /** It is blocked until these members have completed. */
  after?: string[];
  /** By names in `after`: what becomes of this member when that one fails or is cancelled; default "wait". */
  onFailure?: Record<string, "wait" | "cancel" | "fail" | "ignore">;
}

/** A workflow to be started. */
export interface Workflow {
  name: string;
  /** At most 1,000; more are appended to an open workflow. */
  members: Member[];
  /** Enqueued when all members are final. */
  onEnd?: NewJob;
  /** Enqueued when the first member fails or is cancelled. */
  onFirstFailure?: NewJob;
  /** It takes further members until it is closed. */
  open?: boolean;
  /** How long it and its name are kept after its end; default 7 days. */
  keep?: Duration;
}

export type WorkflowState = "open" | "running" | "completed" | "failed" | "cancelled";

/** A workflow as the server shows it. `raw` has every field of the answer. */
export class StoredWorkflow {
  readonly raw: Raw;
  readonly name: string;
  readonly state: WorkflowState;
  /** 1, and one more each time that a redrive reopens it. */
  readonly generation: number;
  readonly total: number;
  /** Members by state; in lists those of final ones only. */
  readonly counts: Partial<Record<JobState, number>>;
  /** The callbacks that were enqueued last; 0 for none. */
  readonly endJob: number;
  readonly failureJob: number;
  /** "cancel" or "redrive" while it goes on. */
  readonly doing: string;
  /** Why a callback was not enqueued, or a member not redriven. */
  readonly problem: string;
  readonly owner: string;
  /** Of start and append: all was there before. */
  readonly duplicate: boolean;
  readonly createdAt: Date | undefined;
  readonly endedAt: Date | undefined;

  constructor(raw: Raw) {
    this.raw = raw;
    this.name = typed(raw.name, "string");
    this.state = typed(raw.state, "string") as WorkflowState;
    this.generation = raw.generation ?? 0;
    this.total = raw.total ?? 0;
    this.counts = raw.counts ?? {};
    this.endJob = raw.end_job ?? 0;
    this.failureJob = raw.failure_job ?? 0;
    this.doing = raw.doing ?? "";
    this.problem = raw.problem ?? "";
    this.owner = raw.owner ?? "";
    this.duplicate = !!raw.duplicate;
    this.createdAt = timeOf(raw.created_at);
    this.endedAt = timeOf(raw.ended_at);
  }

  /** Whether all members are final. A redrive can reopen it. */
  get final(): boolean {
    return this.state === "completed" || this.state === "failed" || this.state === "cancelled";
  }
}

/** A member as the server shows it. `kind` and `queue` are empty if retention has deleted its job. */
export interface StoredMember {
  name: string;
  job: number;
  state: JobState;
  kind: string;
  queue: string;
  reason: string;
}

function memberOf(d: Raw): StoredMember {
  return { name: typed(d.name, "string"), job: typed(d.job, "number"), state: typed(d.state, "string") as JobState, kind: d.kind ?? "", queue: d.queue ?? "",
    reason: d.reason ?? "" };
}

function memberForm(m: Member): Raw {
  return { name: m.name, job: m.job.form(), after: m.after, on_failure: m.onFailure };
}

/** The calls about workflows: `client.workflows`. */
export class Workflows {
  private readonly transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.transport = transport;
  }

  /**
   * Stores all members in one transaction. The same workflow again changes nothing: `duplicate`. Conflict if another one has the name.
   */
  start(w: Workflow): Promise<StoredWorkflow> {
    const form: Raw = { members: w.members.map(memberForm), on_end: w.onEnd?.form(), on_first_failure: w.onFirstFailure?.form(), open: w.open,
      keep: w.keep === undefined ? undefined : durationText(w.keep, "keep") };
    return this.send("PUT", path(w.name), form);
  }

  /** Adds members to an open workflow, all or none, at most 1,000. Those that are there with the same content are skipped. */
  append(name: string, members: Member[]): Promise<StoredWorkflow> {
    return this.send("POST", path(name, "/members"), { members: members.map(memberForm) });
  }

  /** Ends the time in which an open workflow takes members. */
  close(name: string): Promise<StoredWorkflow> {
    return this.send("POST", path(name, "/close"), {});
  }

  /** Cancels every member that is not final. Jobs outside of the workflow that wait for a member go on waiting. */
  cancel(name: string, reason?: string): Promise<StoredWorkflow> {
    return this.send("POST", path(name, "/cancel"), { reason });
  }

  /** Runs all failed and cancelled members again, in the order of their dependencies. A workflow that has ended begins its next generation. */
  redrive(name: string, reason?: string): Promise<StoredWorkflow> {
    return this.send("POST", path(name, "/redrive"), { reason });
  }

  /** One workflow, with the number of its members by state. NotFound if there is none. */
  get(name: string): Promise<StoredWorkflow> {
    return this.one(name, 0);
  }

  /** The workflow once all members are final. Rejects with a DOMException named TimeoutError after `timeout` seconds; default: no limit. */
  async wait(name: string, options: { timeout?: number } = {}): Promise<StoredWorkflow> {
    const end = performance.now() + (options.timeout ?? Infinity) * 1000;
    for (;;) {
      const found = await this.one(name, Math.max(Math.min(30, (end - performance.now()) / 1000), 0));
      if (found.final) {
        return found;
      }
      if (performance.now() >= end) {
        throw new DOMException(`workflow ${name} is still ${found.state} after ${options.timeout} s`, "TimeoutError");
      }
    }
  }

  /** The workflows whose names begin with `prefix` and that are in one of the states (none: all), in the order of their names. */
  list(prefix = "", states: WorkflowState[] = []): Promise<StoredWorkflow[]> {
    return this.pages((after) => this.read("/v1/workflows", [["prefix", prefix], ["after", after], ["limit", String(page)], ...given(states)],
      "workflows", (d) => new StoredWorkflow(d)));
  }

  /** The members that are in one of the states (none: all), in the order of their names. */
  members(name: string, states: JobState[] = []): Promise<StoredMember[]> {
    return this.pages((after) => this.read(path(name, "/members"), [["after", after], ["limit", String(page)], ...given(states)], "members", memberOf));
  }

  private async one(name: string, wait: number): Promise<StoredWorkflow> {
    const query: [string, string][] = [["name", name], ["wait", wait > 0 ? durationText(wait, "wait") : ""]];
    const [found] = await this.read("/v1/workflows", query, "workflows", (d) => new StoredWorkflow(d), wait);
    if (!found) {
      throw make("not_found", `there is no workflow ${name}`, { status: 404 });
    }
    return found;
  }

  private async pages<T extends { name: string }>(read: (after: string) => Promise<T[]>): Promise<T[]> {
    const all: T[] = [];
    for (;;) {
      const found = await read(all.at(-1)?.name ?? "");
      if (found.length === 0) {
        return all;
      }
      all.push(...found);
    }
  }

  private read<T>(path: string, query: [string, string][], name: string, of: (d: Raw) => T, wait = 0): Promise<T[]> {
    const text = new URLSearchParams(query.filter(([, v]) => v !== "")).toString();
    return this.transport.call("GET", path + "?" + text, undefined, { safe: true, wait, read: (a) => listed(a, name).map(of) });
  }

  private send(method: string, path: string, form: Raw): Promise<StoredWorkflow> {
    return this.transport.call(method, path, form, { safe: true, read: (a) => new StoredWorkflow(a) });
  }
}

function given(states: string[]): [string, string][] {
  return states.map((s): [string, string] => ["state", s]);
}

function path(name: string, part = ""): string {
  return "/v1/workflows/" + encodeURIComponent(name) + part;
}
