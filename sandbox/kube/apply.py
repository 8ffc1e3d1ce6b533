"""Server-side apply, and who manages which fields.

An apply takes ownership of the fields it names; a field that the same manager named before and no
longer names is removed unless somebody else owns it; a value that differs from another manager's is a
409 unless forced. Every other write owns what it changed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from sandbox.kube.errors import ApiError
from sandbox.kube.fields import (
    MISSING,
    FieldSet,
    Path,
    decode,
    encode,
    find_item,
    is_granular_map,
    item_element,
    list_keys,
    owned_paths,
    owned_values,
    shown,
    value_at,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes, how, and through which subresource."""

    name: str
    operation: str = "Update"
    subresource: str = ""


Ownership = dict[Manager, FieldSet]


def ownership(obj: Object | None) -> Ownership:
    """What an object's managedFields say."""
    entries = (obj or {}).get("metadata", {}).get("managedFields") or ()
    return {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): decode(
            entry.get("fieldsV1") or {}
        )
        for entry in entries
    }


def with_ownership(obj: Object, owners: Ownership, old: Object | None, now: str) -> Object:
    """The object with managedFields; an entry that did not change keeps its time."""
    before = ownership(old)
    times = {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): entry.get("time")
        for entry in (old or {}).get("metadata", {}).get("managedFields") or ()
    }
    entries = []
    for manager in sorted(owners, key=lambda each: (each.operation, each.name, each.subresource)):
        paths = owners[manager]
        if not paths:
            continue
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": obj["apiVersion"],
            "time": times.get(manager) if before.get(manager) == paths else now,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(paths),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def track_update(old: Object | None, new: Object, manager: Manager, now: str) -> Object:
    """The object with its managedFields after a write that is no apply: what it changed is now its own."""
    kind = new["kind"]
    after = owned_values(new, kind, manager.subresource)
    before = owned_values(old, kind, manager.subresource) if old else {}
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    owners = {
        each: paths if each == manager else paths - changed - removed
        for each, paths in ownership(old).items()
    }
    owners[manager] = (owners.get(manager, frozenset()) | changed) - removed
    return with_ownership(new, owners, old, now)


def _differs(old: Object, new: Object, path: Path) -> bool:
    was, now = value_at(old, path), value_at(new, path)
    if was is MISSING or now is MISSING:
        return was is not now
    # A map that is owned as such (it was empty) and an item of a keyed list only come and go.
    if path[-1].startswith("k:") or is_granular_map(now, path):
        return False
    return bool(was != now)


def apply(live: Object, config: Object, manager: Manager, *, force: bool) -> tuple[Object, Ownership]:
    """The live object with a configuration applied, and who owns what then. ApiError 409 on conflicts."""
    kind = live["kind"]
    applied = owned_paths(config, kind, manager.subresource)
    owners = ownership(live)
    last = owners.pop(manager, frozenset())
    merged = _merge(live, _writable(config, manager.subresource), (), kind)
    conflicts = {
        other: sorted(path for path in paths if _differs(live, merged, path))
        for other, paths in owners.items()
    }
    conflicts = {other: paths for other, paths in conflicts.items() if paths}
    if conflicts and not force:
        raise _conflict(conflicts, live["apiVersion"])
    owners = {other: paths - frozenset(conflicts.get(other, ())) for other, paths in owners.items()}
    kept = applied.union(*owners.values())
    for path in sorted(last - kept, key=len):  # an item before what is in it, which names it
        if not any(other[: len(path)] == path for other in kept):
            _remove(merged, path)
    owners[manager] = applied
    return merged, owners


def _writable(config: Object, subresource: str) -> Object:
    """What of a configuration counts: without a subresource all but the status, else only the status."""
    if subresource == "status":
        return {"status": config.get("status") or {}}
    dropped = ("apiVersion", "kind", "status")
    found = {key: value for key, value in config.items() if key not in dropped}
    metadata = {key: value for key, value in found.get("metadata", {}).items() if key != "managedFields"}
    return {**found, "metadata": metadata}


def _merge(live: Any, config: Any, path: Path, kind: str) -> Any:
    if is_granular_map(config, path) and isinstance(live, dict):
        found = dict(live)
        for key, value in config.items():
            found[key] = _merge(live.get(key), value, (*path, f"f:{key}"), kind)
        return found
    keys = list_keys(path, kind) if isinstance(config, list) and path else None
    if keys is None or not isinstance(live, list):
        return copy.deepcopy(config)
    return _merge_items(live, config, path, keys, kind)


def _merge_items(
    live: list[Any], config: list[Any], path: Path, keys: tuple[str, ...], kind: str
) -> list[Any]:
    """Items keep the live order; new ones follow in the configuration's order."""
    wanted = {item_element(item, keys): item for item in config}
    found = []
    for item in live:
        element = item_element(item, keys)
        if element in wanted:
            item = _merge(item, wanted.pop(element), (*path, element), kind)
        found.append(item)
    return found + [copy.deepcopy(item) for item in wanted.values()]


def _remove(obj: Object, path: Path) -> None:
    """Remove the value at a path, copying the way to it, and a map or list that is empty after it."""
    parents: list[tuple[Any, str]] = []
    node: Any = obj
    for element in path[:-1]:
        inner = value_at(node, (element,))
        if inner is MISSING:
            return
        fresh = copy.copy(inner)
        _put(node, element, inner, fresh)
        parents.append((node, element))
        node = fresh
    _drop(node, path[-1])
    while parents and not node and parents[-1][1].startswith("f:"):
        parent, element = parents.pop()
        del parent[element[2:]]
        node = parent


def _put(node: Any, element: str, inner: Any, fresh: Any) -> None:
    if element.startswith("f:"):
        node[element[2:]] = fresh
    else:
        node[next(index for index, item in enumerate(node) if item is inner)] = fresh


def _drop(node: Any, element: str) -> None:
    if element.startswith("f:"):
        if isinstance(node, dict):
            node.pop(element[2:], None)
        return
    found = find_item(node, element)
    if found is not MISSING:
        node[:] = [item for item in node if item is not found]


def _conflict(conflicts: dict[Manager, list[Path]], api_version: str) -> ApiError:
    total = sum(len(paths) for paths in conflicts.values())
    sentences, causes = [], []
    for manager in sorted(conflicts, key=lambda each: each.name):
        who = f'"{manager.name}"'
        if manager.subresource:
            who += f' with subresource "{manager.subresource}"'
        if manager.operation == "Update":
            who += f" using {api_version}"
        paths = [shown(path) for path in conflicts[manager]]
        if len(paths) == 1:
            sentences.append(f"conflict with {who}: {paths[0]}")
        else:
            sentences.append(f"conflicts with {who}:\n" + "\n".join(f"- {path}" for path in paths))
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for path in paths
        ]
    noun = "conflict" if total == 1 else "conflicts"
    message = f"Apply failed with {total} {noun}: " + "\n".join(sentences)
    return ApiError(409, "Conflict", message, {"causes": causes})
