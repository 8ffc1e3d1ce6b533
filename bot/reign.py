"""Whether this process may write: it holds the Lease, lost it, or does not know.

Held: everything runs. Not known (the home API does not answer): metering and pausing go on, nothing new is
bought, launched, scaled or resumed: every hold asks here. Somebody else's: nothing is written any more.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

import structlog

from fleet.errors import OutsideError
from fleet.ports import Lease

log = structlog.get_logger(__name__)


class Standing(Enum):
    """How we stand with the Lease."""

    HELD = "held"
    UNKNOWN = "unknown"
    LOST = "lost"
    WAITING = "waiting"
    """somebody else has held it since before we started"""


class Reign:
    """Renews the Lease and remembers how it went."""

    def __init__(self, lease: Lease, duration: timedelta) -> None:
        self._lease = lease
        self._duration = duration
        self._renewed: datetime | None = None
        self.standing = Standing.WAITING
        self._epoch = 0

    @property
    def writes(self) -> bool:
        """Metering, pausing and telling may go on."""
        return self.standing in (Standing.HELD, Standing.UNKNOWN)

    @property
    def buys(self) -> bool:
        """Machines may be bought and runs launched."""
        return self.standing is Standing.HELD

    @property
    def holder(self) -> str:
        """Who holds it, as last seen."""
        return self._lease.holder

    def refusal(self, now: datetime) -> str:
        """Why nothing may be bought, launched, scaled or resumed now; "" while the Lease is surely ours.

        `now` is the moment of the hold, not of the step: where a step took so long that half of the Lease's
        duration has passed, it is renewed first, or found to be somebody else's.
        """
        if self.buys and not self._fresh(now):
            self.renew(now)
        if self.buys:
            return ""
        if self.standing is Standing.UNKNOWN:
            return (
                "The home cluster's API does not answer, so it is not sure that this process may still decide, "
                "and nothing is bought."
            )
        return f"{self.holder or 'Another process'} holds the Lease, so this process buys nothing."

    def _fresh(self, now: datetime) -> bool:
        return self._renewed is not None and abs(now - self._renewed) < self._duration / 2

    def renew(self, now: datetime) -> Standing:
        """Take or renew. Never raises: what the API says against it is logged."""
        before = self.standing
        try:
            held = self._lease.acquire(now)
        except OutsideError as error:
            log.warning("lease not renewed", error=str(error))
            self.standing = (
                Standing.UNKNOWN if before in (Standing.HELD, Standing.UNKNOWN) else Standing.WAITING
            )
            return self.standing
        if held:
            changed = self._epoch not in (0, self._lease.epoch)
            self.standing = Standing.LOST if changed else Standing.HELD
            self._epoch = self._epoch or self._lease.epoch
            self._renewed = now
        else:
            self.standing = Standing.WAITING if before is Standing.WAITING else Standing.LOST
        if self.standing is not before:
            log.info(
                "lease", standing=self.standing.value, holder=self._lease.holder, epoch=self._lease.epoch
            )
        return self.standing

    def release(self) -> None:
        """Give it up on a clean stop."""
        if self.standing is Standing.HELD:
            try:
                self._lease.release()
            except OutsideError as error:
                log.warning("lease not released", error=str(error))
