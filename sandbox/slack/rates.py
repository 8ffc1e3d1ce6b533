"""Slack's rate limits, in real time: token buckets a method, and about one post a second a channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.slack.errors import RateLimited

TIER_PER_MINUTE = {1: 1, 2: 20, 3: 50, 4: 100}
SPECIAL_PER_MINUTE = {"auth.test": 600, "chat.getPermalink": 600, "api.test": 600, "chat.postMessage": 300}
POSTS_PER_CHANNEL_PER_SECOND = 1.0
_CHANNEL_BURST = 2
# Tier 1 allows "1+ per minute"; a client that reconnects after a drop needs a few at once.
_MINIMUM_BURST = 5


@dataclass
class Bucket:
    """Tokens that refill with time; `rate` is per second."""

    capacity: float
    rate: float
    tokens: float
    at: float

    def take(self, now: float) -> float:
        """Take one token; 0, or the seconds until there is one."""
        self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


class RateLimits:
    """Refuses with 429 what exceeds the table. `enabled` False lets everything through."""

    def __init__(self, monotonic: Callable[[], float], *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._monotonic = monotonic
        self._buckets: dict[str, Bucket] = {}

    def check(self, method: str, tier: int, channel: str = "") -> None:
        """Count one call; raises RateLimited."""
        if not self.enabled:
            return
        per_minute = SPECIAL_PER_MINUTE.get(method) or TIER_PER_MINUTE[tier]
        self._take(method, max(_MINIMUM_BURST, per_minute), per_minute / 60)
        if method == "chat.postMessage" and channel:
            self._take(f"{method} {channel}", _CHANNEL_BURST, POSTS_PER_CHANNEL_PER_SECOND)

    def _take(self, key: str, capacity: float, rate: float) -> None:
        now = self._monotonic()
        bucket = self._buckets.setdefault(key, Bucket(capacity, rate, capacity, now))
        wait = bucket.take(now)
        if wait:
            raise RateLimited(max(1, math.ceil(wait)))
