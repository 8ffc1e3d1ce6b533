"""A person's pause, resume and kill: the same journal path as the guard's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.operations import rights
from bot.operations.house import House
from bot.operations.runs import find, state_of
from fleet.model import Decision, Person
from launcher.runs import Run, RunState


@dataclass(frozen=True, slots=True)
class Asked:
    """A pause, resume or kill was asked for; whether it is so yet is told when it is verified."""

    ok: bool
    kind: str
    run: str
    experiment: str
    actor_name: str
    state: str
    """of the decision"""
    sentence: str


def pause(
    house: House, person: Person, name: str, reason: str, now: datetime, *, again: bool = False
) -> Asked:
    """Stop a run so that it can be resumed. Raises NotAllowed, BadInput.

    `again`: the same command after a crash; a pause that is under way then is its own.
    """
    run = _mine(house, person, name, "pause")
    if not again and (state := state_of(house, run, now)) in ("paused", "pausing"):
        return Asked(
            True, "pause", run.id, run.experiment, person.name, state, f"{_called(run)} is {state} already."
        )
    return _asked("pause", run, person, house.guard.requested_pause(run.id, run.cluster, person, reason, now))


def resume(
    house: House, person: Person, name: str, reason: str, now: datetime, *, request: str = ""
) -> Asked:
    """Let a paused run go on, where its caps have room; once a request. Raises NotAllowed, BadInput."""
    run = _mine(house, person, name, "resume")
    decision = house.guard.requested_resume(run.id, run.cluster, person, reason, now, request=request)
    return _asked("resume", run, person, decision)


def kill(
    house: House, person: Person, name: str, reason: str, now: datetime, *, again: bool = False
) -> Asked:
    """End a run for good. Raises NotAllowed, BadInput.

    `again`: the same command after a crash; a run that has ended then was ended by it.
    """
    run = _mine(house, person, name, "kill")
    ended = _ended(house, run, now)
    if ended and not again:
        sentence = f"The run {_called(run)} is {ended}: there is nothing to kill."
        return Asked(False, "kill", run.id, run.experiment, person.name, ended, sentence)
    return _asked("kill", run, person, house.guard.requested_kill(run.id, run.cluster, person, reason, now))


def _mine(house: House, person: Person, name: str, verb: str) -> Run:
    run = find(house, name)
    rights.acts_on(person, run.owner, run.team, f"To {verb} {_called(run)}", house.directory)
    return run


def _ended(house: House, run: Run, now: datetime) -> str:
    """How a run ended that nobody killed, by the launcher's book or by what the guard has seen; "" of others."""
    if run.state is RunState.KILLED:
        return ""
    if not run.state.live:
        return run.state.value
    return "done" if house.guard.run_costs(run.id, now).state == "done" else ""


def _called(run: Run) -> str:
    return f"{run.experiment} ({run.id})"


_DOING = {"pause": "is pausing", "resume": "is resuming", "kill": "is being killed"}
_DONE = {"pause": "is paused", "resume": "runs again", "kill": "is killed"}


def _asked(kind: str, run: Run, person: Person, decision: Decision) -> Asked:
    if decision.state == "failed":
        said = str(decision.result.get("error") or "; ".join(decision.reasons))
        sentence = f"{_called(run)} could not be {kind}{'d' if kind.endswith('e') else 'ed'}: {said}"
        return Asked(False, kind, run.id, run.experiment, person.name, decision.state, sentence)
    word = _DONE[kind] if decision.state in ("verified", "announced") else _DOING[kind]
    return Asked(True, kind, run.id, run.experiment, person.name, decision.state, f"{_called(run)} {word}.")
