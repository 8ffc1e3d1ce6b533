"""What admission adds to, or refuses of, a new object.

Sources: plugin/pkg/admission/{priority,defaulttolerationseconds,nodetaint,podtopologylabels}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandbox.kube.errors import forbidden

Object = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATION_SECONDS = 300
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def admit_pod(pod: Object, priority_classes: Sequence[Object]) -> Object:
    """A new pod with its priority and its tolerations of nodes that are lost for up to five minutes.

    ApiError 403 where it names a PriorityClass that does not exist, or a priority that is not the class's.
    """
    return with_default_tolerations({**pod, "spec": _with_priority(pod, priority_classes)})


def with_default_tolerations(pod: Object) -> Object:
    """The pod with its tolerations of lost nodes; added on every write, as the real admission does."""
    spec = pod["spec"]
    given = spec.get("tolerations") or []
    found = _tolerations(given)
    return pod if len(found) == len(given) else {**pod, "spec": {**spec, "tolerations": found}}


def _with_priority(pod: Object, classes: Sequence[Object]) -> Object:
    spec = dict(pod["spec"])
    name, chosen = spec.get("priorityClassName"), None
    if name:
        chosen = next((entry for entry in classes if entry["metadata"]["name"] == name), None)
        if chosen is None:
            raise forbidden("pods", pod["metadata"]["name"], f"no PriorityClass with name {name} was found")
    else:
        defaults = [entry for entry in classes if entry.get("globalDefault")]
        chosen = min(defaults, key=lambda entry: int(entry["value"]), default=None)
    if chosen is not None:
        name, value = chosen["metadata"]["name"], int(chosen["value"])
        policy = chosen.get("preemptionPolicy", "PreemptLowerPriority")
    else:
        value, policy = 0, "PreemptLowerPriority"
    if spec.get("priority") not in (None, value):
        raise forbidden(
            "pods",
            pod["metadata"]["name"],
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name",
        )
    spec |= {"priority": value, "preemptionPolicy": spec.get("preemptionPolicy") or policy}
    if name:
        spec["priorityClassName"] = name
    return spec


def _tolerations(given: Sequence[Object]) -> list[Object]:
    found = list(given)
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in given):
            found.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    return found


def with_topology_labels(pod: Object, node: Object | None) -> Object:
    """A pod that gets this node gets its zone and region as labels too, over labels of its own."""
    known = (node or {"metadata": {}})["metadata"].get("labels") or {}
    copied = {key: known[key] for key in _TOPOLOGY if key in known}
    if not copied:
        return pod
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **copied}}}


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def admit_node(node: Object) -> Object:
    """A node that joins is not ready until the node lifecycle controller has seen that it is."""
    taints = list((node.get("spec") or {}).get("taints") or ())
    if not any(taint.get("key") == NOT_READY for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    return {**node, "spec": {**(node.get("spec") or {}), "taints": taints}}
