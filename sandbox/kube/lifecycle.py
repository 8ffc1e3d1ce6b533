"""Rules of an object's life that need no store: grace, sameness, ownership, what counts as its spec."""

from __future__ import annotations

from typing import Any

from sandbox.kube.errors import ApiError, forbidden

Object = dict[str, Any]


def terminating(resource: str, name: str, namespace: str) -> ApiError:
    """403: nothing new in a namespace that is on its way out."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource, name, why)
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error


def counted_spec(obj: Object) -> Object:
    """What counts as a change of the spec: binding a pod does not."""
    spec: Object = obj.get("spec") or {}
    return {**spec, "nodeName": None} if obj["kind"] == "Pod" else spec


def owners(obj: Object | None) -> set[str]:
    """The uids of its owners."""
    if obj is None:
        return set()
    return {reference.get("uid", "") for reference in obj["metadata"].get("ownerReferences") or ()}


def grace_of(resource: str, obj: Object, asked: int | None) -> int:
    """Seconds of grace: only pods that have a node and still run get any (registry/core/pod/strategy.go)."""
    if resource != "pods":
        return 0
    spec, phase = obj.get("spec", {}), obj.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return max(int(grace), 0)


def same(new: Object, old: Object) -> bool:
    """Equal but for the version and the times in managedFields."""
    if new is old:
        return True
    ignored = ("resourceVersion", "managedFields")
    strip = [{k: v for k, v in obj["metadata"].items() if k not in ignored} for obj in (new, old)]
    if strip[0] != strip[1]:
        return False
    if not _equal_owners(new["metadata"], old["metadata"]):
        return False
    return {**new, "metadata": None} == {**old, "metadata": None}


def _equal_owners(new: Object, old: Object) -> bool:
    lists = []
    for metadata in (new, old):
        fields = metadata.get("managedFields") or []
        lists.append([{k: v for k, v in entry.items() if k != "time"} for entry in fields])
    return lists[0] == lists[1]
