// Events: the changes of jobs' states, read by followers.

import { SojournError } from "./errors.js";
import { durationText, listed, timeOf, typed } from "./forms.js";
import type { JobState, Raw } from "./forms.js";
import { Pauses, sleep } from "./transport.js";
import type { CallOptions, Transport } from "./transport.js";

const page = 1000; // events of one read of a tail
const maxWait = 60; // seconds that a read waits for an event

/** Which events a follower gets. Everything that is set must match the job as it was at the change of its state. */
export interface EventFilter {
  queue?: string;
  kind?: string;
  key?: string;
  tag?: string;
  /** The states after the change; default all. */
  states?: JobState[];
}

/** What a read of events acknowledges, and how long it waits. */
export interface ReadOptions {
  /** Acknowledges all events up to this position: that of an event, or the `next` of a page. */
  ack?: string;
  /** 1 to 1,000; default 100. */
  limit?: number;
  /** Seconds to wait for an event, at most 60; default 0. */
  wait?: number;
}

/** A change of a job's state, or a gap. `raw` has every field of the answer. */
export class Event {
  readonly raw: Raw;
  /** Gap: events are missing, and only `position` is set. Read the jobs that matter again. */
  readonly type: "transition" | "gap";
  readonly position: string;
  readonly job: number;
  readonly at: Date | undefined;
  readonly queue: string;
  readonly kind: string;
  readonly key: string;
  readonly tags: string[];
  /** The state before; undefined for a job that was enqueued or redriven. */
  readonly from: JobState | undefined;
  /** The state after the change. */
  readonly state: JobState | undefined;
  readonly generation: number;
  readonly attempt: number;

  constructor(raw: Raw) {
    this.raw = raw;
    this.type = typed<string>(raw.type, "string") as "transition" | "gap";
    this.position = typed(raw.position, "string");
    this.job = typed(raw.job ?? 0, "number");
    this.at = timeOf(raw.at);
    this.queue = raw.queue ?? "";
    this.kind = raw.kind ?? "";
    this.key = raw.key ?? "";
    this.tags = raw.tags ?? [];
    this.from = raw.from || undefined;
    this.state = raw.state || undefined;
    this.generation = raw.generation ?? 0;
    this.attempt = raw.attempt ?? 0;
  }
}

/** The events of one read. `next` acknowledges all of them, and those in between that do not match the filter. */
export interface EventPage {
  events: Event[];
  next: string;
}

/** A named reader of events. `raw` has every field of the answer. */
export class Follower {
  readonly raw: Raw;
  readonly name: string;
  readonly owner: string;
  readonly filter: EventFilter;
  /** Of the last acknowledged event. */
  readonly position: string;
  /** Stored events after it, also those that do not match the filter; at most 10,000. */
  readonly lag: number;
  /** Age in seconds of the oldest of them. */
  readonly behind: number;
  /** Events were deleted before it has read them. */
  readonly gap: boolean;
  readonly createdAt: Date | undefined;
  /** When it was read last, to the hour. */
  readonly seenAt: Date | undefined;

  constructor(raw: Raw) {
    this.raw = raw;
    this.name = typed(raw.name, "string");
    this.owner = raw.owner ?? "";
    this.filter = raw.filter ?? {};
    this.position = typed(raw.position, "string");
    this.lag = raw.lag ?? 0;
    this.behind = raw.behind ?? 0;
    this.gap = !!raw.gap;
    this.createdAt = timeOf(raw.created_at);
    this.seenAt = timeOf(raw.seen_at);
  }
}

/** The calls about events, which a client has. */
export class EventCalls {
  /** @internal */
  readonly transport: Transport;
  private readonly retryFor: number;

  /** @internal */
  constructor(transport: Transport, retryFor: number) {
    this.transport = transport;
    this.retryFor = retryFor;
  }

  /**
   * Makes a follower: all changes of states that are committed after it resolves are events for it. The same call again changes nothing; with another
   * filter it is a Conflict.
   */
  follow(name: string, filter: EventFilter = {}): Promise<Follower> {
    const { queue, kind, key, tag, states } = filter;
    return this.transport.call("PUT", path(name), { queue, kind, key, tag, states }, { safe: true, read: (a) => new Follower(a) });
  }

  /** The followers of this token, in the order of their names. */
  followers(): Promise<Follower[]> {
    return this.transport.call("GET", "/v1/followers", undefined,
      { safe: true, read: (a) => listed(a, "followers").map((f: Raw) => new Follower(f)) });
  }

  /** Deletes a follower. NotFound if there is none. */
  async unfollow(name: string): Promise<void> {
    await this.transport.call("DELETE", path(name), undefined, { safe: false });
  }

  /** Acknowledges events, and reads those after them. Events that are not acknowledged come again. */
  readEvents(name: string, options: ReadOptions = {}): Promise<EventPage> {
    return this.read(name, options);
  }

  /**
   * Walks through the events of a follower, and waits for more until `signal` is aborted, which ends the loop after the present event, at once if it waits
   * for one. A page of up to 1,000 events is acknowledged when the loop has come to its end: after a crash, or after the loop was left, the events of the
   * last page come again. Errors that are `retryable` are retried with pauses; another error ends it.
   */
  async *tailEvents(name: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<Event, void, undefined> {
    const { signal } = options;
    const pauses = new Pauses(0.1, 5);
    let ack: string | undefined;
    let failing: number | undefined; // when the first of the present errors came
    while (!signal?.aborted) {
      let found: EventPage;
      try {
        found = await this.read(name, { ack, limit: page, wait: maxWait }, { retryFor: 0, signal });
      } catch (e) {
        if (signal?.aborted) {
          return;
        }
        failing ??= performance.now();
        const brief = (performance.now() - failing) / 1000 < this.retryFor;
        if (!(e instanceof SojournError) || !(e.retryable || (e.code === "internal" && brief))) {
          throw e;
        }
        await sleep(Math.max(pauses.next(), e.retryAfter), signal);
        continue;
      }
      pauses.reset();
      failing = undefined;
      for (const event of found.events) {
        if (signal?.aborted) {
          return;
        }
        yield event;
      }
      ack = found.next;
    }
  }

  private read(name: string, o: { ack?: string | undefined; limit?: number; wait?: number }, how: Partial<CallOptions> = {}): Promise<EventPage> {
    const wait = Math.min(o.wait ?? 0, maxWait);
    return this.transport.call("POST", path(name) + "/read", { ack: o.ack, limit: o.limit ?? 100, wait: durationText(wait, "wait") },
      { ...how, safe: true, wait, read: (a) => ({ events: listed(a, "events").map((e: Raw) => new Event(e)), next: typed<string>(a.next, "string") }) });
  }
}

function path(name: string): string {
  return "/v1/followers/" + encodeURIComponent(name);
}
