/** Client and worker for Sojourn, a durable job queue whose jobs wait for answers. Everything goes over HTTP to a server (`sojourn serve`). */
export { Client } from "./client.js";
export type { ClientOptions, EditOptions, JobFilter, NewResponse } from "./client.js";
export { Conflict, Forbidden, IdExpired, Invalid, LeaseLost, NotFound, Overloaded, QueueFull, SojournError, TooLarge, Unauthorized, Unavailable, UnknownOutcome, } from "./errors.js";
export { Job, NewJob, Response, Undecodable } from "./forms.js";
export type { Backoff, Duration, Enqueued, JobOptions, JobState, Policy, Responded } from "./forms.js";
export { RunningJob, Stopped } from "./running.js";
export type { StopReason } from "./running.js";
export { Await, Cancel, Fail, Hold, Retry, Snooze, Verdict } from "./verdicts.js";
export type { WaitOptions } from "./verdicts.js";
export { Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
