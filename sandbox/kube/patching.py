"""JSON merge patch, strategic merge patch and JSON patch.

Sources: RFC 7386, RFC 6902, k8s.io/apimachinery/pkg/util/strategicpatch. Merge keys are those of the
built-in types' `patchMergeKey` tags.
"""

from __future__ import annotations

import copy
from typing import Any

from sandbox.kube.errors import ApiError, bad_request

Object = dict[str, Any]

MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "secrets": "name",
}
"""Field name → key, for lists that are merged; `ports` depends on where it stands."""
_PRIMITIVE_SETS = {"finalizers"}


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch: null removes, objects merge, everything else replaces. Nothing given is changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def strategic(target: Any, patch: Object, path: tuple[str, ...] = ()) -> Any:
    """Strategic merge patch of an object. Lists with a merge key are merged item by item."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(found, key, value)
        elif value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = strategic(found.get(key), value, (*path, key))
        elif isinstance(value, list):
            found[key] = _list(found.get(key), value, (*path, key))
        else:
            found[key] = value
    return found


def _directive(found: Object, key: str, value: Any) -> None:
    if key.startswith("$deleteFromPrimitiveList/"):
        name = key.partition("/")[2]
        if name in found:
            found[name] = [item for item in found[name] if item not in value]
    elif key == "$retainKeys":
        for name in [name for name in found if name not in value]:
            del found[name]


def merge_key(path: tuple[str, ...]) -> str | None:
    """The key by which the list at a path is merged; None = it is replaced."""
    name = path[-1]
    if name == "ports":
        return "containerPort" if len(path) > 1 and path[-2] in ("containers", "initContainers") else "port"
    return MERGE_KEYS.get(name)


def _list(target: Any, patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    current = target if isinstance(target, list) else []
    if path[-1] in _PRIMITIVE_SETS:
        added = [item for item in patch if item not in current]
        return [*added, *current]
    key = merge_key(path)
    if key is None or (patch and not isinstance(patch[0], dict)):
        return copy.deepcopy(patch)
    if any(item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(item) for item in patch if item.get("$patch") != "replace"]
    return _merged_items(current, patch, key, path)


def _merged_items(current: list[Any], patch: list[Any], key: str, path: tuple[str, ...]) -> list[Any]:
    deleted, merged, fresh = set(), dict[Any, Object](), list[Object]()
    known = {item.get(key): item for item in current}
    for item in patch:
        if key not in item:
            shown = " ".join(f"{name}:{value}" for name, value in sorted(item.items()))
            message = f"map: map[{shown}] does not contain declared merge key: {key}"
            raise ApiError(500, "", message)
        if item.get("$patch") == "delete":
            deleted.add(item[key])
        elif item[key] in known:
            merged[item[key]] = strategic(known[item[key]], item, path)
        else:
            fresh.append(strategic({}, item, path))
    kept = [item for item in current if item.get(key) not in deleted]
    # The server keeps the patch's order: items it names come first where new ones precede known ones.
    named = [item[key] for item in patch if item.get("$patch") != "delete"]
    by_key = {item[key]: item for item in fresh} | merged
    if fresh:
        rest = [item for item in kept if item.get(key) not in by_key]
        return [by_key[name] for name in named] + rest
    return [merged.get(item.get(key), item) for item in kept]


# JSON patch


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902; ApiError 422 where an operation cannot be done, 400 where it is no list of operations."""
    if not isinstance(operations, list) or not all(isinstance(step, dict) for step in operations):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    document = copy.deepcopy(target)
    for step in operations:
        document = _operate(document, step)
    return document


def _refused() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")


def _operate(document: Any, step: Object) -> Any:
    operation, path = step.get("op"), _pointer(step.get("path"))
    if operation == "test":
        if _read(document, path) != step.get("value"):
            raise _refused()
        return document
    if operation == "remove":
        return _removed(document, path)
    if operation == "replace":
        _read(document, path)
        return _added(_removed(document, path), path, step.get("value")) if path else step.get("value")
    if operation == "add":
        return _added(document, path, step.get("value"))
    if operation in ("move", "copy"):
        source = _pointer(step.get("from"))
        value = copy.deepcopy(_read(document, source))
        return _added(_removed(document, source) if operation == "move" else document, path, value)
    raise _refused()


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _refused()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _refused() from None
    return document


def _removed(document: Any, path: list[str]) -> Any:
    _read(document, path)
    if not path:
        return None
    parent = _read(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document


def _added(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else int(path[-1]) if path[-1].isdigit() else -1
        if not 0 <= at <= len(parent):
            raise _refused()
        parent.insert(at, value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _refused()
    return document
