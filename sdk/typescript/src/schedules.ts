// Schedules: jobs that are made again and again.

import { make } from "./errors.js";
import { durationText, listed, NewJob, timeOf, timeText, typed } from "./forms.js";
import type { Duration, Raw } from "./forms.js";
import type { Transport } from "./transport.js";

const page = 1000; // schedules of one answer

/** A schedule to be stored: `cron` in a time zone, or `every` so long. */
export interface Schedule {
  name: string;
  /** The template of the jobs, without runAt, delay and dependsOn. */
  job: NewJob;
  /** 5 fields (minute, hour, day of month, month, weekday), 6 with seconds in front, a macro such as @daily, or "@every 90m". */
  cron?: string;
  /** Of cron, such as "Europe/Berlin"; default UTC. */
  zone?: string;
  every?: Duration;
  /** Moves the ticks of `every`. */
  offset?: Duration;
  /** Delays each job by up to so long. */
  jitter?: Duration;
  start?: Date;
  end?: Date;
  /** How many missed ticks become jobs, the latest ones: default 1, up to 1,000, -1 for none. */
  catchUp?: number;
  /** What a tick does while an earlier job is not final. */
  overlap?: "allow" | "skip" | "queue" | "cancel_previous";
}

/** A schedule as the server shows it. `raw` has every field of the answer. */
export class StoredSchedule {
  readonly raw: Raw;
  readonly name: string;
  readonly cron: string;
  readonly zone: string;
  /** When it is due, in words. */
  readonly text: string;
  /** The next ticks, up to five. */
  readonly next: Date[];
  readonly paused: boolean;
  /** Why ticks make no jobs; empty while they do. */
  readonly problem: string;
  readonly lastTick: Date | undefined;
  readonly lastJob: number;
  readonly runs: number;
  readonly skipped: number;
  readonly owner: string;
  readonly revision: number;

  constructor(raw: Raw) {
    this.raw = raw;
    this.name = typed(raw.name, "string");
    this.cron = raw.cron ?? "";
    this.zone = raw.zone ?? "";
    this.text = raw.text ?? "";
    this.next = (raw.next ?? []).map((t: string) => new Date(t));
    this.paused = !!raw.paused;
    this.problem = raw.problem ?? "";
    this.lastTick = timeOf(raw.last_tick);
    this.lastJob = raw.last_job ?? 0;
    this.runs = raw.runs ?? 0;
    this.skipped = raw.skipped ?? 0;
    this.owner = raw.owner ?? "";
    this.revision = raw.revision ?? 0;
  }
}

/** The calls about schedules: `client.schedules`. */
export class Schedules {
  private readonly transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.transport = transport;
  }

  /**
   * Stores a schedule, in the place of one with the same name. An unchanged one keeps its next tick; a changed one makes no job of a past tick. A pause
   * stays.
   */
  set(s: Schedule): Promise<StoredSchedule> {
    return this.put(s, "PUT", "");
  }

  /**
   * Stores a schedule for a program, at its start: as `set`, except that the same declaration changes nothing. So what an operator has set since stays
   * until the program declares something else.
   */
  declare(s: Schedule): Promise<StoredSchedule> {
    return this.put(s, "PUT", "/declared");
  }

  /** Checks a schedule, and returns it with its next ticks and a sentence. It stores nothing. */
  test(s: Schedule): Promise<StoredSchedule> {
    return this.put(s, "POST", "/test");
  }

  /** One schedule. NotFound if there is none. */
  async get(name: string): Promise<StoredSchedule> {
    const [found] = await this.page({ name });
    if (!found) {
      throw make("not_found", `there is no schedule ${name}`, { status: 404 });
    }
    return found;
  }

  /** The schedules whose names begin with `prefix`, in the order of their names. */
  async list(prefix = ""): Promise<StoredSchedule[]> {
    const all: StoredSchedule[] = [];
    for (;;) {
      const found = await this.page({ prefix, after: all.at(-1)?.name ?? "", limit: String(page) });
      all.push(...found);
      if (found.length < page) {
        return all;
      }
    }
  }

  /** Stops the ticks until `resume`. Jobs that it has made go on. */
  async pause(name: string): Promise<void> {
    await this.change(name, "/pause");
  }

  /** Ends a pause. `catchUp` decides about the ticks that came meanwhile. */
  async resume(name: string): Promise<void> {
    await this.change(name, "/resume");
  }

  /** Makes one job now, and returns its id. A call repeated after an unknown outcome makes another job. */
  async run(name: string): Promise<number> {
    return (await this.change(name, "/run", "POST", false)).lastJob;
  }

  /** Removes a schedule. Jobs that it has made go on. NotFound if there is none. */
  async delete(name: string): Promise<void> {
    await this.change(name, "", "DELETE", false);
  }

  private async put(s: Schedule, method: string, part: string): Promise<StoredSchedule> {
    const duration = (d: Duration | undefined, name: string) => (d === undefined ? undefined : durationText(d, name));
    const form: Raw = { job: s.job.form(), cron: s.cron, zone: s.zone, every: duration(s.every, "every"), offset: duration(s.offset, "offset"),
      jitter: duration(s.jitter, "jitter"), start: timeText(s.start, "start"), end: timeText(s.end, "end"), catch_up: s.catchUp, overlap: s.overlap };
    return this.transport.call(method, path(s.name, part), form, { safe: true, read: (a) => new StoredSchedule(a) });
  }

  private change(name: string, part: string, method = "POST", safe = true): Promise<StoredSchedule> {
    return this.transport.call(method, path(name, part), undefined, { safe, read: (a) => new StoredSchedule(a) });
  }

  private page(query: Record<string, string>): Promise<StoredSchedule[]> {
    const given = Object.entries(query).filter(([, v]) => v !== "");
    return this.transport.call("GET", "/v1/schedules?" + new URLSearchParams(given).toString(), undefined,
      { safe: true, read: (a) => listed(a, "schedules").map((s: Raw) => new StoredSchedule(s)) });
  }
}

function path(name: string, part: string): string {
  return "/v1/schedules/" + encodeURIComponent(name) + part;
}
