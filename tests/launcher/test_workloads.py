"""Pausing, resuming, killing and verifying runs in a cluster."""

from datetime import timedelta

import pytest

from fleet.db import Database
from fleet.errors import Refused
from fleet.model import A_PAUSED, L_ROLE, L_RUN
from fleet.ports import WorkState
from fleet.values import rfc3339
from launcher.kinds.role_group import KubeWorkloads
from launcher.runs import MIGRATIONS, Run, RunState, RunStore
from tests.builders import T0
from tests.launcher.fakes import FakeObjects

RUN = {L_RUN: "r1"}


@pytest.fixture
def objects():
    """A cluster with a worker and a parameter server of run r1, each with a running pod."""
    cluster = FakeObjects()
    for role in ("ps", "worker"):
        cluster.add(
            "Job", f"x-{role}", labels=RUN | {L_ROLE: role}, spec={"suspend": False}, status={"active": 1}
        )
        pod(cluster, f"x-{role}-0", owner=("Job", f"x-{role}"))
    return cluster


@pytest.fixture
def governed():
    """Namespaces that are listed and labelled now."""
    return {"research"}


@pytest.fixture
def work(objects, governed):
    """Workloads over that cluster, in namespace research."""
    runs = RunStore(Database(":memory:", [MIGRATIONS]))
    return KubeWorkloads({"home": objects}, lambda _: governed, runs)


def pod(cluster, name, *, owner=None, labels=RUN, **metadata):
    spec, status = {"nodeName": "n1"}, {"phase": "Running"}
    return cluster.add("Pod", name, labels=labels, owner=owner, metadata=metadata, spec=spec, status=status)


def stopped(cluster, role):
    """What the Job controller and the kubelet do after a suspend."""
    cluster.stored.pop(("Pod", "research", f"x-{role}-0"), None)
    cluster.job(f"x-{role}")["status"] = {"active": 0, "terminating": 0}


def test_a_pause_suspends_workers_first_and_servers_last(work, objects):
    """The server must be there while the others save their work."""
    assert work.pause("home", "r1", T0).state is WorkState.PAUSING
    assert [c for c in objects.calls if c[0] == "apply"] == [("apply", "x-worker"), ("apply", "x-ps")]
    assert objects.job("x-ps")["metadata"]["manager"] == "quartermaster-guard"


def test_paused_is_said_when_no_pod_is_left(work, objects):
    """active=0 is not enough: a terminating pod still holds its GPU."""
    work.pause("home", "r1", T0)
    stopped(objects, "worker")
    assert work.verify("home", "r1", T0).state is WorkState.PAUSING
    objects.job("x-ps")["status"] = {"active": 0, "terminating": 1}
    assert work.verify("home", "r1", T0).state is WorkState.PAUSING
    stopped(objects, "ps")
    status = work.verify("home", "r1", T0)
    assert (status.state, status.active, status.terminating) == (WorkState.PAUSED, 0, 0)


def test_a_stuck_pod_is_named_and_never_called_paused(work, objects):
    """A finalizer or a dead kubelet leaves a pod Terminating."""
    work.pause("home", "r1", T0)
    stopped(objects, "ps")
    objects.job("x-worker")["status"] = {}
    objects.stored["Pod", "research", "x-worker-0"]["metadata"]["deletionTimestamp"] = rfc3339(T0)
    status = work.verify("home", "r1", T0 + timedelta(minutes=5))
    assert status.state is WorkState.PAUSING
    assert status.detail == "pausing (1 pod stuck on n1)"


def test_a_pause_may_be_repeated(work, objects):
    """What to restore is remembered from the first time."""
    work.pause("home", "r1", T0)
    before = objects.job("x-worker")["metadata"]["annotations"][A_PAUSED]
    work.pause("home", "r1", T0 + timedelta(minutes=1))
    assert objects.job("x-worker")["metadata"]["annotations"][A_PAUSED] == before
    assert len([c for c in objects.calls if c[0] == "apply"]) == 2


def test_a_resume_restores_what_the_pause_found(work, objects):
    """A Job that had been suspended before us stays so; the other runs again."""
    objects.job("x-worker")["spec"]["suspend"] = True
    work.pause("home", "r1", T0)
    work.resume("home", "r1", T0)
    assert objects.job("x-worker")["spec"]["suspend"] is True
    assert objects.job("x-ps")["spec"]["suspend"] is False
    assert A_PAUSED not in objects.job("x-ps")["metadata"]["annotations"]


def test_a_resume_leaves_alone_what_it_did_not_pause(work, objects):
    """Somebody suspended it by hand: that is theirs to undo."""
    objects.job("x-worker")["spec"]["suspend"] = True
    work.resume("home", "r1", T0)
    assert objects.job("x-worker")["spec"]["suspend"] is True
    assert not [c for c in objects.calls if c[0] == "patch"]


def test_a_job_made_with_kubectl_is_paused_through_its_pods_label(work, objects):
    """The pod template carries our run label, the Job does not."""
    objects.add("Job", "by-hand", spec={}, status={"active": 1})
    pod(objects, "by-hand-x", owner=("Job", "by-hand"))
    work.pause("home", "r1", T0)
    assert objects.job("by-hand")["spec"]["suspend"] is True


def test_bare_pods_and_other_controllers_are_named_and_left_alone(work, objects):
    """Only the root owner may be paused, and a bare pod cannot be."""
    pod(objects, "bare")
    pod(objects, "web-1", owner=("ReplicaSet", "web"))
    objects.add("Job", "js-0", labels=RUN, owner=("JobSet", "js"), spec={"suspend": False})
    status = work.pause("home", "r1", T0)
    assert status.state is WorkState.RUNNING
    for name in ("pod bare", "ReplicaSet web", "JobSet of js-0"):
        assert name in status.detail
    assert objects.job("js-0")["spec"]["suspend"] is False


def test_other_runs_and_other_namespaces_are_never_touched(work, objects):
    """The same run label in a namespace that is not governed means nothing to us."""
    objects.add("Job", "theirs", labels={L_RUN: "r2"}, spec={"suspend": False})
    objects.add("Job", "x-worker", namespace="kube-system", labels=RUN, spec={"suspend": False})
    work.pause("home", "r1", T0)
    work.kill("home", "r1", T0)
    assert objects.job("theirs")["spec"]["suspend"] is False
    assert objects.job("x-worker", "kube-system")["spec"]["suspend"] is False


def test_a_kill_keeps_the_last_logs_and_deletes_everything(work, objects):
    """Jobs, pods, Service and ConfigMap go; the last lines stay."""
    objects.add("Service", "x", labels=RUN)
    objects.add("ConfigMap", "x-trials", labels=RUN)
    pod(objects, "bare")
    status = work.kill("home", "r1", T0)
    assert status.state is WorkState.GONE
    assert objects.stored == {}
    assert work._runs.logs("r1")["x-ps-0"] == "last words of x-ps-0"


def test_a_run_whose_jobs_are_done_is_done(work, objects):
    """Finished Jobs with finished pods need no pause."""
    for role in ("ps", "worker"):
        stopped(objects, role)
        objects.job(f"x-{role}")["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert work.verify("home", "r1", T0).state is WorkState.DONE
    work.pause("home", "r1", T0)
    assert objects.job("x-ps")["spec"]["suspend"] is False


def test_nothing_is_changed_once_the_namespace_has_lost_its_label(work, objects, governed):
    """Listed in the settings is not enough: the sentence says which label to set."""
    governed.clear()
    work._runs.add(
        Run("r1", "q1", "x", "U1", "Ada", "", "home", "research", "{}", "", RunState.RUNNING, "", "", "", T0)
    )
    for act in (work.pause, work.resume, work.kill):
        with pytest.raises(
            Refused, match=r"kubectl label namespace research quartermaster\.dev/governed=true"
        ):
            act("home", "r1", T0)
    assert not [c for c in objects.calls if c[0] in ("apply", "patch", "delete")]
