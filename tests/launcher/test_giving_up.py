"""What follows where the cluster fails a launch or a scaling for two hours."""

from datetime import timedelta

import pytest

from fleet.budget import HoldKind, HoldRequest, Scope, launch_hold_id
from fleet.errors import Unavailable
from fleet.values import Money
from launcher.events import LaunchFailed, ScaleFailed
from launcher.runs import RunState
from tests.builders import T0
from tests.launcher.house import House


@pytest.fixture
def house():
    """A launcher with in-memory ports."""
    return House()


def minutes_pass(house, first, last):
    """The journal tries every minute, from one minute to another."""
    for minute in range(first, last + 1):
        house.journal.advance(T0 + timedelta(minutes=minute))


@pytest.mark.parametrize("reachable", [True, False])
def test_a_launch_that_the_cluster_fails_for_two_hours_is_undone_and_told(house, reachable):
    """What is created is deleted, now or when the cluster answers; the hold is given back."""
    run = house.propose()
    name = f"dota-{run.id}-worker"
    for _ in range(300):
        house.objects.fail("apply", name, Unavailable("the API is being upgraded"))
    assert house.start(run).state == "decided"
    minutes_pass(house, 1, 119)
    assert house.state(run) is RunState.LAUNCHING
    if not reachable:
        for _ in range(300):
            house.objects.fail("delete", f"dota-{run.id}-ps", Unavailable("the API is being upgraded"))
    minutes_pass(house, 120, 120)
    assert house.state(run) is (RunState.FAILED if reachable else RunState.FAILING)
    assert (house.objects.stored == {}) is reachable
    assert launch_hold_id(run.id) in house.budget.released
    (event,) = house.notifier.of(LaunchFailed)
    assert event.reason.startswith("Given up after 2 h")
    assert event.reason.endswith("the API is being upgraded")
    assert event.cleaned is reachable


def test_a_scale_that_the_cluster_fails_for_two_hours_is_told(house):
    """The hold is free again, and the owner reads what did not happen."""
    run = house.propose()
    house.start(run)
    for _ in range(300):
        house.objects.fail("patch", f"dota-{run.id}-worker", Unavailable("the API is being upgraded"))
    plan = house.launcher.plan_scale(run.id, "worker", 8)
    hold = HoldRequest("scale-1", HoldKind.SCALE, Scope(run=run.id), Money.usd(50), Money.usd(2), "scale")
    house.launcher.scale(plan, hold=hold, request="s1", actor="U1", now=T0)
    minutes_pass(house, 1, 120)
    assert "scale-1" in house.budget.released
    (event,) = house.notifier.of(ScaleFailed)
    assert (event.role, event.after) == ("worker", 8)
    assert event.reason.startswith("Given up after 2 h")
    assert house.objects.job(f"dota-{run.id}-worker")["spec"]["parallelism"] == 4
