"""The meter by hand: every interval's pods and idle sum to the machine's price, to the micro-dollar."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.meter import Line, Meter, Observation, in_order
from guard.moments import DAY, HOUR, SECOND, micros
from tests.builders import T0

START = micros(T0)
MINUTE = 60 * SECOND
ADA = ["vision", "U1", "dota", "abcde"]
BOB = ["games", "U2", "chess", "fghij"]


def see(kind: str, key: str, at: int, **payload: Any) -> Observation:
    """An observation made when it happened."""
    return Observation(kind, key, at, at, payload)


def machine(key: str = "i-1", at: int = START, hourly: int = 3_600_000, **more: Any) -> Observation:
    """An EC2 machine that costs one micro-dollar a millisecond."""
    facts: dict[str, Any] = {
        "provider": "aws",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "instance_type": "p5.48xlarge",
        "capacity": "on-demand",
        "hourly": hourly,
        "source": "list",
        "estimated": False,
        "hold": "",
        "billed": True,
        "cluster": "",
        "who": ADA,
    }
    return see("machine", key, at, **(facts | more))


def joined(key: str = "i-1", at: int = START, **more: Any) -> Observation:
    """Its node: 8 cores, 64 bytes, 8 GPUs."""
    facts = {"cluster": "home", "node": f"node-{key}", "millicores": 8000, "memory": 64, "gpus": 8}
    return see("joined", key, at, **(facts | more))


def bound(uid: str, at: int, key: str = "i-1", who: list[str] = ADA, **more: Any) -> Observation:
    """A pod of one core, eight bytes, no GPU."""
    facts: dict[str, Any] = {
        "machine": key,
        "millicores": 1000,
        "memory": 8,
        "gpus": 0,
        "who": who,
        "daemon": False,
        "cluster": "home",
        "namespace": "research",
        "name": uid,
    }
    return see("bound", uid, at, **(facts | more))


def fold(*seen: Observation) -> list[Line]:
    """The lines of all these, taken in order."""
    meter = Meter()
    return [line for one in in_order(list(seen)) for line in meter.apply(one)]


def brief(lines: list[Line]) -> list[tuple[str, str, int, int, int]]:
    """(kind, subject, start and end in seconds after START, amount)."""
    return [
        (
            line.account.kind,
            line.subject,
            (line.started - START) // SECOND,
            (line.ended - START) // SECOND,
            line.amount,
        )
        for line in lines
    ]


def test_golden_machine_from_launch_to_end():
    """$3.60/h: 2 min booting 0.12, then one pod with half the GPUs for 30 min 0.90 + idle 0.90, then 8 min idle."""
    lines = fold(
        machine(),
        joined(at=START + 2 * MINUTE),
        bound("p", START + 2 * MINUTE, gpus=4),
        see("unbound", "p", START + 32 * MINUTE),
        see("ended", "i-1", START + 40 * MINUTE),
    )
    assert brief(lines) == [
        ("unjoined", "rest", 0, 120, 120_000),
        ("pod", "p", 120, 1920, 900_000),
        ("idle", "rest", 120, 1920, 900_000),
        ("idle", "rest", 1920, 2400, 480_000),
    ]
    assert {line.account.run for line in lines} == {"abcde"}


def test_dominant_share_takes_the_largest_fraction():
    """8 of 8 GPUs with one core is the whole machine, not 35 % of it (facts §1.1)."""
    lines = fold(machine(), joined(), bound("p", START, gpus=8), see("ended", "i-1", START + HOUR))
    assert brief(lines) == [("pod", "p", 0, 3600, 3_600_000)]


def test_shares_above_one_are_scaled_to_one():
    """Two pods that each ask for all cores (overcommitted) pay half each, and idle is never negative."""
    lines = fold(
        machine(hourly=3_600_001),
        joined(),
        bound("a", START, millicores=8000),
        bound("b", START, millicores=8000, who=BOB),
        see("ended", "i-1", START + HOUR),
    )
    assert brief(lines) == [
        ("pod", "a", 0, 3600, 1_800_000),
        ("pod", "b", 0, 3600, 1_800_000),
        ("idle", "rest", 0, 3600, 1),
    ]


def test_rounding_goes_to_idle():
    """Three pods of a third each: 3 × floor(1,000,000 / 3) and the last micro-dollar to idle."""
    lines = fold(
        machine(hourly=1_000_000),
        joined(millicores=3000, memory=24),
        *(bound(uid, START) for uid in "abc"),
        see("ended", "i-1", START + HOUR),
    )
    assert [line.amount for line in lines] == [333_333, 333_333, 333_333, 1]


def test_spot_price_change_splits_the_interval():
    """Half an hour at 3.60, half an hour at 1.80."""
    lines = fold(
        machine(),
        joined(),
        bound("p", START, millicores=8000),
        see("price", "i-1", START + 30 * MINUTE, hourly=1_800_000, source="spot", estimated=False),
        see("ended", "i-1", START + HOUR),
    )
    assert brief(lines) == [("pod", "p", 0, 1800, 1_800_000), ("pod", "p", 1800, 3600, 900_000)]


def test_ec2_bills_at_least_sixty_seconds():
    """Ended after 10 s: the rest of the minute is a line of its own, named."""
    lines = fold(machine(), see("ended", "i-1", START + 10 * SECOND))
    assert brief(lines) == [
        ("unjoined", "rest", 0, 10, 10_000),
        ("unjoined", "rest", 10, 60, 50_000),
    ]
    assert [line.flags for line in lines] == ["", "minimum"]


def test_on_premises_node_has_no_minimum_and_ends_with_its_node():
    """A node that no provider bills costs its configured rate while its node object exists."""
    lines = fold(
        machine("uid-1", billed=False, who=["", "", "", ""], provider="onprem", hourly=1_200_000),
        joined("uid-1"),
        see("left", "uid-1", START + 30 * SECOND),
    )
    assert brief(lines) == [("overhead", "rest", 0, 30, 10_000)]


def test_machine_goes_on_costing_after_its_node_left():
    """The node object is gone, the instance is not: it is metered as not joined until it ends."""
    lines = fold(
        machine(),
        joined(),
        see("left", "i-1", START + HOUR),
        see("ended", "i-1", START + 2 * HOUR),
    )
    assert brief(lines) == [
        ("idle", "rest", 0, 3600, 3_600_000),
        ("unjoined", "rest", 3600, 7200, 3_600_000),
    ]


def test_daemon_sets_are_overhead_and_idle_belongs_to_the_run():
    """A DaemonSet's eighth is nobody's, the rest of a machine bought for a run is the run's."""
    lines = fold(
        machine(),
        joined(),
        bound("d", START, daemon=True),
        see("ended", "i-1", START + HOUR),
    )
    assert [(line.account.kind, line.account.run, line.amount) for line in lines] == [
        ("daemon", "", 450_000),
        ("idle", "abcde", 3_150_000),
    ]


def test_reused_machine_stops_counting_against_the_run_it_was_bought_for():
    """When only another run's pod is on it, its idle is overhead from there on."""
    lines = fold(
        machine(),
        joined(),
        bound("a", START),
        see("unbound", "a", START + 10 * MINUTE),
        bound("b", START + 20 * MINUTE, who=BOB),
        see("unbound", "b", START + 30 * MINUTE),
        see("ended", "i-1", START + 40 * MINUTE),
    )
    rest = [(line.account.kind, line.account.run) for line in lines if line.subject == "rest"]
    assert rest == [("idle", "abcde"), ("idle", "abcde"), ("overhead", ""), ("overhead", "")]


def test_machine_that_only_others_are_left_on_is_reused():
    """Its run's pod goes first (paused, say) and a stray one stays: the run no longer pays for the rest of it."""
    lines = fold(
        machine(),
        joined(),
        bound("a", START),
        bound("stray", START + 10 * MINUTE, who=["", "", "", ""]),
        see("unbound", "a", START + 20 * MINUTE),
        see("ended", "i-1", START + 40 * MINUTE),
    )
    rest = [(line.account.kind, line.account.run) for line in lines if line.subject == "rest"]
    assert rest == [("idle", "abcde"), ("idle", "abcde"), ("overhead", "")]


def test_late_observation_takes_effect_where_the_open_interval_starts():
    """Closed lines never change: what is learned late about them starts at the open interval."""
    meter = Meter()
    for one in (machine(), joined(), bound("a", START + MINUTE)):
        meter.apply(one)
    assert (
        meter.apply(Observation("bound", "b", START + 30 * SECOND, START + 2 * MINUTE, bound("b", 0).payload))
        == []
    )
    closed = meter.apply(see("ended", "i-1", START + 2 * MINUTE))
    assert {(line.started - START) // SECOND for line in closed} == {60}


def test_node_seen_before_its_instance_is_metered_from_the_launch():
    """Describe lags: the minutes before the join are added when the launch time is learned."""
    meter = Meter()
    meter.apply(machine(at=START + 2 * MINUTE, billed=False))
    meter.apply(joined(at=START + 2 * MINUTE))
    lines = meter.apply(machine(at=START))
    assert brief(lines) == [("unjoined", "rest", 0, 120, 120_000)]
    assert brief(meter.apply(see("ended", "i-1", START + 3 * MINUTE))) == [("idle", "rest", 120, 180, 60_000)]


def test_lines_are_cut_at_utc_midnights():
    """From 17:00 to 01:00 two days later: three lines, each within its day, at exactly the same price."""
    lines = fold(machine(), see("ended", "i-1", START + 32 * HOUR))
    assert brief(lines) == [
        ("unjoined", "rest", 0, 7 * 3600, 25_200_000),
        ("unjoined", "rest", 7 * 3600, 31 * 3600, 86_400_000),
        ("unjoined", "rest", 31 * 3600, 32 * 3600, 3_600_000),
    ]
    assert all(line.started // DAY == (line.ended - 1) // DAY for line in lines)


def test_pod_whose_image_cannot_be_pulled_pays_from_its_binding():
    """opencost #1590: the node is paid for, so the pod that holds it pays, whatever its containers do."""
    lines = fold(machine(), joined(), bound("p", START, gpus=8), see("ended", "i-1", START + MINUTE))
    assert [(line.account.kind, line.amount) for line in lines] == [("pod", 60_000)]


def test_same_name_in_two_namespaces_is_two_pods():
    """Identity is the uid: names are reused (OpenCost's collision)."""
    lines = fold(
        machine(),
        joined(),
        bound("u1", START, name="p", namespace="a"),
        bound("u2", START, name="p", namespace="b"),
        see("ended", "i-1", START + HOUR),
    )
    assert [line.subject for line in lines] == ["u1", "u2", "rest"]


steps = st.lists(
    st.tuples(
        st.sampled_from(["bound", "unbound", "price", "boundary", "left", "joined", "gap"]),
        st.integers(0, 5),
        st.integers(0, 3 * 3600),
        st.integers(0, 9_000),
        st.integers(0, 9),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.integers(1, 10**9))
def test_pods_and_idle_are_the_node_price_in_every_interval(story, hourly):
    """Whatever happens in whatever order: no line is negative, and each interval sums to its price exactly."""
    seen = [machine(hourly=hourly), joined()]
    for kind, subject, second, size, gpus in story:
        at = START + second * SECOND + size
        if kind == "bound":
            seen.append(bound(f"p{subject}", at, millicores=size, gpus=gpus, who=[ADA, BOB][subject % 2]))
        elif kind == "price":
            seen.append(see("price", "i-1", at, hourly=size * 1000 + gpus, source="spot", estimated=gpus > 4))
        elif kind == "joined":
            seen.append(joined(at=at))
        else:
            seen.append(see(kind, f"p{subject}" if kind == "unbound" else "i-1", at))
    seen.append(see("ended", "i-1", START + 4 * HOUR))
    intervals: dict[tuple[int, int], list[Line]] = {}
    for line in fold(*seen):
        intervals.setdefault((line.started, line.ended), []).append(line)
    edge = START
    for (started, ended), lines in sorted(intervals.items()):
        assert started == edge
        assert all(line.amount >= 0 for line in lines)
        assert sum(line.amount for line in lines) == lines[0].hourly * (ended - started) // HOUR
        assert sum(Fraction(line.share) for line in lines) == 1
        edge = ended
    assert edge == START + 4 * HOUR


@pytest.mark.parametrize("kind", ["price", "joined", "left", "ended", "unbound"])
def test_observation_about_an_unknown_machine_is_ignored(kind):
    """Something that was never seen to begin costs nothing and breaks nothing."""
    assert Meter().apply(see(kind, "i-unknown", START)) == []
