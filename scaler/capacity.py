"""What providers said no to, and for how long that is believed. Pure; `scaler.store` keeps it.

NoCapacity is remembered a few minutes, doubling while it repeats; an offer that does not exist for hours;
a quota for the whole family in that region; a full subnet for its zone. Throttling is no capacity signal:
the place is waited for, not left. Refused credentials or configuration stop the pool, and a person is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fleet.errors import NoCapacity, NotOffered, QuotaExceeded, SubnetFull, Throttled
from fleet.model import Offer
from scaler.settings import ScalerSettings


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that is left alone until a time."""

    until: datetime
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that is left alone now, by key."""

    strikes: Mapping[str, Strike] = field(default_factory=dict)

    def unavailable(self, offer: Offer, now: datetime) -> str:
        """Why this offer need not be tried now; "" where it may be."""
        for key in (_offer_key(offer), _quota_key(offer), _subnet_key(offer)):
            strike = self.strikes.get(key)
            if strike is not None and strike.until > now:
                return f"{strike.reason} (until {strike.until:%H:%M} UTC)"
        return ""

    def waiting(self, offer: Offer, now: datetime) -> str:
        """Why everything that would go there waits instead of going elsewhere; "" where nothing does."""
        for key in (_throttle_key(offer), _refused_key(offer)):
            strike = self.strikes.get(key)
            if strike is not None and strike.until > now:
                return strike.reason
        return ""

    def note(self, error: Exception, offer: Offer, now: datetime, policy: ScalerSettings) -> Memory:
        """What an error about this offer teaches."""
        reason = str(error)
        if isinstance(error, NotOffered):
            return self._struck(_offer_key(offer), now, policy.offering_memory, reason)
        if isinstance(error, QuotaExceeded):
            return self._struck(_quota_key(offer), now, policy.quota_memory, reason)
        if isinstance(error, SubnetFull):
            return self._struck(_subnet_key(offer), now, policy.subnet_memory, reason)
        if isinstance(error, Throttled):
            wait = policy.throttle_wait
            if error.retry_after is not None:
                wait = timedelta(seconds=error.retry_after)
            return self._struck(_throttle_key(offer), now, wait, reason, limit=timedelta(minutes=1))
        if isinstance(error, NoCapacity):
            return self._no_capacity(offer, now, policy, reason)
        return self._struck(_refused_key(offer), now, policy.refused_memory, reason)

    def note_failed_machine(
        self, offer_key: str, now: datetime, policy: ScalerSettings, reason: str
    ) -> Memory:
        """A machine of this offer was paid for and never became useful: leave the offer for a while."""
        return self._struck(
            f"offer/{offer_key}", now, policy.capacity_memory, reason, limit=policy.capacity_memory_max
        )

    def note_success(self, offer: Offer) -> Memory:
        """It had some: the next no starts from the shortest time again."""
        keys = {_offer_key(offer), _throttle_key(offer), _subnet_key(offer)}
        if not keys & set(self.strikes):
            return self
        return Memory({key: strike for key, strike in self.strikes.items() if key not in keys})

    def fresh(self, now: datetime, policy: ScalerSettings) -> Memory:
        """Without what has been over for so long that it would not be doubled any more."""
        kept = {k: s for k, s in self.strikes.items() if s.until + policy.capacity_memory_max > now}
        return self if len(kept) == len(self.strikes) else Memory(kept)

    def _no_capacity(self, offer: Offer, now: datetime, policy: ScalerSettings, reason: str) -> Memory:
        limit = policy.capacity_memory_max
        return self._struck(_offer_key(offer), now, policy.capacity_memory, reason, limit=limit)

    def _struck(
        self, key: str, now: datetime, length: timedelta, reason: str, limit: timedelta | None = None
    ) -> Memory:
        """With `limit` the length doubles each time, up to it."""
        before = self.strikes.get(key)
        count = before.count + 1 if before is not None else 1
        if limit is not None:
            length = min(length * 2 ** min(count - 1, 20), limit)
        strike = Strike(now + length, count, reason)
        return replace(self, strikes={**self.strikes, key: strike})


def _offer_key(offer: Offer) -> str:
    return f"offer/{offer.key}"


def _quota_key(offer: Offer) -> str:
    return f"quota/{offer.provider}/{offer.region}/{offer.family}/{offer.capacity_type}"


def _subnet_key(offer: Offer) -> str:
    return f"subnet/{offer.pool}/{offer.zone}"


def _throttle_key(offer: Offer) -> str:
    return f"throttled/{offer.provider}/{offer.region}"


def _refused_key(offer: Offer) -> str:
    return f"refused/{offer.provider}/{offer.pool}"


def is_config_problem(error: Exception) -> bool:
    """Trying elsewhere would be refused as well: a person has to look."""
    return not isinstance(error, NoCapacity | NotOffered | QuotaExceeded | SubnetFull | Throttled)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Stops buying again and again for pods that never start (one pod once had 235 nodes bought in 12 h).

    Counted per pod, so that a large class bought in many batches is not mistaken for it; forgotten per
    class, because any pod of a class that starts shows that its machines help.
    """

    attempts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """class → uid of a pod → purchases for it"""

    def bought(self, classes: Mapping[str, Iterable[str]]) -> Breaker:
        """A purchase for these pods, by class."""
        found = dict(self.attempts)
        for key, uids in classes.items():
            before = dict(found.get(key, {}))
            for uid in uids:
                before[uid] = before.get(uid, 0) + 1
            found[key] = before
        return Breaker(found)

    def seen(self, pending: frozenset[str]) -> Breaker:
        """Forget classes of which a pod is pending no more: that is progress (or nobody wants it any more)."""
        kept = {key: tried for key, tried in self.attempts.items() if tried.keys() <= pending}
        return self if len(kept) == len(self.attempts) else Breaker(kept)

    def launches(self, key: str) -> int:
        """Purchases for the pod of this class that was bought for most often."""
        return max(self.attempts.get(key, {}).values(), default=0)

    def tripped(self, policy: ScalerSettings) -> dict[str, str]:
        """Class → why nothing more is bought for it."""
        return {
            key: f"machines were bought {self.launches(key)} times for such pods and none of them started"
            for key in self.attempts
            if self.launches(key) >= policy.launches_without_progress
        }
