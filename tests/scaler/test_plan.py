"""Plans: what is bought for which pods. Row numbers are those of the public reports behind the cases."""

from datetime import timedelta

import pytest

from fleet.errors import NoCapacity
from fleet.model import (
    L_RUN,
    CapacityType,
    Owner,
    Taint,
)
from fleet.values import Money
from scaler.capacity import Memory
from scaler.preview import preview, worst_case
from scaler.values import Limits, Situation
from tests.builders import T0, node, pod, resources, snapshot
from tests.scaler.cases import POLICY, POOL, machine, plan, sold, types, waiting


def test_pods_that_fit_existing_nodes_buy_nothing():
    """Free room is used first, and only as much as there is."""
    result = plan([node("n1"), *(waiting(f"p{n}") for n in range(6))], [sold()])
    assert [len(placed.pods) for placed in result.placed] == [4]
    assert types(result) == {"m5.xlarge": 1}
    assert result.used == {"n1"}


def test_cordoned_and_unready_nodes_of_others_are_no_room():
    """Somebody cordoned it, or it is down: it will not take the pod."""
    things = [node("n1", unschedulable=True), node("n2", ready=False), waiting("p")]
    assert types(plan(things, [sold()])) == {"m5.xlarge": 1}


def test_a_ready_node_that_still_carries_its_starting_taint_is_room():
    """The taint goes seconds after the condition: nothing is bought twice; a lasting one, or a doubted pod, does buy."""
    taint = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
    pressed = Taint("node.kubernetes.io/memory-pressure", "", "NoSchedule")

    assert types(plan([node("n1", taints=(taint,)), waiting("p")], [sold()])) == {}
    assert types(plan([node("n1", taints=(pressed,)), waiting("p")], [sold()])) == {"m5.xlarge": 1}
    doubted = plan([node("n1", taints=(taint,)), waiting("p")], [sold()], distrusted=frozenset({"uid-p"}))
    assert types(doubted) == {"m5.xlarge": 1}


def test_the_cheapest_for_what_it_holds_wins_row_23():
    """Row 23: the memory-heavy pod takes the cheaper memory machine, and spot only where it is cheaper."""
    offers = [
        sold("c5a.8xlarge", "32", "64Gi", price="1.232"),
        sold("r4.xlarge", "4", "30.5Gi", price="0.159"),
        sold("r5.xlarge", "4", "32Gi", price="0.107"),
        sold("r5.xlarge", "4", "32Gi", price="0.150", capacity_type=CapacityType.SPOT),
    ]
    (purchase,) = plan([waiting("p", "3700m", "29Gi")], offers).purchases
    assert (purchase.offer.instance_type, purchase.offer.capacity_type) == (
        "r5.xlarge",
        CapacityType.ON_DEMAND,
    )


def test_cpu_heavy_and_memory_heavy_pods_share_machines():
    """Each alone would leave half of a machine empty; together they fill it."""
    things = [waiting(f"c{n}", "3", "2Gi") for n in range(8)] + [
        waiting(f"m{n}", "1", "14Gi") for n in range(8)
    ]
    assert types(plan(things, [sold()])) == {"m5.xlarge": 8}


def test_the_last_pods_get_a_smaller_machine():
    """Seventeen pods: two large machines and a small one, not three large ones."""
    offers = [sold("large", "8", "32Gi", price="0.4"), sold("small", "2", "8Gi", price="0.11")]
    assert types(plan([waiting(f"p{n}") for n in range(17)], offers)) == {"large": 2, "small": 1}


def test_regions_are_taken_in_order_however_cheap_the_next_one_is():
    """The order in the settings is the preference."""
    offers = [sold(zone="us-east-1a", price="0.01"), sold(price="0.9")]
    assert plan([waiting("p")], offers).purchases[0].offer.region == "us-west-2"


def test_what_is_remembered_as_sold_out_is_not_planned():
    """The next region takes over at once, and the first one again when the time is over."""
    first, second = sold(), sold(zone="us-east-1a")
    memory = Memory().note(NoCapacity("none"), first, T0, POLICY)
    assert plan([waiting("p")], [first, second], memory=memory).purchases[0].offer is second
    later = T0 + timedelta(minutes=3)
    assert plan([waiting("p")], [first, second], memory=memory, now=later).purchases[0].offer is first


def test_purchases_never_mix_runs():
    """Two runs whose pods would share a machine get one each: each is charged for its own."""
    things = [waiting("a", labels={L_RUN: "r1"}), waiting("b", labels={L_RUN: "r2"})]
    assert sorted(p.group.run for p in plan(things, [sold()]).purchases) == ["r1", "r2"]


def test_machines_on_their_way_are_room_rows_8_11():
    """Rows 8, 11: one pod, one machine that boots, nothing more."""
    result = plan([waiting("p")], [sold()], machines=(machine(),))
    assert (result.purchases, result.used) == ((), {"i-1"})


def test_a_joined_node_without_its_gpus_yet_is_room_for_gpu_pods():
    """Row 8: the device plugin is late; the node's GPUs are counted already."""
    there = node("n1", cpu="8", gpus=0, provider_id="aws:///us-west-2a/i-1")
    ours = machine(allocatable=resources("8", "16Gi", gpus=1, pods=110), joined=T0)
    gpu_offer = sold("g5", "8", "16Gi", gpus=1, price="1")
    assert plan([there, waiting("p", gpus=1)], [gpu_offer], machines=(ours,)).purchases == ()


def test_daemonsets_are_subtracted_from_new_machines_row_3():
    """Row 3: daemonset 1200m/600Mi and pods of 1 cpu/3Gi on machines of 2 cpu: too small, so a larger one."""
    daemon = pod("d", cpu="1200m", memory="600Mi", daemon=True, node="n1", owner=Owner("DaemonSet", "d", "u"))
    things = [node("n1", cpu="2", memory="4Gi"), daemon, *(waiting(f"p{n}", "1", "3Gi") for n in range(3))]
    offers = [sold("tiny", "2", "8Gi", price="0.05"), sold("m5.xlarge", "4", "16Gi", price="0.2")]
    assert types(plan(things, offers)) == {"m5.xlarge": 2}


def test_gpu_machines_are_not_bought_for_cpu_pods_unless_nothing_else_fits():
    """However cheap they are per core."""
    gpu = sold("g5.12xlarge", "48", "192Gi", gpus=4, price="0.01")
    assert types(plan([waiting("p")], [gpu, sold()])) == {"m5.xlarge": 1}
    assert types(plan([waiting("p", "40")], [gpu, sold()])) == {"g5.12xlarge": 1}


def test_cpu_pods_ride_on_gpu_machines_that_are_bought_anyway():
    """Their free cores cost nothing more."""
    gpu = sold("g5.12xlarge", "48", "192Gi", gpus=4, price="5")
    things = [waiting(f"g{n}", "4", gpus=1) for n in range(4)] + [waiting(f"c{n}") for n in range(10)]
    assert types(plan(things, [gpu, sold()])) == {"g5.12xlarge": 1}


@pytest.mark.parametrize(("gpus_sold", "count"), [(4, 1), (8, 1), (16, 0)])
def test_a_larger_gpu_machine_is_bought_up_to_the_waste_that_is_allowed_row_21(gpus_sold, count):
    """Row 21: one GPU wanted and only larger machines on sale; beyond gpu_waste it is told, not bought."""
    result = plan([waiting("p", gpus=1)], [sold("p4", "96", "1000Gi", gpus=gpus_sold, price="20")])
    assert sum(p.count for p in result.purchases) == count
    if not count:
        assert "gpu_waste (8)" in result.unplaced[0].reason
        assert result.unplaced[0].sold is False


def test_on_premises_is_room_but_never_bought():
    """Its offers have a price and cannot grow."""
    fixed = sold("rack", price="0.01", capacity_type=CapacityType.FIXED)
    result = plan([waiting("p")], [fixed])
    assert result.purchases == ()
    assert "no pool of this cluster sells machines" in result.unplaced[0].reason


def test_a_preview_plans_pods_that_do_not_exist_yet():
    """On top of what is there; the worst case shares nothing with anybody."""
    seen = Situation(snapshot(node("n1")), (POOL,))
    pods = [waiting(f"p{n}") for n in range(6)]
    known = (Limits(), Memory())
    assert types(preview(seen, pods, [sold()], known, POLICY, T0)) == {"m5.xlarge": 1}
    worst = worst_case(seen, pods, [sold()], POLICY, T0)
    assert (types(worst), worst.hourly) == ({"m5.xlarge": 2}, Money.usd("0.4"))
