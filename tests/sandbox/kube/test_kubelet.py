"""Simulated kubelets: a pod's life, its end, the node's own state and its GPUs."""

from __future__ import annotations

import pytest

from sandbox.kube.pod_status import is_ready
from sandbox.kube.workload import read_script
from tests.sandbox.kube.bench import PREFIX, Bench

GPU = "nvidia.com/gpu"


@pytest.fixture
def ready(bench: Bench) -> Bench:
    """One node with room."""
    bench.node("n0", cpu="64", gpus=8)
    bench.run(1)
    return bench


def ended(bench: Bench, pod: str) -> tuple[str, int, str]:
    """Phase, exit code and reason."""
    status = bench.get(pod)["status"]
    state = status["containerStatuses"][0]["state"]["terminated"]
    return status["phase"], state["exitCode"], state["reason"]


def test_a_pod_runs_for_the_time_it_is_told(ready: Bench) -> None:
    """Bound, running and ready, then Succeeded with its times, in five writes."""
    before = ready.store.version
    ready.pod("p", told={"run-seconds": "100"})
    ready.run(5)
    pod = ready.get("p")
    assert pod["status"]["phase"] == "Running"
    assert is_ready(pod)
    assert pod["status"]["podIP"].startswith("10.")
    ready.run(100)
    assert ended(ready, "p") == ("Succeeded", 0, "Completed")
    assert not is_ready(ready.get("p"))
    state = ready.get("p")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["startedAt"], state["finishedAt"]) == ("2026-11-06T17:00:02Z", "2026-11-06T17:01:42Z")
    ready.store.delete("pods", "research", "p")
    assert ready.store.version - before == 5


def test_an_exit_code_makes_a_pod_fail(ready: Bench) -> None:
    """Anything but 0 is Failed."""
    ready.pod("p", told={"run-seconds": "5", "exit-code": "3"})
    ready.run(10)
    assert ended(ready, "p") == ("Failed", 3, "Error")


def test_a_pod_runs_until_somebody_ends_it(ready: Bench) -> None:
    """Without a run time it goes on; `finish` ends it with a code and a reason."""
    ready.pod("p")
    ready.run(100_000)
    assert ready.get("p")["status"]["phase"] == "Running"
    assert ready.kubelets.finish("research", "p", 137, "OOMKilled")
    assert ended(ready, "p") == ("Failed", 137, "OOMKilled")
    assert not ready.kubelets.finish("research", "p")


def test_a_slow_pull_is_seen(ready: Bench) -> None:
    """ContainerCreating until the image is there, then init containers take their time."""
    init = {"name": "fetch", "image": "i"}
    ready.pod("p", told={"start-seconds": "60", "init-seconds": "30"}, initContainers=[init])
    ready.run(10)
    status = ready.get("p")["status"]
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    ready.run(70)
    assert ready.get("p")["status"]["phase"] == "Pending"
    ready.run(15)
    assert ready.get("p")["status"]["phase"] == "Running"
    assert ready.get("p")["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize(
    ("told", "seconds", "last"),
    [
        ({}, 1, ("Failed", 143, "Error")),
        ({"sigterm-seconds": "12", "sigterm-exit-code": "0"}, 12, ("Succeeded", 0, "Completed")),
        ({"sigterm-seconds": "45"}, 30, ("Failed", 137, "Error")),
        ({"ignore-sigterm": "true"}, 30, ("Failed", 137, "Error")),
    ],
)
def test_sigterm_has_the_grace(
    ready: Bench, told: dict[str, str], seconds: int, last: tuple[str, int, str]
) -> None:
    """It ends by itself, or is killed when the grace is over; a finalizer keeps its last status."""
    ready.pod("p", told=told, finalizers=["lab/keep"])
    ready.run(5)
    ready.store.delete("pods", "research", "p")
    ready.run(seconds - 0.5)
    assert ready.get("p")["status"]["phase"] == "Running"
    ready.run(1)
    assert ended(ready, "p") == last
    pod = ready.get("p")
    ready.store.update("pods", {**pod, "metadata": {**pod["metadata"], "finalizers": []}})
    assert ready.pods() == []


def test_a_second_delete_shortens_the_grace(ready: Bench) -> None:
    """kubectl delete --grace-period=2 after a patient one."""
    ready.pod("p", told={"ignore-sigterm": "true"})
    ready.run(5)
    ready.store.delete("pods", "research", "p")
    ready.run(5)
    ready.store.delete("pods", "research", "p", grace_seconds=2)
    ready.run(2.5)
    assert ready.pods() == []


def test_a_crashing_container_is_restarted_with_back_off(ready: Bench) -> None:
    """restartPolicy Always: CrashLoopBackOff between the restarts, which are counted."""
    ready.pod("p", told={"run-seconds": "2", "exit-code": "1"}, restartPolicy="Always")
    ready.run(8)
    container = ready.get("p")["status"]["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 1
    ready.run(6)
    container = ready.get("p")["status"]["containerStatuses"][0]
    assert (container["restartCount"], "running" in container["state"]) == (1, True)


def test_annotations_may_change_while_it_runs(ready: Bench) -> None:
    """The new end counts from the start."""
    ready.pod("p")
    ready.run(50)
    pod = ready.get("p")
    metadata = {**pod["metadata"], "annotations": {PREFIX + "run-seconds": "60"}}
    ready.store.update("pods", {**pod, "metadata": metadata})
    ready.run(5)
    assert ready.get("p")["status"]["phase"] == "Running"
    ready.run(10)
    assert ready.get("p")["status"]["phase"] == "Succeeded"


def test_a_range_of_run_times_depends_on_names_only(ready: Bench) -> None:
    """The same index of the same Job takes the same time in every world."""
    ready.job("sweep", completions=3, parallelism=3, told={"run-seconds": "100-200"})
    ready.run(2)
    times = [read_script(pod).run_seconds or 0 for pod in ready.pods()]
    assert len(set(times)) == 3
    assert all(100 <= seconds <= 200 for seconds in times)
    twin = [{**pod, "metadata": {**pod["metadata"], "name": "x", "uid": "y"}} for pod in ready.pods()]
    assert [read_script(pod).run_seconds for pod in twin] == times


def test_progress_ends_the_first_indexes(ready: Bench) -> None:
    """A scenario moves a Job on by a count."""
    ready.job("train", completions=5, parallelism=5)
    ready.run(5)
    assert ready.kubelets.progress("research", "train", 2) == 2
    ready.run(3)
    assert ready.status("train")["completedIndexes"] == "0,1"
    assert ready.kubelets.progress("research", "train", 9) == 3


def test_logs_are_kept_until_the_pod_is_deleted(ready: Bench) -> None:
    """Start, what was said, exit."""
    ready.pod("p")
    ready.run(5)
    ready.kubelets.say("research", "p", "loss 0.3")
    ready.kubelets.finish("research", "p", 1)
    assert ready.kubelets.logs("research", "p") == (
        "2026-11-06T17:00:02Z started on n0\nloss 0.3\n2026-11-06T17:00:06Z exited with code 1\n"
    )
    ready.store.delete("pods", "research", "p")
    assert ready.kubelets.logs("research", "p") == ""


def test_a_node_becomes_ready_and_loses_its_taint(bench: Bench) -> None:
    """Nothing is bound before; conditions, addresses and allocatable are the kubelet's."""
    bench.node("n0", ready=False, annotations={PREFIX + "ready-seconds": "30"})
    bench.pod("p")
    bench.run(20)
    assert bench.nodes_of() == {"p": ""}
    bench.run(15)
    node = bench.store.must_get("nodes", None, "n0")
    assert is_ready(node)
    assert not node["spec"].get("taints")
    assert node["status"]["addresses"][1] == {"type": "Hostname", "address": "n0"}
    assert bench.nodes_of() == {"p": "n0"}


@pytest.mark.parametrize(("late", "bound"), [("90", True), ("never", False)])
def test_gpus_may_come_late_or_never(bench: Bench, late: str, bound: bool) -> None:
    """The node is ready without them; pods that need one wait."""
    bench.node("n0", gpus=8, ready=False, annotations={PREFIX + "gpu-ready-seconds": late})
    bench.pod("p", gpus=1)
    bench.run(60)
    node = bench.store.must_get("nodes", None, "n0")
    assert is_ready(node)
    assert node["status"]["allocatable"][GPU] == "0"
    assert bench.nodes_of() == {"p": ""}
    bench.run(60)
    assert (bench.nodes_of() == {"p": "n0"}) is bound


def test_devices_are_held_from_start_to_end(ready: Bench) -> None:
    """Two pods never share one, and a freed one is given out again."""
    ready.pod("a", gpus=5, told={"run-seconds": "10", "gpu-utilisation": "92"})
    ready.pod("b", gpus=3)
    ready.run(5)
    held = [(use.pod, use.device.index) for use in ready.kubelets.gpu_uses]
    assert sorted(index for _, index in held) == list(range(8))
    ready.run(10)
    ready.pod("c", gpus=5)
    ready.run(5)
    first = [use for use in ready.kubelets.gpu_uses if use.pod == "a"]
    again = [use for use in ready.kubelets.gpu_uses if use.pod == "c"]
    assert {use.device.uuid for use in first} == {use.device.uuid for use in again}
    assert all(use.until is not None and use.utilisation == 92 for use in first)
    assert all(use.until is None and use.utilisation is None for use in again)


def test_a_lost_machine_is_noticed_and_its_pods_are_given_up(ready: Bench) -> None:
    """Unknown after the heartbeats stop, evicted after five minutes, gone with the Node."""
    ready.pod("p")
    ready.run(5)
    ready.kubelets.stop("n0")
    ready.run(30)
    assert is_ready(ready.store.must_get("nodes", None, "n0"))
    ready.run(30)
    node = ready.store.must_get("nodes", None, "n0")
    assert {c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"} == {"Unknown"}
    assert {t["key"] for t in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
    assert not is_ready(ready.get("p"))
    ready.run(310)
    pod = ready.get("p")
    reasons = {entry["type"]: entry.get("reason") for entry in pod["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
    assert pod["metadata"]["deletionTimestamp"]
    ready.store.delete("nodes", None, "n0")
    ready.run(60)
    assert ready.pods() == []


def test_a_finished_pod_is_evicted_too(ready: Bench) -> None:
    """The real taint manager looks at no phase."""
    ready.pod("done", told={"run-seconds": "1"})
    ready.pod("runs")
    ready.run(5)
    node = ready.store.must_get("nodes", None, "n0")
    taint = {"key": "lab/drain", "effect": "NoExecute"}
    ready.store.update("nodes", {**node, "spec": {**node["spec"], "taints": [taint]}})
    ready.run(60)
    assert ready.pods() == []


def test_a_cordon_is_a_taint_too(ready: Bench) -> None:
    """And goes with it."""
    node = ready.store.must_get("nodes", None, "n0")
    ready.store.update("nodes", {**node, "spec": {**node["spec"], "unschedulable": True}})
    ready.run(1)
    node = ready.store.must_get("nodes", None, "n0")
    added = {"timeAdded": "2026-11-06T17:00:01Z"}
    assert node["spec"]["taints"] == [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", **added}
    ]
    spec = {key: value for key, value in node["spec"].items() if key != "unschedulable"}
    ready.store.update("nodes", {**node, "spec": spec})
    ready.run(1)
    assert "taints" not in ready.store.must_get("nodes", None, "n0")["spec"]
