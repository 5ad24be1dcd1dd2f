/** What is known about an error beside its code and message. */
export interface ErrorParts {
    status?: number;
    field?: string;
    index?: number;
    retryable?: boolean;
    outcome?: string;
    requestId?: string;
    retryAfter?: number;
}
/**
 * A refusal with a stable code. Decide by `code` or by class; `retryable` means that the same call may succeed later, unchanged.
 *
 * `status` is that of HTTP, 0 if no answer came. `field` names what is at fault, `index` the item of a batch, if any. `outcome` of a failed write is
 * "not_stored" or "unknown". `retryAfter` are the seconds that the server asks to wait.
 */
export declare class SojournError extends Error {
    readonly code: string;
    readonly status: number;
    readonly field: string;
    index: number | undefined;
    readonly retryable: boolean;
    readonly outcome: string;
    readonly requestId: string;
    retryAfter: number;
    constructor(code: string, message: string, parts?: ErrorParts);
}
/** A field is malformed or out of range, or the request itself is. */
export declare class Invalid extends SojournError {
}
/** Bytes of a field, or of the whole request, exceed the limit. */
export declare class TooLarge extends SojournError {
}
/** The state of the job, or the key, does not allow it. */
export declare class Conflict extends SojournError {
}
/** There is no such job, queue or response, or the token may not see it. */
export declare class NotFound extends SojournError {
}
/** The step does not own its job any more: nothing that it writes is stored. */
export declare class LeaseLost extends SojournError {
}
/** There is no token, or it is not a good one. */
export declare class Unauthorized extends SojournError {
}
/** The token may not do this with these jobs. */
export declare class Forbidden extends SojournError {
}
/** The queue has as many ready jobs as it may have: try again later. */
export declare class QueueFull extends SojournError {
}
/** The server has too much to do, is shutting down, or the token sends too many requests. Nothing has happened. */
export declare class Overloaded extends SojournError {
}
/** The server, or the store behind it, cannot be reached. Nothing has happened. */
export declare class Unavailable extends SojournError {
}
/** The answer did not come: the call may or may not have been executed. Repeat it with the same ids. */
export declare class UnknownOutcome extends SojournError {
}
/** The id was drawn too long ago: draw another one. */
export declare class IdExpired extends SojournError {
}
/** An error of the class that belongs to its code. */
export declare function make(code: string, message: string, parts?: ErrorParts): SojournError;
/** The error that a problem document, or the error of an item, tells about. TypeError if it has not the form of one. */
export declare function ofProblem(p: Record<string, unknown>): SojournError;
/** The text of something that was thrown, also of a value whose own methods fail. */
export declare function said(e: unknown): string;
