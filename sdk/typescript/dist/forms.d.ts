import { SojournError } from "./errors.js";
/** Seconds, or a text with its unit, such as "90s", "1.5h" or "1h30m". */
export declare type Duration = number | string;
export declare type JobState = "blocked" | "scheduled" | "ready" | "running" | "awaiting" | "errored" | "completed" | "failed" | "cancelled";
/** Bytes that are said to be JSON are not. */
export declare class Undecodable extends Error {
    name: string;
}
/** An object of the API. */
export declare type Raw = Record<string, any>;
/** A duration as the API writes it. */
export declare function durationText(d: Duration, name: string): string;
/** What an answer says of a duration, in seconds; they are all written in seconds. */
export declare function secondsOf(text: unknown): number;
/** The text with each lone surrogate replaced, which no UTF-8 has. */
export declare function wellFormed(text: string): string;
/** The list of that name in an answer. TypeError if there is none, or one of another length. */
export declare function listed(answer: any, name: string, count?: number): any[];
/** The value, if it is of that type. TypeError otherwise. */
export declare function typed<T extends number | string>(value: unknown, type: "number" | "string"): T;
/** Bytes as the API takes them, exactly. */
export declare function wrap(b: Uint8Array): Raw;
/** An answer in the exact form: what is not plain JSON in it comes as base64 and becomes bytes. */
export declare function parseAnswer(text: string): unknown;
/** Uint8Array and ArrayBuffer stay as they are, everything else becomes JSON. */
export declare function encode(value: unknown, contentType: string, name: string): {
    bytes: Uint8Array;
    contentType: string;
};
/** JSON if the content type says so, or if there is none and they are; else the bytes themselves. undefined for no bytes. */
export declare function decode(b: Uint8Array | undefined, contentType: string): any;
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
    lateResponse?: "accept" | "inbox";
    noExtend?: boolean;
    windows?: unknown[];
    stopAtWindowEnd?: boolean;
}
/** Options of a job. */
export interface JobOptions {
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
export declare class NewJob {
    id: number;
    readonly kind: string;
    readonly args: unknown;
    readonly options: JobOptions;
    constructor(kind: string, args?: unknown, options?: JobOptions);
    /** The form in which it goes to the server. */
    form(): Raw;
}
/** What became of one job of an enqueue. `duplicate`: it was there before. `error` is set for items of a partial call only. */
export interface Enqueued {
    id: number;
    state: JobState | "none";
    duplicate: boolean;
    replaced: boolean;
    error?: SojournError;
}
export declare function enqueuedOf(d: Raw): Enqueued;
/** What became of a response: "applied", "early", "duplicate", "late" or "stale". `job` is 0 if no job has it. */
export interface Responded {
    outcome: string;
    job: number;
    seq: number;
}
/** An answer in hand. `rawBody` are its bytes, `body` what they mean; see Job. */
export declare class Response {
    readonly kind: string;
    readonly key: string;
    readonly messageId: string;
    readonly contentType: string;
    readonly rawBody: Uint8Array | undefined;
    readonly raw: Raw;
    constructor(raw: Raw);
    get body(): any;
}
/**
 * A job as the server shows it.
 *
 * `rawArgs`, `rawResult` and `rawCheckpoint` are the bytes that were stored, exactly. `args`, `result` and `checkpoint` are what they mean: decoded if
 * the content type says JSON, or if there is no content type and they are JSON; else the bytes. Integers beyond 2^53 are bigint. Undecodable is thrown
 * for bytes that are said to be JSON and are not. `raw` has every field of the answer.
 */
export declare class Job {
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
    readonly priority: number;
    readonly weight: number;
    readonly attempt: number;
    readonly failures: number;
    readonly crashes: number;
    readonly generation: number;
    /** Number of claims ever. */
    readonly epoch: number;
    readonly progress: string;
    readonly tags: string[];
    readonly meta: Record<string, string>;
    readonly runAt: Date | undefined;
    readonly createdAt: Date | undefined;
    readonly finishedAt: Date | undefined;
    readonly response: Response | undefined;
    readonly responses: Response[];
    constructor(raw: Raw);
    get args(): any;
    get result(): any;
    get checkpoint(): any;
    /** Whether it is completed, failed or cancelled, and so never changes. */
    get final(): boolean;
    /** For the outside, so that it recognises a repeated request: the same over all attempts, different after a redrive. */
    get idempotencyKey(): string;
}
