"""PodDisruptionBudgets: whether a pod may be evicted now (pkg/registry/core/pod/storage/eviction.go).

What a budget allows is computed when somebody asks, so that it is never behind.
"""

from __future__ import annotations

from typing import Any

from sandbox.kube.errors import ApiError
from sandbox.kube.selectors import matches_labels, requirements_of
from sandbox.kube.store import Store

Object = dict[str, Any]


def refusal(store: Store, pod: Object) -> ApiError | None:
    """Why the pod may not be evicted; None where it may. Pods that do not run are never protected."""
    phase = pod.get("status", {}).get("phase")
    if pod["metadata"].get("deletionTimestamp") or phase in ("Pending", "Succeeded", "Failed"):
        return None
    namespace = pod["metadata"]["namespace"]
    budgets = [
        budget for budget in store.list("poddisruptionbudgets.policy", namespace) if _selects(budget, pod)
    ]
    if len(budgets) > 1:
        return ApiError(
            500,
            "InternalError",
            "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction "
            "subresource does not support.",
        )
    for budget in budgets:
        healthy, desired = counts(store, budget)
        if healthy - 1 < desired and _healthy(pod):
            return _refused(budget, healthy, desired)
    return None


def _selects(budget: Object, pod: Object) -> bool:
    requirements = requirements_of((budget.get("spec") or {}).get("selector"))
    return requirements is not None and matches_labels(requirements, pod)


def counts(store: Store, budget: Object) -> tuple[int, int]:
    """(healthy now, healthy wanted)."""
    pods = [pod for pod in store.list("pods", budget["metadata"]["namespace"]) if _selects(budget, pod)]
    healthy, spec = sum(map(_healthy, pods)), budget.get("spec") or {}
    if spec.get("minAvailable") is not None:
        return healthy, _amount(spec["minAvailable"], len(pods))
    return healthy, max(0, len(pods) - _amount(spec.get("maxUnavailable", 1), len(pods)))


def _amount(value: str | int, total: int) -> int:
    """A count, or a percentage of the total, rounded up."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-total * percent // 100)


def _healthy(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _refused(budget: Object, healthy: int, desired: int) -> ApiError:
    name = budget["metadata"]["name"]
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently",
    }
    return ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {"causes": [cause]},
    )
