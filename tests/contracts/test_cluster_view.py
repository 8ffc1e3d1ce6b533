"""What the ClusterView port promises, over every Kubernetes API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet.kube.objects import KubeObjects
from fleet.kube.watch import WatchCache
from fleet.model import Pod, Ref
from tests.builders import T0


@pytest.fixture
def view(connection, namespace) -> Iterator[WatchCache]:
    """A view of the cluster, synced, with the test's namespace listed as governed."""
    made = WatchCache(connection, "home", [namespace, "absent"], page=3)
    assert made.wait_synced(10)
    yield made
    made.close()


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What the condition gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def pods_of(view: WatchCache, namespace: str) -> dict[str, Pod]:
    """Pods of a namespace by name."""
    return {pod.name: pod for pod in view.snapshot(T0).pods.values() if pod.namespace == namespace}


def pod(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    """A pod that no node takes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeSelector": {"nowhere": "to-be-found"},
            "initContainers": [
                {
                    "name": "s",
                    "image": "i",
                    "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "250m"}},
                }
            ],
            "containers": [
                {"name": "m", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
            ],
        },
    }


def test_what_was_there_is_there(connection, objects: KubeObjects, namespace):
    """Objects from before the view are in its first snapshot, in however many pages they come."""
    for number in range(8):
        objects.create(pod(namespace, f"p{number}"))
    view = WatchCache(connection, "home", [namespace], page=3)
    try:
        assert view.wait_synced(10)
        snapshot = view.snapshot(T0)
        assert (snapshot.cluster, snapshot.synced, snapshot.observed_at, snapshot.stale_since) == (
            "home",
            True,
            T0,
            None,
        )
        assert sorted(pods_of(view, namespace)) == [f"p{number}" for number in range(8)]
        assert namespace in snapshot.governed
    finally:
        view.close()


def test_changes_show(view, objects, namespace):
    """Pods appear with what they ask for, change and go."""
    made = objects.create(pod(namespace, "a", x="1"))
    seen = until(lambda: pods_of(view, namespace).get("a"))
    assert (seen.uid, seen.labels["x"], seen.cluster) == (made["metadata"]["uid"], "1", "home")
    assert (seen.requests.millicores, seen.requests.memory) == (2250, 2**30)
    assert seen.placement.node_selector == (("nowhere", "to-be-found"),)
    objects.merge_patch(Ref("any", "v1", "Pod", namespace, "a"), {"metadata": {"labels": {"x": "2"}}})
    until(lambda: pods_of(view, namespace)["a"].labels["x"] == "2")
    objects.delete(Ref("any", "v1", "Pod", namespace, "a"), grace_seconds=0)
    until(lambda: "a" not in pods_of(view, namespace))


def test_a_name_used_again_is_another_pod(view, objects, namespace):
    """Identity is the uid."""
    first = objects.create(pod(namespace, "a"))["metadata"]["uid"]
    until(lambda: first in view.snapshot(T0).pods)
    objects.delete(Ref("any", "v1", "Pod", namespace, "a"), grace_seconds=0)
    second = objects.create(pod(namespace, "a"))["metadata"]["uid"]
    until(lambda: second in view.snapshot(T0).pods and first not in view.snapshot(T0).pods)


def test_jobs_and_nodes_show(view, objects, namespace):
    """A suspended Job with its template's needs, a Node with what it offers."""
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "m", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        }
    }
    objects.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": namespace, "labels": {"quartermaster.dev/run": "abc12"}},
            "spec": {"suspend": True, "parallelism": 3, "template": template},
        }
    )
    job = until(lambda: next((j for j in view.snapshot(T0).jobs.values() if j.namespace == namespace), None))
    assert (job.suspended, job.parallelism, job.completions, job.pod_requests.gpus) == (True, 3, None, 2)
    assert job.labels["quartermaster.dev/run"] == "abc12"
    name = f"node-{namespace}"
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"rack": "a"}},
            "spec": {"providerID": "aws:///us-west-2a/i-1", "taints": [{"key": "t", "effect": "NoSchedule"}]},
        }
    )
    node = until(lambda: view.snapshot(T0).nodes.get(name))
    assert (node.instance_id, node.labels["rack"]) == ("i-1", "a")
    assert any(taint.key == "t" for taint in node.taints)
    objects.delete(Ref("any", "v1", "Node", "", name))
    until(lambda: name not in view.snapshot(T0).nodes)


def test_governed_follows_the_label(view, objects, namespace):
    """Taking the label off ends that we may act there; one that is not listed never counts."""
    where = Ref("any", "v1", "Namespace", "", namespace)
    assert view.snapshot(T0).governed == {namespace}
    objects.merge_patch(where, {"metadata": {"labels": {"quartermaster.dev/governed": None}}})
    until(lambda: view.snapshot(T0).governed == frozenset())
    objects.merge_patch(where, {"metadata": {"labels": {"quartermaster.dev/governed": "true"}}})
    until(lambda: view.snapshot(T0).governed == {namespace})


def test_the_version_reaches_what_was_written(view, objects, namespace, kube_endpoint):
    """A kind that saw nothing catches up by bookmarks: the pod's own kind at once, all kinds in time."""
    made = objects.create(pod(namespace, "a"))
    version = int(made["metadata"]["resourceVersion"])
    until(lambda: view._pods.version >= version)
    if kube_endpoint[0] == "sandbox":
        until(lambda: view.reached(version))


def test_snapshots_are_not_changed_afterwards(view, objects, namespace):
    """What was given out stays as it was, so that a decision can be repeated on it."""
    before = view.snapshot(T0)
    count = len(before.pods)
    objects.create(pod(namespace, "a"))
    until(lambda: "a" in pods_of(view, namespace))
    assert len(before.pods) == count
    assert view.snapshot(T0).pods is not before.pods
    assert view.snapshot(T0).pods is view.snapshot(T0).pods
