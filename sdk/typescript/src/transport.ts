// Requests, repeated where that is safe.

import { make, ofProblem, said, SojournError } from "./errors.js";
import { parseAnswer } from "./forms.js";
import { stringify } from "./json.js";
import { loopback, throughProxy } from "./proxy.js";

const firstPause = 0.05; // seconds before the second try; each following pause is twice as long
const lastPause = 2;
const maxAnswer = 64 << 20; // bytes of a body

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

/** What came back for a request: its status, its headers, and its body as it comes. */
export interface Answer {
  status: number;
  header(name: string): string;
  chunks: AsyncIterable<Uint8Array>;
}

/** Sends one request, over fetch or through a proxy. */
export type Send = (method: string, url: string, headers: Record<string, string>, text: string | undefined, signal: AbortSignal) => Promise<Answer>;

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
  /** Takes the answer apart. One on which it throws is not that of a Sojourn server. */
  read?: (answer: any) => any;
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
  private readonly server: URL;
  private sending: Promise<Send> | undefined;
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
    if (options.token && u.protocol === "http:" && !options.cleartext && !loopback(u.hostname)) {
      throw make("invalid", `a token would go to ${u.hostname} in clear text: use https://, or cleartext: true in a network that you trust`,
        { field: "url" });
    }
    this.server = u;
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
        const pause = Math.max(pauses.next(), e.retryAfter);
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
      return await this.send(method, path, text, ended.signal, o.read);
    } finally {
      clearTimeout(timer);
      signals.forEach((s) => s?.removeEventListener("abort", abort));
    }
  }

  private async send(method: string, path: string, text: string | undefined, signal: AbortSignal, read?: (answer: any) => any): Promise<any> {
    const headers: Record<string, string> = { "Sojourn-Bytes": "base64", Accept: "application/json" };
    if (text !== undefined) {
      headers["Content-Type"] = "application/json";
    }
    if (this.options.token) {
      headers.Authorization = "Bearer " + this.options.token;
    }
    this.sending ??= throughProxy(this.server).then((send) => send ?? fetched);
    const send = await this.sending;
    let answer: Answer, got: string;
    try {
      answer = await send(method, this.url + path, headers, text, signal);
      got = await textOf(answer.chunks);
    } catch (e) {
      throw unanswered(method, e);
    }
    const media = (answer.header("Content-Type").split(";")[0] ?? "").trim().toLowerCase();
    let problem: SojournError | undefined;
    try {
      if (answer.status >= 200 && answer.status < 300) {
        const value = media === "application/json" ? parseAnswer(got) : got;
        return read ? read(value) : value;
      }
      problem = media === "application/problem+json" ? problemOf(answer.status, parseAnswer(got)) : undefined;
    } catch (e) {
      throw foreign(method, answer.status, said(e)); // whatever is wrong with it, it is not ours
    }
    if (!problem) {
      throw foreign(method, answer.status);
    }
    const after = answer.header("Retry-After");
    problem.retryAfter = /^[0-9]{1,6}$/.test(after) ? Number(after) : 0;
    throw problem;
  }
}

/** Sends a request with fetch. A redirect is not followed: it could take the token elsewhere. */
async function fetched(method: string, url: string, headers: Record<string, string>, text: string | undefined, signal: AbortSignal): Promise<Answer> {
  const answer = await fetch(url, { method, headers, body: text ?? null, signal, redirect: "manual" });
  return { status: answer.status, header: (name) => answer.headers.get(name) ?? "", chunks: chunksOf(answer.body) };
}

async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader();
  try {
    for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
      yield chunk.value;
    }
  } finally {
    void reader?.cancel().catch(() => undefined);
  }
}

/** The whole body, which must be UTF-8. Throws as soon as there is more of it than maxAnswer. */
async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const parts: string[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    if (size > maxAnswer) {
      throw new Error(`the answer has more than ${maxAnswer >> 20} MiB`);
    }
    parts.push(decoder.decode(chunk, { stream: true }));
  }
  parts.push(decoder.decode());
  return parts.join("");
}

/** The error of a problem document that our API has written: others have no code, or another status than their answer. */
function problemOf(status: number, p: any): SojournError | undefined {
  return p?.status === status && typeof p.retryable === "boolean" ? ofProblem(p) : undefined;
}

/** Whether an error says that the call was not executed and may be sent again, whatever it is. */
export function nothingHappened(e: SojournError): boolean {
  return ["overloaded", "draining", "rate_limited"].includes(e.code) || (e.code === "unavailable" && e.status === 0 && e.outcome === "not_stored");
}

function again(e: SojournError, safe: boolean): boolean {
  return nothingHappened(e) || (safe && (e.code === "internal" || (e.retryable && ["unavailable", "unknown_outcome", "closed"].includes(e.code))));
}

// What Node says when there was no connection, so that the server has not seen the request. Others say less, and the outcome counts as unknown.
const unsent = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

function unanswered(method: string, e: unknown): SojournError {
  const { code, cause } = e as { code?: unknown; cause?: { code?: string; message?: string } };
  const why = [said(e), cause?.code ?? cause?.message].filter(Boolean).join(": ");
  if (unsent.has(cause?.code ?? String(code))) {
    return make("unavailable", `the server cannot be reached: ${why}`, { retryable: true, outcome: "not_stored" });
  }
  return unknown(method, `the server's answer did not come (${why})`);
}

function foreign(method: string, status: number, why = ""): SojournError {
  return unknown(method, `the answer is not that of a Sojourn server: status ${status}${why && ", " + why}`, status);
}

function unknown(method: string, why: string, status = 0): SojournError {
  if (method === "GET") {
    return make("unavailable", why, { status, retryable: true });
  }
  return make("unknown_outcome", why + "; the call may or may not have been executed", { status, retryable: true, outcome: "unknown" });
}
