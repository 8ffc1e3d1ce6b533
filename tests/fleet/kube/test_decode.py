"""Kubernetes JSON to flat values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadInput
from fleet.kube.decode import Decoder
from fleet.model import Expression, Owner, Placement, PodAffinity, Spread, Taint, Toleration
from fleet.values import Resources

GIB = 2**30


def at(minute: int) -> datetime:
    """A minute after five."""
    return datetime(2026, 11, 6, 17, minute, tzinfo=UTC)


def stamp(minute: int) -> str:
    """The same as the API writes it."""
    return f"2026-11-06T17:{minute:02d}:00Z"


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any):
    """A decoded pod."""
    metadata = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", **meta}
    raw = {"metadata": metadata, "spec": spec or {}, "status": status or {}}
    return Decoder("home").pod(json.dumps(raw).encode())[0]


def container(cpu: str = "0", memory: str = "0", gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A container with requests."""
    return {"resources": {"requests": {"cpu": cpu, "memory": memory, "nvidia.com/gpu": str(gpus)}}, **more}


def test_sidecars_and_init_containers_count_as_the_scheduler_counts_them():
    """Requests are the larger of each init container beside the sidecars before it, and all that runs later."""
    spec = {
        "containers": [container("1", "1Gi"), container("500m", "1Gi", 1)],
        "initContainers": [
            container("3", "512Mi"),
            container("250m", "256Mi", restartPolicy="Always"),
            container("3", "1Gi"),
            container("250m", "256Mi", restartPolicy="Always"),
        ],
        "overhead": {"cpu": "100m", "memory": "64Mi"},
    }
    # init 1: 3; init 3 beside the first sidecar: 3.25; running: 1.5 + 0.5 = 2.0
    assert pod(spec).requests == Resources(3350, 2 * GIB + 512 * 2**20 + 64 * 2**20, 1, 1)


def test_a_limit_alone_is_the_request():
    """GPUs are asked for by limits; a template from a Job has not been defaulted yet."""
    limited = {
        "containers": [
            {"resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "2"}, "requests": {"cpu": "1"}}}
        ]
    }
    assert pod(limited).requests == Resources(1000, 0, 4, 1)


def test_pod_level_resources_stand_for_the_containers():
    """Where spec.resources is given it tells cpu and memory; devices stay with the containers."""
    spec = {
        "containers": [container("1", "1Gi", 2)],
        "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "32Gi"}},
    }
    assert pod(spec).requests == Resources(8000, 32 * GIB, 2, 1)


@given(
    mains=st.lists(st.integers(0, 50), max_size=4),
    inits=st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=5),
)
def test_requests_agree_with_a_timeline(mains, inits):
    """Whatever the order, the request is the most that ever runs at once."""
    running, peak = 0, 0
    for amount, stays in inits:
        peak = max(peak, running + amount)
        running += amount if stays else 0
    peak = max(peak, running + sum(mains))
    spec = {
        "containers": [container(f"{amount}m") for amount in mains],
        "initContainers": [
            container(f"{amount}m") | ({"restartPolicy": "Always"} if stays else {})
            for amount, stays in inits
        ],
    }
    assert pod(spec).requests.millicores == peak


def test_unschedulable_is_not_gated():
    """Only PodScheduled=False for the reason Unschedulable is demand; a gated pod waits for somebody."""
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    seen = pod({}, {"phase": "Pending", "conditions": [waiting]})
    assert (seen.unschedulable, seen.message, seen.scheduled) == (True, "0/3 nodes", None)
    gated = pod({}, {"conditions": [{**waiting, "reason": "SchedulingGated", "message": "gates"}]})
    assert (gated.unschedulable, gated.message) == (False, "gates")


def test_times_come_from_conditions_and_containers():
    """Bound at PodScheduled, started with the first container, finished with the last."""
    status = {
        "phase": "Failed",
        "startTime": stamp(2),
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(1)}],
        "containerStatuses": [
            {"restartCount": 2, "state": {"terminated": {"startedAt": stamp(5), "finishedAt": stamp(30)}}},
            {"restartCount": 1, "state": {"terminated": {"startedAt": stamp(4), "finishedAt": stamp(40)}}},
        ],
    }
    seen = pod({"nodeName": "a"}, status)
    assert (seen.scheduled, seen.started, seen.finished, seen.restarts) == (at(1), at(4), at(40), 3)


def test_a_running_pod_has_not_finished():
    """One container of two that ended does not end the pod."""
    status = {
        "phase": "Running",
        "containerStatuses": [
            {"state": {"terminated": {"startedAt": stamp(5), "finishedAt": stamp(6)}}},
            {"state": {"running": {"startedAt": stamp(5)}}},
        ],
    }
    seen = pod({"nodeName": "a"}, status)
    assert (seen.started, seen.finished) == (at(5), None)


def test_an_evicted_pod_ends_with_its_last_condition():
    """A pod that failed without containers (evicted, node lost) ends when its conditions last changed."""
    conditions = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": stamp(9)}]
    assert pod({}, {"phase": "Failed", "reason": "Evicted", "conditions": conditions}).finished == at(9)


def test_a_pod_created_with_its_node_is_scheduled_from_its_start():
    """Static pods and benchmarks name the node themselves: there is no PodScheduled condition."""
    assert pod({"nodeName": "a"}, {}, creationTimestamp=stamp(3)).scheduled == at(3)
    assert pod({"nodeName": "a"}, {"startTime": stamp(4)}, creationTimestamp=stamp(3)).scheduled == at(4)


def test_a_pull_that_fails_is_told():
    """The kubelet's words are kept for people; the ordinary first seconds are not news."""
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    assert pod({}, {"containerStatuses": [waiting]}).message == "ImagePullBackOff: no such image"
    usual = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    assert pod({}, {"containerStatuses": [usual]}).message == ""


def test_owner_and_daemon():
    """The controller among the owners counts; DaemonSets' and static pods are daemons."""

    def owned(kind: str, controller: bool = True) -> list[dict[str, Any]]:
        return [
            {"kind": "Other", "name": "o", "uid": "0"},
            {"kind": kind, "name": "x", "uid": "1", "controller": controller},
        ]

    assert pod(ownerReferences=owned("Job")).owner == Owner("Job", "x", "1")
    assert not pod(ownerReferences=owned("Job")).daemon
    assert pod(ownerReferences=owned("DaemonSet")).daemon
    assert pod(ownerReferences=owned("Node")).daemon
    assert pod(ownerReferences=owned("Job", controller=False)).owner is None


def test_grace_of_a_deletion_wins():
    """What is left of a pod being deleted is the grace of the deletion, not of its spec."""
    assert pod({"terminationGracePeriodSeconds": 90}).grace_seconds == 90
    assert pod({"terminationGracePeriodSeconds": 90}, deletionGracePeriodSeconds=0).grace_seconds == 0
    assert pod().grace_seconds == 30


def test_placement_of_everything_required():
    """Selectors, affinity, tolerations, spreads and pod affinity become values; preferences are left out."""
    spec = {
        "nodeSelector": {"b": "2", "a": "1"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                        {},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "w"}}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "zone",
                "maxSkew": 2,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "matchLabelKeys": ["rev", "absent"],
            }
        ],
    }
    app = Expression("app", "In", ("w",))
    assert pod(spec, labels={"rev": "3"}).placement == Placement(
        node_selector=(("a", "1"), ("b", "2")),
        node_affinity=(
            (Expression("zone", "In", ("x", "y")),),
            (Expression("metadata.name", "In", ("n1",)),),
            (Expression("", "In", ()),),
        ),
        tolerations=(Toleration("gpu", "Exists", "", "NoSchedule"), Toleration("", "Exists")),
        spreads=(
            Spread(
                "zone", 2, "ScheduleAnyway", (Expression("app", "Exists"), Expression("rev", "In", ("3",)))
            ),
        ),
        pod_affinity=(PodAffinity("host", (app,), anti=True),),
    )


def test_nulls_and_unknown_fields_are_fine():
    """The API writes null for empty times, and newer versions write fields that we do not know."""
    seen = pod(
        {"containers": None, "newField": {"x": [1]}}, {"phase": None}, creationTimestamp=None, labels=None
    )
    assert (seen.phase, seen.created, seen.requests) == ("Pending", None, Resources(pods=1))


def test_equal_labels_and_placements_are_shared():
    """Pods that look alike share their values, so that a hundred thousand of them fit in memory."""
    decoder = Decoder("home")
    raw = {
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}},
        "spec": {"nodeSelector": {"x": "y"}, "containers": [container("1")]},
    }
    first, second = (decoder.pod(json.dumps(raw).encode())[0] for _ in range(2))
    assert first.labels is second.labels
    assert first.placement is second.placement


@pytest.mark.parametrize("cpu", ["1K", "1_000", "inf", "1e3Gi", ""])
def test_quantities_that_the_api_refuses_are_refused(cpu):
    """An object with an impossible quantity is an error for its reader to skip, never a zero."""
    with pytest.raises(BadInput):
        pod({"containers": [container(cpu)]})


def test_json_that_is_no_pod_is_refused():
    """Broken JSON is a DecodeError."""
    with pytest.raises(msgspec.DecodeError):
        Decoder("home").pod(b'{"metadata": 3}')


def test_node():
    """A node's capacity, readiness, taints and cordon."""
    raw = {
        "metadata": {
            "name": "n",
            "uid": "u",
            "resourceVersion": "9",
            "labels": {"z": "1"},
            "creationTimestamp": stamp(0),
        },
        "spec": {
            "providerID": "aws:///us-west-2a/i-0ab",
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "unschedulable": True,
        },
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "14162Mi", "pods": "58", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "Unknown"}],
        },
    }
    node, version = Decoder("home").node(json.dumps(raw).encode())
    assert version == "9"
    assert node.allocatable == Resources(3920, 14162 * 2**20, 8, 58)
    assert (node.instance_id, node.unschedulable, node.ready) == ("i-0ab", True, False)
    assert node.taints == (Taint("gpu", "", "NoSchedule"),)


def test_job():
    """A Job's progress, conditions, end, and what its pods ask for."""
    raw = {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "11",
            "annotations": {"a": "b"},
        },
        "spec": {
            "suspend": True,
            "parallelism": 0,
            "completions": 10,
            "template": {"spec": {"containers": [container("2", gpus=1)], "nodeSelector": {"x": "y"}}},
        },
        "status": {
            "succeeded": 3,
            "terminating": 2,
            "conditions": [
                {"type": "Suspended", "status": "False"},
                {
                    "type": "Failed",
                    "status": "True",
                    "reason": "BackoffLimitExceeded",
                    "lastTransitionTime": stamp(8),
                },
            ],
        },
    }
    job, _ = Decoder("home").job(json.dumps(raw).encode())
    assert (job.suspended, job.parallelism, job.completions, job.succeeded, job.terminating) == (
        True,
        0,
        10,
        3,
        2,
    )
    assert (job.conditions, job.reason, job.finished) == (
        frozenset({"Failed"}),
        "BackoffLimitExceeded",
        at(8),
    )
    assert job.pod_requests == Resources(2000, 0, 1, 1)
    assert job.placement.node_selector == (("x", "y"),)
    assert (job.version, job.done, job.annotations) == ("11", True, {"a": "b"})


def test_a_failed_condition_that_is_false_is_no_failure():
    """Only conditions whose status is True count."""
    raw = {
        "metadata": {"name": "j", "uid": "u"},
        "status": {
            "completionTime": stamp(5),
            "conditions": [
                {"type": "Failed", "status": "False", "reason": "X", "lastTransitionTime": stamp(1)},
                {"type": "Complete", "status": "True"},
            ],
        },
    }
    job, _ = Decoder("home").job(json.dumps(raw).encode())
    assert (job.conditions, job.reason, job.finished) == (frozenset({"Complete"}), "", at(5))
