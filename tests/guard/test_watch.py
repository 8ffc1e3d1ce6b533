"""The guard's tick over hours: told, armed, paused and verified before the cap is passed; and what fails safe."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.errors import Unavailable
from fleet.model import Price
from fleet.ports import BilledDay, Scope
from fleet.values import Money
from guard.caps import Window
from guard.events import (
    BillArrived,
    BudgetAlert,
    CountdownArmed,
    CountdownCancelled,
    Digest,
    ForecastAdvice,
    GhostMachine,
    GuardGap,
    Killed,
    NoOwner,
    PauseStarted,
    PauseStuck,
    PauseVerified,
    UnknownPrice,
    UnpausedByHand,
)
from guard.settings import GuardSettings
from tests.builders import T0, job, pod
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


def test_timeline_to_a_verified_pause(lab):
    """50 %, 80 %, the countdown, the pause: one message each, and no dollar past the cap."""
    lab.pass_time(hours=4)
    events = list(lab.notifier.told.values())
    assert [type(event) for event in events] == [
        BudgetAlert,
        BudgetAlert,
        CountdownArmed,
        PauseStarted,
        PauseVerified,
    ]
    assert [event.threshold for event in events[:2]] == ["50", "80"]
    armed, paused = events[2], events[4]
    assert armed.figures.spent + armed.figures.burn.over(timedelta(minutes=21, seconds=30)) >= Money.usd(10)
    assert armed.victims[0].run == "abcde"
    assert paused.spent <= Money.usd(10) - Money.usd("3.60").over(timedelta(minutes=5))
    assert lab.workloads.calls == [("pause", "abcde")]
    assert state(lab) == "paused"


def test_cap_is_kept_where_machines_end_within_the_drain(lab):
    """The machine ends five minutes after the pause: what the run has cost stays under the cap."""
    while not lab.notifier.of(PauseVerified):
        lab.pass_time(minutes=1)
    lab.pass_time(minutes=5)
    lab.machines.end("i-abcde-0", lab.now)
    lab.view.drop("abcde-0")
    lab.pass_time(hours=5)
    assert Money.usd("9.5") < spent(lab) <= Money.usd(10)
    assert lab.guard.verify_ledger() == ()


def test_nothing_is_bought_for_a_paused_run(lab):
    """The scaler asks `blocked` and `hold`: both say why."""
    lab.pass_time(hours=3)
    assert "is paused by the cap run-abcde" in lab.guard.blocked(RUN, lab.now)
    assert not lab.guard.budget.hold(hold("p", "0"), lab.now).granted


def test_a_teams_cap_never_hits_another_team():
    """Two teams, one cap: the other team's run is not touched."""
    lab = Lab()
    lab.tick()
    lab.cap("team-vision", "5", "team", "vision")
    lab.run("abcde")
    lab.run("fghij", team="games", owner="U4", experiment="chess")
    lab.pass_time(hours=5)
    assert lab.workloads.calls == [("pause", "abcde")]
    assert state(lab, "fghij") == "running"


def test_idle_run_is_paused_first():
    """A shared cap: the run whose GPUs were measured idle goes, the dearer one stays as long as it fits."""
    lab = Lab()
    lab.tick()
    lab.cap("fleet", "12", "fleet")
    lab.run("aaaaa", machines=2)
    lab.run("bbbbb", machines=1)
    lab.metrics.values = {"aaaaa-0-pod": 90.0, "bbbbb-0-pod": 1.0}
    while not lab.notifier.of(CountdownArmed):
        lab.pass_time(minutes=1)
    assert lab.notifier.of(CountdownArmed)[0].victims[0].run == "bbbbb"


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


def test_belt_blocks_new_work_and_then_pauses():
    """Four runs under one cap: asked first, nothing new starts meanwhile, unanswered they are paused."""
    lab = Lab(settings=GuardSettings(blast_belt=2))
    lab.tick()
    lab.cap("team-vision", "9", "team", "vision")
    for name in ("aaaaa", "bbbbb", "ccccc", "ddddd"):
        lab.run(name)
    while not any(event.belt for event in lab.notifier.of(CountdownArmed)):
        lab.pass_time(minutes=1)
        if lab.notifier.of(PauseStarted):
            break
    armed = lab.notifier.of(CountdownArmed)[0]
    if armed.belt:
        assert "waits for an answer" in lab.guard.blocked(replace(RUN, run="new"), lab.now)
    lab.pass_time(hours=1)
    assert {run for _, run in lab.workloads.calls} == {"aaaaa", "bbbbb", "ccccc", "ddddd"}


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


def test_lower_burn_cancels_the_countdown():
    """The machine goes before the deadline: the work has ended, nothing is paused."""
    lab = Lab()
    lab.tick()
    lab.cap("run-abcde", "10")
    lab.run(machines=4)
    while not lab.notifier.of(CountdownArmed):
        lab.pass_time(minutes=1)
    lab.view.put(job("abcde-workers", labels=labels(), conditions=frozenset({"Complete"})))
    lab.view.drop(*(f"abcde-{i}-pod" for i in range(4)))
    lab.pass_time(minutes=2)
    assert [event.reason for event in lab.notifier.of(CountdownCancelled)] == ["nothing is left to pause"]
    assert lab.workloads.calls == []


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


def test_machine_that_never_joins_is_a_ghost_of_its_run():
    """It bills, counts against the run's cap, and is reported after a quarter of an hour."""
    lab = Lab()
    lab.tick()
    lab.run()
    lab.machine("ghost")
    lab.view.drop("ghost")
    lab.pass_time(hours=1)
    (ghost,) = lab.notifier.of(GhostMachine)
    assert (ghost.machine, ghost.about.run) == ("i-ghost", "abcde")
    assert spent(lab) == Money.usd("7.20")


def test_work_without_an_owner_is_told_once_a_day(lab):
    """In a governed namespace only."""
    lab.view.put(pod("x", namespace="research"), pod("y", namespace="elsewhere"))
    lab.pass_time(hours=1)
    assert [(event.pods, event.example) for event in lab.notifier.of(NoOwner)] == [(1, "x")]


def test_forecast_advises_and_never_pauses(lab):
    """A sweep that will cost ten times its cap: advice at once, the pause only by the burn."""
    lab.view.put(
        job(
            "abcde-workers",
            labels=labels(),
            completions=1000,
            succeeded=10,
            active=1,
            parallelism=1,
            created=T0,
        )
    )
    lab.pass_time(minutes=30)
    (advice,) = lab.notifier.of(ForecastAdvice)
    assert advice.forecast.low > Money.usd(10)
    assert lab.workloads.calls == []


def test_ended_run_gives_its_reserve_back(lab):
    """Every Job done and no pod left: nothing is held for it any more."""
    lab.guard.budget.hold(hold("launch-abcde", "5", payload={"rolling": True}), lab.now)
    lab.pass_time(minutes=5)
    lab.view.put(job("abcde-workers", labels=labels(), conditions=frozenset({"Complete"})))
    lab.view.drop("abcde-0-pod")
    lab.pass_time(minutes=1)
    assert lab.guard.run_costs("abcde", lab.now).held == Money(0)
    assert state(lab) == "done"


def test_rolling_reserve_follows_the_burn(lab):
    """Two machines at $3.60: 21 minutes of both are held, however long it runs."""
    lab.cap("run-abcde", "1000")
    lab.guard.budget.hold(hold("launch-abcde", "2", payload={"rolling": True}), lab.now)
    lab.run(machines=2)
    lab.pass_time(minutes=30)
    assert lab.guard.run_costs("abcde", lab.now).held == Money.usd("7.20").over(21 * MINUTE)


def test_declared_reserve_is_used_up_by_spend(lab):
    """committed = spent + held stays what was granted at launch."""
    lab.guard.budget.hold(hold("launch-abcde", "8"), lab.now)
    lab.pass_time(minutes=40)
    (status,) = lab.guard.caps(lab.now)
    assert (status.spent, status.held) == (Money.usd("2.40"), Money.usd("5.60"))


def test_digest_comes_once_a_day_with_the_days_totals(lab):
    """At nine in UTC: the 16 hours since 17:00 (paused after 2 h 40 m, its machine still there)."""
    lab.pass_time(timedelta(minutes=5), hours=40)
    digests = lab.notifier.of(Digest)
    assert [event.day for event in digests] == ["2026-11-07", "2026-11-08"]
    assert digests[0].total == Money.usd("57.60")
    assert digests[1].total == Money.usd("86.40")
    assert [(line.name, line.amount) for line in digests[0].teams] == [("vision", Money.usd("57.60"))]
    assert digests[0].waiting


def test_bill_is_compared_when_it_arrives_and_when_it_is_final(lab):
    """A day late and estimated, then final: one message each, with the drift."""
    line = BilledDay(
        "2026-11-06", "Amazon Elastic Compute Cloud - Compute", "us-west-2", {}, Money.usd(25), True
    )
    lab.pass_time(timedelta(minutes=10), hours=24)
    lab.billing.lines = [line]
    lab.pass_time(timedelta(minutes=10), hours=12)
    lab.billing.lines = [replace(line, estimated=False, amount=Money.usd("25.20"))]
    lab.pass_time(timedelta(minutes=10), hours=12)
    bills = lab.notifier.of(BillArrived)
    assert [(b.estimated, b.billed, b.metered, b.drift_percent) for b in bills] == [
        (True, Money.usd(25), Money.usd("25.20"), "+0.80"),
        (False, Money.usd("25.20"), Money.usd("25.20"), "+0.00"),
    ]


def test_bill_that_cannot_be_read_stops_nothing(lab):
    """Fail-safe: Cost Explorer is down; the guard goes on and the digest says so."""
    lab.billing.down = True
    lab.pass_time(timedelta(minutes=5), hours=17)
    assert "could not be read" in lab.notifier.of(Digest)[0].notes[0]
    assert "could not be read" in lab.guard.bill("2026-11-06", lab.now).note


def test_persons_pause_takes_the_same_path(lab):
    """Asked twice is one decision; the run is paused and its cap has no part in it."""
    lab.pass_time(minutes=5)
    first = lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    second = lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    assert first.id == second.id
    assert [verb for verb, _ in lab.workloads.calls] == ["pause"]
    (paused,) = lab.notifier.of(PauseVerified)
    assert (paused.actor, paused.request, paused.figures) == ("U1", "", None)


def test_persons_pause_and_resume_and_pause_again(lab):
    """Each cycle is a decision of its own."""
    for _ in range(2):
        lab.pass_time(minutes=5)
        assert lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now).state == "announced"
        assert lab.guard.requested_resume("abcde", "home", ADA, "back", lab.now).state == "announced"
    assert [verb for verb, _ in lab.workloads.calls] == ["pause", "resume", "pause", "resume"]
    assert state(lab) == "running"


def test_resume_that_does_not_fit_stays_paused_and_says_why(lab):
    """The cap has $0.40 left, a restart commits $1.26: refused in a sentence."""
    lab.pass_time(hours=3)
    decision = lab.guard.requested_resume("abcde", "home", ADA, "please", lab.now)
    assert decision.state == "failed"
    assert "abcde stays paused. It does not fit: the cap run-abcde" in decision.result["error"]
    assert state(lab) == "paused"


def test_kill_ends_the_run_and_keeps_its_costs(lab):
    """The record stays; twice is once."""
    lab.pass_time(minutes=30)
    for _ in range(2):
        assert lab.guard.requested_kill("abcde", "home", ADA, "wrong flag", lab.now).state == "announced"
    assert [verb for verb, _ in lab.workloads.calls] == ["kill"]
    assert lab.notifier.of(Killed)[0].spent == Money.usd("1.80")
    assert "is killed" in lab.guard.blocked(RUN, lab.now)


def test_daily_cap_lets_work_go_on_after_midnight():
    """At 23:56 the day's cap would be passed in 10 minutes: the window ends first, so nothing is paused."""
    lab = Lab(start=T0 + timedelta(hours=2))
    lab.tick()
    lab.cap("day", "18.10", "team", "vision", window=Window.DAY)
    lab.run()
    lab.pass_time(hours=8)
    assert lab.workloads.calls == []
    assert lab.guard.caps(lab.now)[0].spent == Money.usd("10.80")


def test_machines_are_not_asked_for_while_nothing_changes(lab):
    """Steady: one question every five minutes, not one a tick."""
    lab.pass_time(minutes=10)
    before = lab.machines.asked
    lab.pass_time(minutes=60)
    assert lab.machines.asked - before <= 13
