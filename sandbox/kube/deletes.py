"""Ending objects: delete, deletecollection, eviction; and binding pods to nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.kube.admission import with_topology_labels
from sandbox.kube.disruption import refusal
from sandbox.kube.errors import ApiError, Cause, bad_request, conflict, forbidden, invalid
from sandbox.kube.resources import Resource
from sandbox.kube.routes import ApiRequest
from sandbox.kube.store import Store, timestamp
from sandbox.kube.watches import Filter

Object = dict[str, Any]
Answer = tuple[int, Object]

_PROTECTED = ("default", "kube-system", "kube-public")
_POLICIES = ("Foreground", "Background", "Orphan")
_ANSWERS_WITH_OBJECT = ("pods", "services", "persistentvolumeclaims", "serviceaccounts", "namespaces")
"""What is deleted at once is answered with a Status, except for these."""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    grace_seconds: int | None
    propagation: str
    uid: str | None = None
    version: str | None = None


def success(**details: Any) -> Object:
    """A Status of success."""
    found: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**found, **details}


def read_options(asked: ApiRequest, body: Object) -> DeleteOptions:
    """DeleteOptions from the body, or the query where the body has none. ApiError 422, 400."""
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = asked.integer("gracePeriodSeconds")
    policy = body.get("propagationPolicy") or asked.query.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in asked.query:
        orphan = asked.flag("orphanDependents")
    if policy and policy not in _POLICIES:
        why = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = Cause("unsupported", "propagationPolicy", why, policy)
        raise invalid("DeleteOptions", "meta.k8s.io", "", [cause])
    if not policy and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if not policy:
        # batch/v1 keeps the old default of its kind: dependents are orphaned unless asked otherwise.
        policy = "Orphan" if asked.resource.key == "jobs.batch" else "Background"
    wanted = body.get("preconditions") or {}
    if grace is not None and grace < 0:
        grace = 1
    return DeleteOptions(grace, policy, wanted.get("uid"), wanted.get("resourceVersion"))


class Deleter:
    """The ending half of one cluster's API. Raises ApiError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def delete(self, asked: ApiRequest, options: DeleteOptions) -> Answer:
        """DELETE of one object."""
        resource = asked.resource
        if resource.key == "namespaces" and asked.name in _PROTECTED:
            raise forbidden("namespaces", asked.name, "this namespace may not be deleted")
        found = self._store.must_get(resource.key, asked.namespace, asked.name)
        _check(resource, found, options)
        deleted = self._delete(asked, found, options)
        gone = self._store.get(resource.key, asked.namespace, asked.name) is None
        if gone and resource.key not in _ANSWERS_WITH_OBJECT:
            named = {"name": asked.name, "group": resource.group, "kind": resource.plural}
            details = {key: value for key, value in named.items() if value}
            return 200, success(details={**details, "uid": found["metadata"]["uid"]})
        return 200, deleted

    def _delete(self, asked: ApiRequest, found: Object, options: DeleteOptions) -> Object:
        key, metadata = asked.resource.key, found["metadata"]
        if asked.dry_run:
            return self._store.marked(key, found, options.grace_seconds, options.propagation)
        return self._store.delete(
            key,
            metadata.get("namespace"),
            metadata["name"],
            grace_seconds=options.grace_seconds,
            propagation=options.propagation,
        )

    def delete_collection(self, asked: ApiRequest, options: DeleteOptions, chosen: Filter) -> Answer:
        """DELETE of all objects that a selector matches."""
        resource = asked.resource
        listed = self._store.list(resource.key, asked.namespace or None)
        found = [obj for obj in listed if chosen.matches(obj)]
        deleted = [self._delete(asked, obj, options) for obj in found]
        return 200, {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._store.version)},
            "items": [_item(obj) for obj in deleted],
        }

    def evict(self, asked: ApiRequest, body: Object) -> Answer:
        """POST to pods/eviction: delete, unless a PodDisruptionBudget forbids it (429)."""
        name = (body.get("metadata") or {}).get("name") or asked.name
        if name != asked.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = read_options(asked, body.get("deleteOptions") or {})
        pod = self._store.must_get("pods", asked.namespace, asked.name)
        _check(asked.resource, pod, options)
        if (error := refusal(self._store, pod)) is not None:
            raise error
        if not asked.dry_run and not (body.get("deleteOptions") or {}).get("dryRun"):
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
                pod = self._store.update("pods", self._disrupted(pod))
            self._delete(asked, pod, options)
        return 201, success(code=201)

    def _disrupted(self, pod: Object) -> Object:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": timestamp(self._store.world.now),
        }
        return _with_condition(pod, condition)

    def bind(self, asked: ApiRequest, body: Object) -> Answer:
        """POST to pods/binding: give the pod its node."""
        node = (body.get("target") or {}).get("name")
        if not node:
            raise ApiError(500, "", "target.name: Required value")
        pod = self._store.must_get("pods", asked.namespace, asked.name)
        why = ""
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {asked.name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            why = f'pod {asked.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            why = f"pod {asked.name} has non-empty .spec.schedulingGates"
        if why:
            raise conflict("pods/binding", asked.name, why)
        if not asked.dry_run:
            condition = {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": timestamp(self._store.world.now),
            }
            bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
            bound = with_topology_labels(bound, self._store.get("nodes", None, node))
            self._store.update("pods", _with_condition(bound, condition))
        return 201, success(code=201)


def _with_condition(pod: Object, condition: Object) -> Object:
    status = pod.get("status") or {}
    others = [each for each in status.get("conditions") or () if each.get("type") != condition["type"]]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _item(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _check(resource: Resource, found: Object, options: DeleteOptions) -> None:
    metadata = found["metadata"]
    pairs = (
        ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.version, metadata["resourceVersion"], "modified"),
    )
    for title, wanted, actual, cause in pairs:
        if wanted is not None and wanted != actual:
            why = (
                f"the {title} in the precondition ({wanted}) does not match the {title} in record "
                f"({actual}). The object might have been {cause}"
            )
            kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            raise conflict(kind, metadata["name"], why)
