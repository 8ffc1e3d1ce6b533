"""Moments as integers: microseconds since the epoch, UTC. Exact, sortable, and what the tables hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR


def micros(moment: datetime) -> int:
    """An aware time as microseconds since the epoch."""
    return (moment - EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """The aware UTC time of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=value)


def span(duration: timedelta) -> int:
    """A duration in microseconds."""
    return duration // _MICROSECOND


def day_of(value: int) -> str:
    """The UTC day, YYYY-MM-DD, in which the moment lies."""
    return moment(value).date().isoformat()


def day_start(day: str) -> int:
    """The first microsecond of a UTC day written YYYY-MM-DD."""
    return micros(datetime.fromisoformat(day).replace(tzinfo=UTC))
