/** Growing pauses in seconds, with jitter, so that many callers of a server that was away do not come back in step. */
export declare class Pauses {
    private now;
    private readonly first;
    private readonly limit;
    constructor(first: number, limit: number);
    next(): number;
    reset(): void;
}
/** What can end a call or a sleep: an AbortSignal, or a Bell. */
export interface Ending {
    readonly aborted: boolean;
    addEventListener(type: "abort", fn: () => void): void;
    removeEventListener(type: "abort", fn: () => void): void;
}
/** An AbortController and its signal for any number of listeners. Node warns when one of its own has more than ten. */
export declare class Bell implements Ending {
    aborted: boolean;
    private readonly listeners;
    abort(): void;
    addEventListener(_: "abort", fn: () => void): void;
    removeEventListener(_: "abort", fn: () => void): void;
}
/** Waits for so many seconds, or until a signal is aborted. */
export declare function sleep(seconds: number, signal?: Ending): Promise<void>;
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
export declare class Transport {
    private readonly url;
    private readonly options;
    private readonly closed;
    constructor(url: string, options: TransportOptions);
    close(): void;
    /** Sends a request, again while that is safe and for retryFor seconds, and decodes the answer. */
    call(method: string, path: string, body: unknown, o: CallOptions): Promise<any>;
    private once;
    private send;
}
