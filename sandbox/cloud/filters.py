"""EC2's Filters: all must hold, each by one of its values; `*` and `?` are wildcards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from sandbox.cloud.codec import AwsError
from sandbox.cloud.machine import Machine

T = TypeVar("T")
Fields = Mapping[str, Callable[[T], str]]


def machine_fields(now: datetime) -> Fields[Machine]:
    """What instances can be filtered by."""
    return {
        "instance-id": lambda m: m.id,
        "instance-state-name": lambda m: m.state(now)[1],
        "instance-state-code": lambda m: str(m.state(now)[0]),
        "instance-type": lambda m: m.kind.name,
        "instance-lifecycle": lambda m: "spot" if m.spot else "on-demand",
        "availability-zone": lambda m: m.zone,
        "subnet-id": lambda m: m.subnet,
        "vpc-id": lambda m: f"vpc-{m.region}",
        "image-id": lambda m: m.image,
        "client-token": lambda m: m.token,
        "reservation-id": lambda m: m.reservation,
        "private-dns-name": lambda m: m.node_name,
        "private-ip-address": lambda m: m.address,
        "spot-instance-request-id": lambda m: m.spot_request if m.spot else "",
    }


SPOT_FIELDS: Fields[Machine] = {
    "instance-id": lambda m: m.id,
    "spot-instance-request-id": lambda m: m.spot_request,
    "state": lambda m: "active" if m.live else "closed",
    "status-code": lambda m: m.spot_code,
    "launched-availability-zone": lambda m: m.zone,
    "launch.instance-type": lambda m: m.kind.name,
}


def passing(found: Sequence[T], request: Mapping[str, Any], fields: Fields[T]) -> list[T]:
    """Those that pass the request's Filters; AwsError for a filter that there is not, even with nothing to filter."""
    filters = [
        (str(each.get("Name", "")), list(each.get("Values", ()))) for each in request.get("Filters", ())
    ]
    tests = [_test(name, values, fields) for name, values in filters]
    return [each for each in found if all(test(each) for test in tests)]


def _test(name: str, values: Sequence[str], fields: Fields[T]) -> Callable[[T], bool]:
    if name.startswith("tag:"):
        return lambda each: _matches(_tags(each).get(name[4:]), values)
    if name == "tag-key":
        return lambda each: any(_matches(key, values) for key in _tags(each))
    field = fields.get(name)
    if field is None:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return lambda each: _matches(field(each), values)


def _tags(each: object) -> Mapping[str, str]:
    return each.tags if isinstance(each, Machine) else {}


def _matches(value: str | None, patterns: Sequence[str]) -> bool:
    return value is not None and any(
        value == p or fnmatchcase(value, p.replace("[", "[[]")) for p in patterns
    )
