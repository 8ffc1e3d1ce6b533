"""Everything the guard's parts share: settings, tables, ports and what was seen last. Answers, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from fleet.db import Database
from fleet.journal import Journal
from fleet.model import ClusterSnapshot, Person
from fleet.ports import Scope
from fleet.values import Money
from guard.capbook import CapBook, window_key
from guard.caps import OWN, Cap, CapStatus, ScopeKind, Standing, window_at
from guard.events import About, CapFigures, ForecastFigures
from guard.forecast import completion, progress_of
from guard.gate import Gatekeeper, Limits
from guard.history import History
from guard.hold_records import HoldRecords
from guard.holds import BudgetBook
from guard.ledger import Ledger
from guard.meter import Who
from guard.outside import GuardPorts
from guard.rules import budget
from guard.rules.budget import threshold_key
from guard.runs import PAUSED, PAUSING, Run, RunBook
from guard.settings import GuardSettings
from guard.sight import Sight, Sights

GUARD = "guard"
"""the actor of what the guard decides by itself"""


class GuardState:
    """Built once at start; `reload` takes up where the database stands."""

    def __init__(
        self, database: Database, journal: Journal, settings: GuardSettings, outside: GuardPorts
    ) -> None:
        self.database = database
        self.journal = journal
        self.settings = settings
        self.outside = outside
        self.ledger = Ledger(database)
        self.caps = CapBook(database)
        self.runs = RunBook(database)
        self.history = History(database)
        self.gate = Gatekeeper(
            self.runs,
            self.caps,
            self.history,
            limits=Limits(settings.heartbeat_limit, settings.stale_limit),
            lease=outside.lease,
        )
        self.gate.last_tick = self.ledger.marked
        self.budget = BudgetBook(
            database, self.caps, self.ledger, self.gate, span=settings.span, raisers=self.raisers
        )
        self.holds = HoldRecords(database)
        self.snapshots: dict[str, ClusterSnapshot] = {}
        self.sights: dict[str, Sight] = {}
        self._sights = Sights()
        self._hours: dict[str, Fraction] = {}

    def see(self, snapshots: Mapping[str, ClusterSnapshot]) -> None:
        """Keep what was seen, for the answers until the next look."""
        self.snapshots = dict(snapshots)
        found: dict[str, Sight] = {}
        for snapshot in snapshots.values():
            if snapshot.synced:
                found.update(self._sights.of(snapshot))
        self.sights = found

    def raisers(self, cap: Cap, scope: Scope, amount: Money) -> tuple[str, ...]:
        """Names of the people who can raise a cap by this amount; a shared cap is judged by its own scope."""
        asked = scope if cap.scope_kind in OWN and scope.team else self.cap_scope(cap)
        able = self.outside.directory.approvers(asked, amount)
        return tuple(person.name for person in able if may_raise(cap, person))

    def standing(self, cap: Cap, now: datetime) -> Standing:
        """What is allowed, spent and held under a cap."""
        return self.budget.standings((cap,), now)[0]

    def figures(self, standing: Standing, now: datetime) -> CapFigures:
        """A cap's figures for people."""
        cap = standing.cap
        burn = self.ledger.cap_burn(cap, now)
        start, end = window_at(cap.window, cap.zone, now)
        lasts = (standing.allowed - standing.spent).lasts(burn)
        return CapFigures(
            cap=cap.name,
            scope=cap.subject,
            limit=standing.allowed,
            spent=standing.spent,
            held=standing.held,
            burn=burn,
            window_start=start,
            window_end=end,
            cap_reached_at=None if lasts is None or (end is not None and now + lasts >= end) else now + lasts,
        )

    def status(self, standing: Standing, now: datetime) -> CapStatus:
        """A cap as people see it."""
        cap, figures = standing.cap, self.figures(standing, now)
        lasts = None if figures.cap_reached_at is None else figures.cap_reached_at - now
        return CapStatus(
            cap=cap,
            spent=standing.spent,
            held=standing.held,
            committed=standing.committed,
            left=standing.left,
            burn=figures.burn,
            window_start=figures.window_start,
            window_end=figures.window_end,
            state=self._cap_state(standing),
            time_to_cap=lasts,
            allowed=standing.allowed,
        )

    def _cap_state(self, standing: Standing) -> str:
        name = standing.cap.name
        states = {run.state for run in self.runs.in_state(PAUSING, PAUSED) if run.cap == name}
        if states:
            return PAUSING if PAUSING in states else PAUSED
        if self.history.countdown(name) is not None:
            return "armed"
        if standing.spent >= standing.allowed:
            return "reached"
        lowest = min(self.settings.thresholds, default=100) - self.settings.clear_below
        return "alerted" if standing.spent.micros * 100 >= standing.allowed.micros * lowest else "ok"

    def forecast(self, run: str, now: datetime) -> ForecastFigures:
        """Cost to completion of a run."""
        sight = self.sights.get(run)
        hours = self._declared_hours(run)
        spent, burn = self.ledger.run_spent(run, now), self.ledger.run_burn(run)
        return completion(progress_of(sight.jobs if sight else (), spent, burn, hours))

    def _declared_hours(self, run: str) -> Fraction | None:
        if run not in self._hours:
            declared = self.holds.launch_payload(run).get("hours")
            if not declared:
                return None
            self._hours[run] = Fraction(str(declared))
        return self._hours[run]

    def under(self, cap: Cap) -> tuple[Run, ...]:
        """Known runs that spend under a cap, oldest first; by region, those that burn there now."""
        if cap.scope_kind is ScopeKind.REGION:
            there = self.ledger.runs_in(cap.scope_value)
            return tuple(run for run in self.runs.all() if run.run in there)
        if cap.scope_kind is ScopeKind.FLEET:
            return self.runs.all()
        if cap.scope_kind is ScopeKind.RUN:
            found = self.runs.get(cap.scope_value)
            return (found,) if found else ()
        name = "owner" if cap.scope_kind is ScopeKind.PERSON else cap.scope_kind.value
        return tuple(run for run in self.runs.all() if getattr(run, name) == cap.scope_value)

    def about(self, cap: Cap) -> About:
        """Whom an event about a cap names: the run where it is a run's own, else the scope."""
        if cap.scope_kind in OWN:
            runs = self.under(cap)
            if runs:
                return runs[-1].about
        fields: dict[str, Any] = {
            ScopeKind.TEAM: {"team": cap.scope_value},
            ScopeKind.PERSON: {"owner": cap.scope_value},
            ScopeKind.CLUSTER: {"cluster": cap.scope_value},
            ScopeKind.EXPERIMENT: {"experiment": cap.scope_value},
            ScopeKind.RUN: {"run": cap.scope_value},
        }.get(cap.scope_kind, {})
        return About(**fields)

    @staticmethod
    def about_who(who: Who, cluster: str) -> About:
        """The same from labels or tags alone."""
        return About(cluster, who.run, who.experiment, who.owner, who.team)

    def cap_scope(self, cap: Cap) -> Scope:
        """What the directory is asked about when somebody wants to raise the cap."""
        if cap.scope_kind in OWN:
            runs = self.under(cap)
            if runs:
                return runs[-1].scope
        if cap.scope_kind is ScopeKind.FLEET:
            return Scope()
        if cap.scope_kind is ScopeKind.PERSON:
            team = self.outside.directory.by_chat_id(cap.scope_value).team
            return Scope(person=cap.scope_value, team=team)
        return replace(Scope(), **{cap.scope_kind.value: cap.scope_value})

    def suggested(self, cap: Cap, standing: Standing, burn: Money) -> Money:
        """What the Approve button proposes: a step of the cap, at least room for two restarts, in whole dollars."""
        step = cap.limit.micros * self.settings.approval_step // 100
        restart = 2 * burn.over(self.settings.span).micros + max(
            0, -(standing.allowed - standing.spent).micros
        )
        micros = max(step, restart, 1_000_000)
        return Money(-(-micros // 1_000_000) * 1_000_000)

    def acknowledge(self, cap: Cap, now: datetime) -> None:
        """Whoever changed the limit knows where it stands: thresholds that are reached already are not news."""
        standing = self.standing(cap, now)
        reached = [f.values["threshold"] for f in budget.check(standing, self.settings)]
        keys = [threshold_key(threshold, standing.allowed) for threshold in reached]
        self.history.fire(cap.name, window_key(cap, now), keys, now)

    def run_of(self, run: str, cluster: str, now: datetime) -> Run:
        """The run as known; one that was never seen is taken up as asked for."""
        return self.runs.get(run) or self.runs.put(Run(run, cluster, "", "", "", now, since=now))

    def drain(self, run: str) -> timedelta:
        """From a pause of this run to the end of its cost: machines and pods' grace."""
        sight = self.sights.get(run)
        return self.settings.drain + timedelta(seconds=sight.grace if sight else 0)


def may_raise(cap: Cap, person: Person) -> bool:
    """Whether a cap's settings name this person or a role of theirs; a cap that names nobody leaves it open."""
    return not cap.raised_by or person.id in cap.raised_by or bool(person.roles & set(cap.raised_by))
