"""Plans under constraints: placement, spread, affinity, limits. Row numbers as in test_plan."""

from dataclasses import replace

import pytest

from fleet.model import (
    L_CAPACITY_TYPE,
    L_RUN,
    L_ZONE,
    CapacityType,
    Expression,
    Placement,
    PodAffinity,
    Taint,
    Toleration,
)
from fleet.ports import Quota
from scaler.fit import HOSTNAME
from scaler.values import Limits
from tests.builders import node, pod
from tests.scaler.cases import POOL, ZONES, anti, apps, bought, plan, sold, spread, types, waiting


def test_selectors_affinity_and_taints_decide_what_may_be_bought():
    """Each requirement alone excludes an offer."""
    tainted = replace(POOL, name="tainted", taints=(Taint("dedicated", "rl", "NoSchedule"),))
    offers = [sold(), sold("arm", labels={"arch": "arm64"}), sold("dedicated", pool="tainted", price="0.01")]
    needs_arm = Placement(node_selector=(("arch", "arm64"),))
    not_arm = Placement(node_affinity=((Expression("arch", "NotIn", ("arm64",)),),))
    tolerates = Placement(tolerations=(Toleration("dedicated", "Equal", "rl"),))
    no_spot = Placement(node_affinity=((Expression(L_CAPACITY_TYPE, "In", ("spot",)),),))
    pools = (tainted, POOL)
    assert types(plan([waiting("p", placement=needs_arm)], offers, pools=pools)) == {"arm": 1}
    assert types(plan([waiting("p", placement=not_arm)], offers, pools=pools)) == {"m5.xlarge": 1}
    assert types(plan([waiting("p", placement=tolerates)], offers, pools=pools)) == {"dedicated": 1}
    (left,) = plan([waiting("p", placement=no_spot)], offers, pools=pools).unplaced
    assert "nothing on sale is like that" in left.reason
    assert left.sold is False


def test_hostname_anti_affinity_gives_each_pod_its_own_machine():
    """Eight of them on eight machines, and one that exists takes one."""
    result = plan(apps(8, Placement(pod_affinity=(anti(HOSTNAME),))), [sold()])
    assert types(result) == {"m5.xlarge": 8}
    taken = pod("b", node="n1", phase="Running", placement=Placement(pod_affinity=(anti(HOSTNAME),)))
    result = plan([node("n1"), taken, *apps(1, Placement())], [sold()])
    assert types(result) == {"m5.xlarge": 1}, "who is there does not want it (the reverse direction)"


def test_hostname_spread_puts_at_most_the_skew_on_a_new_machine():
    """maxSkew 2, eight pods: four machines."""
    assert types(plan(apps(8, Placement(spreads=(spread(HOSTNAME, 2),))), [sold()])) == {"m5.xlarge": 4}


def test_zone_spread_is_balanced_over_the_zones_on_sale():
    """Nine pods over three zones: three in each, whatever the zones cost."""
    offers = [sold(zone=zone, price=f"0.{place + 2}") for place, zone in enumerate(ZONES)]
    result = plan(apps(9, Placement(spreads=(spread(L_ZONE),)), cpu="1"), offers)
    assert {zone: count for (_, zone), count in bought(result).items()} == dict.fromkeys(ZONES, 1)
    assert [len(p.pods) for p in result.purchases] == [3, 3, 3]


def test_zone_spread_counts_what_runs_already_row_35():
    """Row 35: zones hold 2, 1, 1; the next one goes to the second or third."""
    nodes = [node(f"n{zone}", cpu="2", labels={L_ZONE: zone}) for zone in ZONES]
    there = [
        pod(f"r{n}", node=f"n{zone}", phase="Running", labels={"app": "a"})
        for n, zone in enumerate((ZONES[0], ZONES[0], ZONES[1], ZONES[2]))
    ]
    result = plan(
        [*nodes, *there, *apps(1, Placement(spreads=(spread(L_ZONE),)), cpu="2")],
        [sold(zone=zone) for zone in ZONES],
    )
    (purchase,) = result.purchases
    assert purchase.offer.zone in ZONES[1:]


def test_a_run_that_wants_one_zone_gets_one():
    """Zone affinity to its own kind: everything in the first zone that is on sale, also when others are cheaper."""
    together = Placement(pod_affinity=(PodAffinity(L_ZONE, (Expression("app", "In", ("a",)),), anti=False),))
    offers = [sold(zone=ZONES[1], price="0.3"), sold(zone=ZONES[2], price="0.1")]
    result = plan(apps(8, together), offers)
    assert {zone for _, zone in bought(result)} == {ZONES[1]}
    there = pod("r", node="n", phase="Running", labels={"app": "a"})
    result = plan([node("n", cpu="1", labels={L_ZONE: ZONES[2]}), there, *apps(8, together)], offers)
    assert {zone for _, zone in bought(result)} == {ZONES[2]}


def test_a_pod_larger_than_any_machine_is_impossible_row_40():
    """Row 40: told with the nearest machine; the others are bought for."""
    result = plan([waiting("huge", "1000"), waiting("ok")], [sold(), sold("big", "64", "256Gi", price="4")])
    (left,) = result.unplaced
    assert "it asks for 1000 cores" in left.reason
    assert "big" in left.reason
    assert types(result) == {"m5.xlarge": 1}


def test_sidecars_and_init_containers_are_in_the_requests_row_6():
    """Row 6: the effective request (7 cores) decides, so a machine of 4 does not do."""
    assert types(plan([waiting("p", "7")], [sold(), sold("m5.2xlarge", "8", "32Gi", price="0.4")])) == {
        "m5.2xlarge": 1
    }


@pytest.mark.parametrize(
    ("limits", "count", "reason"),
    [
        (Limits(pools={"aws": 2}), 2, "max_nodes of pool aws"),
        (Limits(regions={("aws", "us-west-2"): 1, ("aws", "us-east-1"): 1}), 2, "max_nodes of us-"),
        (Limits(runs={"r1": 3}), 3, "limits.max_nodes"),
        (Limits(pools={"aws": 0}), 0, "max_nodes of pool aws"),
        (Limits(quotas=(Quota("aws", "us-west-2", "Standard", CapacityType.ON_DEMAND, 8, 4),)), 5, ""),
    ],
)
def test_limits_are_reserved_before_anything_is_bought_row_16(limits, count, reason):
    """Row 16: anti-affinity pods in one batch get exactly what is allowed, the rest the reason."""
    placement = Placement(pod_affinity=(anti(HOSTNAME),))
    things = [replace(p, labels={"app": "a", L_RUN: "r1"}) for p in apps(5, placement)]
    result = plan(things, [sold(), sold(zone="us-east-1a")], limits=limits)
    assert sum(p.count for p in result.purchases) == count
    if reason:
        assert reason in result.unplaced[0].reason
    else:
        assert [p.count for p in result.purchases] == [1, 4], "one vCPU quota ends, the next region goes on"


def test_fifteen_thousand_pods_at_the_limit_are_one_class_row_18():
    """Row 18: planning costs by class, not by pod."""
    things = [waiting(f"p{n}") for n in range(15_000)]
    result = plan(things, [sold()], limits=Limits(pools={"aws": 1}))
    assert sum(len(left.pods) for left in result.unplaced) == 15_000 - 4
    assert len(result.unplaced) == 1


def test_an_odd_node_does_not_stop_planning_row_31():
    """Row 31: nodes with a GPU label and no GPUs are just nodes without GPUs."""
    odd = [node(f"odd{n}", cpu="1", labels={"nvidia.com/gpu.present": "true"}) for n in range(4)]
    assert types(plan([*odd, waiting("p", "2")], [sold()])) == {"m5.xlarge": 1}


def test_a_node_without_a_zone_is_no_zone_to_be_together_in():
    """On-premises nodes often carry no zone label: the first pod of a group must not be pinned there."""
    together = Placement(pod_affinity=(PodAffinity(L_ZONE, (Expression("app", "In", ("a",)),), anti=False),))
    result = plan([node("rack", cpu="1"), *apps(8, together)], [sold(zone=ZONES[1])])
    assert bought(result) == {("m5.xlarge", ZONES[1]): 2}
    assert result.unplaced == ()
