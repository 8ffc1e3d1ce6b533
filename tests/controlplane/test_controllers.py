"""The sandbox's scheduler and Job controller beside the real ones: the same objects, the same verdicts.

Compared: who is bound and the words where not (not which node), and a Job's whole status but for times.
Not compared: the order and number of writes, Events, and how long each step takes.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.harness import ControlPlane
from tests.controlplane.sides import Object, Real, Sandbox, Side, until
from tests.sandbox.kube.bench import make_bench, pod_spec

pytestmark = pytest.mark.service("control-plane")
TELL = "sandbox.quartermaster.dev/"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@pytest.fixture
def sides(control_plane: ControlPlane, namespace: str) -> Iterator[tuple[Real, Sandbox]]:
    """Both, empty."""
    real = Real(control_plane, namespace)
    real.clean_all()
    yield real, Sandbox(make_bench())
    real.clean_all()


def node(name: str, *, cpu: str = "4", gpus: int = 0, pods: int = 110, **more: Any) -> Object:
    """A Node object as a machine would post it."""
    capacity = {"cpu": cpu, "memory": "16Gi", "pods": str(pods)}
    if gpus:
        capacity["nvidia.com/gpu"] = str(gpus)
    labels = {HOSTNAME: name, **more.pop("labels", {})}
    status = {"capacity": capacity, "allocatable": capacity}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": status,
    }


def pod(name: str, *, cpu: str = "1", gpus: int = 0, labels: Object | None = None, **spec: Any) -> Object:
    """A pod."""
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu, gpus, **spec)}


def many(prefix: str, count: int, **more: Any) -> list[Object]:
    """Pods that differ in nothing but their name."""
    return [pod(f"{prefix}{number:02}", **more) for number in range(count)]


def spread(key: str, skew: int = 1, **more: Any) -> list[Object]:
    """topologySpreadConstraints over app=web."""
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": selector, **more}]


def apart(key: str, *, anti: bool) -> Object:
    """Required pod (anti-)affinity to app=web."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    side = "podAntiAffinity" if anti else "podAffinity"
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


WEB = {"app": "web"}
TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
PORT = {"name": "c", "image": "i", "ports": [{"containerPort": 5555, "hostPort": 5555}]}
INIT = {"name": "init", "image": "i", "resources": {"requests": {"cpu": "3"}}}
SIDECAR = {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
ZONES = [node("a", labels={ZONE: "one"}, cpu="64"), node("b", labels={ZONE: "two"}, cpu="100m")]
SCHEDULING: dict[str, tuple[list[Object], list[Object]]] = {
    "no node at all": ([], many("p", 1)),
    "gpus": ([node(f"n{i}", gpus=8) for i in range(5)], many("p", 12, gpus=4)),
    "no gpu anywhere": ([node("a"), node("b")], many("p", 1, gpus=1)),
    "reasons": (
        [
            node("cordoned", unschedulable=True),
            node("tainted", taints=[TAINT]),
            node("other", labels={"disk": "hdd"}),
            node("small", cpu="1", labels={"disk": "ssd"}),
        ],
        [
            *many("picky", 1, cpu="2", nodeSelector={"disk": "ssd"}),
            *many(
                "tolerant",
                1,
                tolerations=[{"key": "gpu", "operator": "Exists"}],
                nodeSelector={HOSTNAME: "tainted"},
            ),
        ],
    ),
    "pod slots": ([node("a", pods=3)], many("p", 5, cpu="1m")),
    "host ports": ([node("a"), node("b")], many("p", 3, containers=[PORT])),
    "init and sidecar": (
        [node("a", cpu="4")],
        [
            *many("init", 2, cpu="1", initContainers=[INIT]),
            *many("side", 2, cpu="1", initContainers=[SIDECAR]),
        ],
    ),
    "hostname spread": (
        [node("a", cpu="64"), node("b", cpu="1"), node("c", cpu="1")],
        many("p", 6, labels=WEB, topologySpreadConstraints=spread(HOSTNAME)),
    ),
    "too few domains": (
        [node("a", cpu="64"), node("b", cpu="64")],
        many("p", 4, labels=WEB, topologySpreadConstraints=spread(HOSTNAME, minDomains=3)),
    ),
    "zone spread": (ZONES, many("p", 4, labels=WEB, topologySpreadConstraints=spread(ZONE, 2))),
    "no zone label": ([node("a")], many("p", 1, labels=WEB, topologySpreadConstraints=spread(ZONE))),
    "anti-affinity": (
        [node("a"), node("b")],
        many("p", 3, labels=WEB, affinity=apart(HOSTNAME, anti=True)),
    ),
    "existing anti-affinity": (
        [node("a")],
        [pod("first", labels=WEB, affinity=apart(HOSTNAME, anti=True)), pod("second", labels=WEB)],
    ),
    "affinity": (
        [node("a", cpu="2", labels={ZONE: "one"}), node("b", cpu="2", labels={ZONE: "two"})],
        many("p", 3, labels=WEB, affinity=apart(ZONE, anti=False)),
    ),
    "affinity to nobody": ([node("a")], many("p", 1, affinity=apart(ZONE, anti=False))),
    "gates": ([node("a")], many("p", 1, schedulingGates=[{"name": "lab/quota"}])),
}


def verdicts(side: Side) -> Counter[tuple[str, str]]:
    """(pods of a kind, bound or why not) → how many."""
    found: Counter[tuple[str, str]] = Counter()
    for obj in side.list("pods"):
        conditions = {c["type"]: c for c in obj.get("status", {}).get("conditions", [])}
        scheduled = conditions.get("PodScheduled", {})
        why = f"{scheduled.get('reason')}: {scheduled.get('message')}"
        kind = obj["metadata"]["name"].rstrip("0123456789")
        found[kind, "bound" if obj["spec"].get("nodeName") else why] += 1
    return found


def is_schedulable(obj: Object) -> bool:
    """Ready, and without the taints of a node that is not."""
    taints = {taint["key"] for taint in obj["spec"].get("taints", [])}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in obj["status"].get("conditions", []))
    return ready and "node.kubernetes.io/not-ready" not in taints


@pytest.mark.parametrize("case", SCHEDULING)
def test_scheduling_verdicts_are_the_same(sides: tuple[Real, Sandbox], case: str) -> None:
    """Bound, or pending for the same reasons in the same words."""
    real, sandbox = sides
    nodes, pods = SCHEDULING[case]
    for side in sides:
        for obj in nodes:
            side.create("nodes", obj)
        side.settle(10)
    until(lambda: all(is_schedulable(obj) for obj in real.list("nodes")), "ready nodes")
    for side in sides:
        for obj in pods:
            side.create("pods", obj)
            side.settle(1)
    sandbox.settle(30)
    expected = verdicts(sandbox)
    deadline = time.monotonic() + 15
    while verdicts(real) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    assert expected == verdicts(real)


def job(*, told: Object | None = None, pod_: Object | None = None, **spec: Any) -> Object:
    """An Indexed Job that still has no name."""
    annotations = {TELL + key: value for key, value in (told or {}).items()}
    template = {"metadata": {"annotations": annotations}, "spec": pod_spec("10m", **(pod_ or {}))}
    whole = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, **spec, "template": template}
    whole = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": whole}


def statuses(side: Side) -> dict[str, Object]:
    """Job → its status without times; random parts of names replaced."""
    found = {}
    for obj in side.list("jobs"):
        told = dict(obj.get("status", {}))
        for key in ("startTime", "completionTime"):
            if key in told:
                told[key] = "set"
        told["conditions"] = [
            (c["type"], c["status"], c["reason"], re.sub(r"\S+/(\S+)-\w{5} ", r"\1 ", c["message"]))
            for c in told.get("conditions", [])
        ]
        found[obj["metadata"]["name"]] = told
    return found


Step = Callable[[Side, str], None]


def change(**spec: Any) -> Step:
    """Patch the Job's spec."""
    return lambda side, name: side.patch("jobs", name, {"spec": spec})


def ends(exit_code: int, *indexes: int) -> Step:
    """The running pods of these indexes exit."""

    def act(side: Side, name: str) -> None:
        told = {f"{TELL}run-seconds": "0", f"{TELL}exit-code": str(exit_code)}
        wanted = {f"{name}-{index}" for index in indexes}
        found = [obj for obj in side.list("pods") if obj["spec"].get("hostname") in wanted and _runs(obj)]
        assert len(found) == len(indexes)
        for obj in found:
            side.patch("pods", obj["metadata"]["name"], {"metadata": {"annotations": told}})

    return act


def deletes(index: int) -> Step:
    """The pod of an index is deleted by somebody."""

    def act(side: Side, name: str) -> None:
        for obj in side.list("pods"):
            if obj["spec"].get("hostname") == f"{name}-{index}" and _runs(obj):
                side.delete("pods", obj["metadata"]["name"])

    return act


def _runs(obj: Object) -> bool:
    return bool(obj["status"].get("phase") == "Running" and not obj["metadata"].get("deletionTimestamp"))


POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}
PER_INDEX: Object = {"backoffLimitPerIndex": 0}
JOBS: dict[str, tuple[Object, list[Step]]] = {
    "suspended-from-the-start": (job(suspend=True), [change(suspend=False)]),
    "suspended-and-resumed": (job(), [change(suspend=True), change(suspend=False)]),
    "completes": (job(), [ends(0, 0, 2), ends(0, 1)]),
    "completes-by-itself": (job(told={"run-seconds": "1"}), []),
    "progress-survives": (job(), [ends(0, 1), change(suspend=True), change(suspend=False)]),
    "elastic": (
        job(completions=6, parallelism=6),
        [ends(0, 1, 4), change(completions=3, parallelism=3), change(completions=5, parallelism=5)],
    ),
    "throttled": (job(), [change(parallelism=1), change(parallelism=0), change(parallelism=2)]),
    "backoff-limit": (job(backoffLimit=0), [ends(1, 1)]),
    "failed-once": (job(), [ends(1, 1)]),
    "failed-index": (job(**PER_INDEX), [ends(1, 1), ends(0, 0, 2)]),
    "too-many-failed-indexes": (job(maxFailedIndexes=1, **PER_INDEX), [ends(1, 0, 1)]),
    "policy-fails-the-job": (job(podFailurePolicy=POLICY, **PER_INDEX), [ends(42, 1)]),
    "policy-fails-an-index": (job(podFailurePolicy=POLICY, backoffLimitPerIndex=3), [ends(3, 1)]),
    "success-policy": (job(successPolicy={"rules": [{"succeededIndexes": "0"}]}), [ends(0, 0)]),
    "deadline": (job(activeDeadlineSeconds=3), []),
    "a-pod-deleted": (job(), [deletes(1)]),
    "not-indexed": (job(completionMode="NonIndexed", told={"run-seconds": "1"}), []),
    "work-queue": (
        job(completionMode="NonIndexed", completions=None, told={"run-seconds": "1"}),
        [],
    ),
}
"""name → Job and what happens to it. Not here: podReplacementPolicy Failed with a deleted pod, which
waits for a phase Failed that kwok, unlike a kubelet, never writes."""


def creates(manifest: Object) -> Step:
    """The first step."""
    return lambda side, name: side.create("jobs", {**manifest, "metadata": {"name": name}})


@pytest.fixture(scope="module")
def job_rounds(control_plane: ControlPlane) -> dict[str, list[tuple[Object, Object]]]:
    """Job → (sandbox's status, real status) after each of its steps; all Jobs move on together."""
    metadata = {"name": "test-jobs-compared"}
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": metadata})
    real, sandbox = Real(control_plane, metadata["name"]), Sandbox(make_bench())
    real.clean_all()
    for side in (real, sandbox):
        side.create("nodes", node("big", cpu="64"))
        side.settle(10)
    until(lambda: all(is_schedulable(obj) for obj in real.list("nodes")), "ready nodes")
    left = {name: [creates(manifest), *steps] for name, (manifest, steps) in JOBS.items()}
    found: dict[str, list[tuple[Object, Object]]] = {name: [] for name in JOBS}
    while left:
        for name, steps in left.items():
            for side in (real, sandbox):
                steps[0](side, name)
        sandbox.settle(60)
        expected = statuses(sandbox)
        deadline = time.monotonic() + 30
        while statuses(real) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        seen = statuses(real)
        for name in left:
            found[name].append((expected[name], seen[name]))
        left = {name: steps[1:] for name, steps in left.items() if steps[1:]}
    real.clean_all()
    return found


@pytest.mark.parametrize("name", JOBS)
def test_job_statuses_are_the_same(job_rounds: dict[str, list[tuple[Object, Object]]], name: str) -> None:
    """After every step the same counts, indexes and conditions."""
    for mine, theirs in job_rounds[name]:
        assert mine == theirs
