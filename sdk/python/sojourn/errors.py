"""Errors of a server, by their stable codes."""

from __future__ import annotations

from typing import Any, Mapping, Optional


class Error(Exception):
    """A refusal with a stable code. Decide by ``code`` or by class; ``retryable`` means that the same call may succeed later, unchanged.

    ``status`` is that of HTTP, 0 if no answer came. ``field`` names what is at fault, ``index`` the item of a batch, if any.
    ``outcome`` of a failed write is ``"not_stored"`` or ``"unknown"``. ``retry_after`` are the seconds that the server asks to wait.
    """

    def __init__(self, code: str, message: str, *, status: int = 0, field: str = "", index: Optional[int] = None, retryable: bool = False,
                 outcome: str = "", request_id: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.field, self.index = code, message, status, field, index
        self.retryable, self.outcome, self.request_id, self.retry_after = retryable, outcome, request_id, retry_after

    def __str__(self) -> str:
        at = "" if self.index is None else "item %d of the batch: " % self.index
        if self.field:
            at += self.field + ": "
        return "%s%s (%s)" % (at, self.message, self.code)


class Invalid(Error):
    """A field is malformed or out of range, or the request itself is."""


class TooLarge(Error):
    """Bytes of a field, or of the whole request, exceed the limit."""


class Conflict(Error):
    """The state of the job, or the key, does not allow it."""


class NotFound(Error):
    """There is no such job, queue or response, or the token may not see it."""


class LeaseLost(Error):
    """The step does not own its job any more: nothing that it writes is stored."""


class Unauthorized(Error):
    """There is no token, or it is not a good one."""


class Forbidden(Error):
    """The token may not do this with these jobs."""


class QueueFull(Error):
    """The queue has as many ready jobs as it may have: try again later."""


class Overloaded(Error):
    """The server has too much to do, is shutting down, or the token sends too many requests. Nothing has happened."""


class Unavailable(Error):
    """The server, or the store behind it, cannot be reached. Nothing has happened."""


class UnknownOutcome(Error):
    """The answer did not come: the call may or may not have been executed. Repeat it with the same ids."""


class IdExpired(Error):
    """The id was drawn too long ago: draw another one."""


_CLASSES = {
    "invalid": Invalid, "invalid_json": Invalid, "unknown_field": Invalid, "too_deep": Invalid, "empty_body": Invalid, "malformed_json": Invalid, "trailing_data": Invalid,
    "duplicate_field": Invalid, "invalid_utf8": Invalid, "unsupported_media_type": Invalid, "weight_exceeds_limit": Invalid, "token_in_url": Invalid,
    "too_large": TooLarge, "body_too_large": TooLarge, "conflict": Conflict, "cycle": Conflict, "not_found": NotFound, "unknown_dependency": NotFound, "lease_lost": LeaseLost,
    "unauthorized": Unauthorized, "insufficient_scope": Forbidden, "cross_origin": Forbidden, "queue_full": QueueFull,
    "overloaded": Overloaded, "draining": Overloaded, "rate_limited": Overloaded, "unavailable": Unavailable, "closed": Unavailable, "unknown_outcome": UnknownOutcome, "id_expired": IdExpired,
}


def make(code: str, message: str, **more: Any) -> Error:
    """An error of the class that belongs to its code."""
    return _CLASSES.get(code, Error)(code, message, **more)


def of_problem(p: Mapping[str, Any]) -> Error:
    """The error that a problem document, or the error of an item, tells about. ValueError if it has not the form of one."""
    code, detail, status, index = p.get("code"), p.get("detail"), p.get("status", 0), p.get("index")
    if not isinstance(code, str) or not code or not isinstance(detail, str) or type(status) is not int or type(index) not in (int, type(None)):
        raise ValueError("an error without a code")
    return make(code, detail, status=status, field=str(p.get("field", "")), index=index, retryable=p.get("retryable") is True,
                outcome=str(p.get("outcome", "")), request_id=str(p.get("request_id", "")))


def said(e: BaseException) -> str:
    """The text of an exception, also of one whose own methods fail."""
    try:
        return str(e)
    except BaseException:
        return "an exception whose text cannot be read"
