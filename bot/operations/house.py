"""Everything an operation may use, in one value. The packages' facades are narrowed to what people can ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from bot.operations.fitting import Fit
from fleet.budget import Scope
from fleet.journal import Journal
from fleet.model import Decision, Person, Pod
from fleet.ports import Budget, ClusterView, Directory, Metrics, Objects
from fleet.values import Money
from guard.answers import BillComparison, CostRow, Fault, Outcome, RunCosts
from guard.caps import Cap, CapStatus
from guard.settings import GuardSettings
from launcher.launch import Launcher
from launcher.settings import LauncherSettings


class GuardDesk(Protocol):
    """What people can ask of the guard (`guard.book.Guard`)."""

    @property
    def budget(self) -> Budget:
        """The one door to money."""
        ...

    def caps(self, now: datetime) -> tuple[CapStatus, ...]:
        """Every cap as it stands."""
        ...

    def set_cap(self, cap: Cap, actor: str, now: datetime) -> None:
        """Set or change a cap."""
        ...

    def remove_cap(self, name: str, actor: str, now: datetime) -> None:
        """Remove a cap."""
        ...

    def costs(self, *, by: str, since: datetime, until: datetime) -> tuple[CostRow, ...]:
        """Cost rows grouped by a dimension."""
        ...

    def run_costs(self, run: str, now: datetime) -> RunCosts:
        """What a run costs."""
        ...

    def approve(
        self, request: str, person: Person, amount: Money | None, now: datetime, *, again: bool = False
    ) -> Outcome:
        """Raise a cap for a bounded time; `again`: the same click after a crash."""
        ...

    def deny(self, request: str, person: Person, now: datetime) -> Outcome:
        """Refuse to raise it: what was announced happens at its time."""
        ...

    def requested_pause(self, run: str, cluster: str, person: Person, reason: str, now: datetime) -> Decision:
        """A person's pause."""
        ...

    def requested_resume(
        self, run: str, cluster: str, person: Person, reason: str, now: datetime, *, request: str = ""
    ) -> Decision:
        """A person's resume."""
        ...

    def requested_kill(self, run: str, cluster: str, person: Person, reason: str, now: datetime) -> Decision:
        """A person's kill."""
        ...

    def blocked(self, scope: Scope, now: datetime) -> str:
        """Why nothing may be bought for a scope."""
        ...

    def bill(self, day: str, now: datetime) -> BillComparison:
        """A day's bill beside the ledger."""
        ...

    def verify_ledger(self) -> tuple[Fault, ...]:
        """Recompute the lines from the observations."""
        ...


class Planner(Protocol):
    """What people can ask of the scaler (`bot.wire` builds it over `scaler.preview`)."""

    def fit(self, cluster: str, pods: Sequence[Pod], now: datetime) -> Fit:
        """The machines that these pods would need now, beside what is there."""
        ...

    def pending_reasons(self, run: str, now: datetime) -> tuple[str, ...]:
        """Why pods of a run wait, in sentences."""
        ...


@dataclass(frozen=True)
class House:
    """The running service, as operations see it."""

    experiments: Path
    launcher_settings: LauncherSettings
    guard_settings: GuardSettings
    channels: Mapping[str, str]
    """every team of the settings → its channel, "" where it has none"""
    default_channel: str
    journal: Journal
    guard: GuardDesk
    planner: Planner
    launcher: Launcher
    views: Mapping[str, ClusterView]
    objects: Mapping[str, Objects]
    directory: Directory
    metrics: Metrics | None
    card_expires: timedelta
    home: str
    """name of the cluster that launches go to where an experiment names none"""

    def channel_of(self, team: str) -> str:
        """Where messages about a team's work go."""
        return self.channels.get(team) or self.default_channel
