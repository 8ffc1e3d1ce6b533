"""What is compared of the objects of two clusters once both have settled."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.controlplane.answers import masked

Object = dict[str, Any]
TIMES = {"startTime", "completionTime", "lastProbeTime", "timeAdded", "finishedAt", "startedAt"}
RANDOM_NAME = re.compile(r"(\S+/\S+)-\w{5} ")


def tidy(value: Any) -> Any:
    """Without ids, times, versions and the random ends of names."""
    return _timeless(masked(value))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: "*" if key in TIMES else _timeless(inner) for key, inner in value.items()}
        if found.get("generateName"):
            found["name"] = f"{found['generateName']}*"
        return found
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    return RANDOM_NAME.sub(r"\1-* ", value) if isinstance(value, str) else value


def job_view(job: Object) -> Object:
    """All of a Job: spec, metadata, and the controller's verdict in counts, indexes and conditions."""
    found: Object = tidy({key: job[key] for key in ("metadata", "spec", "status")})
    return found


def node_view(node: Object) -> Object:
    """What a scheduler reads of a node."""
    conditions = node.get("status", {}).get("conditions") or ()
    return {
        "metadata": {key: node["metadata"][key] for key in ("name", "labels")},
        "spec": tidy({**node["spec"], "taints": _ordered(node["spec"].get("taints") or [])}),
        "ready": [entry["status"] for entry in conditions if entry["type"] == "Ready"],
        "allocatable": node["status"]["allocatable"],
    }


def pod_view(pod: Object, *, fresh: bool) -> Object:
    """A pod: bound or why not (not which node), its phase and exit codes, why it was disrupted.

    The words of a verdict are compared while they are `fresh`: the real scheduler rewrites them only when
    something happened that may help the pod.
    """
    status, spec = pod.get("status") or {}, pod["spec"]
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    scheduled, disrupted = conditions.get("PodScheduled", {}), conditions.get("DisruptionTarget", {})
    ended = [entry.get("state", {}).get("terminated") for entry in status.get("containerStatuses") or ()]
    return {
        "metadata": tidy(pod["metadata"]),
        "spec": tidy({key: value for key, value in spec.items() if key != "nodeName"}),
        "bound": bool(spec.get("nodeName")),
        "scheduled": [scheduled.get("status"), scheduled.get("reason")],
        "why": scheduled.get("message") if fresh else "",
        "disrupted": [disrupted.get(key) for key in ("status", "reason", "message")],
        "phase": status.get("phase"),
        "exits": [entry["exitCode"] for entry in ended if entry],
    }


def _ordered(taints: list[Object]) -> list[Object]:
    return sorted(taints, key=lambda taint: (taint["key"], taint["effect"]))


def ordered(views: list[Object]) -> list[Object]:
    """In an order that depends on nothing but what is in them."""
    return sorted(views, key=lambda view: json.dumps(view, sort_keys=True))
