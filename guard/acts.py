"""Carrying out a pause, a resume and a kill: ask the cluster, verify with the cluster, then say so.

A person's and the guard's take this same path. A cluster that does not answer never fails a pause: it is
asked again until it is true, and people are told when it takes longer than the drain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from fleet.errors import BadInput, OutsideError
from fleet.journal import NewDecision, Verdict
from fleet.model import Decision
from fleet.ports import HoldKind, HoldRequest, WorkState, WorkStatus
from guard.capbook import window_key
from guard.caps import Cap
from guard.events import DecisionFailed, Killed, PauseStarted, PauseStuck, PauseVerified, Resumed
from guard.history import Request, request_id
from guard.runs import DONE, KILLED, KILLING, PAUSED, PAUSING, RESUMING, RUNNING, Run
from guard.state import GuardState

Ask = Callable[[str, str, datetime], WorkStatus]
_ENDED = {WorkState.DONE: DONE, WorkState.GONE: DONE, WorkState.KILLED: KILLED}


def pause_of(run: Run, cause: str, actor: str, reasons: tuple[str, ...]) -> NewDecision:
    """The decision to pause a run: one for each time that it runs."""
    payload = {"run": run.run, "cluster": run.cluster, "cause": cause, "cycle": run.cycle}
    return NewDecision("pause", f"pause:{run.run}:{run.cycle}", actor, run.run, reasons, payload)


def resume_of(run: Run, actor: str, reasons: tuple[str, ...], occasion: str) -> NewDecision:
    """The decision to resume a run, once an occasion (an approval, a request): a refused one may be asked for again."""
    payload = {"run": run.run, "cluster": run.cluster, "cycle": run.cycle}
    return NewDecision("resume", f"resume:{run.run}:{occasion}", actor, run.run, reasons, payload)


def resume_hold(run: Run, decision: str, span: timedelta) -> HoldRequest:
    """What a restart commits: the run's burn for as long as nobody could stop it again."""
    return HoldRequest(
        id=f"resume-{decision}",
        kind=HoldKind.RESUME,
        scope=run.scope,
        amount=run.burn.over(span),
        burn=run.burn,
        reason=f"resume of {run.run}",
        payload={"rolling": True, "run": run.run},
    )


def kill_of(run: Run, actor: str, reasons: tuple[str, ...]) -> NewDecision:
    """The decision to end a run for good: once a run."""
    payload = {"run": run.run, "cluster": run.cluster}
    return NewDecision("kill", f"kill:{run.run}", actor, run.run, reasons, payload)


class _Stop:
    """What a pause and a kill have in common: keep asking, notice when it does not happen."""

    def __init__(self, state: GuardState) -> None:
        self._state = state

    def _run(self, decision: Decision, now: datetime) -> Run:
        return self._state.run_of(decision.payload["run"], decision.payload["cluster"], now)

    def _try(self, ask: Ask, run: Run, now: datetime) -> WorkStatus | str:
        """The cluster's answer, or why there is none."""
        try:
            return ask(run.cluster, run.run, now)
        except OutsideError as error:
            return str(error)

    def _late(self, decision: Decision, run: Run, answer: WorkStatus | str, now: datetime) -> None:
        """Tell people, once, that it takes longer than the drain."""
        if now - decision.decided_at <= self._state.drain(run.run):
            return
        detail = answer if isinstance(answer, str) else answer.detail or answer.state.value
        event = PauseStuck(
            run.about, detail, decision.decided_at, self._state.ledger.run_burn(run.run), decision.id
        )
        self._state.outside.notifier.notify(event, key=f"{decision.id}:stuck", now=now)


class PauseHandler(_Stop):
    """pausing → paused: no pod of the run is active or terminating."""

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Nothing is bought for the run from here on; every object of it is asked to suspend."""
        run = self._run(decision, now)
        if run.state in (KILLING, KILLED, DONE):
            raise BadInput(f"The run {run.run} is {run.state}: there is nothing to pause.")
        if run.state not in (PAUSING, PAUSED):
            burn = self._state.ledger.run_burn(run.run) or run.burn
            run = (
                self._state.runs.move(
                    run.run, PAUSING, now, cause=decision.payload["cause"], burn=burn, again_at=None
                )
                or run
            )
        answer = self._try(self._state.outside.workloads.pause, run, now)
        reason = "; ".join(decision.reasons)
        self._state.outside.notifier.notify(
            PauseStarted(run.about, decision.actor, reason, decision.id),
            key=f"{decision.id}:started",
            now=now,
        )
        return {"answer": answer if isinstance(answer, str) else answer.detail or answer.state.value}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """Ask the cluster itself; whatever still runs is asked to stop again."""
        run = self._run(decision, now)
        answer = self._try(self._state.outside.workloads.verify, run, now)
        if isinstance(answer, WorkStatus):
            if answer.state is WorkState.RUNNING:
                answer = self._try(self._state.outside.workloads.pause, run, now)
            if isinstance(answer, WorkStatus) and self._settled(run, answer.state, now):
                return Verdict.YES
        self._late(decision, run, answer, now)
        return Verdict.NOT_YET

    def _settled(self, run: Run, state: WorkState, now: datetime) -> bool:
        if state is WorkState.PAUSED:
            self._state.runs.move(run.run, PAUSED, now)
        elif state in _ENDED:
            self._state.runs.move(run.run, _ENDED[state], now)
        else:
            return False
        self._state.budget.release_run(run.run, now, f"the run is {state.value}")
        return True

    def announce(self, decision: Decision, now: datetime) -> None:
        """The card with what it cost and, for a cap's pause, Approve and resume."""
        run = self._run(decision, now)
        if run.state != PAUSED:
            return
        cap = self._state.caps.get(run.cap) if run.cap else None
        request, suggested, figures = "", self._state.ledger.run_burn(run.run), None
        if cap is not None:
            standing = self._state.standing(cap, now)
            figures = self._state.figures(standing, now)
            asked = self._ask_for_more(cap, run, decision, now)
            request, suggested = asked.id, asked.suggested
        event = PauseVerified(
            about=run.about,
            actor=decision.actor,
            reason="; ".join(decision.reasons),
            spent=self._state.ledger.run_spent(run.run, now),
            figures=figures,
            request=request,
            suggested=suggested,
            took_seconds=int(((run.since or now) - decision.decided_at).total_seconds()),
            decision=decision.id,
        )
        self._state.outside.notifier.notify(event, key=f"{decision.id}:paused", now=now)

    def _ask_for_more(self, cap: Cap, run: Run, decision: Decision, now: datetime) -> Request:
        window = window_key(cap, now)
        state = self._state
        hold = resume_hold(run, decision.id, state.settings.span)
        suggested = max(
            state.suggested(cap, state.standing(cap, now), run.burn),
            state.budget.wanting(hold, cap, now, within=state.settings.resume_below),
        )
        asked = Request(
            request_id(cap.name, window, f"paused:{decision.id}", run.cycle),
            cap.name,
            window,
            "paused",
            run.run,
            run.owner,
            suggested,
            now,
        )
        return self._state.history.ask(asked)


class KillHandler(_Stop):
    """killing → killed. The record, the costs and the last logs stay."""

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Nothing is bought for the run any more; it is ended."""
        run = self._run(decision, now)
        if run.state not in (KILLED, DONE):
            run = self._state.runs.move(run.run, KILLING, now) or run
        answer = self._try(self._state.outside.workloads.kill, run, now)
        return {"answer": answer if isinstance(answer, str) else answer.state.value}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """Ended in the cluster's own words; what still runs is ended again."""
        run = self._run(decision, now)
        answer = self._try(self._state.outside.workloads.verify, run, now)
        if isinstance(answer, WorkStatus) and answer.state in (WorkState.RUNNING, WorkState.PAUSED):
            answer = self._try(self._state.outside.workloads.kill, run, now)
        if isinstance(answer, WorkStatus) and answer.state in _ENDED:
            self._state.runs.move(run.run, KILLED, now)
            self._state.budget.release_run(run.run, now, "the run was killed")
            return Verdict.YES
        self._late(decision, run, answer, now)
        return Verdict.NOT_YET

    def announce(self, decision: Decision, now: datetime) -> None:
        """What it cost, and who ended it."""
        run = self._run(decision, now)
        spent = self._state.ledger.run_spent(run.run, now)
        event = Killed(run.about, decision.actor, "; ".join(decision.reasons), spent, decision.id)
        self._state.outside.notifier.notify(event, key=f"{decision.id}:killed", now=now)


class ResumeHandler:
    """paused → resuming → running, only where what the restart commits fits every cap."""

    def __init__(self, state: GuardState) -> None:
        self._state = state

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Hold what a restart commits, then release the objects that are still as we left them."""
        state = self._state
        run = state.run_of(decision.payload["run"], decision.payload["cluster"], now)
        if run.cycle == decision.payload["cycle"] and run.state != RESUMING:
            if run.state != PAUSED:
                raise BadInput(f"The run {run.run} is {run.state}, so it cannot be resumed.")
            hold = resume_hold(run, decision.id, state.settings.span)
            answer = state.budget.hold(hold, now, within=state.settings.resume_below)
            if not answer.granted:
                sentence = f"{run.run} stays paused. {answer.reason}"
                event = DecisionFailed(run.about, "resume", sentence, decision.id)
                state.outside.notifier.notify(event, key=f"{decision.id}:failed", now=now)
                raise BadInput(sentence)
            run = state.runs.move(run.run, RESUMING, now, again_at=None) or run
        status = state.outside.workloads.resume(run.cluster, run.run, now)
        return {"answer": status.detail or status.state.value}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """It runs (or has ended) in the cluster's own words."""
        state = self._state
        run = state.run_of(decision.payload["run"], decision.payload["cluster"], now)
        status = state.outside.workloads.verify(run.cluster, run.run, now)
        if status.state in (WorkState.PAUSED, WorkState.PAUSING):
            return Verdict.NOT_YET
        if run.state == RESUMING:
            after = _ENDED.get(status.state, RUNNING)
            state.runs.move(run.run, after, now, cycle=run.cycle + 1, unpaused=0, cause="")
        state.budget.settle(f"resume-{decision.id}", now)
        return Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Say that it runs again."""
        run = self._state.run_of(decision.payload["run"], decision.payload["cluster"], now)
        event = Resumed(run.about, decision.actor, "; ".join(decision.reasons), decision.id)
        self._state.outside.notifier.notify(event, key=f"{decision.id}:resumed", now=now)
