"""Carrying out what only tells people: an alert, an armed countdown, a digest, a bill that arrived."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleet.journal import Verdict
from fleet.model import Decision
from fleet.values import Money
from guard.caps import Cap
from guard.costs import cost_rows
from guard.escalate import Arm
from guard.events import (
    About,
    BillArrived,
    BudgetAlert,
    CapFigures,
    CountdownArmed,
    Digest,
    DigestLine,
    ForecastFigures,
)
from guard.history import Countdown, Request
from guard.meter import DAEMON, OVERHEAD
from guard.moments import micros, moment
from guard.state import GuardState


class _Tell:
    """Nothing is done in the outside world, so nothing is verified there."""

    def __init__(self, state: GuardState) -> None:
        self._state = state

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Nothing but the record."""
        del decision, now
        return {}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """What was recorded is so."""
        del decision, now
        return Verdict.YES

    def _cap(self, decision: Decision) -> Cap | None:
        return self._state.caps.get(decision.payload["cap"])

    def _figures(self, cap: Cap, now: datetime) -> CapFigures:
        return self._state.figures(self._state.standing(cap, now), now)

    def _request(self, decision: Decision) -> Request | None:
        return self._state.history.request(decision.payload["request"])

    def _forecast(self, about: About, now: datetime) -> ForecastFigures | None:
        return self._state.forecast(about.run, now) if about.run else None


class AlertHandler(_Tell):
    """Thresholds of a cap were passed."""

    def announce(self, decision: Decision, now: datetime) -> None:
        """One card with the highest."""
        cap, request = self._cap(decision), self._request(decision)
        if cap is None or request is None:
            return
        about = self._state.about(cap)
        event = BudgetAlert(
            about=about,
            figures=self._figures(cap, now),
            threshold=decision.payload["threshold"],
            passed=tuple(decision.payload["passed"]),
            forecast=self._forecast(about, now),
            request=request.id,
            suggested=request.suggested,
            raised_by=self._state.raisers(cap, self._state.cap_scope(cap), request.suggested),
            reasons=decision.reasons,
        )
        self._state.outside.notifier.notify(event, key=f"{decision.id}:alert", now=now)


class ArmHandler(_Tell):
    """A countdown starts."""

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """From here on it runs; where it was answered already (a crash in between), it stays ended."""
        del now
        request = self._request(decision)
        payload = decision.payload
        if request is not None and request.state == "open":
            self._state.history.arm(
                Countdown(
                    payload["cap"],
                    payload["request"],
                    decision.decided_at,
                    moment(payload["deadline"]),
                    payload["belt"],
                )
            )
        return {}

    def announce(self, decision: Decision, now: datetime) -> None:
        """The card with who would be paused, when, and who can do something about it."""
        payload = decision.payload
        action = Arm(
            moment(payload["deadline"]), tuple(payload["victims"]), payload["belt"], decision.reasons
        )
        tell_countdown(self._state, payload["cap"], payload["request"], action, now)


def tell_countdown(state: GuardState, cap_name: str, request_id: str, action: Arm, now: datetime) -> None:
    """The card of a countdown; told again where its time has moved, it is the same card."""
    cap, request = state.caps.get(cap_name), state.history.request(request_id)
    if cap is None or request is None:
        return
    about = state.about(cap)
    runs = [state.runs.get(run) for run in action.victims]
    event = CountdownArmed(
        about=about,
        figures=state.figures(state.standing(cap, now), now),
        deadline=action.deadline,
        victims=tuple(run.about for run in runs if run is not None),
        belt=action.belt,
        forecast=state.forecast(about.run, now) if about.run else None,
        request=request.id,
        suggested=request.suggested,
        raised_by=state.raisers(cap, state.cap_scope(cap), request.suggested),
    )
    state.outside.notifier.notify(event, key=f"armed:{request.id}:{micros(action.deadline)}", now=now)


class DigestHandler(_Tell):
    """What a day cost."""

    def announce(self, decision: Decision, now: datetime) -> None:
        """Sums of the ledger over the digest's day."""
        since, until = moment(decision.payload["since"]), moment(decision.payload["until"])
        kinds = {row.key: row for row in self._rows("kind", since, until)}
        state = self._state
        overhead = [kinds[kind].amount for kind in (OVERHEAD, DAEMON) if kind in kinds]
        event = Digest(
            day=decision.payload["day"],
            since=since,
            until=until,
            total=Money.total(row.amount for row in kinds.values()),
            teams=self._lines("team", since, until),
            experiments=self._lines("experiment", since, until),
            regions=self._lines("region", since, until),
            overhead=Money.total(overhead),
            estimated=Money.total(row.estimated for row in kinds.values()),
            burn=state.ledger.burn(),
            caps=tuple(state.figures(s, now) for s in state.budget.standings(state.caps.all(), now)),
            waiting=tuple(request.id for request in state.history.open_requests()),
            notes=tuple(decision.payload["notes"]),
        )
        state.outside.notifier.notify(event, key=f"{decision.id}:digest", now=now)

    def _rows(self, by: str, since: datetime, until: datetime) -> tuple[Any, ...]:
        return cost_rows(self._state.database, self._state.ledger, by=by, since=since, until=until)

    def _lines(self, by: str, since: datetime, until: datetime) -> tuple[DigestLine, ...]:
        return tuple(DigestLine(row.key, row.amount) for row in self._rows(by, since, until))


class BillHandler(_Tell):
    """The bill of a day arrived, or became final."""

    def announce(self, decision: Decision, now: datetime) -> None:
        """Billed beside metered, differences named."""
        told = decision.payload
        event = BillArrived(
            day=told["day"],
            billed=Money(told["billed"]),
            metered=Money(told["metered"]),
            drift_percent=told["drift"],
            estimated=told["estimated"],
            differences={name: Money(amount) for name, amount in told["differences"].items()},
        )
        self._state.outside.notifier.notify(event, key=f"{decision.id}:bill", now=now)
