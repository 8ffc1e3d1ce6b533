"""Garbage collection by owner references, pods of nodes that are gone, and the contents of namespaces.

Sources: k8s.io/kubernetes/pkg/controller/{garbagecollector,podgc,namespace}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sandbox.kube.errors import ApiError
from sandbox.kube.pod_status import is_terminal, set_condition, stamp
from sandbox.kube.resources import BY_KIND, RESOURCES
from sandbox.kube.store import Store
from sandbox.world import World

Object = dict[str, Any]
_DELAY = 0.1
_QUARANTINE = 40.0
"""seconds that the pods of a missing node are left alone (podgc's quarantineTime)"""
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector:
    """Acts on one store."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._leaving: set[str] = set()
        """namespaces being deleted that have a sweep planned"""
        self._waiting: dict[str, tuple[str, str | None, str]] = {}
        """uid → an owner that goes when its dependents are gone"""
        self._planned: set[str] = set()
        store.subscribe(self._see)

    def _see(self, event: str, resource: str, new: Object, old: Object | None) -> None:
        metadata = new["metadata"]
        if event == "DELETED":
            self._see_end(resource, metadata)
            return
        if old is None and metadata.get("ownerReferences") and not self._has_owner(new):
            self._later(lambda: self._collect(resource, metadata))
        if not metadata.get("deletionTimestamp"):
            return
        if resource == "namespaces":
            self._sweep_later(metadata["name"])
        elif _waits_for_dependents(metadata) and metadata["uid"] not in self._waiting:
            self._waiting[metadata["uid"]] = (resource, metadata.get("namespace"), metadata["name"])
            self._advance_later(metadata["uid"])

    def _see_end(self, resource: str, metadata: Object) -> None:
        uid = metadata["uid"]
        self._waiting.pop(uid, None)
        if self._store.owned_by(uid):
            self._later(lambda: self._collect_dependents(uid))
        for reference in metadata.get("ownerReferences") or ():
            if reference["uid"] in self._waiting:
                self._advance_later(reference["uid"])
        if resource == "nodes":
            name = metadata["name"]
            self._world.after(_QUARANTINE, lambda: self._collect_pods_of(name))
        namespace = self._store.get("namespaces", None, metadata.get("namespace") or "")
        if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
            self._sweep_later(namespace["metadata"]["name"])

    def _later(self, callback: Callable[[], None]) -> None:
        self._world.after(_DELAY, callback)

    # Owner references

    def _owner_of(self, reference: Object, namespace: str | None) -> Object | None:
        resource = BY_KIND.get((reference["apiVersion"], reference["kind"]))
        if resource is None:
            return None
        owner = self._store.get(resource.key, namespace, reference["name"])
        return owner if owner is not None and owner["metadata"]["uid"] == reference["uid"] else None

    def _has_owner(self, obj: Object) -> bool:
        """Whether any owner is there; one of a kind that is not served here counts as there."""
        namespace = obj["metadata"].get("namespace")
        return any(
            (reference["apiVersion"], reference["kind"]) not in BY_KIND
            or self._owner_of(reference, namespace) is not None
            for reference in obj["metadata"].get("ownerReferences") or ()
        )

    def _collect_dependents(self, uid: str) -> None:
        for resource, dependent in self._store.owned_by(uid):
            self._collect(resource, dependent["metadata"])

    def _collect(self, resource: str, metadata: Object) -> None:
        """Delete an object that no owner is left of; otherwise take the dead references off it."""
        obj = self._store.get(resource, metadata.get("namespace"), metadata["name"])
        if obj is None or obj["metadata"]["uid"] != metadata["uid"]:
            return
        if not self._has_owner(obj):
            if not obj["metadata"].get("deletionTimestamp"):
                self._store.delete(resource, metadata.get("namespace"), metadata["name"])
            return
        namespace = metadata.get("namespace")
        kept = [
            reference
            for reference in obj["metadata"]["ownerReferences"]
            if (reference["apiVersion"], reference["kind"]) not in BY_KIND
            or self._owner_of(reference, namespace) is not None
        ]
        self._store.update(resource, {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}})

    def _advance_later(self, uid: str) -> None:
        if uid not in self._planned:
            self._planned.add(uid)
            self._later(lambda: self._advance(uid))

    def _advance(self, uid: str) -> None:
        """Foreground: dependents first. Orphan: let go of them."""
        self._planned.discard(uid)
        where = self._waiting.get(uid)
        owner = self._store.get(*where) if where else None
        if where is None or owner is None:
            return
        finalizers = owner["metadata"].get("finalizers") or ()
        if _ORPHAN in finalizers:
            self._disown(uid)
            self._unblock(where, owner, _ORPHAN)
            return
        blocking = False
        for resource, dependent in self._store.owned_by(uid):
            metadata = dependent["metadata"]
            blocking = blocking or _blocks(metadata, uid)
            if not metadata.get("deletionTimestamp"):
                propagation = "Foreground" if self._store.owned_by(metadata["uid"]) else "Background"
                self._store.delete(
                    resource, metadata.get("namespace"), metadata["name"], propagation=propagation
                )
        if not blocking or not any(_blocks(d["metadata"], uid) for _, d in self._store.owned_by(uid)):
            present = self._store.get(*where)
            if present is not None:
                self._unblock(where, present, _FOREGROUND)

    def _disown(self, uid: str) -> None:
        for resource, dependent in self._store.owned_by(uid):
            metadata = dict(dependent["metadata"])
            kept = [reference for reference in metadata.pop("ownerReferences") if reference["uid"] != uid]
            if kept:
                metadata["ownerReferences"] = kept
            self._store.update(resource, {**dependent, "metadata": metadata})

    def _unblock(self, where: tuple[str, str | None, str], owner: Object, finalizer: str) -> None:
        metadata = dict(owner["metadata"])
        self._waiting.pop(metadata["uid"], None)
        kept = [name for name in metadata.pop("finalizers", ()) if name != finalizer]
        if kept:
            metadata["finalizers"] = kept
        self._store.update(where[0], {**owner, "metadata": metadata})

    # Pods of nodes that are gone

    def _collect_pods_of(self, node: str) -> None:
        if self._store.get("nodes", None, node) is not None:
            return
        for pod in self._store.pods_on(node):
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            if not is_terminal(pod):
                status = set_condition(
                    {**(pod.get("status") or {}), "phase": "Failed"},
                    "DisruptionTarget",
                    "True",
                    now=stamp(self._world.now),
                    reason="DeletionByPodGC",
                    message="PodGC: node no longer exists",
                )
                self._store.update("pods", {**pod, "status": status})
            if self._store.get("pods", *key) is not None:
                self._store.delete("pods", *key, grace_seconds=0)

    # Namespaces

    def _sweep_later(self, name: str) -> None:
        if name not in self._leaving:
            self._leaving.add(name)
            self._later(lambda: self._sweep(name))

    def _sweep(self, name: str) -> None:
        """Delete what is in a terminating namespace; when nothing is left, the namespace itself."""
        self._leaving.discard(name)
        left = 0
        for resource in _namespaced():
            for obj in self._store.list(resource, name):
                metadata = obj["metadata"]
                if not metadata.get("deletionTimestamp"):
                    self._delete_quietly(resource, name, metadata["name"])
                left += self._store.get(resource, name, metadata["name"]) is not None
        if not left:
            self._store.finalize("namespaces", None, name)

    def _delete_quietly(self, resource: str, namespace: str, name: str) -> None:
        try:
            self._store.delete(resource, namespace, name)
        except ApiError as error:
            if error.code != 404:
                raise


def _namespaced() -> Iterable[str]:
    """Events last: the others leave some."""
    keys = [resource.key for resource in RESOURCES if resource.namespaced and resource.key != "events"]
    return [*keys, "events"]


def _waits_for_dependents(metadata: Object) -> bool:
    return any(name in (_FOREGROUND, _ORPHAN) for name in metadata.get("finalizers") or ())


def _blocks(metadata: Object, uid: str) -> bool:
    """Whether a dependent holds up the owner's foreground deletion."""
    return any(
        reference["uid"] == uid and reference.get("blockOwnerDeletion")
        for reference in metadata.get("ownerReferences") or ()
    )
