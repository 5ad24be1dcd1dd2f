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
from .running import RunningJob, Stopped
from .forms import Enqueued, Job, NewJob, Responded, Response, Undecodable
from .verdicts import Await, Cancel, Fail, Hold, Retry, Snooze, Verdict
from .worker import Worker

__all__ = [
    "Await", "Cancel", "Client", "Conflict", "Enqueued", "Error", "Fail", "Forbidden", "Hold", "IdExpired", "Invalid", "Job", "LeaseLost",
    "NewJob", "NotFound", "Overloaded", "QueueFull", "Responded", "Response", "Retry", "RunningJob", "Snooze", "Stopped", "TooLarge",
    "Unauthorized", "Unavailable", "Undecodable", "UnknownOutcome", "Verdict", "Worker",
]
