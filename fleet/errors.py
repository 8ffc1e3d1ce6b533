"""Errors as types: the type decides what happens next, so that overflow never hangs on a string.

QuartermasterError
├── BadInput        what a person typed or wrote; one sentence, exit code 2
├── NoCapacity      another offer; remember it, doubling
├── NotOffered      remember for hours
├── QuotaExceeded   the whole family in that region; tell a person
├── SubnetFull      another subnet
├── Throttled       wait; not a capacity signal
├── Refused         credentials or configuration: stop, tell
├── NotFound        the thing is not there (any more)
├── Conflict        somebody else changed it first, or it exists already
├── Expired         a watch or a list token is too old: list again
└── Unavailable     the other side does not answer; last good data stays
"""

from __future__ import annotations


class QuartermasterError(Exception):
    """Base of every error that this product raises on purpose; `str()` is a sentence for people."""


class BadInput(QuartermasterError):
    """Input that cannot be used: what, where, why, and what to type instead.

    `where` is `file:line` (or a flag, or the slash text); `hint` is what to type instead.
    """

    def __init__(self, problem: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.problem = problem
        self.where = where
        self.hint = hint
        super().__init__(problem)

    def __str__(self) -> str:
        """One sentence: where, what and why, what to type instead."""
        place = f"{self.where}: " if self.where else ""
        advice = f" {self.hint}" if self.hint else ""
        return f"{place}{self.problem}{advice}"


class OutsideError(QuartermasterError):
    """Something the outside world answered. `code` is the raw code it gave, for logs and audits."""

    def __init__(self, message: str, *, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class NoCapacity(OutsideError):
    """The provider has none of this offer now."""


class NotOffered(OutsideError):
    """This instance type does not exist in that zone."""


class QuotaExceeded(OutsideError):
    """The account's quota for the whole family in that region is used up."""


class SubnetFull(OutsideError):
    """No free addresses in the subnet."""


class Throttled(OutsideError):
    """Too many calls. `retry_after` is in seconds, None where the other side does not say."""

    def __init__(self, message: str, *, code: str = "", retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, code=code)


class Refused(OutsideError):
    """Credentials, permissions or configuration are wrong: stop and tell, never retry in a loop."""


class NotFound(OutsideError):
    """The object is not there."""


class Conflict(OutsideError):
    """The object exists already, or its version moved on."""


class Expired(OutsideError):
    """The resourceVersion or continue token is too old (HTTP 410)."""


class Unavailable(OutsideError):
    """No answer, a dropped connection, or a 5xx."""
