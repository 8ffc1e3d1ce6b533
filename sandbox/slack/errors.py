"""What the stand-in answers when it refuses."""

from __future__ import annotations

from typing import Any


class SlackError(Exception):
    """A refusal of the Web API: `{"ok": false, "error": code, **more}`."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more

    def body(self) -> dict[str, Any]:
        """The JSON answer."""
        return {"ok": False, "error": self.code, **self.more}


class RateLimited(SlackError):
    """HTTP 429; `retry_after` is in whole seconds of real time."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("ratelimited")
        self.retry_after = retry_after


class ConnectionDropped(Exception):
    """A fault: the connection ends without an answer."""


class NotPossible(ValueError):
    """A person tried what Slack's own client would not let them do; the text says why."""
