"""Cost Explorer's Expression and GroupBy over items of the bill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.cloud.bill import Item
from sandbox.cloud.codec import AwsError

DIMENSIONS = frozenset(
    {
        "SERVICE",
        "REGION",
        "AZ",
        "INSTANCE_TYPE",
        "USAGE_TYPE",
        "OPERATION",
        "PURCHASE_TYPE",
        "RECORD_TYPE",
        "LINKED_ACCOUNT",
    }
)
Test = Callable[[Item], bool]
Key = Callable[[Item], str]
_NONE = {"AZ": "NoAZ", "INSTANCE_TYPE": "NoInstanceType", "OPERATION": "NoOperation"}
"""what Cost Explorer writes where an item has no such dimension"""


def dimension(item: Item, name: str) -> str:
    """An item's value of a dimension."""
    return item.dimensions.get(name) or _NONE.get(name, f"No{name.title().replace('_', '')}")


def tag(item: Item, key: str, activated: frozenset[str]) -> str:
    """An item's value of a tag; "" where it has none, or where the key is not activated for cost allocation."""
    return item.tags.get(key, "") if key in activated else ""


def group_keys(groups: Sequence[Mapping[str, Any]], activated: frozenset[str]) -> list[Key]:
    """How to read an item's keys; AwsError for what cannot be grouped by."""
    if len(groups) > 2:
        raise AwsError("ValidationException", "GroupBy takes at most two entries.")
    return [_group_key(group, activated) for group in groups]


def _group_key(group: Mapping[str, Any], activated: frozenset[str]) -> Key:
    kind, name = group.get("Type"), str(group.get("Key", ""))
    if kind == "TAG":
        return lambda item: f"{name}${tag(item, name, activated)}"
    if kind == "DIMENSION":
        _check_dimension(name)
        return lambda item: dimension(item, name)
    raise AwsError("ValidationException", f"GroupBy of type {kind!r} is not offered here.")


def expression(given: Mapping[str, Any] | None, activated: frozenset[str]) -> Test:
    """The test of an Expression; AwsError where it is wrong, also with nothing to test."""
    if not given:
        return lambda _: True
    if len(given) != 1:
        raise AwsError("ValidationException", "Expression must have exactly one root operator.")
    name, value = next(iter(given.items()))
    if name in ("And", "Or"):
        return _several(name, value, activated)
    if name == "Not":
        inner = expression(value, activated)
        return lambda item: not inner(item)
    if name == "Dimensions":
        key = str(value.get("Key", ""))
        _check_dimension(key)
        return _leaf(value, lambda item: dimension(item, key))
    if name == "Tags":
        key = str(value.get("Key", ""))
        return _leaf(value, lambda item: tag(item, key, activated))
    raise AwsError("ValidationException", f"{name} is not offered here.")


def _several(name: str, value: Sequence[Mapping[str, Any]], activated: frozenset[str]) -> Test:
    if len(value) < 2:
        raise AwsError("ValidationException", f"{name} needs at least two expressions.")
    tests = [expression(each, activated) for each in value]
    if name == "And":
        return lambda item: all(test(item) for test in tests)
    return lambda item: any(test(item) for test in tests)


def _leaf(value: Mapping[str, Any], read: Key) -> Test:
    values = set(value.get("Values", ()))
    options = list(value.get("MatchOptions") or ["EQUALS"])
    if options == ["ABSENT"]:
        return lambda item: read(item) == ""
    if options in (["EQUALS"], ["EQUALS", "CASE_SENSITIVE"], ["CASE_SENSITIVE"]):
        return lambda item: read(item) in values
    if options == ["STARTS_WITH"]:
        return lambda item: read(item).startswith(tuple(values))
    raise AwsError("ValidationException", f"MatchOptions {options} are not offered here.")


def _check_dimension(name: str) -> None:
    if name not in DIMENSIONS:
        raise AwsError("ValidationException", f"The dimension {name!r} is not valid.")
