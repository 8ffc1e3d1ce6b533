"""Garbage collection: by owner, by node, by namespace."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.kube.errors import ApiError
from tests.sandbox.kube.bench import Bench


def config_map(bench: Bench, name: str, owner: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A ConfigMap, owned by a Job where one is given."""
    metadata: dict[str, Any] = {"name": name, "namespace": "research"}
    if owner is not None:
        head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        identity = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**head, **identity, **more}]
    return bench.store.create("configmaps", {"metadata": metadata, "data": {}})


def test_background_deletion_takes_dependents_along(bench: Bench) -> None:
    """The owner goes first, what it owned a moment later; what has another owner stays."""
    owner, other = config_map(bench, "owner"), config_map(bench, "other")
    config_map(bench, "owned", owner)
    both = config_map(bench, "both", owner)
    references = [*both["metadata"]["ownerReferences"]]
    references.append({**references[0], "name": "other", "uid": other["metadata"]["uid"]})
    metadata = {**both["metadata"], "ownerReferences": references}
    bench.store.update("configmaps", {**both, "metadata": metadata})
    bench.store.delete("configmaps", "research", "owner")
    bench.run(1)
    left = bench.store.list("configmaps", "research")
    assert [obj["metadata"]["name"] for obj in left] == ["both", "other"]
    assert [ref["name"] for ref in left[0]["metadata"]["ownerReferences"]] == ["other"]


def test_foreground_deletion_waits_for_dependents(bench: Bench) -> None:
    """The Job stays until its pods, which block it, have used up their grace."""
    bench.node("n0")
    bench.job("train", told={"sigterm-seconds": "20"})
    bench.run(5)
    bench.store.delete("jobs.batch", "research", "train", propagation="Foreground")
    bench.run(10)
    assert bench.store.get("jobs.batch", "research", "train") is not None
    assert bench.pods()[0]["metadata"]["deletionTimestamp"]
    bench.run(15)
    assert bench.store.get("jobs.batch", "research", "train") is None
    assert bench.pods() == []


def test_orphans_live_on_without_their_owner(bench: Bench) -> None:
    """Only the reference goes."""
    owner = config_map(bench, "owner")
    config_map(bench, "owned", owner)
    bench.store.delete("configmaps", "research", "owner", propagation="Orphan")
    bench.run(1)
    left = bench.store.list("configmaps", "research")
    assert [obj["metadata"]["name"] for obj in left] == ["owned"]
    assert "ownerReferences" not in left[0]["metadata"]


def test_an_object_of_an_owner_that_is_not_there_is_deleted(bench: Bench) -> None:
    """A reference to a uid that nobody has is a dead one."""
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "0-0"}}
    config_map(bench, "owned", ghost)
    bench.run(1)
    assert bench.store.list("configmaps", "research") == []


def test_an_owner_of_an_unknown_kind_counts_as_there(bench: Bench) -> None:
    """Kinds that the stand-in does not serve cannot be looked up."""
    unknown = {"apiVersion": "lab/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "1"}}
    config_map(bench, "owned", unknown)
    bench.run(1)
    assert len(bench.store.list("configmaps", "research")) == 1


def test_pods_of_a_missing_node_fail_after_a_quarantine(bench: Bench) -> None:
    """Forty seconds, in case the node comes back."""
    bench.node("n0")
    bench.pod("p", finalizers=["lab/keep"])
    bench.run(5)
    bench.store.delete("nodes", None, "n0")
    bench.run(30)
    assert bench.get("p")["status"]["phase"] == "Running"
    bench.run(15)
    status = bench.get("p")["status"]
    reasons = {entry["type"]: entry.get("reason") for entry in status["conditions"]}
    assert (status["phase"], reasons["DisruptionTarget"]) == ("Failed", "DeletionByPodGC")


def test_a_namespace_goes_with_everything_in_it(bench: Bench) -> None:
    """Terminating while its pods end, closed for new things, then gone."""
    bench.node("n0")
    bench.job("train", completions=2, parallelism=2, told={"sigterm-seconds": "15"})
    config_map(bench, "settings")
    bench.run(5)
    bench.store.delete("namespaces", None, "research")
    bench.run(5)
    assert bench.store.must_get("namespaces", None, "research")["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        config_map(bench, "late")
    assert refused.value.code == 403
    bench.run(30)
    assert bench.store.get("namespaces", None, "research") is None
    assert bench.pods() == []
