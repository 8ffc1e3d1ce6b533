"""The guard's settings: section `guard` of the settings file. Every default is a tested value."""

from __future__ import annotations

from datetime import time, timedelta
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from config.fields import Dollars, Duration, Strict, TimeOfDay, Zone
from fleet.values import Money

BILLED_AT_LEAST = timedelta(seconds=60)
"""of every machine that was started (EC2); ending it sooner gives nothing of it back"""


class GuardSettings(Strict):
    """How often the guard looks, how early it warns, how it stops."""

    tick: Duration = timedelta(seconds=60)
    """how often the guard looks"""
    countdown: Duration = timedelta(minutes=15)
    """time to answer between the armed card and the pause; shortened as the burn grows"""
    drain: Duration = timedelta(minutes=5)
    """from the decision to pause to the end of the machines' cost, beside the pods' own grace"""
    thresholds: tuple[int, ...] = (50, 80)
    """percent of a cap spent at which people are told"""
    alert_at_committed: int = Field(default=90, ge=1, le=100)
    """percent of a cap committed (spent + held) at which people are told"""
    clear_below: int = Field(default=5, ge=0, le=50)
    """an alert clears this many points below its threshold"""
    blast_belt: int = Field(default=3, ge=1)
    """a shared cap that would pause more runs than this asks first; unanswered, it pauses"""
    resume_below: int = Field(default=95, ge=1, le=100)
    """percent of a cap that a resumed run's commitment must stay within"""
    repause_limit: int = Field(default=3, ge=0)
    """how often a run that somebody un-paused by hand is paused again"""
    approval_expires: Duration = timedelta(hours=24)
    """how long an approval lasts at most; it ends with the cap's window"""
    self_approval: Dollars = Money.usd(50)
    """what an owner may approve for their own work, once a window"""
    approval_step: int = Field(default=25, ge=1, le=1000)
    """percent of the cap that the Approve button proposes"""
    heartbeat_limit: Duration = timedelta(minutes=5)
    """nothing is bought where the guard's last tick is older"""
    stale_limit: Duration = timedelta(minutes=10)
    """nothing is bought for a cluster whose API has been silent for longer"""
    price_every: Duration = timedelta(minutes=5)
    """how often known machines are priced again (spot moves)"""
    machines_every: Duration = timedelta(minutes=5)
    """how often the providers are asked for our machines while nothing changes"""
    ghost_after: Duration = timedelta(minutes=15)
    """a machine of ours that has not joined after this long is reported"""
    bill_every: Duration = timedelta(hours=6)
    """how often the bill is read"""
    bill_drift_percent: int = Field(default=10, ge=1)
    """people are told where the bill and the ledger of a day differ by more"""
    digest_at: TimeOfDay = time(9, 0)
    """when the day is summed up; `slack.digest_at` where not given"""
    digest_zone: Zone = ZoneInfo("UTC")
    """whose days they are; `slack.zone` where not given"""

    @field_validator("tick", "countdown", "heartbeat_limit", "price_every", "machines_every", "bill_every")
    @classmethod
    def _positive(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            raise ValueError("must be longer than zero")
        return value

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if list(value) != sorted(set(value)) or any(not 0 < percent < 100 for percent in value):
            raise ValueError("percentages between 1 and 99, ascending; at 100 work has stopped")
        return value

    @property
    def span(self) -> timedelta:
        """What a burn is held for where no end is declared: tick + countdown + drain, or what is billed at least."""
        return max(self.tick + self.countdown + self.drain, BILLED_AT_LEAST)
