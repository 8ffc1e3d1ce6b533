"""What is remembered about providers' refusals, and when buying for the same pods stops."""

from datetime import timedelta

import pytest

from fleet.errors import Conflict, NoCapacity, NotOffered, QuotaExceeded, Refused, SubnetFull, Throttled
from fleet.model import CapacityType
from scaler.capacity import Breaker, Memory, is_config_problem
from scaler.settings import ScalerSettings
from tests.builders import T0, offer

POLICY = ScalerSettings()
HERE = offer()
OTHER_TYPE = offer("m5.2xlarge")
OTHER_ZONE = offer(zone="us-west-2b")
OTHER_REGION = offer(region="us-east-1")
SPOT = offer(capacity_type=CapacityType.SPOT)


@pytest.mark.parametrize(
    ("error", "minutes", "closed", "still_open"),
    [
        (NoCapacity("x"), 3, [HERE], [OTHER_TYPE, OTHER_ZONE, OTHER_REGION, SPOT]),
        (NotOffered("x"), 12 * 60, [HERE], [OTHER_TYPE, OTHER_ZONE, OTHER_REGION, SPOT]),
        (QuotaExceeded("x"), 30, [HERE, OTHER_TYPE, OTHER_ZONE], [OTHER_REGION, SPOT]),
        (SubnetFull("x"), 10, [HERE, OTHER_TYPE, SPOT], [OTHER_ZONE, OTHER_REGION]),
    ],
)
def test_each_type_of_error_closes_what_it_is_about_for_its_time(error, minutes, closed, still_open):
    """An offer, a family in a region, a subnet; and everything is open again afterwards."""
    memory = Memory().note(error, HERE, T0, POLICY)
    last, after = T0 + timedelta(minutes=minutes, seconds=-1), T0 + timedelta(minutes=minutes)
    assert all(memory.unavailable(one, last) for one in closed)
    assert not any(memory.unavailable(one, last) for one in still_open)
    assert not any(memory.unavailable(one, after) for one in closed)
    assert not any(memory.waiting(one, T0) for one in closed)


def test_no_capacity_doubles_while_it_repeats_and_starts_over_after_a_success():
    """3, 6, 12 … minutes, at most two hours."""
    memory, now, lengths = Memory(), T0, []
    for _ in range(8):
        memory = memory.note(NoCapacity("x"), HERE, now, POLICY)
        (strike,) = memory.strikes.values()
        lengths.append((strike.until - now).total_seconds() / 60)
        now = strike.until
    assert lengths == [3, 6, 12, 24, 48, 96, 120, 120]
    memory = memory.note_success(HERE).note(NoCapacity("x"), HERE, now, POLICY)
    assert memory.unavailable(HERE, now + timedelta(minutes=2))
    assert not memory.unavailable(HERE, now + timedelta(minutes=3))


def test_throttling_closes_nothing_and_is_waited_for():
    """As long as the other side says."""
    memory = Memory().note(Throttled("x", retry_after=20), HERE, T0, POLICY)
    assert not memory.unavailable(HERE, T0)
    assert memory.waiting(OTHER_TYPE, T0 + timedelta(seconds=19))
    assert not memory.waiting(OTHER_TYPE, T0 + timedelta(seconds=20))
    assert not memory.waiting(OTHER_REGION, T0)


@pytest.mark.parametrize("error", [Refused("x"), Conflict("x")])
def test_what_somebody_has_to_look_at_stops_the_whole_pool(error):
    """Credentials are as wrong in the next region."""
    memory = Memory().note(error, HERE, T0, POLICY)
    assert memory.waiting(OTHER_REGION, T0)
    assert is_config_problem(error)
    assert not is_config_problem(NoCapacity("x"))


def test_old_strikes_are_forgotten():
    """Only what could still be doubled is kept."""
    memory = Memory().note(NoCapacity("x"), HERE, T0, POLICY)
    assert memory.fresh(T0 + timedelta(minutes=30), POLICY) is memory
    assert memory.fresh(T0 + timedelta(hours=3), POLICY).strikes == {}


def test_a_large_class_bought_in_many_batches_does_not_trip_the_breaker():
    """Counted per pod: every pod was bought for once."""
    breaker = Breaker()
    for batch in range(20):
        breaker = breaker.bought({"c": [f"u{batch}-{n}" for n in range(10)]})
    assert breaker.tripped(POLICY) == {}


def test_the_breaker_trips_per_class_and_forgets_at_any_progress():
    """Three purchases for a pod that never starts; one that starts clears its class."""
    breaker = Breaker()
    for _ in range(3):
        breaker = breaker.bought({"c": ["u1", "u2"], "d": ["u3"]})
    assert set(breaker.tripped(POLICY)) == {"c", "d"}
    assert set(breaker.seen(frozenset({"u1", "u3"})).tripped(POLICY)) == {"d"}
    assert breaker.seen(frozenset({"u1", "u2", "u3", "u4"})) is breaker
