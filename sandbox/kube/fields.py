"""Sets of field paths, as managedFields write them (sigs.k8s.io/structured-merge-diff FieldsV1).

A path is a tuple of elements: `f:name` a field, `k:{"name":"c"}` an item of a keyed list, `v:"x"` an
item of a set. Which lists are keyed and which maps are replaced as a whole are those of the built-in
types' `x-kubernetes-list-type` and `x-kubernetes-map-type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]
FieldSet = frozenset[Path]

MISSING = object()
_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
}
_ATOMIC_MAPS = {
    "selector",
    "labelSelector",
    "nodeSelector",
    "fieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "resourceFieldRef",
    "involvedObject",
    "fieldsV1",
}
_DEFAULTS = {"protocol": "TCP"}
_UNOWNED = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
}


def list_keys(path: Path, kind: str) -> tuple[str, ...] | None:
    """The keys of the list at a path; () for a set, None where it is replaced as a whole."""
    name = path[-1][2:]
    if name == "finalizers":
        return ()
    if name == "ports":
        inside = len(path) > 2 and path[-3] in ("f:containers", "f:initContainers")
        return ("containerPort", "protocol") if inside else ("port", "protocol")
    if name == "conditions" and kind == "Job":
        return None
    return _KEYS.get(name)


def item_element(item: Any, keys: tuple[str, ...]) -> str:
    """The path element of a list's item."""
    if not keys:
        return "v:" + json.dumps(item)
    chosen = {key: item.get(key, _DEFAULTS.get(key)) for key in sorted(keys)}
    return "k:" + json.dumps({k: v for k, v in chosen.items() if v is not None}, separators=(",", ":"))


def is_granular_map(value: Any, path: Path) -> bool:
    """A map whose fields are owned one by one."""
    return isinstance(value, dict) and (not path or path[-1][2:] not in _ATOMIC_MAPS)


def owned_paths(obj: Object, kind: str, subresource: str = "") -> FieldSet:
    """The paths that somebody who wrote the object owns: without what only the server writes.

    Without a subresource the status is left out; with `status` everything else is.
    """
    return frozenset(owned_values(obj, kind, subresource))


def owned_values(obj: Object, kind: str, subresource: str = "") -> dict[Path, Any]:
    """The paths of `owned_paths` with their values; an item of a keyed list has no value of its own."""
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        if name in ("apiVersion", "kind") or (name == "status") is not (subresource == "status"):
            continue
        if name == "metadata":
            value = {key: inner for key, inner in value.items() if key not in _UNOWNED}
            if not value:
                continue
        _collect(value, (f"f:{name}",), kind, found)
    return found


def _collect(value: Any, path: Path, kind: str, found: dict[Path, Any]) -> None:
    if is_granular_map(value, path) and value:
        for key, inner in value.items():
            _collect(inner, (*path, f"f:{key}"), kind, found)
        return
    keys = list_keys(path, kind) if isinstance(value, list) and value else None
    if keys is None:
        found[path] = value
        return
    for item in value:
        element = (*path, item_element(item, keys))
        found[element] = None
        if isinstance(item, dict):
            for key, inner in item.items():
                _collect(inner, (*element, f"f:{key}"), kind, found)


def value_at(obj: Any, path: Path) -> Any:
    """The value at a path; MISSING where there is none."""
    for element in path:
        if element.startswith("f:"):
            obj = obj.get(element[2:], MISSING) if isinstance(obj, dict) else MISSING
        else:
            obj = find_item(obj, element)
        if obj is MISSING:
            return MISSING
    return obj


def find_item(items: Any, element: str) -> Any:
    """The item of a list that an element names."""
    if not isinstance(items, list):
        return MISSING
    wanted = json.loads(element[2:])
    for item in items:
        if element.startswith("v:"):
            if item == wanted:
                return item
        elif all(item.get(key, _DEFAULTS.get(key)) == value for key, value in wanted.items()):
            return item
    return MISSING


def encode(paths: Iterable[Path]) -> Object:
    """FieldsV1: nested by element, `.` for an item that is itself owned beside what is in it."""
    root: Object = {}
    members = sorted(paths)
    for path in members:
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in members:
        node = root
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return root


def decode(fields: Object) -> FieldSet:
    """The paths of FieldsV1."""
    return frozenset(_members(fields, ()))


def _members(node: Object, path: Path) -> Iterator[Path]:
    if not node:
        yield path
        return
    for element, inner in node.items():
        if element == ".":
            yield path
        else:
            yield from _members(inner, (*path, element))


def shown(path: Path) -> str:
    """A path for people: `.spec.template.spec.containers[name="c"].image`."""
    parts = []
    for element in path:
        if element.startswith("f:"):
            parts.append(f".{element[2:]}")
        elif element.startswith("v:"):
            parts.append(f"[={element[2:]}]")
        else:
            pairs = json.loads(element[2:]).items()
            parts.append("[" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs) + "]")
    return "".join(parts)
