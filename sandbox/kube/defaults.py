"""Defaults that the API server fills in, and what its admission adds (priority, tolerations).

Sources: k8s.io/kubernetes/pkg/apis/{core,batch}/v1/defaults.go, pkg/registry/*/strategy.go,
plugin/pkg/admission/{priority,defaulttolerationseconds}. Functions never change what they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Getter = Callable[[str, str | None, str], Object | None]


def prepare(resource: str, obj: Object, get: Getter) -> Object:
    """The object as the server would store it on create. `get` looks up a PriorityClass."""
    default = _BY_RESOURCE.get(resource)
    return default(obj, get) if default else obj


def _missing(obj: Object, **values: Any) -> Object:
    """The values whose keys are absent or null in the object, added."""
    return {**obj, **{key: value for key, value in values.items() if obj.get(key) is None}}


def _namespace(obj: Object, _get: Getter) -> Object:
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **obj,
        "metadata": {**metadata, "labels": labels},
        "spec": _missing(obj.get("spec") or {}, finalizers=["kubernetes"]),
        "status": _missing(obj.get("status") or {}, phase="Active"),
    }


_BY_RESOURCE: dict[str, Callable[[Object, Getter], Object]] = {
    "namespaces": _namespace,
}
