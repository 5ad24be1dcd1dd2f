import { SojournError } from "./errors.js";
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
/** What came back for a request: its status, its headers, and its body as it comes. */
export interface Answer {
    status: number;
    header(name: string): string;
    chunks: AsyncIterable<Uint8Array>;
}
/** Sends one request, over fetch or through a proxy. */
export declare type Send = (method: string, url: string, headers: Record<string, string>, text: string | undefined, signal: AbortSignal) => Promise<Answer>;
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
export declare class Transport {
    private readonly url;
    private readonly server;
    private sending;
    private readonly options;
    private readonly closed;
    constructor(url: string, options: TransportOptions);
    close(): void;
    /** Sends a request, again while that is safe and for retryFor seconds, and decodes the answer. */
    call(method: string, path: string, body: unknown, o: CallOptions): Promise<any>;
    private once;
    private send;
}
/** Whether an error says that the call was not executed and may be sent again, whatever it is. */
export declare function nothingHappened(e: SojournError): boolean;
