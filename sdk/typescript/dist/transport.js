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
    now = 0;
    first;
    limit;
    constructor(first, limit) {
        this.first = first;
        this.limit = limit;
    }
    next() {
        this.now = Math.min(Math.max(this.now * 2, this.first), this.limit);
        return this.now * (0.5 + Math.random() / 2);
    }
    reset() {
        this.now = 0;
    }
}
/** An AbortController and its signal for any number of listeners. Node warns when one of its own has more than ten. */
export class Bell {
    aborted = false;
    listeners = new Set();
    abort() {
        this.aborted = true;
        [...this.listeners].forEach((fn) => fn());
    }
    addEventListener(_, fn) {
        this.listeners.add(fn);
    }
    removeEventListener(_, fn) {
        this.listeners.delete(fn);
    }
}
/** Waits for so many seconds, or until a signal is aborted. */
export function sleep(seconds, signal) {
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
/** Calls to one server. */
export class Transport {
    url;
    server;
    sending;
    options;
    closed = new Bell();
    constructor(url, options) {
        let u;
        try {
            u = new URL(url);
        }
        catch {
            // said below
        }
        if (!u || !/^https?:$/.test(u.protocol) || u.username || u.search || u.hash) {
            throw make("invalid", "is no address of a server: use http://HOST:PORT or https://HOST:PORT, and give a token as token", { field: "url" });
        }
        if (options.token && u.protocol === "http:" && !options.cleartext && !loopback(u.hostname)) {
            throw make("invalid", `a token would go to ${u.hostname} in clear text: use https://, or cleartext: true in a network that you trust`, { field: "url" });
        }
        this.server = u;
        this.url = u.href.replace(/\/+$/, "");
        this.options = options;
    }
    close() {
        this.closed.abort();
    }
    /** Sends a request, again while that is safe and for retryFor seconds, and decodes the answer. */
    async call(method, path, body, o) {
        const text = body === undefined ? undefined : stringify(body, "body");
        const end = performance.now() / 1000 + (o.retryFor ?? this.options.retryFor);
        const pauses = new Pauses(firstPause, lastPause);
        for (;;) {
            if (this.closed.aborted) {
                throw make("closed", "the client is closed");
            }
            try {
                return await this.once(method, path, text, o);
            }
            catch (e) {
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
    async once(method, path, text, o) {
        const ended = new AbortController();
        const abort = () => ended.abort();
        const timer = setTimeout(abort, ((o.timeout ?? this.options.timeout) + (o.wait ?? 0)) * 1000);
        const signals = [this.closed, o.signal];
        signals.forEach((s) => (s?.aborted ? abort() : s?.addEventListener("abort", abort)));
        try {
            return await this.send(method, path, text, ended.signal, o.read);
        }
        finally {
            clearTimeout(timer);
            signals.forEach((s) => s?.removeEventListener("abort", abort));
        }
    }
    async send(method, path, text, signal, read) {
        const headers = { "Sojourn-Bytes": "base64", Accept: "application/json" };
        if (text !== undefined) {
            headers["Content-Type"] = "application/json";
        }
        if (this.options.token) {
            headers.Authorization = "Bearer " + this.options.token;
        }
        this.sending ??= throughProxy(this.server).then((send) => send ?? fetched);
        const send = await this.sending;
        let answer, got;
        try {
            answer = await send(method, this.url + path, headers, text, signal);
            got = await textOf(answer.chunks);
        }
        catch (e) {
            throw unanswered(method, e);
        }
        const media = (answer.header("Content-Type").split(";")[0] ?? "").trim().toLowerCase();
        let problem;
        try {
            if (answer.status >= 200 && answer.status < 300) {
                const value = media === "application/json" ? parseAnswer(got) : got;
                return read ? read(value) : value;
            }
            problem = media === "application/problem+json" ? problemOf(answer.status, parseAnswer(got)) : undefined;
        }
        catch (e) {
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
async function fetched(method, url, headers, text, signal) {
    const answer = await fetch(url, { method, headers, body: text ?? null, signal, redirect: "manual" });
    return { status: answer.status, header: (name) => answer.headers.get(name) ?? "", chunks: chunksOf(answer.body) };
}
async function* chunksOf(body) {
    const reader = body?.getReader();
    try {
        for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
            yield chunk.value;
        }
    }
    finally {
        void reader?.cancel().catch(() => undefined);
    }
}
/** The whole body, which must be UTF-8. Throws as soon as there is more of it than maxAnswer. */
async function textOf(chunks) {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const parts = [];
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
function problemOf(status, p) {
    return p?.status === status && typeof p.retryable === "boolean" ? ofProblem(p) : undefined;
}
/** Whether an error says that the call was not executed and may be sent again, whatever it is. */
export function nothingHappened(e) {
    return ["overloaded", "draining", "rate_limited"].includes(e.code) || (e.code === "unavailable" && e.status === 0 && e.outcome === "not_stored");
}
function again(e, safe) {
    return nothingHappened(e) || (safe && (e.code === "internal" || (e.retryable && ["unavailable", "unknown_outcome", "closed"].includes(e.code))));
}
// What Node says when there was no connection, so that the server has not seen the request. Others say less, and the outcome counts as unknown.
const unsent = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);
function unanswered(method, e) {
    const { code, cause } = e;
    const why = [said(e), cause?.code ?? cause?.message].filter(Boolean).join(": ");
    if (unsent.has(cause?.code ?? String(code))) {
        return make("unavailable", `the server cannot be reached: ${why}`, { retryable: true, outcome: "not_stored" });
    }
    return unknown(method, `the server's answer did not come (${why})`);
}
function foreign(method, status, why = "") {
    return unknown(method, `the answer is not that of a Sojourn server: status ${status}${why && ", " + why}`, status);
}
function unknown(method, why, status = 0) {
    if (method === "GET") {
        return make("unavailable", why, { status, retryable: true });
    }
    return make("unknown_outcome", why + "; the call may or may not have been executed", { status, retryable: true, outcome: "unknown" });
}
