"""The guard's tick over hours: told, armed, paused and verified before the cap is passed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.errors import Unavailable
from fleet.ports import BilledDay, Scope
from fleet.values import Money
from guard.caps import Window
from guard.events import (
    BillArrived,
    BudgetAlert,
    CountdownArmed,
    CountdownCancelled,
    DecisionFailed,
    Digest,
    ForecastAdvice,
    GhostMachine,
    Killed,
    NoOwner,
    PauseStarted,
    PauseVerified,
    Resumed,
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


def test_final_bill_that_drifts_is_named_in_the_digest(lab):
    """Billed 20, metered 25.20: +26 % is more than the 10 % that are let pass; an estimated bill says nothing yet."""
    line = BilledDay(
        "2026-11-06", "Amazon Elastic Compute Cloud - Compute", "us-west-2", {}, Money.usd(20), True
    )
    lab.billing.lines = [line]
    lab.pass_time(timedelta(minutes=10), hours=18)
    lab.billing.lines = [replace(line, estimated=False)]
    lab.pass_time(timedelta(minutes=10), hours=24)
    notes = [digest.notes for digest in lab.notifier.of(Digest)]
    assert notes == [(), ("The final bill of 2026-11-06 differs from the ledger by +26.00 %.",)]


def test_persons_pause_takes_the_same_path(lab):
    """Asked twice is one decision; the run is paused and its cap has no part in it."""
    lab.pass_time(minutes=5)
    first = lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    second = lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    assert first.id == second.id
    assert [verb for verb, _ in lab.workloads.calls] == ["pause"]
    (paused,) = lab.notifier.of(PauseVerified)
    assert (paused.actor, paused.request, paused.figures) == ("U1", "", None)


def test_a_resume_that_is_taken_up_after_a_crash_is_one_resume(lab):
    """The same request a minute later is the same decision: it runs, and is told so once."""
    lab.pass_time(minutes=5)
    lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    lab.pass_time(minutes=2)
    first = lab.guard.requested_resume("abcde", "home", ADA, "back", lab.now, request="r-1")
    lab.pass_time(minutes=1)
    again = lab.guard.requested_resume("abcde", "home", ADA, "back", lab.now, request="r-1")
    assert (again.id, again.state) == (first.id, "announced")
    assert len(lab.notifier.of(Resumed)) == 1


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


def test_resume_that_is_given_up_stays_paused_and_says_why_once(lab):
    """An API that is down for two hours: the run is left as it is, and its owner is told what to do."""
    lab.pass_time(minutes=5)
    lab.guard.requested_pause("abcde", "home", ADA, "lunch", lab.now)
    lab.workloads.error = Unavailable("The API of home does not answer.")
    assert lab.guard.requested_resume("abcde", "home", ADA, "back", lab.now).state == "decided"
    lab.pass_time(hours=1)
    assert state(lab) == "resuming"
    assert not lab.notifier.of(DecisionFailed)
    lab.pass_time(hours=1, minutes=10)
    assert state(lab) == "paused"
    (told,) = lab.notifier.of(DecisionFailed)
    assert told.reason == (
        "abcde stays paused; ask for it again when the cause is gone. The API of home does not answer."
    )


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
