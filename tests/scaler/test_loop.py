"""The scaler's tick over in-memory ports: what is bought, and where."""

import time

import pytest

from fleet.errors import NoCapacity, NotOffered, QuotaExceeded, Refused, SubnetFull, Throttled
from fleet.model import L_CLUSTER, L_HOLD, L_POOL, L_RUN
from fleet.values import Money
from scaler.events import (
    LaunchesWithoutProgress,
    MachinesBought,
    Overflowed,
    PodsUnplaced,
    ProviderRefused,
    QuotaReached,
)
from tests.builders import T0, offer, pod
from tests.scaler.fakes import LABELS, REGIONS, House, waiting


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


def test_a_tick_with_nothing_to_do_costs_less_than_a_millisecond():
    """100,000 pods run, none is pending: the view hands out the same snapshot and nothing is looked at again."""
    house = House()
    running = pod("x", labels=LABELS)
    house.view.pods = {f"u{n}": running for n in range(100_000)}
    house.tick()
    best = min(_timed(house) for _ in range(5))
    assert best < 0.001
    assert house.catalog.calls == 0, "nothing is bought, so nobody asks what is sold"


def _timed(house):
    start = time.perf_counter()
    house.scaler.tick(house.now)
    return time.perf_counter() - start
