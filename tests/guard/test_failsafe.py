"""The fail-safe table (each missing source), bystanders, and a pause that does not become true."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.errors import Unavailable
from fleet.model import Price
from fleet.ports import HoldKind, Scope
from fleet.values import Money
from guard.events import (
    CountdownArmed,
    Digest,
    GuardGap,
    Killed,
    PauseStuck,
    PauseVerified,
    UnknownPrice,
    UnpausedByHand,
)
from tests.builders import T0, pod
from tests.guard.fakes import ADA, labels
from tests.guard.lab import Lab, hold

MINUTE = timedelta(minutes=1)
RUN = Scope(cluster="home", team="vision", person="U1", experiment="dota", run="abcde")


@pytest.fixture
def lab():
    """A run on one $3.60/h machine ($0.06 a minute) under a cap of $10."""
    lab = Lab()
    lab.tick()
    lab.cap("run-abcde", "10")
    lab.run()
    return lab


def spent(lab: Lab, run: str = "abcde") -> Money:
    """What a run has cost."""
    return lab.guard.run_costs(run, lab.now).spent


def state(lab: Lab, run: str = "abcde") -> str:
    """Where the guard says that a run stands."""
    return lab.guard.run_costs(run, lab.now).state


def test_missing_metrics_are_unknown_not_idle():
    """Absent series: the order is by burn."""
    lab = Lab()
    lab.tick()
    lab.cap("fleet", "12", "fleet")
    lab.run("aaaaa", machines=2)
    lab.run("bbbbb", machines=1)
    while not lab.notifier.of(CountdownArmed):
        lab.pass_time(minutes=1)
    assert lab.notifier.of(CountdownArmed)[0].victims[0].run == "aaaaa"


def test_stuck_pause_is_told_once_and_never_called_paused(lab):
    """Pods hang in Terminating: after the drain people hear it; "paused" is not said."""
    lab.workloads.stuck = 3
    lab.pass_time(hours=4)
    (stuck,) = lab.notifier.of(PauseStuck)
    assert stuck.detail == "pausing (3 pods stuck on node x)"
    assert lab.notifier.of(PauseVerified) == []
    assert state(lab) == "pausing"
    lab.workloads.stuck = 0
    lab.pass_time(minutes=1)
    assert len(lab.notifier.of(PauseVerified)) == 1


def test_cluster_that_does_not_answer_is_asked_until_it_does(lab):
    """Fail-safe: a pause that cannot be verified is escalated, never given up, never assumed."""
    lab.workloads.error = Unavailable("The API of home does not answer.")
    lab.pass_time(hours=4)
    assert [event.detail for event in lab.notifier.of(PauseStuck)] == ["The API of home does not answer."]
    lab.workloads.error = None
    lab.pass_time(minutes=2)
    assert state(lab) == "paused"


@pytest.mark.parametrize(("kill", "killed"), [(True, 1), (False, 0)])
def test_failed_pause_becomes_a_kill_only_where_the_cap_says_so(kill, killed):
    """At 110 %, after the drain, with `kill: true`."""
    lab = Lab()
    lab.tick()
    lab.cap("run-abcde", "10", kill=kill)
    lab.run()
    lab.workloads.stuck = 1
    lab.pass_time(hours=4)
    assert len(lab.notifier.of(Killed)) == killed
    assert state(lab) == ("killed" if killed else "pausing")


def test_unpaused_by_hand_is_paused_again_three_times(lab):
    """Noticed and told; again after a countdown; the fourth time it is left to people."""
    lab.pass_time(hours=3)
    for _ in range(4):
        lab.workloads.resume("home", "abcde", lab.now)
        lab.pass_time(minutes=20)
    told = lab.notifier.of(UnpausedByHand)
    assert [(event.times, event.again_at is None) for event in told] == [
        (1, False),
        (2, False),
        (3, False),
        (4, True),
    ]
    assert [verb for verb, _ in lab.workloads.calls].count("pause") == 4


@pytest.mark.parametrize(("approved", "waits"), [(None, 0), ("50", 15)])
def test_unpaused_by_hand_waits_for_a_countdown_only_where_its_caps_have_room(lab, approved, waits):
    """What the cap has left is less than the countdown and the drain would burn: paused again at once."""
    lab.pass_time(hours=3)
    (asked,) = lab.notifier.of(PauseVerified)
    if approved:
        lab.cap("run-abcde", approved)
    before = spent(lab)
    lab.workloads.resume("home", "abcde", lab.now)
    released = lab.now
    lab.pass_time(minutes=2)
    (told,) = lab.notifier.of(UnpausedByHand)
    assert told.again_at is not None
    assert timedelta(minutes=waits) <= told.again_at - released <= timedelta(minutes=waits + 1)
    assert state(lab) == ("running" if waits else "paused")
    assert asked.about.run == "abcde"
    if not waits:
        assert spent(lab) - before <= Money.usd("0.12")


def test_bystanders_are_metered_and_never_paused():
    """A run label outside the governed namespaces: its cost counts, nobody touches it."""
    lab = Lab()
    lab.tick()
    lab.cap("fleet", "5", "fleet")
    lab.machine("m", run="")
    lab.view.put(
        pod("x", gpus=8, node="m", namespace="kube-system", labels=labels("other"), scheduled=lab.now)
    )
    lab.pass_time(hours=3)
    assert lab.workloads.calls == []
    assert spent(lab, "other") == Money.usd("10.80")


def test_nothing_is_decided_before_the_first_full_view(lab):
    """After a restart with a cluster that has not been listed: pods are not assumed gone, nothing is paused."""
    lab.pass_time(hours=2)
    lab.view.synced = False
    lab.boot()
    report = lab.pass_time(minutes=9)
    assert report.waiting_for == ("home",)
    assert any("waits for the first full view" in sentence for sentence in report.findings)
    assert lab.workloads.calls == []
    assert spent(lab) == Money.usd("3.60").over(timedelta(hours=2, minutes=9))


def test_cluster_that_never_comes_back_is_judged_by_its_last_burn(lab):
    """After ten minutes the last known burn counts: the pause is decided, and nothing is bought there."""
    lab.pass_time(hours=2)
    lab.view.synced = False
    lab.boot()
    lab.pass_time(minutes=45)
    assert lab.workloads.calls[0] == ("pause", "abcde")
    other = replace(RUN, run="other")
    assert "has been silent for" in lab.guard.blocked(other, lab.now)


def test_silent_api_keeps_accruing_and_blocks_after_ten_minutes(lab):
    """stale: the last good data go on costing; purchases there wait."""
    lab.pass_time(minutes=10)
    lab.view.stale_since = lab.now
    lab.pass_time(minutes=10)
    assert lab.guard.blocked(RUN, lab.now) == ""
    lab.pass_time(minutes=1)
    assert "has been silent for 11 m" in lab.guard.blocked(RUN, lab.now)
    assert spent(lab) == Money.usd("3.60").over(21 * MINUTE)


def test_provider_that_does_not_list_machines_ends_none(lab):
    """EC2 is down: machines go on costing, the tick says so."""
    lab.pass_time(minutes=10)
    lab.machines.down = True
    report = lab.pass_time(minutes=10)
    assert any("EC2 does not answer" in sentence for sentence in report.findings)
    assert spent(lab) == Money.usd("1.20")


def test_outage_is_rebuilt_from_timestamps_and_flagged(lab):
    """Three hours without a look: the machine ended after one of them, and that is what is paid."""
    lab.pass_time(minutes=10)
    lab.machines.end("i-abcde-0", lab.now + timedelta(hours=1))
    lab.view.drop("abcde-0", "abcde-0-pod")
    lab.now += timedelta(hours=3)
    lab.boot()
    lab.tick()
    assert spent(lab) == Money.usd("3.60").over(timedelta(hours=1, minutes=10))
    assert [event.since for event in lab.notifier.of(GuardGap)] == [T0 + 10 * MINUTE]
    flags = {row["flags"] for row in lab.database.rows("SELECT flags FROM lines")}
    assert flags == {"gap"}
    assert lab.guard.verify_ledger() == ()


def test_clock_that_goes_backwards_meters_nothing_twice(lab):
    """An hour back: time stands still for the meter, people are told, no line is negative."""
    lab.pass_time(minutes=30)
    lab.guard.tick(lab.now - timedelta(hours=1))
    assert lab.guard.run_costs("abcde", lab.now).spent == Money.usd("1.80")
    assert len(lab.notifier.of(GuardGap)) == 1
    lab.pass_time(minutes=30)
    assert spent(lab) == Money.usd("3.60")
    assert lab.guard.verify_ledger() == ()


def test_unknown_price_is_an_upper_bound_and_told_once():
    """Never zero: flagged, told once for a type and region, and named in the costs."""
    lab = Lab()
    lab.prices.price = Price(Money.usd(50), "upper bound", estimated=True)
    lab.tick()
    lab.run(machines=2)
    lab.pass_time(hours=1)
    assert [event.hourly for event in lab.notifier.of(UnknownPrice)] == [Money.usd(50)]
    (row,) = lab.guard.costs(by="run", since=None, until=lab.now)
    assert row.estimated == row.amount == Money.usd(100)


def test_bill_that_cannot_be_read_stops_nothing(lab):
    """Fail-safe: Cost Explorer is down; the guard goes on and the digest says so."""
    lab.billing.down = True
    lab.pass_time(timedelta(minutes=5), hours=17)
    assert "could not be read" in lab.notifier.of(Digest)[0].notes[0]
    assert "could not be read" in lab.guard.bill("2026-11-06", lab.now).note


@pytest.mark.parametrize("kind", list(HoldKind))
def test_no_hold_of_any_kind_while_the_lease_is_not_surely_ours(kind):
    """Somebody else may be deciding: launches, scaling, resumes and purchases wait alike, pauses do not."""
    lab = Lab()
    lab.run()
    lab.tick()
    lab.lease = "It is not sure that this process may still decide, and nothing is bought."

    answer = lab.guard.budget.hold(replace(hold("x", "1"), kind=kind), lab.now)
    assert (answer.granted, answer.reason) == (False, lab.lease)

    without, lab.lease = lab.lease, ""
    assert lab.guard.budget.hold(replace(hold("x", "1"), kind=kind), lab.now).granted

    lab.lease = without
    assert lab.guard.requested_pause("abcde", "home", ADA, "enough", lab.now).state != "failed"
