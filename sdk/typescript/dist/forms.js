// The forms of jobs, responses, durations and bytes.
import { make, ofProblem } from "./errors.js";
import { parse, stringify } from "./json.js";
/** Bytes that are said to be JSON are not. */
export class Undecodable extends Error {
    name = "Undecodable";
}
/** A duration as the API writes it. */
export function durationText(d, name) {
    if (typeof d === "string") {
        return d; // the server checks it
    }
    if (!Number.isFinite(d) || d < 0) {
        throw make("invalid", `${d} is not a duration: give seconds, 0 or more, or a text such as "90s"`, { field: name });
    }
    return d.toFixed(9).replace(/\.?0+$/, "") + "s";
}
/** What an answer says of a duration, in seconds; they are all written in seconds. */
export function secondsOf(text) {
    return typeof text === "string" ? Number(text.slice(0, -1)) : 0;
}
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const mended = new TextDecoder("utf-8", { ignoreBOM: true });
/** The text with each lone surrogate replaced, which no UTF-8 has. */
export function wellFormed(text) {
    return mended.decode(new TextEncoder().encode(text));
}
/** The list of that name in an answer. TypeError if there is none, or one of another length. */
export function listed(answer, name, count) {
    const items = answer?.[name];
    if (!Array.isArray(items) || (count !== undefined && items.length !== count)) {
        throw new TypeError(`${name} is not the list that was asked for`);
    }
    return items;
}
/** The value, if it is of that type. TypeError otherwise. */
export function typed(value, type) {
    if (typeof value !== type) {
        throw new TypeError(`a ${typeof value} is no ${type}`);
    }
    return value;
}
function timeText(t, name) {
    if (t !== undefined && !(t instanceof Date && Number.isFinite(t.getTime()))) {
        throw make("invalid", "is not a valid Date", { field: name });
    }
    return t?.toISOString();
}
/** Bytes as the API takes them, exactly. */
export function wrap(b) {
    let text = "";
    for (let i = 0; i < b.length; i += 0x8000) { // more arguments at once overflow the stack
        text += String.fromCharCode(...b.subarray(i, i + 0x8000));
    }
    return { $base64: btoa(text) };
}
/** An answer in the exact form: what is not plain JSON in it comes as base64 and becomes bytes. */
export function parseAnswer(text) {
    return parse(text, (v) => {
        if (v !== null && typeof v === "object" && typeof v.$base64 === "string" && Object.keys(v).length === 1) {
            return Uint8Array.from(atob(v.$base64), (c) => c.charCodeAt(0));
        }
        return v;
    });
}
/** Uint8Array and ArrayBuffer stay as they are, everything else becomes JSON. */
export function encode(value, contentType, name) {
    if (value instanceof ArrayBuffer) {
        value = new Uint8Array(value);
    }
    if (value instanceof Uint8Array) {
        return { bytes: value, contentType: contentType || "application/octet-stream" };
    }
    return { bytes: new TextEncoder().encode(stringify(value, name)), contentType: contentType || "application/json" };
}
/** JSON if the content type says so, or if there is none and they are; else the bytes themselves. undefined for no bytes. */
export function decode(b, contentType) {
    if (b === undefined) {
        return undefined;
    }
    const media = (contentType.split(";")[0] ?? "").trim().toLowerCase();
    if (media && media !== "application/json" && !media.endsWith("+json")) {
        return b;
    }
    try {
        return parse(utf8.decode(b));
    }
    catch (e) {
        if (media) {
            throw new Undecodable(`said to be ${media}, but it is not: ${e.message}`);
        }
        return b;
    }
}
function textOf(v) {
    return v instanceof Uint8Array ? mended.decode(v) : String(v ?? "");
}
function bytesOf(v) {
    return v instanceof Uint8Array ? v : v === undefined || v === null ? undefined : new TextEncoder().encode(stringify(v, "answer"));
}
function timeOf(v) {
    return typeof v === "string" ? new Date(v) : undefined;
}
const durations = new Set(["run_timeout", "timeout", "deadline", "decide_within", "keep_key", "first", "limit"]);
/** The names and durations of a policy as the API writes them. */
function policyForm(policy) {
    const out = {};
    for (const [name, value] of Object.entries(policy)) {
        const snake = name.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase());
        if (snake === "backoff") {
            out[snake] = policyForm(value);
        }
        else {
            out[snake] = durations.has(snake) && typeof value === "number" ? durationText(value, snake) : value;
        }
    }
    return out;
}
/**
 * A job to be enqueued. `args` are a Uint8Array, or anything that encodes as JSON; undefined for none.
 *
 * `id` is filled in by the first call that sends the job, so that sending the same object again means the same job.
 */
export class NewJob {
    id = 0;
    kind;
    args;
    options;
    constructor(kind, args, options = {}) {
        this.kind = kind;
        this.args = args;
        this.options = options;
    }
    /** The form in which it goes to the server. */
    form() {
        const o = this.options;
        const out = { id: this.id || undefined, kind: this.kind, queue: o.queue, key: o.key, group: o.group, content_type: o.contentType,
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
        return out;
    }
}
export function enqueuedOf(d) {
    if (d.error !== undefined && d.error !== null) {
        return { id: typed(d.id ?? 0, "number"), state: d.state ?? "none", duplicate: false, replaced: false, error: ofProblem(d.error) };
    }
    return { id: typed(d.id, "number"), state: typed(d.state, "string"), duplicate: !!d.duplicate, replaced: !!d.replaced };
}
/** An answer in hand. `rawBody` are its bytes, `body` what they mean; see Job. */
export class Response {
    kind;
    key;
    messageId;
    contentType;
    rawBody;
    raw;
    constructor(raw) {
        this.raw = raw;
        this.kind = textOf(raw.kind);
        this.key = textOf(raw.key);
        this.messageId = textOf(raw.message_id);
        this.contentType = textOf(raw.content_type);
        this.rawBody = bytesOf(raw.body);
    }
    get body() {
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
    raw;
    id;
    kind;
    queue;
    key;
    group;
    state;
    reason;
    error;
    contentType;
    resultType;
    rawArgs;
    rawResult;
    rawCheckpoint;
    priority;
    weight;
    attempt;
    failures;
    crashes;
    generation;
    /** Number of claims ever. */
    epoch;
    progress;
    tags;
    meta;
    runAt;
    createdAt;
    finishedAt;
    response;
    responses;
    constructor(raw) {
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
        this.priority = raw.priority ?? 0;
        this.weight = raw.weight ?? 0;
        this.attempt = raw.attempt ?? 0;
        this.failures = raw.failures ?? 0;
        this.crashes = raw.crashes ?? 0;
        this.generation = raw.generation ?? 0;
        this.epoch = raw.epoch ?? 0;
        this.progress = textOf(raw.progress);
        this.tags = (raw.tags ?? []).map(textOf);
        this.meta = Object.fromEntries(Object.entries(raw.meta ?? {}).map(([k, v]) => [k, textOf(v)]));
        this.runAt = timeOf(raw.run_at);
        this.createdAt = timeOf(raw.created_at);
        this.finishedAt = timeOf(raw.finished_at);
        this.response = raw.response ? new Response(raw.response) : undefined;
        this.responses = (raw.responses ?? []).map((r) => new Response(r));
    }
    get args() {
        return decode(this.rawArgs, this.contentType);
    }
    get result() {
        return decode(this.rawResult, this.resultType);
    }
    get checkpoint() {
        return decode(this.rawCheckpoint, "");
    }
    /** Whether it is completed, failed or cancelled, and so never changes. */
    get final() {
        return this.state === "completed" || this.state === "failed" || this.state === "cancelled";
    }
    /** For the outside, so that it recognises a repeated request: the same over all attempts, different after a redrive. */
    get idempotencyKey() {
        return `${this.raw.instance ?? ""}-${this.id}-${this.generation}`;
    }
}
