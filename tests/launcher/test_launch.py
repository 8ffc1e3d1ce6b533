"""Launching, scaling and ending runs: what is created, in which order, and what a failure leaves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.budget import HoldKind, HoldRequest, Scope, launch_hold_id
from fleet.errors import BadInput, Refused, Unavailable
from fleet.model import A_PAUSED, L_ROLE, L_RUN
from fleet.values import Money
from launcher.events import LaunchFailed, LaunchStarted, RunFinished, Scaled
from launcher.runs import RunState
from tests.builders import T0, job, snapshot
from tests.launcher.house import House

SWEEP = """
name: pong
image: acme/pong:1
command: [train, "{a}"]
sweep: {params: {a: {range: [0, 50]}}, max_parallel: 1}
limits: {max_cost: 200, max_hours: 2}
"""
AGAIN = T0 + timedelta(seconds=2)
"""when the journal tries again what has failed once"""


@pytest.fixture
def house():
    """A launcher with in-memory ports."""
    return House()


def test_a_launch_creates_everything_suspended_and_then_releases_servers_first(house):
    """No Job is released before the last one exists, and those that others need come first."""
    run = house.propose()
    decision = house.start(run)
    writes = [call for call in house.objects.calls if call[0] in ("apply", "patch")]
    assert writes == [
        ("apply", f"dota-{run.id}"),
        ("apply", f"dota-{run.id}-ps"),
        ("apply", f"dota-{run.id}-worker"),
        ("patch", f"dota-{run.id}-ps"),
        ("patch", f"dota-{run.id}-worker"),
    ]
    assert decision.state == "announced"
    assert house.state(run) is RunState.RUNNING
    assert launch_hold_id(run.id) in house.budget.settled
    (event,) = house.notifier.of(LaunchStarted)
    assert event.roles == (("ps", 1), ("worker", 4))


def test_a_request_that_arrives_again_is_the_same_run(house):
    """Slack delivers a click twice: one run, one launch, one message."""
    run = house.propose()
    assert house.propose() == run
    house.start(run)
    calls = len(house.objects.calls)
    assert house.start(house.launcher.runs.get(run.id)).state == "announced"
    assert house.propose().id == run.id
    assert len(house.objects.calls) == calls
    assert len(house.notifier.told) == 1


def test_a_refused_hold_creates_nothing_and_says_which_cap(house):
    """Money before machines."""
    house.budget.refuses = True
    run = house.propose()
    decision = house.start(run)
    assert decision.state == "failed"
    assert (
        "cap team of team vision ($10.00) has $1.00 left, $4.00 too little. Ada can raise it."
        in decision.result["error"]
    )
    assert house.objects.stored == {}
    assert house.state(run) is RunState.FAILED


def test_a_launch_that_is_refused_half_way_leaves_nothing(house):
    """What was created goes, the hold is given back, and people are told."""
    run = house.propose()
    house.objects.fail("apply", f"dota-{run.id}-worker", Refused("quota of namespace research is used up"))
    assert house.start(run).state == "failed"
    assert house.objects.stored == {}
    assert launch_hold_id(run.id) in house.budget.released
    (event,) = house.notifier.of(LaunchFailed)
    assert "quota" in event.reason


def test_what_cannot_be_cleaned_up_now_is_cleaned_up_later(house):
    """The API goes down in the middle of undoing."""
    run = house.propose()
    house.objects.fail("apply", f"dota-{run.id}-worker", Refused("no"))
    house.objects.fail("delete", f"dota-{run.id}", Unavailable("down"))
    house.start(run)
    assert house.state(run) is RunState.FAILING
    house.launcher.tick([snapshot()], T0)
    assert house.state(run) is RunState.FAILED
    assert house.objects.stored == {}


@pytest.mark.parametrize("verb", ["apply", "patch"])
@pytest.mark.parametrize("role", ["ps", "worker"])
@pytest.mark.parametrize("how", ["fail", "lose_answer"])
def test_a_crash_at_any_write_is_taken_up_where_it_stood(house, verb, role, how):
    """Before or after the API carried it out: the same objects, released once, told once."""
    run = house.propose()
    getattr(house.objects, how)(verb, f"dota-{run.id}-{role}", Unavailable("connection lost"))
    assert house.start(run).state == "decided"
    house.restart()
    house.journal.advance(AGAIN)
    assert house.state(run) is RunState.RUNNING
    assert house.objects.names("Job") == [f"dota-{run.id}-ps", f"dota-{run.id}-worker"]
    assert not any(house.objects.job(name)["spec"]["suspend"] for name in house.objects.names("Job"))
    assert len(house.notifier.told) == 1


def test_taking_up_a_launch_does_not_undo_the_guards_pause(house):
    """A Job that was paused between the crash and the restart stays paused."""
    run = house.propose()
    name = f"dota-{run.id}-worker"
    house.objects.fail("patch", name, Unavailable("down"))
    house.start(run)
    house.objects.job(name)["metadata"]["annotations"][A_PAUSED] = "{}"
    house.journal.advance(AGAIN)
    assert house.objects.job(name)["spec"]["suspend"] is True
    assert house.state(run) is RunState.RUNNING


def test_a_name_that_belongs_to_something_else_is_not_taken_over(house):
    """Another run's object of that name is a conflict; it stays untouched."""
    run = house.propose()
    house.objects.add("Job", f"dota-{run.id}-ps", labels={L_RUN: "other"})
    assert house.start(run).state == "failed"
    assert house.objects.names("Job") == [f"dota-{run.id}-ps"]
    assert house.objects.names("Service") == []


def test_an_elastic_role_is_scaled_with_its_completions(house):
    """Parallelism and completions of an elastic Indexed Job change together."""
    run = house.propose()
    house.start(run)
    plan = house.launcher.plan_scale(run.id, "worker", 8)
    assert (plan.before, plan.after, len(plan.added)) == (4, 8, 4)
    decision = house.launcher.scale(plan, hold=None, request="s1", actor="U1", now=T0)
    spec = house.objects.job(f"dota-{run.id}-worker")["spec"]
    assert (decision.state, spec["parallelism"], spec["completions"]) == ("announced", 8, 8)
    (event,) = house.notifier.of(Scaled)
    assert (event.before, event.after) == (4, 8)


def test_a_sweep_is_scaled_by_how_much_runs_at_once(house):
    """From one trial at once to more than there are trials: all of them."""
    run = house.propose(SWEEP)
    house.start(run)
    plan = house.launcher.plan_scale("pong", "", 10_000)
    house.launcher.scale(plan, hold=None, request="s1", actor="U1", now=T0)
    spec = house.objects.job(f"pong-{run.id}-main")["spec"]
    assert (spec["parallelism"], spec["completions"]) == (50, 50)


@pytest.mark.parametrize(
    ("role", "replicas", "said"),
    [
        ("ps", 2, "not elastic"),
        ("worker", 1, "min_replicas 2"),
        ("worker", 11, "allows 10 of worker, not 11"),
        ("wroker", 3, "Did you mean 'worker'"),
    ],
)
def test_a_size_that_cannot_be_is_refused(house, role, replicas, said):
    """Each refusal says which limit binds."""
    run = house.propose()
    house.start(run)
    with pytest.raises(BadInput, match=said):
        house.launcher.plan_scale(run.id, role, replicas)


def test_a_scale_whose_hold_is_refused_changes_nothing(house):
    """The Job keeps its size."""
    run = house.propose()
    house.start(run)
    plan = house.launcher.plan_scale(run.id, "worker", 8)
    house.budget.refuses = True
    hold = HoldRequest("scale-1", HoldKind.SCALE, Scope(run=run.id), Money.usd(50), Money.usd(2), "scale")
    decision = house.launcher.scale(plan, hold=hold, request="s1", actor="U1", now=T0)
    assert decision.state == "failed"
    assert house.objects.job(f"dota-{run.id}-worker")["spec"]["parallelism"] == 4


def seen(run, **conditions):
    """A snapshot of the run's Jobs with these conditions."""
    return snapshot(
        *(
            job(f"dota-{run.id}-{role}", labels={L_RUN: run.id, L_ROLE: role}, conditions=frozenset(types))
            for role, types in conditions.items()
        )
    )


def test_when_the_roles_that_decide_are_done_the_others_go(house):
    """A parameter server never ends by itself."""
    run = house.propose()
    house.start(run)
    worker = house.objects.job(f"dota-{run.id}-worker")
    worker["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    house.launcher.tick([seen(run, worker=(), ps=())], T0)
    assert house.state(run) is RunState.RUNNING
    house.launcher.tick([seen(run, worker=("Complete",), ps=())], T0)
    assert house.objects.names("Job") == [f"dota-{run.id}-worker"]
    assert house.objects.names("Service") == []
    assert house.state(run) is RunState.DONE
    assert launch_hold_id(run.id) in house.budget.released
    (event,) = house.notifier.of(RunFinished)
    assert event.outcome == "done"


def test_a_failed_role_that_decides_fails_the_run(house):
    """And its reason is told."""
    run = house.propose()
    house.start(run)
    house.launcher.tick([seen(run, worker=("Failed",), ps=())], T0)
    assert house.state(run) is RunState.FAILED


def test_nothing_is_concluded_from_a_view_that_is_not_complete(house):
    """A stale or unsynced view shows no Jobs; that does not mean that they are gone."""
    run = house.propose()
    house.start(run)
    later = T0 + timedelta(hours=1)
    house.launcher.tick([snapshot(synced=False)], later)
    house.launcher.tick([snapshot(stale_since=T0)], later)
    house.launcher.tick([snapshot()], T0 + timedelta(seconds=30))
    assert house.state(run) is RunState.RUNNING
    house.launcher.tick([snapshot()], later)
    assert house.state(run) is RunState.RUNNING, "the API still has its Jobs"
    house.objects.stored.clear()
    house.launcher.tick([snapshot()], later)
    assert house.state(run) is RunState.GONE


def test_a_run_is_not_over_while_a_job_that_somebody_put_under_it_runs(house):
    """Work made with kubectl under the run's label is not ended because our part of it is done."""
    run = house.propose()
    house.start(run)
    theirs = job("by-hand", labels={L_RUN: run.id})
    done = seen(run, worker=("Complete",), ps=())
    house.launcher.tick([replace(done, jobs={**done.jobs, theirs.uid: theirs})], T0)
    assert house.state(run) is RunState.RUNNING
    ended = replace(theirs, conditions=frozenset({"Complete"}))
    house.launcher.tick([replace(done, jobs={**done.jobs, theirs.uid: ended})], T0)
    assert house.objects.names("Service") == []


def test_a_launch_that_is_deleted_under_our_hands_fails_and_leaves_nothing(house):
    """Somebody deletes a Job between its release and our look."""
    run = house.propose()
    name = f"dota-{run.id}-worker"
    house.objects.lose_answer("patch", name, Unavailable("connection lost"))
    house.start(run)
    del house.objects.stored["Job", "research", name]
    house.objects.fail("apply", name, Refused("quota"))
    house.journal.advance(AGAIN)
    assert house.state(run) is RunState.FAILED
    assert house.objects.stored == {}


def test_a_process_that_died_while_it_undid_a_launch_goes_on_undoing(house):
    """It does not start the launch again."""
    run = house.propose()
    house.objects.fail("apply", f"dota-{run.id}-worker", Unavailable("down"))
    house.start(run)
    house.launcher.runs.move(run.id, RunState.FAILING, T0, "quota")
    house.restart()
    house.journal.advance(AGAIN)
    assert house.state(run) is RunState.FAILED
    assert house.objects.stored == {}


def test_a_withdrawn_proposal_cannot_be_started(house):
    """Its prices are old."""
    run = house.propose()
    house.launcher.withdraw(run.id, T0)
    with pytest.raises(BadInput, match="withdrawn"):
        house.start(run)


def test_a_scale_of_a_job_that_vanished_gives_its_hold_back(house):
    """Nothing stays held for nothing."""
    run = house.propose()
    house.start(run)
    plan = house.launcher.plan_scale(run.id, "worker", 8)
    del house.objects.stored["Job", "research", f"dota-{run.id}-worker"]
    hold = HoldRequest("scale-1", HoldKind.SCALE, Scope(run=run.id), Money.usd(50), Money.usd(2), "scale")
    decision = house.launcher.scale(plan, hold=hold, request="s1", actor="U1", now=T0)
    assert decision.state == "failed"
    assert "scale-1" in house.budget.released


def test_a_scale_is_told_only_when_the_job_has_the_size(house):
    """Something set it back at once: not done yet, and after a while not at all, the hold given back."""
    run = house.propose()
    house.start(run)
    plan = house.launcher.plan_scale(run.id, "worker", 8)
    store = house.objects._store

    def set_back(found):
        found["spec"]["parallelism"] = 4
        return store(found)

    house.objects._store = set_back
    hold = HoldRequest("scale-1", HoldKind.SCALE, Scope(run=run.id), Money.usd(50), Money.usd(2), "scale")
    decision = house.launcher.scale(plan, hold=hold, request="s1", actor="U1", now=T0)
    assert decision.state == "acted"
    assert house.journal.carry_out(decision, T0 + timedelta(minutes=6)).state == "failed"
    assert "scale-1" in house.budget.released


def test_whoever_set_something_for_a_launch_is_told_that_it_was_undone(house):
    """Also where it fails long after the click: the cap of the run goes with it."""
    told: list[str] = []
    house.launcher._launching._out = replace(house.launcher._out, undone=lambda run, _: told.append(run))
    run = house.propose()
    house.objects.stored["Job", "research", f"dota-{run.id}-ps"] = {
        "kind": "Job",
        "metadata": {"name": f"dota-{run.id}-ps", "namespace": "research", "labels": {L_RUN: "other"}},
        "spec": {},
    }
    assert house.start(run).state == "failed"
    assert told == [run.id]
