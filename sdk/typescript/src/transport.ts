// Requests, repeated where that is safe.

import { make, ofProblem, SojournError } from "./errors.js";
import { parseAnswer } from "./forms.js";
import type { Raw } from "./forms.js";
import { stringify } from "./json.js";

const firstPause = 0.05; // seconds before the second try; each following pause is twice as long
const lastPause = 2;

/** Growing pauses in seconds, with jitter, so that many callers of a server that was away do not come back in step. */
export class Pauses {
  private now = 0;
  private readonly first: number;
  private readonly limit: number;

  constructor(first: number, limit: number) {
    this.first = first;
    this.limit = limit;
  }

  next(): number {
    this.now = Math.min(Math.max(this.now * 2, this.first), this.limit);
    return this.now * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.now = 0;
  }
}

/** What can end a call or a sleep: an AbortSignal, or a Bell. */
export interface Ending {
  readonly aborted: boolean;
  addEventListener(type: "abort", fn: () => void): void;
  removeEventListener(type: "abort", fn: () => void): void;
}

/** An AbortController and its signal for any number of listeners. Node warns when one of its own has more than ten. */
export class Bell implements Ending {
  aborted = false;
  private readonly listeners = new Set<() => void>();

  abort(): void {
    this.aborted = true;
    [...this.listeners].forEach((fn) => fn());
  }

  addEventListener(_: "abort", fn: () => void): void {
    this.listeners.add(fn);
  }

  removeEventListener(_: "abort", fn: () => void): void {
    this.listeners.delete(fn);
  }
}

/** Waits for so many seconds, or until a signal is aborted. */
export function sleep(seconds: number, signal?: Ending): Promise<void> {
  return new Promise((done) => {
    if (signal?.aborted) {
      return done();
    }
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, seconds * 1000);
    signal?.addEventListener("abort", end);
  });
}

export interface CallOptions {
  /** The same call again has the same effect. */
  safe: boolean;
  /** Seconds that the server may take longer. */
  wait?: number;
  /** Seconds for which it is repeated. */
  retryFor?: number;
  /** Seconds for an answer. */
  timeout?: number;
  /** Ends the call. */
  signal?: Ending | undefined;
}

export interface TransportOptions {
  token: string;
  timeout: number;
  retryFor: number;
  cleartext: boolean;
}

/** Calls to one server. */
export class Transport {
  private readonly url: string;
  private readonly options: TransportOptions;
  private readonly closed = new Bell();

  constructor(url: string, options: TransportOptions) {
    let u: URL | undefined;
    try {
      u = new URL(url);
    } catch {
      // said below
    }
    if (!u || !/^https?:$/.test(u.protocol) || u.username || u.search || u.hash) {
      throw make("invalid", "is no address of a server: use http://HOST:PORT or https://HOST:PORT, and give a token as token", { field: "url" });
    }
    if (options.token && u.protocol === "http:" && !options.cleartext && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(u.hostname)) {
      throw make("invalid", `a token would go to ${u.hostname} in clear text: use https://, or cleartext: true in a network that you trust`,
        { field: "url" });
    }
    this.url = u.href.replace(/\/+$/, "");
    this.options = options;
  }

  close(): void {
    this.closed.abort();
  }

  /** Sends a request, again while that is safe and for retryFor seconds, and decodes the answer. */
  async call(method: string, path: string, body: unknown, o: CallOptions): Promise<any> {
    const text = body === undefined ? undefined : stringify(body, "body");
    const end = performance.now() / 1000 + (o.retryFor ?? this.options.retryFor);
    const pauses = new Pauses(firstPause, lastPause);
    for (;;) {
      if (this.closed.aborted) {
        throw make("closed", "the client is closed");
      }
      try {
        return await this.once(method, path, text, o);
      } catch (e) {
        if (!(e instanceof SojournError)) {
          throw e;
        }
        const pause = Math.max(pauses.next(), Math.min(e.retryAfter, lastPause));
        if (!again(e, o.safe) || o.signal?.aborted || performance.now() / 1000 + pause > end) {
          throw e;
        }
        await sleep(pause, o.signal);
      }
    }
  }

  private async once(method: string, path: string, text: string | undefined, o: CallOptions): Promise<any> {
    const ended = new AbortController();
    const abort = () => ended.abort();
    const timer = setTimeout(abort, ((o.timeout ?? this.options.timeout) + (o.wait ?? 0)) * 1000);
    const signals = [this.closed, o.signal];
    signals.forEach((s) => (s?.aborted ? abort() : s?.addEventListener("abort", abort)));
    try {
      return await this.send(method, path, text, ended.signal);
    } finally {
      clearTimeout(timer);
      signals.forEach((s) => s?.removeEventListener("abort", abort));
    }
  }

  private async send(method: string, path: string, text: string | undefined, signal: AbortSignal): Promise<any> {
    const headers: Record<string, string> = { "Sojourn-Bytes": "base64", Accept: "application/json" };
    if (text !== undefined) {
      headers["Content-Type"] = "application/json";
    }
    if (this.options.token) {
      headers.Authorization = "Bearer " + this.options.token;
    }
    let answer, got;
    try {
      // A redirect could take the token elsewhere.
      answer = await fetch(this.url + path, { method, headers, body: text ?? null, signal, redirect: "manual" });
      got = await answer.text();
    } catch (e) {
      throw unanswered(method, e);
    }
    const media = answer.headers.get("Content-Type") ?? "";
    if (answer.ok) {
      try {
        return media.startsWith("application/json") ? parseAnswer(got) : got;
      } catch (e) {
        throw unanswered(method, e);
      }
    }
    let problem: SojournError | undefined;
    if (media.startsWith("application/problem+json")) {
      try {
        problem = ofProblem(parseAnswer(got) as Raw);
      } catch {
        // it comes from something in between
      }
    }
    if (!problem) {
      const code = answer.status >= 500 && method !== "GET" ? "unknown_outcome" : "unavailable";
      throw make(code, `the answer is not that of a Sojourn server: status ${answer.status}`, { status: answer.status, retryable: answer.status >= 500 });
    }
    problem.retryAfter = Number(answer.headers.get("Retry-After")) || 0;
    throw problem;
  }
}

function again(e: SojournError, safe: boolean): boolean {
  if (e.code === "overloaded" || e.code === "draining" || (e.code === "unavailable" && e.status === 0 && e.outcome === "not_stored")) {
    return true; // nothing has happened
  }
  return safe && e.retryable && ["unavailable", "unknown_outcome", "closed"].includes(e.code);
}

// What Node says when there was no connection, so that the server has not seen the request. Others say less, and the outcome counts as unknown.
const unsent = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

function unanswered(method: string, e: unknown): SojournError {
  const cause = (e as { cause?: { code?: string; message?: string } }).cause;
  const why = [(e as Error).message, cause?.code ?? cause?.message].filter(Boolean).join(": ");
  if (unsent.has(cause?.code ?? "")) {
    return make("unavailable", `the server cannot be reached: ${why}`, { retryable: true, outcome: "not_stored" });
  }
  if (method === "GET") {
    return make("unavailable", `the server's answer did not come (${why})`, { retryable: true });
  }
  return make("unknown_outcome", `the server's answer did not come (${why}); the call may or may not have been executed`,
    { retryable: true, outcome: "unknown" });
}
