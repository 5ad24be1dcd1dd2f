import { Job, NewJob } from "./forms.js";
import type { Duration, Enqueued, JobOptions, JobState, Raw, Responded } from "./forms.js";
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
    /** The last id of the page before. */
    after?: number;
    /** 1 to 1,000; default 100. */
    limit?: number;
    newest?: boolean;
    /** With args, result, checkpoint and responses. */
    full?: boolean;
    /** With ids: wait up to this long until one matches; at most 60 s. */
    wait?: Duration;
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
/**
 * A server's jobs.
 *
 * Only calls with the same effect as once are repeated: an enqueue has its id and a response its message id before the first try. Connections are kept
 * by fetch. Under Node the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY are honoured, in lower case too; a server on this machine is reached directly.
 */
export declare class Client {
    private at;
    private limit;
    private drawing;
    constructor(url?: string, options?: ClientOptions);
    /** Ends the calls under way. */
    close(): void;
    /** Any other call of the API, such as `request("GET", "/v1/queues")`. Bytes come as Uint8Array. `safe`: it may be repeated. */
    request(method: string, path: string, body?: unknown, options?: {
        safe?: boolean;
    }): Promise<any>;
    /**
     * Stores a job: a kind with args and options, or a NewJob. It is on disk when this resolves. After UnknownOutcome or Unavailable, calling again with
     * the same NewJob is safe.
     */
    enqueue(job: string | NewJob, args?: unknown, options?: JobOptions): Promise<Enqueued>;
    /** Stores up to 1,000 jobs, all or none. With `partial` each for itself: `Enqueued.error` has what was wrong with it. */
    enqueueMany(jobs: NewJob[], options?: {
        partial?: boolean;
    }): Promise<Enqueued[]>;
    private send;
    /** Gives ids out of a block, so that most enqueues need no request for theirs. One at a time draws a block. */
    private giveIds;
    /** Draws 1 to 10,000 ids and returns the first; they are consecutive, and good for new jobs for 15 minutes. */
    drawIds(count: number): Promise<number>;
    /** A job, complete. NotFound if there is none. */
    get(id: number): Promise<Job>;
    /** The live job of a kind that has the key, else the newest final one. NotFound if there is none. */
    getByKey(kind: string, key: string): Promise<Job>;
    /** Lists jobs. */
    find(f: JobFilter): Promise<Job[]>;
    /** The job once it is completed, failed or cancelled. A DOMException named TimeoutError after `timeout` seconds; default: no limit. */
    wait(id: number, options?: {
        timeout?: number;
        signal?: AbortSignal;
    }): Promise<Job>;
    /** What happened to a job, oldest first, as the API writes it. */
    history(id: number): Promise<Raw[]>;
    /** Answers a job. It is on disk when this resolves. */
    respond(r: NewResponse): Promise<Responded>;
    /** Cancels a live job, a running one at once. Conflict if it ended otherwise; one that is cancelled already is no error. */
    cancel(id: number, o?: EditOptions): Promise<void>;
    /** Fails a live job. */
    fail(id: number, o?: EditOptions): Promise<void>;
    /** Runs a failed or cancelled job again, in the next generation. With `generation`, the present one, a second call is a Conflict. */
    redrive(id: number, o?: {
        generation?: number;
        by?: string;
    }): Promise<void>;
    private edit;
}
