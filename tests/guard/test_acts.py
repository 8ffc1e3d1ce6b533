"""Killed between any two steps: after a restart there is one act and one message of each kind."""

from __future__ import annotations

from typing import Any

import pytest

from guard.events import CountdownArmed, PauseStarted, PauseVerified, Resumed
from tests.guard.fakes import LEA
from tests.guard.lab import Lab


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Killer:
    """Ends the process at its n-th step outside or into the database."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self) -> None:
        """One more step; the last one does not return."""
        self.left -= 1
        if self.left == 0:
            raise Killed


def plant(lab: Lab, killer: Killer, *, after: bool) -> None:
    """Make every outside call and every commit a place to die, before or after it."""

    def around(target: Any, name: str) -> None:
        real = getattr(target, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not after:
                killer.step()
            answer = real(*args, **kwargs)
            if after:
                killer.step()
            return answer

        setattr(target, name, wrapped)

    for name in ("pause", "resume", "verify"):
        around(lab.workloads, name)
    around(lab.notifier, "notify")
    around(lab.journal, "_move")
    around(lab.journal, "decide")
    around(lab.guard._state.ledger, "absorb")
    around(lab.guard._state.runs, "put")
    around(lab.guard._state.history, "fire")


def heal(lab: Lab) -> None:
    """A new process, without the killer."""
    for target in (lab.workloads, lab.notifier):
        for name in list(vars(target)):
            if callable(vars(target)[name]):
                delattr(target, name)
    lab.boot()


def story(lab: Lab, killer: Killer | None, *, after: bool) -> bool:
    """From a run's start to its pause, an approval and its resume; True where the killer struck."""
    lab.tick()
    lab.cap("run-abcde", "10")
    lab.run()
    struck = False
    lab.pass_time(minutes=138)
    if killer is not None:
        plant(lab, killer, after=after)
    while not lab.notifier.of(Resumed):
        try:
            lab.pass_time(minutes=1)
            paused = lab.notifier.of(PauseVerified)
            if paused:
                lab.guard.approve(paused[0].request, LEA, None, lab.now)
        except Killed:
            struck = True
            heal(lab)
        assert lab.now.hour < 22, "the story does not end"
    heal(lab)
    lab.pass_time(minutes=2)
    return struck


def told(lab: Lab) -> list[str]:
    """Kinds of all events, in order."""
    return [type(event).__name__ for event in lab.notifier.told.values()]


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_step_ends_the_same(after):
    """Every outside call and every write, before it and after it: same messages, one pause that took effect."""
    calm = Lab()
    story(calm, None, after=after)
    steps = 0
    for at in range(1, 200):
        lab = Lab()
        if not story(lab, Killer(at), after=after):
            break
        steps += 1
        assert sorted(told(lab)) == sorted(told(calm)), f"killed at step {at}"
        assert len(lab.notifier.of(PauseStarted)) == len(lab.notifier.of(CountdownArmed)) == 1
        assert lab.guard.verify_ledger() == ()
        decisions = lab.database.rows("SELECT kind, COUNT(*) AS n FROM decisions GROUP BY kind")
        wanted = calm.database.rows("SELECT kind, COUNT(*) AS n FROM decisions GROUP BY kind")
        assert decisions == wanted, f"killed at step {at}"
        assert lab.guard.run_costs("abcde", lab.now).state == "running"
    assert steps > 20
