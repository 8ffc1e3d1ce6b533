"""The guard as others use it: `Guard`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from fleet.db import Database
from fleet.errors import BadInput, OutsideError
from fleet.journal import STOPS, Journal, NewDecision
from fleet.model import Decision, Person
from fleet.ports import Scope
from fleet.values import Money
from guard.acts import KillHandler, PauseHandler, ResumeHandler, kill_of, pause_of, resume_of
from guard.answers import BillComparison, CostRow, Fault, Outcome, RunCosts, TickReport
from guard.approvals import Approvals, ApproveHandler
from guard.caps import Cap, CapStatus
from guard.costs import cost_rows
from guard.holds import BudgetBook
from guard.moments import day_start
from guard.outside import GuardPorts
from guard.settings import GuardSettings
from guard.state import GuardState
from guard.tells import AlertHandler, ArmHandler, BillHandler, DigestHandler
from guard.verify import verify
from guard.watch import Watch


class Guard:
    """Meters money, judges it against caps, decides. Its tables need `guard.tables.MIGRATIONS` applied."""

    def __init__(
        self, *, database: Database, journal: Journal, settings: GuardSettings, outside: GuardPorts
    ) -> None:
        self._state = GuardState(database, journal, settings, outside)
        self._watch = Watch(self._state)
        self._approvals = Approvals(self._state)
        for kind, handler in (
            ("alert", AlertHandler(self._state)),
            ("arm", ArmHandler(self._state)),
            ("pause", PauseHandler(self._state)),
            ("resume", ResumeHandler(self._state)),
            ("kill", KillHandler(self._state)),
            ("approve", ApproveHandler(self._state)),
            ("digest", DigestHandler(self._state)),
            ("bill", BillHandler(self._state)),
        ):
            journal.register(kind, handler, STOPS if kind in ("pause", "kill") else None)

    @property
    def budget(self) -> BudgetBook:
        """The one door to money (`fleet.ports.Budget`)."""
        return self._state.budget

    def tick(self, now: datetime) -> TickReport:
        """Observe, meter, evaluate, decide, and carry out as far as it goes. Due every `settings.tick`."""
        return self._watch.tick(now)

    def set_cap(self, cap: Cap, actor: str, now: datetime) -> None:
        """Set a cap or change one; it enforces at once. Raises BadInput where it makes no sense."""
        known = self._state.caps.get(cap.name)
        if known == cap:
            return
        self._state.caps.put(cap, actor, now)
        self._state.ledger.forget_cap(cap.name)
        if known is not None:
            self._state.acknowledge(cap, now)

    def remove_cap(self, name: str, actor: str, now: datetime) -> None:
        """Remove a cap, its countdown and its approvals. BadInput where there is none of this name."""
        del actor
        self._state.caps.remove(name)
        self._state.ledger.forget_cap(name)
        self._state.history.disarm(name)
        self._state.history.overtake(name, now, causes=("alert", "arm", "paused"))

    def caps(self, now: datetime) -> tuple[CapStatus, ...]:
        """Every cap as it stands, by name."""
        standings = self._state.budget.standings(self._state.caps.all(), now)
        return tuple(self._state.status(standing, now) for standing in standings)

    def costs(self, *, by: str, since: datetime | None, until: datetime) -> tuple[CostRow, ...]:
        """Sums within [since, until) by experiment, run, owner, team, region, instance-type or day (UTC)."""
        return cost_rows(self._state.database, self._state.ledger, by=by, since=since, until=until)

    def run_costs(self, run: str, now: datetime) -> RunCosts:
        """What a run has cost, costs an hour, will cost, and the caps that apply to it, broadest first."""
        state = self._state
        known = state.runs.get(run)
        scope = known.scope if known else Scope(run=run)
        standings = state.budget.standings(state.caps.for_scope(scope), now)
        return RunCosts(
            run=run,
            spent=state.ledger.run_spent(run, now),
            burn=state.ledger.run_burn(run),
            held=state.holds.held_for(run),
            forecast=state.forecast(run, now),
            caps=tuple(state.status(standing, now) for standing in standings),
            state=known.state if known else "unknown",
        )

    def approve(
        self, request: str, person: Person, amount: Money | None, now: datetime, *, again: bool = False
    ) -> Outcome:
        """Raise a cap for a bounded time (None: the proposed amount); resumes what it had paused where it fits.

        `again`: the same click, taken up after a crash.
        """
        return self._approvals.approve(request, person, amount, now, again=again)

    def deny(self, request: str, person: Person, now: datetime) -> Outcome:
        """Refuse to raise it: what was announced happens at its time."""
        return self._approvals.deny(request, person, now)

    def requested_pause(self, run: str, cluster: str, person: Person, reason: str, now: datetime) -> Decision:
        """A person's pause; the same path as the guard's. Twice is once."""
        known = self._state.run_of(run, cluster, now)
        return self._carry_out(pause_of(known, person.id, person.id, (reason,)), now)

    def requested_resume(
        self, run: str, cluster: str, person: Person, reason: str, now: datetime, *, request: str = ""
    ) -> Decision:
        """A person's resume; `failed`, with the sentence in `result["error"]`, where it does not fit.

        The same `request` (also after a crash, at another time) is the same decision.
        """
        known = self._state.run_of(run, cluster, now)
        return self._carry_out(resume_of(known, person.id, (reason,), request or now.isoformat()), now)

    def requested_kill(self, run: str, cluster: str, person: Person, reason: str, now: datetime) -> Decision:
        """A person's kill. Twice is once."""
        known = self._state.run_of(run, cluster, now)
        return self._carry_out(kill_of(known, person.id, (reason,)), now)

    def _carry_out(self, new: NewDecision, now: datetime) -> Decision:
        return self._state.journal.carry_out(self._state.journal.decide(new, now), now)

    def blocked(self, scope: Scope, now: datetime) -> str:
        """Why nothing may be bought for this scope now; "" where nothing stands against it."""
        return self._state.budget.blocked(scope, now)

    def bill(self, day: str, now: datetime) -> BillComparison:
        """The bill of a UTC day (YYYY-MM-DD) beside the ledger. Raises BadInput for what is no day."""
        try:
            day_start(day)
        except ValueError:
            raise BadInput(f"{day!r} is not a day.", hint="Write it like 2026-11-06.") from None
        billing = self._state.outside.billing
        if billing is None:
            found = self._watch.notices.comparison(day, (), now)
            return _noted(found, "no billing source is configured")
        try:
            billed = billing.days(day, day)
        except OutsideError as error:
            return _noted(
                self._watch.notices.comparison(day, (), now), f"the bill could not be read: {error}"
            )
        return self._watch.notices.comparison(day, [entry for entry in billed if entry.day == day], now)

    def verify_ledger(self) -> tuple[Fault, ...]:
        """Recompute every line from the observations; each fault is named. None: the ledger is right."""
        return verify(self._state.database)


def _noted(found: BillComparison, note: str) -> BillComparison:
    return replace(found, note=note)
