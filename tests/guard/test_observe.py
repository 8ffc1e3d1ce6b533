"""From snapshots to observations: only changes, at their own times, and nothing assumed from what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fleet.model import CapacityType, Price
from fleet.values import Money
from guard.meter import Meter, Observation, in_order
from guard.moments import micros
from guard.observe import Observer
from tests.builders import T0, instance, node, pod, snapshot
from tests.guard.fakes import FakePrices, labels

MINUTE = timedelta(minutes=1)


class World:
    """An observer and its meter, fed by hand."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.prices = FakePrices()
        self.observer = Observer(lambda: self.meter, self.prices.node_price, {})

    def look(self, shot, now: datetime, *instances) -> list[Observation]:
        """Observe, apply, return what was seen."""
        seen = list(self.observer.instances(instances, now)) if instances else []
        seen += self.observer.nodes(shot, now)
        seen += self.observer.pods(shot, now)
        seen += self.observer.prices(now, 5 * MINUTE)
        for one in in_order(seen):
            self.meter.apply(one)
        return seen


def brief(seen: list[Observation]) -> list[tuple[str, str, int]]:
    """(kind, key, seconds after T0)."""
    return [(one.kind, one.key, (one.at - micros(T0)) // 1_000_000) for one in seen]


@pytest.fixture
def world():
    """Nothing seen yet."""
    return World()


BOUGHT = instance("i-1", launched=T0, tags=labels())
JOINED = node("n", provider_id="aws:///us-west-2a/i-1", created=T0 + 2 * MINUTE)
RUNNING = pod("p", node="n", phase="Running", scheduled=T0 + 3 * MINUTE, labels=labels())


def test_each_fact_is_seen_once_at_its_own_time(world):
    """Launched at 0, joined at 120, bound at 180, all seen at 240; the next look sees nothing."""
    shot = snapshot(JOINED, RUNNING)
    assert brief(world.look(shot, T0 + 4 * MINUTE, BOUGHT)) == [
        ("machine", "i-1", 0),
        ("joined", "i-1", 120),
        ("bound", "uid-p", 180),
    ]
    assert world.look(shot, T0 + 5 * MINUTE, BOUGHT) == []


def test_pod_that_came_and_went_between_two_looks_is_metered(world):
    """Thirty seconds of a pod are not lost because nobody looked just then."""
    world.look(snapshot(JOINED), T0 + 3 * MINUTE, BOUGHT)
    short = replace(RUNNING, phase="Succeeded", finished=T0 + 3 * MINUTE + timedelta(seconds=30))
    seen = world.look(snapshot(JOINED, short), T0 + 4 * MINUTE, BOUGHT)
    assert brief(seen) == [("bound", "uid-p", 180), ("unbound", "uid-p", 210)]


def test_completed_pods_are_not_metered_again_after_a_restart(world):
    """openshift-toolkit #103: 53 completed pods that stay in the API cost nothing more."""
    done = replace(RUNNING, phase="Succeeded", finished=T0 + 4 * MINUTE)
    world.look(snapshot(JOINED, RUNNING), T0 + 4 * MINUTE, BOUGHT)
    world.look(snapshot(JOINED, done), T0 + 5 * MINUTE, BOUGHT)
    world.observer = Observer(lambda: world.meter, world.prices.node_price, {})
    assert world.look(snapshot(JOINED, done), T0 + 6 * MINUTE, BOUGHT) == []


def test_evicted_pod_costs_nothing_after_its_eviction(world):
    """opencost #232: its object remains in phase Failed."""
    world.look(snapshot(JOINED, RUNNING), T0 + 4 * MINUTE, BOUGHT)
    evicted = replace(RUNNING, phase="Failed", deleting=T0 + 5 * MINUTE)
    assert brief(world.look(snapshot(JOINED, evicted), T0 + 6 * MINUTE, BOUGHT)) == [
        ("unbound", "uid-p", 300)
    ]


def test_terminating_pod_still_counts(world):
    """Until its object is gone; then from its announced end where that has passed."""
    world.look(snapshot(JOINED, RUNNING), T0 + 4 * MINUTE, BOUGHT)
    leaving = replace(RUNNING, deleting=T0 + 6 * MINUTE)
    assert world.look(snapshot(JOINED, leaving), T0 + 5 * MINUTE, BOUGHT) == []
    assert brief(world.look(snapshot(JOINED), T0 + 7 * MINUTE, BOUGHT)) == [("unbound", "uid-p", 360)]


def test_pending_pod_costs_nothing(world):
    """No node, no cost."""
    assert world.look(snapshot(pod("p")), T0) == []


def test_pod_is_looked_at_again_when_its_node_appears(world):
    """The pod was listed before its node: nothing is lost, it counts from its binding."""
    world.look(snapshot(RUNNING), T0 + 4 * MINUTE, BOUGHT)
    seen = world.look(snapshot(JOINED, RUNNING), T0 + 5 * MINUTE, BOUGHT)
    assert brief(seen) == [("joined", "i-1", 120), ("bound", "uid-p", 180)]


def test_node_that_takes_anothers_name_is_another_machine(world):
    """Names are reused: the old machine is left, the new one joined."""
    world.look(snapshot(JOINED), T0 + 3 * MINUTE, BOUGHT)
    other = instance("i-2", launched=T0 + 4 * MINUTE, tags=labels())
    again = node("n", provider_id="aws:///us-west-2a/i-2", uid="uid-2", created=T0 + 5 * MINUTE)
    gone = replace(BOUGHT, state="terminated", ended=T0 + 4 * MINUTE)
    seen = world.look(snapshot(again), T0 + 6 * MINUTE, gone, other)
    assert ("joined", "i-2", 300) in brief(seen)
    assert set(world.meter.machines) == {"i-2"}
    assert world.meter.nodes == {("home", "n"): "i-2"}


def test_machine_that_lived_between_two_looks_is_metered_once(world):
    """Launched and ended unseen: both facts; the provider goes on listing it, nothing more."""
    gone = replace(BOUGHT, state="terminated", ended=T0 + MINUTE)
    assert brief(world.look(snapshot(), T0 + 2 * MINUTE, gone)) == [
        ("machine", "i-1", 0),
        ("ended", "i-1", 60),
    ]
    assert world.look(snapshot(), T0 + 3 * MINUTE, gone) == []


def test_spot_price_is_looked_at_every_five_minutes(world):
    """A new price is an observation; the same price is none."""
    spot = replace(BOUGHT, capacity_type=CapacityType.SPOT)
    world.look(snapshot(), T0 + MINUTE, spot)
    world.prices.by_machine["i-1"] = Price(Money.usd("0.90"), "spot")
    assert world.look(snapshot(), T0 + 3 * MINUTE, spot) == []
    (seen,) = world.look(snapshot(), T0 + 6 * MINUTE, spot)
    assert (seen.kind, seen.payload["hourly"]) == ("price", 900_000)


def test_on_premises_node_is_metered_from_its_creation(world):
    """No provider lists it: its node object is all there is."""
    rack = node("rack-1", created=T0)
    seen = world.look(snapshot(rack), T0 + MINUTE)
    assert brief(seen) == [("machine", "uid-rack-1", 0), ("joined", "uid-rack-1", 0)]
    assert seen[0].payload["provider"] == "onprem"
    assert brief(world.look(snapshot(), T0 + 2 * MINUTE)) == [("left", "uid-rack-1", 120)]


def test_resized_pod_is_a_change(world):
    """In-place resize: the new requests count from when they are seen."""
    world.look(snapshot(JOINED, RUNNING), T0 + 4 * MINUTE, BOUGHT)
    bigger = replace(RUNNING, requests=RUNNING.requests * 2)
    assert brief(world.look(snapshot(JOINED, bigger), T0 + 5 * MINUTE, BOUGHT)) == [("bound", "uid-p", 300)]


def test_one_list_without_a_machine_proves_nothing(world):
    """A joined machine that a list leaves out goes on costing; listed again, nothing has happened."""
    shot = snapshot(JOINED, RUNNING)
    world.look(shot, T0 + 4 * MINUTE, BOUGHT)
    other = instance("i-2", launched=T0, tags=labels())
    world.look(shot, T0 + 5 * MINUTE, other)

    assert brief(world.look(shot, T0 + 40 * MINUTE, other)) == []
    assert brief(world.look(shot, T0 + 41 * MINUTE, BOUGHT, other)) == []
    assert "i-1" in world.meter.machines


def test_a_machine_without_a_node_ends_when_no_list_has_shown_it_for_ten_minutes(world):
    """Nine minutes of silence are borne, ten are an end; it has cost until then."""
    other = instance("i-2", launched=T0, tags=labels())
    world.look(snapshot(), T0 + MINUTE, BOUGHT, other)
    assert brief(world.look(snapshot(), T0 + 2 * MINUTE, other)) == []
    assert brief(world.look(snapshot(), T0 + 11 * MINUTE, other)) == []
    assert brief(world.look(snapshot(), T0 + 12 * MINUTE, other)) == [("ended", "i-1", 720)]
