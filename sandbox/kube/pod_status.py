"""Small readings and writings of a pod's status, shared by scheduler, controllers and kubelets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


def stamp(moment: datetime) -> str:
    """A time as the API server stores it: UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def read_stamp(text: str) -> datetime:
    """The aware time that `stamp` wrote."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def in_phase(pod: Object, *phases: str) -> bool:
    """Whether the pod is in one of the phases; one without a phase is Pending."""
    return ((pod.get("status") or {}).get("phase") or "Pending") in phases


def is_terminal(pod: Object) -> bool:
    """Succeeded or Failed."""
    return in_phase(pod, "Succeeded", "Failed")


def condition(obj: Object, kind: str) -> Object | None:
    """The condition of that type."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry["type"] == kind:
            return dict(entry)
    return None


def is_ready(obj: Object) -> bool:
    """Condition Ready is True (pods and nodes)."""
    found = condition(obj, "Ready")
    return found is not None and found["status"] == "True"


def set_condition(status: Object, kind: str, value: str, *, now: str, **more: str) -> Object:
    """The status with the condition set; its transition time changes only with its value.

    `more` is reason and message.
    """
    entry = {"type": kind, "status": value, "lastTransitionTime": now, **more}
    conditions = list(status.get("conditions") or ())
    for index, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == value:
                entry["lastTransitionTime"] = old.get("lastTransitionTime", now)
            conditions[index] = entry
            break
    else:
        conditions.append(entry)
    return {**status, "conditions": conditions}
