"""The scaler's tick over in-memory ports: what is bought, where, once, and what is given back."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.errors import NoCapacity, NotOffered, QuotaExceeded, Refused, SubnetFull, Throttled
from fleet.model import L_CLUSTER, L_EXPERIMENT, L_HOLD, L_OWNER, L_POOL, L_RUN, L_TEAM
from fleet.values import Money
from scaler.events import (
    LaunchesWithoutProgress,
    MachineFailed,
    MachinesBought,
    Overflowed,
    PodsUnplaced,
    ProviderRefused,
    PurchaseRefused,
    QuotaReached,
)
from tests.builders import T0, offer, pod, resources
from tests.scaler.fakes import REGIONS, House, pool

LABELS = {L_RUN: "r1", L_EXPERIMENT: "dota", L_OWNER: "U1", L_TEAM: "vision"}


def waiting(count=1, **more):
    """Pods that the scheduler found no place for."""
    fields = {"cpu": "3", "unschedulable": True, "labels": LABELS} | more
    run = fields["labels"].get(L_RUN, "none")
    return [pod(f"{run}-{number}", **fields) for number in range(count)]


def test_pending_pods_get_machines_of_their_own_run():
    """Three pods of 3 cores on machines of 3.92: three machines, tagged with whom they are for."""
    house = House()
    house.view.put(*waiting(3))
    report = house.tick()
    assert (report.pending, report.bought) == (3, 3)
    (request,) = house.machines.requests
    assert request.region == "us-west-2"
    expected = LABELS | {L_POOL: "aws", L_CLUSTER: "home", L_HOLD: request.token}
    assert request.tags == expected
    (event,) = house.notifier.of(MachinesBought)
    assert (event.run, event.count, event.hourly) == ("r1", 3, Money.usd("0.576"))


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


@pytest.mark.parametrize("ticks_between", [1, 5])
def test_machines_that_boot_are_counted_rows_8_11(ticks_between):
    """Rows 8 and 11: a pod whose machine boots for minutes gets one machine, not one a tick."""
    house = House()
    house.view.put(*waiting(1))
    house.machines.hidden.add("i-0001")
    for _ in range(ticks_between):
        house.tick()
    house.join(ready=False)
    for _ in range(ticks_between):
        house.tick()
    assert len(house.machines.live()) == 1


def test_a_purchase_that_got_only_a_part_goes_on_in_the_next_regions_in_the_same_tick():
    """30 machines wanted, 4, 3, 2 and plenty there: all of them are bought at once, over four regions."""
    house = House()
    house.machines.capacity = {"us-west-2": 4, "us-east-1": 3, "eu-west-1": 2}
    house.view.put(*waiting(30))
    house.tick()
    assert [len(house.machines.live(region)) for region in REGIONS] == [4, 3, 2, 21]
    assert {event.from_region for event in house.notifier.of(Overflowed)} == set(REGIONS[:3])
    assert len({request.token for request in house.machines.requests}) == len(house.machines.requests)


def test_when_everything_is_sold_out_the_rest_waits_with_the_reason():
    """Nothing is tried again before the memory says so, and the reason is in words."""
    house = House()
    house.machines.capacity = dict.fromkeys(REGIONS, 1)
    house.view.put(*waiting(6))
    house.tick()
    assert len(house.machines.live()) == 4
    calls = len(house.machines.requests)
    house.tick()
    assert len(house.machines.requests) == calls
    (told,) = [s for s in house.scaler.pending_reasons("r1", house.now) if s.startswith("2 pods")]
    assert "nothing that fits is to be had now" in told
    house.machines.capacity["us-west-2"] = 10
    house.tick(minutes=4)
    assert len(house.machines.live("us-west-2")) == 3


@pytest.mark.parametrize(
    ("error", "elsewhere"),
    [
        (NoCapacity("none"), True),
        (NotOffered("not in this zone"), True),
        (QuotaExceeded("VcpuLimitExceeded"), True),
        (SubnetFull("no addresses"), True),
        (Throttled("slow down"), False),
        (Refused("UnauthorizedOperation"), False),
    ],
)
def test_the_type_of_the_error_decides_whether_it_is_tried_elsewhere(error, elsewhere):
    """Capacity, offering, quota and subnet: the next region. Throttling and refusals: not."""
    house = House()
    house.machines.errors["us-west-2"] = error
    house.view.put(*waiting(2))
    house.tick()
    assert len(house.machines.live()) == (2 if elsewhere else 0)
    assert len(house.machines.requests) == (2 if elsewhere else 1)
    assert house.budget.open == {}


def test_throttling_is_waited_for_and_then_bought_in_the_same_place():
    """It says nothing about capacity."""
    house = House()
    house.machines.errors["us-west-2"] = Throttled("slow down", retry_after=20)
    house.view.put(*waiting(1))
    house.tick()
    assert "waits for us-west-2" in house.scaler.pending_reasons("r1", house.now)[0]
    del house.machines.errors["us-west-2"]
    house.tick()
    assert house.machines.live() == []
    house.tick()
    assert len(house.machines.live("us-west-2")) == 1


def test_refused_credentials_stop_the_pool_and_are_told_once():
    """Never in a loop over regions."""
    house = House()
    house.machines.errors = dict.fromkeys(REGIONS, Refused("UnauthorizedOperation"))
    house.view.put(*waiting(2))
    house.tick()
    house.tick()
    assert len(house.machines.requests) == 1
    assert len(house.notifier.of(ProviderRefused)) == 1


def test_a_quota_stops_its_whole_family_in_the_region_row_25():
    """Row 25: not one type after the other, and a person is told."""
    small, large = offer("m5.xlarge"), offer("m5.2xlarge", price="0.384", vcpus=8)
    house = House(small, large, offer(region="us-east-1"))
    house.machines.errors["us-west-2"] = QuotaExceeded("VcpuLimitExceeded")
    house.view.put(*waiting(3))
    house.tick()
    assert [r.region for r in house.machines.requests] == ["us-west-2", "us-east-1"]
    (event,) = house.notifier.of(QuotaReached)
    assert (event.region, event.family) == ("us-west-2", "Standard")


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


def test_nothing_is_bought_for_a_run_that_is_stopped():
    """Paused, cap reached, guard silent: the budget's word is the reason."""
    house = House()
    house.budget.stopped["r1"] = "The run r1 is paused"
    other = dict(LABELS) | {L_RUN: "r2"}
    house.view.put(*waiting(2), *waiting(1, labels=other))
    house.tick()
    assert [request.tags[L_RUN] for request in house.machines.requests] == ["r2"]
    assert house.scaler.pending_reasons("r1", house.now) == ("2 pods: The run r1 is paused.",)


@pytest.mark.parametrize("change", [{"synced": False}, {"stale_since": T0}])
def test_nothing_is_decided_from_a_view_that_is_not_complete(change):
    """Neither bought nor ended."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    house.join()
    for name, value in change.items():
        setattr(house.view, name, value)
    house.view.put(*waiting(9, cpu="2"))
    house.tick(hours=2)
    assert len(house.machines.live()) == 1
    assert house.nodes.patched == []


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


def test_a_pod_that_lands_between_cordon_and_end_keeps_its_node_row_28():
    """Row 28: looked at again under the cordon, and uncordoned."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    house.bind(waiting(1)[0], "node-i-0001")
    house.tick()
    assert house.nodes.patched[-1] == ("node-i-0001", None)
    assert len(house.machines.live()) == 1


def test_a_cordoned_node_that_pending_pods_need_is_uncordoned_before_anything_is_bought():
    """What is there is used first."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    house.view.put(*waiting(1, cpu="2"))
    house.tick()
    assert house.nodes.patched[-1] == ("node-i-0001", None)
    assert len(house.machines.requests) == 1


def test_only_our_own_nodes_go_and_protected_ones_stay():
    """A node that we did not buy is never cordoned, nor one that is marked to be kept."""
    from tests.builders import node

    house = House()
    (one,) = waiting(1)
    house.view.put(one, node("theirs", provider_id="aws:///us-west-2a/i-foreign", unschedulable=True))
    house.tick()
    house.join()
    house.view.drop(one)
    ours = house.view.nodes["node-i-0001"]
    house.view.put(replace(ours, labels={**ours.labels, "quartermaster.dev/do-not-disrupt": "true"}))
    for _ in range(5):
        house.tick(minutes=10)
    assert house.nodes.patched == []
    assert len(house.machines.live()) == 1


def test_idle_nodes_go_a_share_at_a_time():
    """29 of 30 idle: a rate limit, not a veto."""
    house = House()
    pods = waiting(30)
    house.view.put(*pods)
    house.tick()
    house.join()
    house.tick()
    for one in pods:
        house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    assert len(house.nodes.patched) == 3
    house.tick()
    assert len(house.machines.live()) == 27
    for _ in range(25):
        house.tick()
    assert house.machines.live() == []


def test_a_machine_that_never_joins_is_ended_told_and_its_offer_left_alone():
    """It bills and is of no use; the next try is elsewhere."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    house.tick(minutes=16)
    house.tick()
    house.tick()
    (event,) = house.notifier.of(MachineFailed)
    assert (event.machine, event.reason) == ("i-0001", "it did not join in time")
    assert [len(house.machines.live(region)) for region in REGIONS[:2]] == [0, 1]


def test_gpus_that_never_appear_end_the_machine_row_10():
    """Row 10: node Ready, GPU allocatable 0 for ever."""
    gpu = offer(
        "g5.xlarge", price="1.006", allocatable=resources("3920m", "14Gi", gpus=1, pods=58), family="G"
    )
    house = House(gpu, replace(gpu, region="us-east-1", zone="us-east-1a"))
    house.view.put(*waiting(1, cpu="1", gpus=1))
    house.tick()
    house.join()
    node = house.view.nodes["node-i-0001"]
    house.view.put(replace(node, allocatable=replace(node.allocatable, gpus=0)))
    house.tick()
    house.tick(minutes=5)
    assert len(house.machines.live()) == 1
    house.tick(minutes=6)
    house.tick()
    house.tick()
    assert [m.region for m in house.machines.live()] == ["us-east-1"]
    assert house.notifier.of(MachineFailed)[0].reason == "its GPUs did not appear in time"


def test_buying_stops_after_some_purchases_that_helped_nobody_row_1():
    """Row 1: the node joins, the pod stays pending, and again: three machines, not 235."""
    house = House()
    house.view.put(*waiting(1))
    for _ in range(20):
        house.tick(minutes=2)
        house.join()
    assert len(house.machines.requests) == 3
    assert len(house.notifier.of(LaunchesWithoutProgress)) == 1
    assert "none of them started" in house.scaler.pending_reasons("r1", house.now)[0]
    house.restart()
    house.tick(minutes=2)
    assert len(house.machines.requests) == 3


def test_a_pod_larger_than_anything_on_sale_is_told_with_the_nearest_machine_row_40():
    """Row 40: no purchase, one message."""
    house = House()
    house.view.put(*waiting(1, cpu="1000"))
    house.tick()
    house.tick()
    assert house.machines.requests == []
    (event,) = house.notifier.of(PodsUnplaced)
    assert "1000 cores" in event.reason
    assert "m5.xlarge" in event.reason


def test_limits_of_pool_region_and_run_are_hard():
    """Counted before the purchase, machines that boot included."""
    house = House(pools=(pool(max_nodes=5, **{"max_us-west-2": 2}),))
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


def test_pods_elsewhere_are_none_of_our_business():
    """Ungoverned namespaces, gated pods, DaemonSet pods and pods on their way out buy nothing."""
    house = House()
    house.view.put(
        *waiting(1, namespace="kube-system"),
        pod("gated", labels=LABELS),
        pod("daemon", unschedulable=True, daemon=True),
        pod("leaving", unschedulable=True, deleting=T0),
    )
    house.tick()
    assert house.machines.requests == []


def test_pods_of_nobody_are_bought_for_as_unattributed():
    """They are charged to the team `unattributed`, apart from every run."""
    house = House()
    house.view.put(*waiting(1, labels={}), *waiting(1))
    house.tick()
    teams = sorted(request.tags[L_TEAM] for request in house.machines.requests)
    assert teams == ["unattributed", "vision"]


def test_a_tick_with_nothing_to_do_costs_less_than_a_millisecond():
    """100,000 pods run, none is pending: the view hands out the same snapshot and nothing is looked at again."""
    house = House()
    running = pod("x", labels=LABELS)
    house.view.pods = {f"u{n}": running for n in range(100_000)}
    house.tick()
    best = min(_timed(house) for _ in range(5))
    assert best < 0.001
    assert house.catalog.calls == 1, "offers were only asked for at the first look"


def _timed(house):
    start = time.perf_counter()
    house.scaler.tick(house.now)
    return time.perf_counter() - start
