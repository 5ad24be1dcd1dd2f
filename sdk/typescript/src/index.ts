/** Client and worker for Sojourn, a durable job queue whose jobs wait for answers. Everything goes over HTTP to a server (`sojourn serve`). */
export { Client } from "./client.js";
export type { ClientOptions, DependentsOptions, EditOptions, JobFilter, NewResponse } from "./client.js";
export {
  Conflict, Forbidden, IdExpired, Invalid, LeaseLost, NotFound, Overloaded, QueueFull, SojournError, TooLarge, Unauthorized, Unavailable,
  UnknownOutcome,
} from "./errors.js";
export { Event, Follower } from "./events.js";
export type { EventFilter, EventPage, ReadOptions } from "./events.js";
export { Job, NewJob, Response, Undecodable } from "./forms.js";
export type { Backoff, Dependency, Duration, Enqueued, JobOptions, JobState, Parent, Policy, Responded } from "./forms.js";
export { RunningJob, Stopped } from "./running.js";
export type { StopReason } from "./running.js";
export { Schedules, StoredSchedule } from "./schedules.js";
export type { Schedule } from "./schedules.js";
export { Advance, Await, AwaitJobs, Cancel, Fail, Hold, Retry, Snooze, Then, Verdict } from "./verdicts.js";
export type { Details, StageOptions, WaitOptions } from "./verdicts.js";
export { Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
export { StoredWorkflow, Workflows } from "./workflows.js";
export type { Member, StoredMember, Workflow, WorkflowState } from "./workflows.js";
/** Version of this package. */
export const version = "0.1.0";
