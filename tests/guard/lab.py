"""A guard over fakes that can be ticked through time and restarted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fleet.db import Database
from fleet.journal import MIGRATIONS as JOURNAL
from fleet.journal import Journal
from fleet.model import L_HOLD
from fleet.ports import HoldKind, HoldRequest, Scope
from fleet.values import Money
from guard.book import Guard
from guard.caps import Cap, ScopeKind, Window
from guard.outside import GuardPorts
from guard.settings import GuardSettings
from guard.tables import MIGRATIONS
from tests.builders import T0, instance, job, node, pod
from tests.guard.fakes import (
    FakeBilling,
    FakeDirectory,
    FakeMachines,
    FakeMetrics,
    FakeNotifier,
    FakePrices,
    FakeView,
    FakeWorkloads,
    labels,
)


@dataclass
class Lab:
    """A guard over fakes, on a file or in memory, that can be restarted."""

    path: Path | str = ":memory:"
    settings: GuardSettings = field(default_factory=GuardSettings)
    start: datetime = T0

    def __post_init__(self) -> None:
        self.view = FakeView()
        self.views = [self.view]
        self.machines = FakeMachines()
        self.prices = FakePrices()
        self.workloads = FakeWorkloads(self.view)
        self.notifier = FakeNotifier()
        self.metrics = FakeMetrics()
        self.billing = FakeBilling()
        self.now = self.start
        self.lease = ""
        self.database = Database(self.path, [JOURNAL, MIGRATIONS])
        self.boot()

    def boot(self) -> Guard:
        """A fresh process over what the database holds."""
        self.journal = Journal(self.database)
        self.guard = Guard(
            database=self.database,
            journal=self.journal,
            settings=self.settings,
            outside=GuardPorts(
                views=self.views,
                machines=(self.machines,),
                prices=self.prices,
                workloads=self.workloads,
                directory=FakeDirectory(),
                notifier=self.notifier,
                metrics=self.metrics,
                billing=self.billing,
                lease=lambda now: self.lease,
            ),
        )
        return self.guard

    def pass_time(self, step: timedelta | None = None, **until: float) -> Any:
        """Tick on for so long; returns the last report."""
        end = self.now + timedelta(**until)
        report = None
        while self.now < end:
            self.now = min(end, self.now + (step or self.settings.tick))
            report = self.guard.tick(self.now)
        return report

    def tick(self) -> Any:
        """One tick now."""
        return self.guard.tick(self.now)

    def machine(self, name: str, run: str = "abcde", at: datetime | None = None, **who: str) -> None:
        """A machine bought for a run that has joined: 8 cores, 64 GiB, 8 GPUs."""
        at = at or self.now
        tags = labels(run, **who) | {L_HOLD: f"h-{name}"}
        self.machines.put(instance(f"i-{name}", launched=at, tags=tags, instance_type="p5.48xlarge"))
        self.view.put(
            node(
                name,
                cpu="8",
                memory="64Gi",
                gpus=8,
                created=at,
                labels=labels(run, **who),
                provider_id=f"aws:///us-west-2a/i-{name}",
            )
        )

    def run(self, run: str = "abcde", machines: int = 1, at: datetime | None = None, **who: str) -> None:
        """A released run with a pod that fills each of so many machines."""
        at = at or self.now
        self.view.put(
            job(f"{run}-workers", labels=labels(run, **who), completions=None, active=machines, created=at)
        )
        for index in range(machines):
            name = f"{run}-{index}"
            self.machine(name, run, at, **who)
            self.view.put(
                pod(
                    f"{name}-pod",
                    cpu="8",
                    gpus=8,
                    node=name,
                    phase="Running",
                    labels=labels(run, **who),
                    created=at,
                    scheduled=at,
                    started=at,
                )
            )

    def cap(self, name: str, limit: str, kind: str = "run", value: str = "abcde", **more: Any) -> Cap:
        """Set a cap."""
        cap = Cap(
            name=name,
            scope_kind=ScopeKind(kind),
            scope_value="" if kind == "fleet" else value,
            limit=Money.usd(limit),
            **({"window": Window.TOTAL} | more),
        )
        self.guard.set_cap(cap, "U3", self.now)
        return cap


def hold(hold_id: str, amount: str, *, kind: HoldKind = HoldKind.LAUNCH, **more: Any) -> HoldRequest:
    """A hold for run abcde of team vision that declares its end."""
    scope = more.pop(
        "scope", Scope(cluster="home", team="vision", person="U1", experiment="dota", run="abcde")
    )
    fields: dict[str, Any] = {"burn": Money.usd("1"), "reason": "test", "payload": {"rolling": False}}
    return HoldRequest(id=hold_id, kind=kind, scope=scope, amount=Money.usd(amount), **(fields | more))
