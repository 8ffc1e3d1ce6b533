"""Answering a card: more for one cap, for a bounded time, by whom the settings allow.

A click on an old card (window rolled over, answered already, paused meanwhile) is answered in a sentence
and does nothing; two clicks are one effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from fleet.errors import BadInput
from fleet.journal import NewDecision, Verdict
from fleet.model import Decision, Person
from fleet.values import Money
from guard.acts import resume_hold, resume_of
from guard.answers import Outcome
from guard.capbook import Approval, window_key
from guard.caps import OWN, Cap, window_at
from guard.events import ApprovalGranted
from guard.history import APPROVED, DENIED, OPEN, OVERTAKEN, Request
from guard.moments import micros, moment
from guard.runs import PAUSED
from guard.state import GuardState, may_raise


def resumes_of(state: GuardState, approval: Decision) -> tuple[Decision, ...]:
    """The resumes that an approval decided with it, in order."""
    ids = approval.result.get("resumes", ())
    return tuple(found for one in ids if (found := state.journal.get(one)) is not None)


def _key(request: str) -> str:
    """A request is approved once."""
    return f"approve:{request}"


class Approvals:
    """Approve and Deny."""

    def __init__(self, state: GuardState) -> None:
        self._state = state

    def approve(
        self, request_id: str, person: Person, amount: Money | None, now: datetime, *, again: bool = False
    ) -> Outcome:
        """Raise a cap for a bounded time; resumes what that cap had paused where it fits.

        `again`: the same click after a crash; where it was decided before it, it is told what became of it.
        """
        request = self._state.history.request(request_id)
        known = self._state.journal.by_key(_key(request_id)) if again else None
        if request is not None and known is not None and known.actor == person.id:
            return self._carried_out(known, request, now)
        stale = self._stale(request, request_id, now)
        if request is None or stale:
            return Outcome(False, stale)
        cap = self._state.caps.get(request.cap)
        assert cap is not None  # _stale has looked
        wanted = request.suggested if amount is None else amount
        refused = self._refused(request, cap, person, wanted, now) or self._too_small(
            request, cap, wanted, now
        )
        if refused:
            return Outcome(False, refused)
        return self._carried_out(self._decide(request, cap, person, wanted, now), request, now)

    def _carried_out(self, decision: Decision, request: Request, now: datetime) -> Outcome:
        decision = self._state.journal.carry_out(decision, now)
        if decision.state == "failed":
            return Outcome(False, str(decision.result.get("error", "The approval could not be recorded.")))
        told = decision.payload
        amount, expires = Money(told["amount"]), moment(told["expires"])
        parts = [
            f"{told['name']} approved {amount} more for {told['cap']} until {expires:%Y-%m-%d %H:%M} UTC."
        ]
        parts += self._resumed(decision, now)
        cap = self._state.caps.get(told["cap"])
        parts += self._missing(request, cap, now) if cap else []
        return Outcome(True, " ".join(parts))

    def deny(self, request_id: str, person: Person, now: datetime) -> Outcome:
        """Refuse to raise it: what was announced happens at its time."""
        request = self._state.history.request(request_id)
        stale = self._stale(request, request_id, now)
        if request is None or stale:
            return Outcome(False, stale)
        cap = self._state.caps.get(request.cap)
        assert cap is not None
        if person.id != request.owner and not self._entitled(cap, person):
            return Outcome(False, f"{person.name} cannot answer for the cap {cap.name}.")
        self._state.history.answer(request.id, DENIED, person.name, now)
        countdown = self._state.history.countdown(cap.name)
        then = f" The pause comes at {countdown.deadline:%H:%M} UTC." if countdown else ""
        return Outcome(True, f"{person.name} denied more for {cap.name}.{then}")

    def _stale(self, request: Request | None, request_id: str, now: datetime) -> str:
        """Why an answer would do nothing; "" where it still matters."""
        if request is None:
            return f"There is no request {request_id} here."
        cap = self._state.caps.get(request.cap)
        if cap is None:
            return f"The cap {request.cap} is gone, so there is nothing to approve."
        if request.state in (APPROVED, DENIED):
            return f"{request.answered_by} {request.state} this already; nothing has changed."
        if window_key(cap, now) != request.window_start:
            return f"The window of the cap {cap.name} has rolled over since, so there is nothing to approve."
        run = self._state.runs.get(request.run) if request.run else None
        if request.cause == "paused" and (run is None or run.state != PAUSED):
            where = run.state if run else "gone"
            return f"The run {request.run} is {where} by now; nothing has changed."
        if request.state == OVERTAKEN:
            return f"This card is overtaken: {self._overtaken(cap)}; nothing has changed."
        return ""

    def _overtaken(self, cap: Cap) -> str:
        stopped = [run.run for run in self._state.runs.in_state("pausing", PAUSED) if run.cap == cap.name]
        if stopped:
            return f"{', '.join(stopped)} is paused already, answer on the card of the pause"
        return f"the cap {cap.name} was raised through another card"

    def _entitled(self, cap: Cap, person: Person) -> bool:
        named = person.id in cap.raised_by
        able = self._state.outside.directory.approvers(self._state.cap_scope(cap), Money(0))
        return person.known and may_raise(cap, person) and (named or person.id in {p.id for p in able})

    def _refused(self, request: Request, cap: Cap, person: Person, amount: Money, now: datetime) -> str:
        settings = self._state.settings
        if amount <= Money(0):
            return f"{amount} is no amount to approve; name one above zero."
        if not person.known:
            return "Only people in the settings can approve."
        if person.id == request.owner:
            if amount > settings.self_approval or cap.scope_kind not in OWN:
                others = self._names(cap, person, amount)
                return f"You cannot approve {amount} for your own work (up to {settings.self_approval} once a window); {others}."
            if self._state.caps.own_approvals(cap.name, person.id, window_key(cap, now)):
                return f"You have approved for your own work once in this window; {self._names(cap, person, amount)}."
            return ""
        if not self._entitled(cap, person):
            return f"{person.name} cannot raise the cap {cap.name}; {self._names(cap, person, amount)}."
        if amount > person.approval_limit:
            return (
                f"{person.name} may approve up to {person.approval_limit} at a time, not {amount}; "
                f"{self._names(cap, person, amount)}."
            )
        return ""

    def _too_small(self, request: Request, cap: Cap, amount: Money, now: datetime) -> str:
        """More that would not let the paused run go on would only use the card up."""
        run = self._state.runs.get(request.run) if request.cause == "paused" else None
        if run is None:
            return ""
        settings = self._state.settings
        hold = resume_hold(run, request.id, settings.span)
        least = self._state.budget.wanting(hold, cap, now, within=settings.resume_below)
        if amount >= least:
            return ""
        return (
            f"{amount} more for {cap.name} does not make room to resume {run.run}: approve at least ${least.micros // 1_000_000:,}.00 "
            f"(a resume must stay within {settings.resume_below} % of the cap)."
        )

    def _names(self, cap: Cap, asking: Person, amount: Money) -> str:
        able = self._state.raisers(cap, self._state.cap_scope(cap), amount)
        others = [name for name in able if name != asking.name]
        if others:
            return f"{', '.join(others)} can"
        asked = self._state.outside.directory.approvers(self._state.cap_scope(cap), Money(0))
        less = [p for p in asked if p.id != asking.id and may_raise(cap, p) and p.approval_limit > Money(0)]
        less.sort(key=lambda p: (-p.approval_limit.micros, p.name))
        if not less:
            return "nobody else in the settings can"
        return f"nobody can approve that much at once: {', '.join(f'{p.name} can up to {p.approval_limit}' for p in less)}"

    def _decide(self, request: Request, cap: Cap, person: Person, amount: Money, now: datetime) -> Decision:
        _, end = window_at(cap.window, cap.zone, now)
        latest = now + self._state.settings.approval_expires
        payload = {
            "request": request.id,
            "cap": cap.name,
            "amount": amount.micros,
            "person": person.id,
            "name": person.name,
            "own": person.id == request.owner,
            "expires": micros(latest if end is None else min(end, latest)),
            "window_start": request.window_start,
            "run": request.run,
        }
        reason = f"{person.name} approved {amount} more for {cap.name}"
        return self._state.journal.decide(
            NewDecision("approve", _key(request.id), person.id, cap.name, (reason,), payload), now
        )

    def _resumed(self, approval: Decision, now: datetime) -> list[str]:
        """What became of the resumes that the approval decided with it."""
        said = []
        for resume in resumes_of(self._state, approval):
            after = self._state.journal.carry_out(resume, now)
            if after.state == "failed":
                said.append(str(after.result.get("error", "")))
            else:
                done = after.state in ("verified", "announced")
                said.append(f"{after.subject} is {'' if done else 'being '}resumed.")
        return said

    def _missing(self, request: Request, cap: Cap, now: datetime) -> list[str]:
        """Other caps of the same work that are used up: an approval lifts one cap only."""
        run = self._state.runs.get(request.run) if request.run else None
        scope = run.scope if run else self._state.cap_scope(cap)
        others = [other for other in self._state.caps.for_scope(scope) if other.name != cap.name]
        return [
            f"The cap {s.cap.name} ({s.cap.subject}) is used up too and needs its own approval."
            for s in self._state.budget.standings(others, now)
            if s.spent >= s.allowed
        ]


class ApproveHandler:
    """Record an approval: the cap allows more until it expires, and a countdown that ran is over."""

    def __init__(self, state: GuardState) -> None:
        self._state = state

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Once a request, whoever clicked."""
        state, told = self._state, decision.payload
        cap = state.caps.get(told["cap"])
        if cap is None:
            raise BadInput(f"The cap {told['cap']} is gone.")
        with state.database.transaction():
            state.caps.approve(
                Approval(
                    request=told["request"],
                    cap=cap.name,
                    amount=Money(told["amount"]),
                    approver=told["person"],
                    approver_name=told["name"],
                    own=told["own"],
                    granted=decision.decided_at,
                    expires=moment(told["expires"]),
                    window_start=told["window_start"],
                )
            )
            state.history.answer(told["request"], APPROVED, told["name"], now)
            state.history.overtake(cap.name, now, causes=("alert", "arm"))
            state.history.disarm(cap.name)
            state.acknowledge(cap, now)
            resumes = [state.journal.decide(new, now).id for new in self._resumes(decision, cap)]
        return {"resumes": resumes}

    def _resumes(self, decision: Decision, cap: Cap) -> list[NewDecision]:
        """Resume what the cap had paused, the card's run first: decided with the approval, so that no crash
        comes between. Each is carried out only where it still fits."""
        request = self._state.history.request(decision.payload["request"])
        if request is None or request.cause != "paused":
            return []
        paused = [run for run in self._state.runs.in_state(PAUSED) if run.cap == cap.name]
        paused.sort(key=lambda run: (run.run != request.run, run.first_seen))
        reasons = (f"{decision.payload['name']} approved more for {cap.name}",)
        return [resume_of(run, decision.actor, reasons, decision.id) for run in paused]

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """It is recorded."""
        del now
        request = self._state.history.request(decision.payload["request"])
        return Verdict.NOT_YET if request is None or request.state == OPEN else Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Who approved how much, until when."""
        state, told = self._state, decision.payload
        cap = state.caps.get(told["cap"])
        if cap is None:
            return
        run = state.runs.get(told["run"]) if told["run"] else None
        event = ApprovalGranted(
            about=run.about if run else state.about(cap),
            figures=state.figures(state.standing(cap, now), now),
            approver=told["name"],
            amount=Money(told["amount"]),
            expires=moment(told["expires"]),
            request=told["request"],
            resumed=tuple(self._resuming(decision, now)),
        )
        state.outside.notifier.notify(event, key=f"{decision.id}:approved", now=now)

    def _resuming(self, approval: Decision, now: datetime) -> Iterator[str]:
        """The runs that have room to go on, in order; what became of each is told when it is verified."""
        state, before = self._state, Money(0)
        for decision in resumes_of(state, approval):
            run = state.runs.get(decision.subject)
            if run is None or decision.state == "failed":
                continue
            hold = resume_hold(run, decision.id, state.settings.span)
            asked = replace(hold, amount=hold.amount + before)
            if state.budget.check(asked, now, within=state.settings.resume_below).granted:
                before += hold.amount
                yield run.run
