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
export class SojournError extends Error {
  readonly code: string;
  readonly status: number;
  readonly field: string;
  index: number | undefined;
  readonly retryable: boolean;
  readonly outcome: string;
  readonly requestId: string;
  retryAfter: number;

  constructor(code: string, message: string, parts: ErrorParts = {}) {
    super(`${parts.field ? parts.field + ": " : ""}${message} (${code})`);
    this.name = new.target.name;
    this.code = code;
    this.status = parts.status ?? 0;
    this.field = parts.field ?? "";
    this.index = parts.index;
    this.retryable = parts.retryable ?? false;
    this.outcome = parts.outcome ?? "";
    this.requestId = parts.requestId ?? "";
    this.retryAfter = parts.retryAfter ?? 0;
  }
}

/** A field is malformed or out of range, or the request itself is. */
export class Invalid extends SojournError {}
/** Bytes of a field, or of the whole request, exceed the limit. */
export class TooLarge extends SojournError {}
/** The state of the job, or the key, does not allow it. */
export class Conflict extends SojournError {}
/** There is no such job, queue or response, or the token may not see it. */
export class NotFound extends SojournError {}
/** The step does not own its job any more: nothing that it writes is stored. */
export class LeaseLost extends SojournError {}
/** There is no token, or it is not a good one. */
export class Unauthorized extends SojournError {}
/** The token may not do this with these jobs. */
export class Forbidden extends SojournError {}
/** The queue has as many ready jobs as it may have: try again later. */
export class QueueFull extends SojournError {}
/** The server has too much to do, is shutting down, or the token sends too many requests. Nothing has happened. */
export class Overloaded extends SojournError {}
/** The server, or the store behind it, cannot be reached. Nothing has happened. */
export class Unavailable extends SojournError {}
/** The answer did not come: the call may or may not have been executed. Repeat it with the same ids. */
export class UnknownOutcome extends SojournError {}
/** The id was drawn too long ago: draw another one. */
export class IdExpired extends SojournError {}

const classes: Record<string, typeof SojournError> = {
  invalid: Invalid, invalid_json: Invalid, unknown_field: Invalid, too_deep: Invalid, empty_body: Invalid, malformed_json: Invalid, trailing_data: Invalid,
  duplicate_field: Invalid, invalid_utf8: Invalid, unsupported_media_type: Invalid, weight_exceeds_limit: Invalid, token_in_url: Invalid,
  rate_limited: Overloaded, too_large: TooLarge, body_too_large: TooLarge, conflict: Conflict, cycle: Conflict, not_found: NotFound, unknown_dependency: NotFound, lease_lost: LeaseLost, unauthorized: Unauthorized,
  insufficient_scope: Forbidden, cross_origin: Forbidden, queue_full: QueueFull, overloaded: Overloaded, draining: Overloaded,
  unavailable: Unavailable, closed: Unavailable, unknown_outcome: UnknownOutcome, id_expired: IdExpired,
};

/** An error of the class that belongs to its code. */
export function make(code: string, message: string, parts: ErrorParts = {}): SojournError {
  return new (classes[code] ?? SojournError)(code, message, parts);
}

/** The error that a problem document, or the error of an item, tells about. TypeError if it has not the form of one. */
export function ofProblem(p: Record<string, unknown>): SojournError {
  const { code, detail, status = 0, index } = p;
  if (typeof code !== "string" || !code || typeof detail !== "string" || typeof status !== "number" || !["number", "undefined"].includes(typeof index)) {
    throw new TypeError("an error without a code");
  }
  return make(code, detail, { status, field: String(p.field ?? ""), index: index as number | undefined, retryable: p.retryable === true,
    outcome: String(p.outcome ?? ""), requestId: String(p.request_id ?? "") });
}

/** The text of something that was thrown, also of a value whose own methods fail. */
export function said(e: unknown): string {
  try {
    return e instanceof Error ? String(e.message) : String(e);
  } catch {
    return "a value that cannot be read";
  }
}
