"""Programs in which the sandbox once differed from a real control plane; they run with every batch."""

from __future__ import annotations

from typing import Any

from tests.controlplane.programs import HOSTNAME, STEADY, TELL, URGENT, ZONE, Operation, Program

Object = dict[str, Any]
CAPACITY = {"cpu": "4", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
TAINT: Object = {"key": "gpu", "value": "true", "effect": "NoExecute"}


def node(name: str, **spec: Any) -> Operation:
    """A machine in zone one."""
    metadata = {"name": f"@-{name}", "labels": {"group": "@", HOSTNAME: f"@-{name}", ZONE: "one"}}
    status = {"capacity": CAPACITY, "allocatable": CAPACITY}
    return "POST", "nodes", {"metadata": metadata, "spec": spec, "status": status}


def spec(priority: str, **resources: Any) -> Object:
    """A pod's spec."""
    main = {"name": "main", "image": "lab/train:1", "resources": resources or {"requests": {"cpu": "10m"}}}
    where = {"nodeSelector": {"group": "@"}, "priorityClassName": priority}
    return {"restartPolicy": "Never", "containers": [main], **where}


def job(name: str, *, template: Object | None = None, **more: Any) -> Operation:
    """A Job."""
    whole = {"template": {"metadata": {}, "spec": template or spec(STEADY)}, **more}
    return "POST", "jobs", {"metadata": {"name": name}, "spec": whole}


SUCCEEDS = {f"{TELL}run-seconds": "0", f"{TELL}exit-code": "0"}
INDEXED: Object = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
TWO = {"rules": [{"succeededCount": 2}]}

FOUND: dict[str, Program] = {
    "NoExecute takes ended pods too": [
        [node("n0")],
        [("POST", "pods", {"metadata": {"name": "p0", "annotations": SUCCEEDS}, "spec": spec(URGENT)})],
        [],
        [("PATCH", "nodes/@-n0", {"spec": {"taints": [TAINT]}})],
    ],
    "the controller's own taints have a time": [
        [node("n0", unschedulable=True, taints=[TAINT])],
        [],
        [],
        [("PATCH", "nodes/@-n0", {"spec": {"unschedulable": None}})],
    ],
    "a bound pod has its node's zone as a label": [
        [node("n0")],
        [("POST", "pods", {"metadata": {"name": "p0"}, "spec": spec(URGENT)})],
    ],
    "a Job without labels gets those of its template; a template's limits are no requests": [
        [node("n0")],
        [job("j0", template=spec(STEADY, limits={"nvidia.com/gpu": "1"}))],
    ],
    "a success policy bounds how far a Job shrinks": [
        [node("n0")],
        [job("j0", successPolicy=TWO, **INDEXED)],
        [("PATCH", "jobs/j0", {"spec": {"completions": 1, "parallelism": 1}})],
    ],
    "maxFailedIndexes is for Indexed Jobs": [
        [node("n0")],
        [job("j0", completionMode="NonIndexed", backoffLimitPerIndex=1, maxFailedIndexes=0)],
    ],
}
