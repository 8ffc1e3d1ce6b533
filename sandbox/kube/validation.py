"""What the API server refuses with 422, kind by kind: metadata here, pods and Jobs in their own modules.

Sources: k8s.io/apimachinery/pkg/api/validation, k8s.io/kubernetes/pkg/apis/*/validation; the sentences
are compared with those of a real 1.36 API server.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from sandbox.kube.errors import Cause, bad_request
from sandbox.kube.names import (
    config_key_problem,
    label_key_problem,
    label_problem,
    label_value_problem,
    service_problem,
    subdomain_problem,
)
from sandbox.kube.resources import Resource
from sandbox.kube.validation_jobs import validate_job, validate_job_update
from sandbox.kube.validation_pods import validate_pod, validate_pod_update

Object = dict[str, Any]
Causes = list[Cause]

ANNOTATION_BYTES = 256 * 1024
DATA_BYTES = 1024 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_NAME_RULES: dict[str, Callable[[str], str]] = {"namespaces": label_problem, "services": service_problem}
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_create(resource: Resource, obj: Object) -> Causes:
    """Everything wrong with a new object, defaults filled in."""
    causes = _name(resource, obj["metadata"])
    causes += validate_metadata(obj["metadata"])
    rule = _CREATE.get(resource.key)
    return causes + (rule(obj) if rule else [])


def validate_update(resource: Resource, new: Object, old: Object, subresource: str) -> Causes:
    """Everything wrong with a changed object; `subresource` "" or status."""
    causes = _metadata_update(new["metadata"], old["metadata"])
    if subresource == "status":
        rule = _STATUS.get(resource.key)
        return causes + (rule(new) if rule else [])
    create, update = _CREATE.get(resource.key), _UPDATE.get(resource.key)
    if create and new != old:
        causes += create(new)
    return causes + (update(new, old) if update else [])


def _name(resource: Resource, metadata: Object) -> Causes:
    rule = _NAME_RULES.get(resource.key, subdomain_problem)
    name = metadata.get("name", "")
    if not name:
        return [Cause("required", "metadata.name", "name or generateName is required")]
    if problem := rule(name):
        return [Cause("invalid", "metadata.name", problem, name)]
    return []


def validate_labels(labels: Object | None, field: str) -> Causes:
    """Keys and values of a label map."""
    causes: Causes = []
    for key, value in (labels or {}).items():
        if problem := label_key_problem(key):
            causes.append(Cause("invalid", field, problem, key))
        if problem := label_value_problem(value):
            causes.append(Cause("invalid", field, problem, value))
    return causes


def validate_metadata(metadata: Object) -> Causes:
    """Labels, annotations, finalizers and owners."""
    causes = validate_labels(metadata.get("labels"), "metadata.labels")
    size = 0
    for key, value in (metadata.get("annotations") or {}).items():
        size += len(key.encode()) + len(value.encode())
        if problem := label_key_problem(key.lower()):
            causes.append(Cause("invalid", "metadata.annotations", problem, key))
    if size > ANNOTATION_BYTES:
        causes.append(
            Cause("too long", "metadata.annotations", f"may not be more than {ANNOTATION_BYTES} bytes")
        )
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                causes.append(
                    Cause("invalid", f"metadata.ownerReferences[{index}].{name}", "must not be empty", "")
                )
    return causes + _finalizers(metadata.get("finalizers") or ())


def _finalizers(finalizers: Any) -> Causes:
    causes: Causes = []
    for index, name in enumerate(finalizers):
        field = f"metadata.finalizers[{index}]"
        if problem := label_key_problem(name):
            causes.append(Cause("invalid", field, problem, name))
        elif "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(Cause("invalid", field, why, name))
    return causes


def _metadata_update(new: Object, old: Object) -> Causes:
    causes: Causes = []
    for field in ("uid", "creationTimestamp"):
        if new.get(field) not in (None, old.get(field)):
            causes.append(Cause("invalid", f"metadata.{field}", "field is immutable", new[field]))
    if new == old:
        return causes
    causes += validate_metadata(new)
    added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if old.get("deletionTimestamp") and added:
        shown = "{" + ", ".join(f'"{name}"' for name in added) + "}"
        why = (
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{shown}"
        )
        causes.append(Cause("forbidden", "metadata.finalizers", why))
    return causes


def _node(obj: Object) -> Causes:
    causes: Causes = []
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        field = f"metadata.taints[{index}]"
        if problem := label_key_problem(taint.get("key") or ""):
            causes.append(Cause("invalid", f"{field}.key", problem, taint.get("key", "")))
        if problem := label_value_problem(taint.get("value") or ""):
            causes.append(Cause("invalid", f"{field}.value", problem, taint.get("value", "")))
        if taint.get("effect") not in _TAINT_EFFECTS:
            listed = ", ".join(f'"{effect}"' for effect in _TAINT_EFFECTS)
            why = f"supported values: {listed}"
            causes.append(Cause("unsupported", f"{field}.effect", why, taint.get("effect", "")))
    return causes


def _node_update(new: Object, old: Object) -> Causes:
    was, now = (obj.get("spec", {}).get("providerID") or "" for obj in (old, new))
    if was and was != now:
        why = 'node updates may not change providerID except from "" to valid'
        return [Cause("forbidden", "spec.providerID", why)]
    return []


def _service(obj: Object) -> Causes:
    spec, causes = obj["spec"], []
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(Cause("required", "spec.ports"))
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            causes.append(Cause("required", f"{field}.name"))
        for name in ("port", "targetPort"):
            number = port.get(name)
            if isinstance(number, int) and not 1 <= number <= 65535:
                why = "must be between 1 and 65535, inclusive"
                causes.append(Cause("invalid", f"{field}.{name}", why, number))
    return causes


def _service_update(new: Object, old: Object) -> Causes:
    was, now = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if was and was != now:
        return [Cause("invalid", "spec.clusterIPs[0]", "may not change once set", [now])]
    return []


def _config_map(obj: Object) -> Causes:
    causes: Causes = []
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (obj.get(field) or {}).items():
            if problem := config_key_problem(key):
                causes.append(Cause("invalid", f"{field}[{key}]", problem, key))
            size += len(value.encode())
    if size > DATA_BYTES:
        causes.append(Cause("too long", "[]", f"may not be more than {DATA_BYTES} bytes"))
    return causes


def _data_update(new: Object, old: Object) -> Causes:
    if not old.get("immutable"):
        return []
    return [
        Cause("forbidden", field, "field is immutable when `immutable` is set")
        for field in ("immutable", "data", "binaryData")
        if new.get(field) != old.get(field)
    ]


def decode_secret(obj: Object) -> Object:
    """stringData becomes data; ApiError 400 for data that is not base64."""
    data = dict(obj.get("data") or {})
    for value in data.values():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            why = "illegal base64 data at input byte 0"
            raise bad_request(f'Secret in version "v1" cannot be handled as a Secret: {why}') from None
    for key, text in (obj.get("stringData") or {}).items():
        data[key] = base64.b64encode(text.encode()).decode()
    found = {key: value for key, value in obj.items() if key != "stringData"}
    return {**found, "data": data} if data else found


def _lease(obj: Object) -> Causes:
    spec, causes = obj.get("spec") or {}, []
    duration, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(Cause("invalid", "spec.leaseDurationSeconds", "must be greater than 0", duration))
    if changes is not None and changes < 0:
        causes.append(
            Cause("invalid", "spec.leaseTransitions", "must be greater than or equal to 0", changes)
        )
    return causes


def _event(obj: Object) -> Causes:
    namespace = (obj.get("involvedObject") or {}).get("namespace") or "default"
    if obj["metadata"]["namespace"] != namespace:
        why = "does not match event.namespace"
        return [Cause("invalid", "involvedObject.namespace", why, namespace)]
    return []


def _priority_class_update(new: Object, old: Object) -> Causes:
    if new.get("value") != old.get("value"):
        return [Cause("forbidden", "value", "may not be changed in an update.")]
    return []


def _job_status(obj: Object) -> Causes:
    status = obj.get("status") or {}
    return [
        Cause("invalid", f"status.{name}", "must be greater than or equal to 0", status[name])
        for name in ("active", "succeeded", "failed", "ready", "terminating")
        if (status.get(name) or 0) < 0
    ]


_CREATE: dict[str, Callable[[Object], Causes]] = {
    "pods": validate_pod,
    "jobs.batch": validate_job,
    "nodes": _node,
    "services": _service,
    "configmaps": _config_map,
    "secrets": _config_map,
    "leases.coordination.k8s.io": _lease,
    "events": _event,
}
_UPDATE: dict[str, Callable[[Object, Object], Causes]] = {
    "pods": validate_pod_update,
    "jobs.batch": validate_job_update,
    "nodes": _node_update,
    "services": _service_update,
    "configmaps": _data_update,
    "secrets": _data_update,
    "priorityclasses.scheduling.k8s.io": _priority_class_update,
}
_STATUS: dict[str, Callable[[Object], Causes]] = {"jobs.batch": _job_status}
