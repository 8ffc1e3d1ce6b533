"""What people are told beside the caps: unknown prices, ghosts, no owner, forecasts, the digest and the bill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.errors import OutsideError
from fleet.journal import NewDecision
from fleet.model import Decision
from fleet.ports import BilledDay
from fleet.values import Money
from guard.answers import BillComparison
from guard.caps import OWN, Standing
from guard.events import ForecastAdvice, GhostMachine, NoOwner, UnknownPrice
from guard.meter import Line, Machine, Observation
from guard.moments import DAY, day_of, day_start, micros, moment
from guard.reconcile import compare
from guard.rules import ghost, outlook, owner
from guard.rules.finding import Finding
from guard.runs import RUNNING
from guard.state import GUARD, GuardState

BILL_DAYS = 3
"""closed days that are read again, because a bill stays estimated for a while"""


class Notices:
    """Each thing is told once: the notifier knows its key, and memory spares asking it again."""

    def __init__(self, state: GuardState) -> None:
        self._state = state
        self._told: set[str] = set()
        self._bill_due: datetime | None = None
        self._bill_note = ""
        self._pods: dict[str, tuple[object, tuple[Finding, ...]]] = {}

    def tell(self, event: Any, key: str, now: datetime) -> None:
        """Once."""
        if key not in self._told:
            self._state.outside.notifier.notify(event, key=key, now=now)
            self._told.add(key)

    def prices(self, seen: Iterable[Observation], now: datetime) -> None:
        """Machines that are metered at an upper bound, once a kind and region."""
        for one in seen:
            if one.kind not in ("machine", "price") or not one.payload["estimated"]:
                continue
            machine = self._state.ledger.meter.machines.get(one.key)
            if machine is not None:
                event = UnknownPrice(
                    machine.key, machine.region, machine.instance_type, Money(machine.hourly), machine.source
                )
                key = f"unknown-price:{machine.provider}/{machine.region}/{machine.instance_type}"
                self.tell(event, key, now)

    def ghosts(self, now: datetime) -> tuple[Finding, ...]:
        """Machines that bill and never joined."""
        machines = self._state.ledger.meter.machines
        found = ghost.check(machines.values(), now, self._state.settings.ghost_after)
        for finding in found:
            self.tell(self._ghost(machines[finding.key], now), f"ghost:{finding.key}", now)
        return found

    def _ghost(self, machine: Machine, now: datetime) -> GhostMachine:
        run = self._state.runs.get(machine.claim.run)
        about = run.about if run else self._state.about_who(machine.claim, machine.cluster)
        spent = Money(machine.hourly).over(now - moment(machine.began))
        return GhostMachine(
            about, machine.key, machine.region, machine.instance_type, moment(machine.began), spent
        )

    def owners(self, now: datetime) -> tuple[Finding, ...]:
        """Pods in governed namespaces that name no owner, once a day and namespace."""
        found: list[Finding] = []
        for snapshot in self._state.snapshots.values():
            last = self._pods.get(snapshot.cluster)
            if last is None or last[0] is not snapshot.pods:
                findings = owner.check(snapshot.pods.values(), snapshot.governed)
                last = self._pods[snapshot.cluster] = (snapshot.pods, findings)
            found += last[1]
        for finding in found:
            values = finding.values
            event = NoOwner(values["cluster"], values["namespace"], int(values["pods"]), values["example"])
            self.tell(event, f"no-owner:{finding.key}:{now:%F}", now)
        return tuple(found)

    def outlooks(self, standings: Sequence[Standing], now: datetime) -> tuple[Finding, ...]:
        """Runs that would cost more than their own cap at completion: advice, once a cap and limit."""
        found: list[Finding] = []
        own = [s for s in standings if s.cap.scope_kind in OWN]
        for standing in own:
            for run in self._state.under(standing.cap):
                if run.state != RUNNING or run.run not in self._state.sights:
                    continue
                forecast = self._state.forecast(run.run, now)
                findings = outlook.check(standing, forecast, run.run)
                if findings:
                    event = ForecastAdvice(run.about, self._state.figures(standing, now), forecast)
                    key = f"forecast:{standing.cap.name}:{run.run}:{standing.allowed.micros}"
                    self.tell(event, key, now)
                found += findings
        return tuple(found)

    def digest(self, last: datetime | None, now: datetime) -> tuple[Decision, ...]:
        """The digest that fell due since the last look; where several did, the latest alone."""
        due = self._digest_moment(now)
        if last is None or not last < due <= now:
            return ()
        before = self._digest_moment(due - timedelta(microseconds=1))
        day = due.astimezone(self._state.settings.digest_zone).date().isoformat()
        payload = {
            "day": day,
            "since": micros(before),
            "until": micros(due),
            "notes": [self._bill_note] if self._bill_note else [],
        }
        new = NewDecision(
            "digest", f"digest:{day}", GUARD, "fleet", ("it is the time of the digest",), payload
        )
        return (self._state.journal.decide(new, now),)

    def _digest_moment(self, now: datetime) -> datetime:
        """The latest digest time at or before a moment, right on days of 23 and 25 hours."""
        settings = self._state.settings
        day = now.astimezone(settings.digest_zone).date() + timedelta(days=1)
        while True:
            due = datetime.combine(day, settings.digest_at, tzinfo=settings.digest_zone).astimezone(UTC)
            if due <= now:
                return due
            day -= timedelta(days=1)

    def bills(self, now: datetime) -> tuple[Decision, ...]:
        """Bills that arrived, or became final, since they were last read."""
        billing, settings = self._state.outside.billing, self._state.settings
        if billing is None or (self._bill_due is not None and now < self._bill_due):
            return ()
        self._bill_due = now + settings.bill_every
        today = micros(now) // DAY * DAY
        first, last = day_of(today - BILL_DAYS * DAY), day_of(today - DAY)
        try:
            billed = billing.days(first, last)
        except OutsideError as error:
            self._bill_note = f"The bill could not be read: {error}"
            return ()
        self._bill_note = ""
        days = sorted({entry.day for entry in billed})
        return tuple(decision for day in days for decision in self._bill(day, billed, now))

    def _bill(self, day: str, billed: Sequence[BilledDay], now: datetime) -> tuple[Decision, ...]:
        found = self.comparison(day, [entry for entry in billed if entry.day == day], now)
        if not found.estimated and self._drifts(found):
            self._bill_note = f"The final bill of {day} differs from the ledger by {found.drift_percent} %."
        key = f"bill:{day}:{'estimated' if found.estimated else 'final'}"
        if not (found.billed or found.metered) or self._state.journal.by_key(key) is not None:
            return ()
        payload = {
            "day": day,
            "billed": found.billed.micros,
            "metered": found.metered.micros,
            "drift": found.drift_percent,
            "estimated": found.estimated,
            "differences": {d.name: d.amount.micros for d in found.differences},
        }
        reason = f"the bill of {day} says {found.billed}, the ledger {found.metered}"
        new = NewDecision("bill", key, GUARD, day, (reason,), payload)
        return (self._state.journal.decide(new, now),)

    def _drifts(self, found: BillComparison) -> bool:
        off = abs(found.metered.micros - found.billed.micros) * 100
        return off > found.billed.micros * self._state.settings.bill_drift_percent

    def comparison(self, day: str, billed: Sequence[BilledDay], now: datetime) -> BillComparison:
        """The bill's lines of a day beside the ledger's."""
        start = day_start(day)
        lines: list[Line] = list(self._state.ledger.closed_lines(start, start + DAY))
        for line in self._state.ledger.open_lines(min(micros(now), start + DAY)):
            if line.started >= start:
                lines.append(line)
        return compare(day, billed, lines)
