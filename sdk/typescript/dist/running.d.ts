import { Job } from "./forms.js";
import type { Response } from "./forms.js";
import type { WaitOptions } from "./verdicts.js";
/**
 * Why a handler should stop: the grace of a stop is over; somebody ended the job; another worker may have it; its leases are not extended; a limit of the
 * job has passed; its windows have closed.
 */
export declare type StopReason = "shutdown" | "cancelled" | "lease_lost" | "lease_over" | "run_timeout" | "timeout" | "deadline" | "window";
/** The reason of `signal` of a job that should stop, thrown by `check` and `sleep`. A handler may let it pass, or clean up first. */
export declare class Stopped extends Error {
    name: string;
    readonly reason: StopReason;
    constructor(reason: StopReason);
}
/**
 * The job that a handler gets. Its methods write under the job's lease.
 *
 * A handler that takes long passes `signal` on, or calls `check` or `sleep`. After the reasons cancelled and lease_lost nothing of the step is stored.
 */
export declare class RunningJob extends Job {
    /** Send it back as it is with calls of your own under the lease. */
    readonly lease: {
        id: number;
        epoch: number;
        worker: string;
    };
    readonly purpose: string;
    /** Capability of this attempt: whoever has it may answer it. */
    readonly token: string;
    private readonly worker;
    private readonly stop;
    /** Aborted when the handler should stop, with a Stopped as its reason. */
    get signal(): AbortSignal;
    get stopReason(): StopReason | undefined;
    /** Throws Stopped if the handler should stop. */
    check(): void;
    /** Sleeps, and throws Stopped as soon as the handler should stop. */
    sleep(seconds: number): Promise<void>;
    /**
     * Stores a checkpoint, which this and later attempts find in `checkpoint`: a Uint8Array, or anything that encodes as JSON. It is on disk when this
     * resolves, and the lease is extended. LeaseLost if the step does not own the job any more.
     */
    save(checkpoint: unknown): Promise<void>;
    /** Stores a short text for people. */
    setProgress(text: string): Promise<void>;
    /** Gives a job without a key its key, at once and durably, so that responses find it. Conflict if another live job of the kind has it. */
    setKey(key: string): Promise<void>;
    /** Adds a line to the job's own log, stored when the step ends: the first and the newest 99 are kept. */
    log(text: string, level?: string): void;
    /**
     * The answer in hand. Without one the step ends here: the job is parked, holds no room in the worker, and its handler is called anew, from its
     * beginning, when the answer has come. So ask the other side only `if (!job.response)`.
     *
     * With keys, the answer under any of them. Throw an Await yourself to wait for a second answer.
     */
    awaitAnswer(options?: WaitOptions & {
        keys?: string[];
    }): Response;
    /** One answer under each of the keys, in their order. The step ends here until all are there, as with `awaitAnswer`. */
    awaitAll(keys: string[], options?: WaitOptions): Response[];
    private write;
}
