"""The Workloads port, and what the launcher creates, over every Kubernetes API there is."""

from __future__ import annotations

import itertools
import time

import pytest

from fleet.budget import HoldKind, HoldRequest, Scope, launch_hold_id
from fleet.db import Database
from fleet.errors import NotFound
from fleet.journal import MIGRATIONS as JOURNAL
from fleet.journal import Journal
from fleet.model import A_PAUSED, L_RUN, Person, Ref
from fleet.ports import WorkState
from fleet.values import Money
from launcher.kinds.role_group import KubeWorkloads
from launcher.launch import Launcher
from launcher.load import parse_experiment
from launcher.ports import LauncherPorts, Order
from launcher.runs import MIGRATIONS, RunState, RunStore
from launcher.settings import LauncherSettings
from tests.builders import T0
from tests.launcher.fakes import FakeBudget, FakeNotifier

GROUP = """
name: group
image: acme/a3c:1
checkpoint: {path: "s3://ckpt/x", grace: 1}
success: [worker]
placement: {zone: same, spread: true}
roles:
  worker: {replicas: 3, min_replicas: 1, command: "python train.py $(hostname)", env: {A: 3.10},
           resources: {cpu: 2, memory: 4Gi, gpu: 1, gpu_type: H100, shm: 1Gi, disk: 10Gi}, retries: 5}
  ps: {replicas: 1, spot: never, ports: {tf: 2222}, volumes: {/data: "empty:1Gi"},
       sidecars: {game: {image: games, ports: {vnc: 5900}}}}
tags: {paper: a1}
limits: {max_cost: 200, max_hours: 2}
"""
SWEEP = """
name: sweep
image: acme/pong:1
command: [train, "{a}"]
spot: require
sweep: {params: {a: {range: [0, 30]}}, max_parallel: 2, max_failed: 3}
limits: {max_cost: 200, max_hours: 2}
"""
_requests = itertools.count(1)


class House:
    """A launcher whose objects are in a real API."""

    def __init__(self, objects, namespace):
        database = Database(":memory:", [JOURNAL, MIGRATIONS])
        clusters = {"home": objects}
        self.objects, self.namespace, self.notifier = objects, namespace, FakeNotifier()
        self.work = KubeWorkloads(clusters, lambda _: (namespace,), RunStore(database))
        self.journal = Journal(database)
        self.launcher = Launcher(
            database=database,
            journal=self.journal,
            settings=LauncherSettings(namespace=namespace),
            outside=LauncherPorts(clusters, FakeBudget(), self.notifier, self.work),
        )

    def launch(self, text):
        order = Order(
            f"contract-{next(_requests)}",
            parse_experiment(text, "e.yaml"),
            Person("U1", "Ada", "vision"),
            "home",
        )
        run = self.launcher.propose(order, T0).run
        hold = HoldRequest(
            launch_hold_id(run.id), HoldKind.LAUNCH, Scope(run=run.id), Money.usd(5), Money.usd(1), "launch"
        )
        decision = self.launcher.start(run.id, hold=hold, actor="U1", now=T0)
        assert decision.state == "announced", decision.result
        return run

    def job(self, run, role):
        return self.objects.get(
            Ref("home", "batch/v1", "Job", self.namespace, f"{run.experiment}-{run.id}-{role}")
        )

    def pods(self, run):
        return self.objects.list("v1", "Pod", self.namespace, f"{L_RUN}={run.id}")

    def until(self, run, state):
        """Wait (real seconds: the controllers are real) until the run stands so."""
        return eventually(lambda: self.work.verify("home", run.id, T0), lambda s: s.state is state)


def eventually(look, right, seconds=20.0):
    """The first look that is right; the last one is shown where none is."""
    deadline = time.monotonic() + seconds
    while not right(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.fixture
def house(objects, namespace):
    """A launcher over the API of this parameter."""
    return House(objects, namespace)


@pytest.mark.parametrize(("text", "pods"), [(GROUP, 4), (SWEEP, 2)], ids=["roles", "sweep"])
def test_what_is_rendered_is_accepted_and_runs(house, text, pods):
    """Every field that the launcher writes is one that the API takes; released Jobs get their pods."""
    run = house.launch(text)
    eventually(lambda: house.pods(run), lambda found: len(found) == pods)
    assert house.launcher.runs.get(run.id).state is RunState.RUNNING
    for pod in house.pods(run):
        env = {v["name"]: v.get("value") for v in pod["spec"]["containers"][0]["env"]}
        assert env["QM_RUN"] == run.id


def test_a_launch_that_the_api_refuses_leaves_nothing(house):
    """A label in overrides that cannot be one: the API says no to the second Job, and the first one goes."""
    text = GROUP.replace(
        "retries: 5}", 'retries: 5,\n           overrides: {metadata: {labels: {x: "not valid!"}}}}'
    )
    order = Order("refused", parse_experiment(text, "e.yaml"), Person("U1", "Ada", "vision"), "home")
    run = house.launcher.propose(order, T0).run
    decision = house.launcher.start(run.id, hold=None, actor="U1", now=T0)
    assert decision.state == "failed"
    assert "not valid!" in decision.result["error"]
    for kind, version in (("Job", "batch/v1"), ("Service", "v1")):
        eventually(
            lambda version=version, kind=kind: house.objects.list(
                version, kind, house.namespace, f"{L_RUN}={run.id}"
            ),
            lambda found: not found,
        )


def test_pause_and_resume_are_verified_and_keep_the_jobs(house):
    """Suspended, no pod left, then as before; the field manager shows who did it."""
    run = house.launch(GROUP)
    eventually(lambda: house.pods(run), lambda found: len(found) == 4)
    house.work.pause("home", run.id, T0)
    house.until(run, WorkState.PAUSED)
    job = house.job(run, "worker")
    assert job["spec"]["suspend"] is True
    assert A_PAUSED in job["metadata"]["annotations"]
    assert "quartermaster-guard" in {
        entry["manager"] for entry in job["metadata"].get("managedFields", ())
    } or ("managedFields" not in job["metadata"])
    house.work.pause("home", run.id, T0)
    house.work.resume("home", run.id, T0)
    eventually(lambda: house.pods(run), lambda found: len(found) == 4)
    assert A_PAUSED not in house.job(run, "worker")["metadata"].get("annotations", {})
    assert house.work.verify("home", run.id, T0).state is WorkState.RUNNING


def test_an_elastic_role_and_a_sweep_change_their_size(house):
    """Completions with parallelism for the role, parallelism alone for the sweep."""
    for text, role, size, after in ((GROUP, "worker", 5, 6), (SWEEP, "main", 7, 7)):
        run = house.launch(text)
        plan = house.launcher.plan_scale(run.id, role, size)
        decision = house.launcher.scale(plan, hold=None, request="one", actor="U1", now=T0)
        assert decision.state == "announced", decision.result
        eventually(lambda run=run: house.pods(run), lambda found, after=after: len(found) == after)


def test_a_kill_leaves_nothing_of_the_run(house):
    """Jobs, pods, Service and ConfigMap are gone."""
    run = house.launch(SWEEP)
    eventually(lambda: house.pods(run), lambda found: len(found) == 2)
    house.work.kill("home", run.id, T0)
    house.until(run, WorkState.KILLED)
    with pytest.raises(NotFound):
        house.job(run, "main")
    for kind in ("Service", "ConfigMap"):
        assert house.objects.list("v1", kind, house.namespace, f"{L_RUN}={run.id}") == []
