"""Purchases: holds, tokens, limits, lost answers and crashes."""

from datetime import timedelta

import pytest

from fleet.errors import Unavailable
from fleet.model import L_TEAM
from fleet.values import Money
from scaler.events import (
    MachinesBought,
    Overflowed,
    PurchaseRefused,
)
from tests.builders import offer
from tests.scaler.fakes import House, aws_pool, waiting


def test_a_purchase_is_held_under_its_own_token_and_settled():
    """The hold's id is the ClientToken, it draws on the launch hold, and it is settled with what was bought."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    (hold,) = house.budget.held.values()
    (request,) = house.machines.requests
    assert hold.id == request.token
    assert hold.draws_on == ("launch-r1",)
    assert hold.burn == Money.usd("0.192")
    assert hold.amount == Money.usd("0.192").over(timedelta(minutes=21))
    assert house.budget.settled[hold.id] == (Money.usd("0.192"), {"instances": ["i-0001"]})


def test_a_refused_hold_buys_nothing_and_says_why():
    """Money before machines."""
    house = House()
    house.budget.left = Money(0)
    house.view.put(*waiting(3))
    house.tick()
    assert house.machines.requests == []
    assert "the cap team has nothing left" in house.scaler.pending_reasons("r1", house.now)[0]
    assert len(house.notifier.of(PurchaseRefused)) == 1


def test_a_cap_with_room_for_some_buys_exactly_these_row_16():
    """Row 16: five wanted, room for three: three, and the rest pending with the reason."""
    house = House()
    each = Money.usd("0.192").over(timedelta(minutes=21))
    house.budget.left = each * 3 + Money(1)
    house.view.put(*waiting(5))
    house.tick()
    assert len(house.machines.live()) == 3
    assert any("the cap team" in sentence for sentence in house.scaler.pending_reasons("r1", house.now))


def test_a_lost_answer_is_repeated_verbatim_and_buys_once():
    """The machines were bought, the answer was lost: same token, same machines."""
    house = House()
    house.machines.lose_answers = 1
    house.view.put(*waiting(2))
    house.tick()
    assert house.scaler.machines() == ()
    assert "no answer yet" in house.scaler.pending_reasons("r1", house.now)[0]
    house.tick()
    first, second = house.machines.requests
    assert first == second
    assert len(house.machines.live()) == 2
    assert [m.id for m in house.scaler.machines()] == ["i-0001", "i-0002"]
    assert house.budget.open == {}
    assert len(house.notifier.of(MachinesBought)) == 1


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("moment", ["before launch", "after launch", "before settle", "after settle"])
def test_a_crash_at_any_moment_of_a_purchase_never_buys_twice(moment):
    """Whatever was done when the process died, after a restart there are exactly two machines."""
    house = House()
    place, name = (house.machines, "launch") if "launch" in moment else (house.budget, "settle")
    original = getattr(place, name)

    def dies(*args, **kwargs):
        setattr(place, name, original)
        if moment.startswith("after"):
            original(*args, **kwargs)
        raise Killed

    setattr(place, name, dies)
    house.view.put(*waiting(2))
    with pytest.raises(Killed):
        house.tick()
    house.restart()
    for _ in range(3):
        house.tick()
    assert len(house.machines.live()) == 2
    assert len(house.scaler.machines()) == 2
    assert house.budget.open == {}
    assert len(house.notifier.of(MachinesBought)) == 1


def test_what_a_repeated_purchase_lacked_is_learnt():
    """Two of three were to be had and the process died: the next one does not ask the empty region again."""
    house = House()
    house.machines.capacity["us-west-2"] = 2
    house.machines.lose_answers = 1
    house.view.put(*waiting(3))
    house.tick()
    house.restart()
    house.tick()
    regions = [request.region for request in house.machines.requests]

    assert regions == ["us-west-2", "us-west-2", "us-east-1"]
    assert len(house.machines.live()) == 3
    assert [event.from_region for event in house.notifier.of(Overflowed)] == ["us-west-2"]


def test_machines_with_our_tags_that_the_database_lost_are_adopted():
    """A restored backup does not know what was bought since; the provider does."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    other = House()
    other.machines, other.view = house.machines, house.view
    other.restart()
    other.tick()
    assert [m.id for m in other.scaler.machines()] == ["i-0001"]
    assert len(house.machines.live()) == 1


def test_an_idle_node_is_cordoned_then_ended_in_a_later_tick_and_its_hold_released():
    """Two phases, and the money comes back when the machine has ended."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    house.bind(one, "node-i-0001")
    house.tick(minutes=30)
    assert house.nodes.patched == [], "a busy node stays, however old"
    house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    assert house.nodes.patched == [("node-i-0001", True)]
    assert len(house.machines.live()) == 1
    house.tick()
    assert house.machines.live() == []
    house.tick()
    house.tick()
    (hold,) = house.budget.held
    assert house.budget.released[hold] == "its machines have ended"
    assert house.scaler.machines() == ()


def test_limits_of_pool_region_and_run_are_hard():
    """Counted before the purchase, machines that boot included."""
    house = House(pools=(aws_pool(max_nodes=5, **{"max_us-west-2": 2}),))
    house.run_max_nodes["r1"] = 4
    house.restart()
    house.view.put(*waiting(9))
    for _ in range(3):
        house.tick()
    assert len(house.machines.live("us-west-2")) == 2
    assert len(house.machines.live()) == 4
    assert any("limits.max_nodes" in s for s in house.scaler.pending_reasons("r1", house.now))


def test_a_large_purchase_is_made_in_batches():
    """One answer never decides about a thousand machines."""
    house = House(batch=10)
    house.view.put(*waiting(25))
    house.tick()
    assert [request.count for request in house.machines.requests] == [10, 10, 5]


def test_pods_of_nobody_are_bought_for_as_unattributed():
    """They are charged to the team `unattributed`, apart from every run."""
    house = House()
    house.view.put(*waiting(1, labels={}), *waiting(1))
    house.tick()
    teams = sorted(request.tags[L_TEAM] for request in house.machines.requests)
    assert teams == ["unattributed", "vision"]


def test_machines_are_adopted_also_where_the_provider_was_silent_at_the_start(monkeypatch):
    """It is asked again until it has answered once."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    other = House()
    other.machines, other.view = house.machines, house.view
    other.view.pods = {}
    describe = house.machines.describe

    def silent():
        raise Unavailable("EC2 does not answer")

    monkeypatch.setattr(house.machines, "describe", silent)
    other.restart()
    other.tick()
    monkeypatch.setattr(house.machines, "describe", describe)
    other.tick()
    (adopted,) = other.scaler.machines()
    assert (adopted.id, adopted.group.run) == ("i-0001", "r1")
    assert adopted.allocatable == offer().allocatable
