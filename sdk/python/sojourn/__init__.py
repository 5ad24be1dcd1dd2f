"""Client and worker for Sojourn, a durable job queue whose jobs wait for answers.

Everything goes over HTTP to a server (``sojourn serve``). Standard library only.
"""

from .client import Client
from .errors import (
    Conflict,
    Error,
    Forbidden,
    IdExpired,
    Invalid,
    LeaseLost,
    NotFound,
    Overloaded,
    QueueFull,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownOutcome,
)
from .events import Event, EventPage, Follower, Tail
from .running import RunningJob, Stopped
from .forms import Dependency, Enqueued, Job, NewJob, Responded, Response, Undecodable
from .schedules import Schedule, Schedules, StoredSchedule
from .verdicts import Advance, Await, AwaitJobs, Cancel, Fail, Hold, Retry, Snooze, Then, Verdict
from .worker import Worker
from .workflows import Member, StoredMember, StoredWorkflow, Workflow, Workflows

__version__ = "0.1.0"

__all__ = [
    "Advance", "Await", "AwaitJobs", "Cancel", "Client", "Conflict", "Dependency", "Enqueued", "Error", "Event", "EventPage", "Fail", "Follower", "Forbidden", "Hold", "IdExpired", "Invalid", "Job",
    "LeaseLost", "Member", "NewJob", "NotFound", "Overloaded", "QueueFull", "Responded", "Response", "Retry", "RunningJob", "Schedule", "Schedules", "Snooze",
    "Stopped", "StoredMember", "StoredSchedule", "StoredWorkflow", "Tail", "Then", "TooLarge", "Unauthorized", "Unavailable", "Undecodable", "UnknownOutcome",
    "Verdict", "Worker", "Workflow", "Workflows",
]
