"""Short-lived permissions Slack hands out with each interaction: trigger ids and response URLs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sandbox.slack.errors import SlackError

TRIGGER_SECONDS = 3.0
"""real time: opening a modal has to follow the click at once"""
RESPONSE_USES = 5
RESPONSE_WINDOW = timedelta(minutes=30)
"""world time"""


class Triggers:
    """Trigger ids: three seconds, one use."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._numbers = itertools.count(1)
        self._issued: dict[str, tuple[str, float]] = {}
        self._used: set[str] = set()

    def issue(self, person_id: str) -> str:
        """A new trigger id for somebody's click or command."""
        number = next(self._numbers)
        trigger = f"{number}.{number * 7919}.{number:032x}"
        self._issued[trigger] = (person_id, self._monotonic())
        return trigger

    def exchange(self, trigger: str) -> str:
        """Whose interaction it was; raises SlackError for a wrong, old or used one."""
        if trigger in self._used:
            raise SlackError("exchanged_trigger_id")
        if trigger not in self._issued:
            raise SlackError("invalid_trigger_id")
        person_id, issued = self._issued[trigger]
        if self._monotonic() - issued > TRIGGER_SECONDS:
            raise SlackError("expired_trigger_id")
        self._used.add(trigger)
        return person_id


@dataclass
class ResponseUrl:
    """Where an app may answer an interaction, five times within half an hour."""

    token: str
    person: str
    channel: str
    expires: datetime
    uses_left: int = RESPONSE_USES
    message_ts: str = ""
    """the message a button was on"""
    ephemeral: bool = False
    """whether that message was for one person only"""

    def use(self, now: datetime) -> None:
        """Count one use; raises SlackError."""
        if now > self.expires:
            raise SlackError("expired_url")
        if self.uses_left <= 0:
            raise SlackError("used_url")
        self.uses_left -= 1
