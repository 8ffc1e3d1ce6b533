"""Chat where no Slack is configured: what would be said goes to the log, and nothing is kept."""

from __future__ import annotations

from datetime import datetime

import structlog

from bot.messages.model import Message
from bot.slack.outbox import Whisper

log = structlog.get_logger(__name__)


class LogChat:
    """The Chat port over the log."""

    reachable = True

    def post(self, *, key: str, channel: str, message: Message, thread: str = "", now: datetime) -> None:
        """Log it."""
        log.info("message", key=key, channel=channel, thread=thread, text=message.text, at=now)

    def update(self, *, key: str, message: Message, now: datetime) -> None:
        """Log it."""
        log.info("message edited", key=key, text=message.text, at=now)

    def whisper(self, *, key: str, to: Whisper, message: Message, now: datetime) -> None:
        """Log it."""
        log.info("whisper", key=key, person=to.person, text=message.text, at=now)

    def flush(self, now: datetime) -> int:
        """Nothing waits."""
        del now
        return 0

    def next_due(self) -> datetime | None:
        """Nothing waits."""
        return None

    def waiting(self) -> int:
        """Nothing waits."""
        return 0
