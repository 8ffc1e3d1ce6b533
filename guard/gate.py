"""Why nothing may be bought now, whatever would fit: the guard is silent, the run is stopped, a belt waits.

These are the rows of the fail-safe table that end in "block": each is one sentence for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from fleet.ports import Misfit, Scope
from fleet.values import format_duration
from guard.capbook import CapBook
from guard.caps import applies
from guard.runs import KILLED, KILLING, STOPPED, RunBook


class Gate(Protocol):
    """Why nothing may be bought for a scope."""

    def prepare(self, now: datetime) -> None:
        """Ask the outside what has to be asked, so that `refusal` need not while a transaction is open."""
        ...

    def refusal(self, scope: Scope, now: datetime, *, resuming: bool = False) -> str:
        """A sentence; "" where nothing stands against it. `resuming`: the run's own pause does not count."""
        ...


class Belts(Protocol):
    """Caps whose blast belt waits for an answer."""

    def belted(self) -> Sequence[str]:
        """Names of caps."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How old the guard's last look, and a cluster's last word, may be while something is bought."""

    heartbeat: timedelta
    stale: timedelta


class Gatekeeper:
    """Knows the Lease, the heartbeat, the stopped runs, the silent clusters and the belts."""

    def __init__(
        self,
        runs: RunBook,
        caps: CapBook,
        belts: Belts,
        *,
        limits: Limits,
        lease: Callable[[datetime], str],
    ) -> None:
        self._runs = runs
        self._caps = caps
        self._belts = belts
        self._limits = limits
        self._lease = lease
        self.last_tick: datetime | None = None
        self.stale_since: Mapping[str, datetime] = {}
        self.fault = ""
        """why the ledger cannot be trusted now; purchases wait"""

    def prepare(self, now: datetime) -> None:
        """Make sure of the Lease where its last renewal is too long ago."""
        self._lease(now)

    def refusal(self, scope: Scope, now: datetime, *, resuming: bool = False) -> str:
        """The first thing that stands against buying for this scope; "" where nothing does."""
        if self.fault:
            return f"Nothing is bought: {self.fault}."
        return (
            self._lease(now)
            or silence(self.last_tick, now, self._limits.heartbeat)
            or self._stopped(scope.run, resuming)
            or self._cluster_silent(scope.cluster, now)
            or self._belt(scope)
        )

    def _stopped(self, run_id: str, resuming: bool) -> str:
        run = self._runs.get(run_id) if run_id else None
        if run is None or run.state not in STOPPED:
            return ""
        if resuming and run.state not in (KILLING, KILLED):
            return ""
        because = f" by the cap {run.cap}" if run.cap else ""
        return f"The run {run.run} is {run.state}{because}, so nothing is bought for it."

    def _cluster_silent(self, cluster: str, now: datetime) -> str:
        since = self.stale_since.get(cluster)
        if since is None or now - since <= self._limits.stale:
            return ""
        return f"The API of cluster {cluster} has been silent for {format_duration(now - since)}, so nothing is bought there."

    def _belt(self, scope: Scope) -> str:
        for name in self._belts.belted():
            cap = self._caps.get(name)
            if cap is not None and applies(cap, scope):
                return (
                    f"The cap {name} ({cap.subject}) is about to pause several runs and waits for an answer, "
                    "so nothing new starts under it."
                )
        return ""


def sentence(found: Sequence[Misfit], within: int = 100) -> str:
    """Every cap that does not fit, broadest first, with what is left and who can raise it.

    `within`: percent of each cap that a resume must stay inside; `left` is counted up to there.
    """
    parts = []
    for misfit in found:
        who = f"; {', '.join(misfit.raised_by)} can raise it" if misfit.raised_by else ""
        room = f"has {misfit.left} left of {misfit.limit}"
        if within < 100:
            room = f"allows {misfit.limit}; a resume must stay within {within} % of the cap: {misfit.left} of that is left"
        parts.append(f"the cap {misfit.cap} ({misfit.scope}) {room}, {misfit.short} short{who}")
    return f"It does not fit: {'; '.join(parts)}." if parts else ""


def silence(last: datetime | None, now: datetime, limit: timedelta) -> str:
    """Why nothing is bought while the guard is silent; "" while its heartbeat is fresh enough."""
    if last is None:
        return "The guard has not looked yet, so nothing is bought."
    age = now - last
    if age <= limit:
        return ""
    return f"The guard has been silent for {format_duration(age)}, so nothing is bought."
