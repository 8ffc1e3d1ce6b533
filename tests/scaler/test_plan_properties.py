"""What holds for every plan, whatever the pods and the offers are."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.model import (
    L_RUN,
    L_ZONE,
    Placement,
    Price,
)
from fleet.values import Money, Resources
from scaler.fit import times
from scaler.values import Limits
from tests.builders import node, pod, resources
from tests.scaler.cases import (
    ZONES,
    apps,
    bought,
    plan,
    sold,
    spread,
    waiting,
)

SHAPES = st.tuples(st.sampled_from([100, 500, 1000, 3000, 7000]), st.sampled_from([128, 1024, 9000, 30000]))


OFFERS = st.lists(
    st.tuples(
        st.sampled_from([2000, 4000, 8000, 16000]),
        st.sampled_from([4096, 16384, 65536]),
        st.integers(1, 10**6),
    ),
    min_size=1,
    max_size=6,
)


def world(shapes, machines):
    """Pods of these shapes, offers of these sizes, each in its own zone type."""
    pods = [
        waiting(f"p{n}", f"{cpu}m", f"{memory}Mi", labels={L_RUN: f"r{n % 2}"})
        for n, (cpu, memory) in enumerate(shapes)
    ]
    offers = [
        replace(
            sold(f"type{n}", f"{cpu}m", f"{memory}Mi", zone=("us-west-2a", "us-east-1a")[n % 2]),
            price=Price(Money(micros), "test"),
        )
        for n, (cpu, memory, micros) in enumerate(machines)
    ]
    return pods, offers


@settings(max_examples=150, deadline=None)
@given(st.lists(SHAPES, max_size=40), OFFERS, st.integers(0, 8))
def test_a_plan_overfills_nothing_keeps_its_limit_and_places_all_that_fits(shapes, machines, limit):
    """Whatever the pods and the offers are: three promises."""
    pods, offers = world(shapes, machines)
    things = [node("n1", cpu="4", memory="8Gi"), *pods]
    for limits in (Limits(), Limits(pools={"aws": limit})):
        result = plan(things, offers, limits=limits)
        named = [
            p.uid for part in (result.placed, result.purchases, result.unplaced) for x in part for p in x.pods
        ]
        assert sorted(named) == sorted(p.uid for p in pods), "every pod is somewhere, once"
        for purchase in result.purchases:
            total = sum((p.requests for p in purchase.pods), Resources())
            assert total.fits_in(purchase.offer.allocatable * purchase.count)
            assert {p.labels[L_RUN] for p in purchase.pods} == {purchase.group.run}
        for placed in result.placed:
            total = sum((p.requests for p in placed.pods), Resources())
            assert total.fits_in(resources("4", "8Gi", pods=110))
        if limits.pools:
            assert sum(p.count for p in result.purchases) <= limit
        else:
            for left in result.unplaced:
                assert not any(times(p.requests, o.allocatable) for p in left.pods for o in offers)


@settings(max_examples=50, deadline=None)
@given(st.lists(SHAPES, max_size=30), OFFERS)
def test_a_plan_does_not_depend_on_the_order_in_which_things_are_listed(shapes, machines):
    """Watches deliver in any order; the same situation is the same plan."""
    pods, offers = world(shapes, machines)
    forward, backward = plan(pods, offers), plan(pods[::-1], offers)
    assert bought(forward) == bought(backward)
    assert forward.hourly == backward.hourly


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 4))
def test_zone_spread_is_kept_whatever_runs_already(count, skew, there):
    """After the plan no zone has more than maxSkew above the emptiest."""
    nodes = [node(f"n{zone}", cpu="100m", labels={L_ZONE: zone}) for zone in ZONES]
    running = [pod(f"r{n}", node=f"n{ZONES[0]}", phase="Running", labels={"app": "a"}) for n in range(there)]
    wanted = apps(count, Placement(spreads=(spread(L_ZONE, skew),)))
    result = plan([*nodes, *running, *wanted], [sold(zone=zone) for zone in ZONES])
    counts = Counter(dict.fromkeys(ZONES, 0))
    counts[ZONES[0]] += there
    for purchase in result.purchases:
        counts[purchase.offer.zone] += len(purchase.pods)
    assert sum(counts.values()) == there + count
    if max(counts.values()) > there:
        assert max(counts.values()) - min(counts.values()) <= skew
