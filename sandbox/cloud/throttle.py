"""Token buckets in world time: calls by action, and machines by what is done to them, in one region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sandbox.cloud.codec import AwsError
from sandbox.cloud.spec import RateSpec

LAUNCHES = "launches"
TERMINATIONS = "terminations"
_DEFAULTS = {"*": RateSpec(1000, 100), LAUNCHES: RateSpec(1000, 2), TERMINATIONS: RateSpec(1000, 20)}
"""Calls are generous; the machine buckets are those of EC2's developer guide."""


@dataclass
class Bucket:
    """Full at first."""

    rate: RateSpec
    level: float = -1.0
    at: datetime | None = None

    def take(self, count: float, now: datetime) -> bool:
        """Take tokens if there are enough."""
        if self.at is None:
            self.level = self.rate.size
        else:
            refilled = (now - self.at).total_seconds() * self.rate.refill
            self.level = min(self.rate.size, self.level + refilled)
        self.at = now
        if self.level < count:
            return False
        self.level -= count
        return True


@dataclass
class Throttle:
    """All buckets of a region. `rates` by action, `*`, LAUNCHES or TERMINATIONS, over the defaults."""

    rates: Mapping[str, RateSpec] = field(default_factory=dict)
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def take(self, name: str, count: int, now: datetime) -> None:
        """Take tokens; AwsError RequestLimitExceeded where there are not enough."""
        bucket = self.buckets.get(name)
        if bucket is None:
            rates = {**_DEFAULTS, **self.rates}
            bucket = self.buckets[name] = Bucket(rates.get(name, rates["*"]))
        if not bucket.take(count, now):
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
