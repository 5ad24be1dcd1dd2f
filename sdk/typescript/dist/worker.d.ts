import type { Client } from "./client.js";
import { RunningJob } from "./running.js";
/** Runs one step of a job. What it resolves to is the result: undefined for none, a Uint8Array, or anything that encodes as JSON. */
export declare type Handler = (job: RunningJob) => unknown;
/** Options of a worker. */
export interface WorkerOptions {
    /** Handlers that run at the same time. Default 10. */
    concurrency?: number;
    /** In the order in which to look. Default: "default". */
    queues?: string[];
    /** Seconds for which a dead worker keeps its jobs: 1 to 3600, default 30. A living one extends every third of it. */
    lease?: number;
    /** Seconds for which handlers may go on after a stop. Default 30. */
    grace?: number;
    /** A label for people. Default: "node". */
    name?: string;
    /** Gets what goes wrong between worker and server. Default: console.warn. */
    warn?: (message: string) => void;
}
/**
 * Runs handlers, `concurrency` at a time.
 *
 * An error that a handler throws lets the job be tried again by its policy; the verdicts (Await, Snooze, Hold, Retry, Fail, Cancel) end the step
 * otherwise. Leases are extended by a timer: a handler that computes without awaiting anything for longer than a sixth of the lease costs its lease, so
 * such work belongs in a worker thread.
 *
 * Whatever the server, or something in between, answers, the worker goes on: it asks again at growing intervals of up to 5 s, and repeats its reports
 * unchanged. Only 401 or 403 of the server itself for a minute end `run`.
 */
export declare class Worker {
    readonly client: Client;
    readonly concurrency: number;
    readonly queues: string[];
    readonly lease: number;
    grace: number;
    /** Random per worker. */
    readonly id: string;
    private readonly tell;
    private readonly handlers;
    private readonly steps;
    private readonly stopping;
    private readonly ended;
    private early;
    private readonly inside;
    private readonly known;
    private changed;
    private number;
    private unknown;
    private ran;
    constructor(client: Client, options?: WorkerOptions);
    /** Gives a kind its handler. Call it before `run`. */
    handle(kind: string, fn: Handler): this;
    /**
     * Works until `stop`, then drains: what runs may go on for `grace`, and what still runs then is handed back. Call it once.
     *
     * Under Node SIGINT and SIGTERM stop it, unless `signals` is false. Unauthorized and Forbidden, once the server has answered with them for a minute,
     * end it too and reject.
     */
    run(options?: {
        signals?: boolean;
    }): Promise<void>;
    /** Makes `run` claim nothing more and drain. */
    stop(): void;
    private warn;
    private claimLoop;
    /**
     * Takes jobs and starts them. After a claim whose outcome is unknown the next one carries the same number and does not wait, so that no job is lost to
     * an answer that nobody got. The answer has a third of the lease, so that what was taken can still run after a repetition.
     */
    private claim;
    private start;
    /** Runs a step and reports. Its room in the worker is free afterwards, whatever has happened. */
    private work;
    private extendLoop;
    private extend;
    private forget;
    private wake;
    /** Asks handlers to stop whose time is over, and reports for those that do not, a lease later. */
    private watchLoop;
    private handlerEnd;
    /** Runs the handler and says what became of the step. */
    private step;
    /**
     * Reports until the server has answered, because repeating is safe; the lease is extended meanwhile, see reportLeases. The first report of a step
     * counts, and one that was lost has none.
     */
    private report;
    private repeat;
    private drain;
    private until;
    /** Waits until a step has ended, or the worker is told to stop, at most for so long. */
    private change;
}
