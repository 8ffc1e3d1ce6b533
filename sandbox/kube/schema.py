"""The fields and types of every kind, so that what the API server's decoder refuses is refused here too.

The types are those of Kubernetes' published OpenAPI, as the official client carries them. Unknown
fields are dropped (or refused under fieldValidation=Strict), nulls are absent, quantities become
canonical, and a wrong type is a 400.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any

from sandbox.kube.errors import ApiError, bad_request
from sandbox.kube.quantities import canonical
from sandbox.kube.resources import Resource

Object = dict[str, Any]
Convert = Callable[[Any, "_Place"], Any]

_QUANTITIES = {"limits", "requests", "capacity", "allocatable", "overhead", "hard", "used", "min", "max"}
_QUANTITY_FIELDS = {"sizeLimit", "divisor"}
_MICRO_TIMES = {"renewTime", "acquireTime", "eventTime"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNTYPED = {"fieldsV1"}


class Mismatch(ApiError):
    """A value of the wrong type, and where."""

    def __init__(self, struct: str, path: tuple[str, ...], wanted: str, value: Any) -> None:
        field = f"Go struct field {struct}.{'.'.join(path)}" if path else "Go value"
        message = f"json: cannot unmarshal {_json_type(value)} into {field} of type {wanted}"
        super().__init__(400, "BadRequest", message)
        self.typed = f".{'.'.join(path)}: expected {_typed(wanted)}, got {_json_type(value)}"
        """as the typed merge of an apply says it"""


def _typed(wanted: str) -> str:
    known = {"string": "string", "bool": "boolean", "int32": "numeric (int or float)"}
    return known.get(wanted, "list" if wanted.startswith("[]") else "map")


class _Place:
    """Where the conversion is: the path without indexes, the structure, and unknown fields on the way."""

    __slots__ = ("keeps_empty", "path", "struct", "unknown")

    def __init__(
        self, struct: str, path: tuple[str, ...], unknown: list[str], keeps_empty: bool = False
    ) -> None:
        self.struct = struct
        self.path = path
        self.unknown = unknown
        self.keeps_empty = keeps_empty

    def at(self, name: str, struct: str = "") -> _Place:
        return _Place(struct or self.struct, (*self.path, name), self.unknown, self.keeps_empty)

    def mismatch(self, value: Any, wanted: str) -> Mismatch:
        return Mismatch(self.struct, self.path, wanted, value)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number" if isinstance(value, int) else f"number {value}"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def conform(resource: Resource, obj: Object, *, strict: bool = False) -> Object:
    """The object as the server's decoder sees it. ApiError 400 for a wrong type, quantity or time.

    With `strict`, unknown fields are refused as well.
    """
    unknown: list[str] = []
    place = _Place(resource.kind, (), unknown)
    try:
        found: Object = _structure(_model(resource))(obj, place)
    except ApiError as error:
        raise _undecodable(resource, error.message) from None
    if strict and unknown:
        fields = ", ".join(f'unknown field "{name}"' for name in sorted(set(unknown)))
        raise _undecodable(resource, f"strict decoding error: {fields}")
    return found


def conform_applied(resource: Resource, obj: Object) -> Object:
    """Like `conform`, for an apply: it refuses what its schema does not know, with a 500.

    Empty maps and lists stay, because an apply owns them.
    """
    unknown: list[str] = []
    try:
        place = _Place(resource.kind, (), unknown, keeps_empty=True)
        found: Object = _structure(_model(resource))(obj, place)
    except Mismatch as error:
        raise _untyped(resource, obj, error.typed) from None
    except ApiError as error:
        raise _undecodable(resource, error.message) from None
    if unknown:
        raise _untyped(resource, obj, f".{unknown[0]}: field not declared in schema")
    return found


def _untyped(resource: Resource, obj: Object, why: str) -> ApiError:
    metadata = obj.get("metadata") or {}
    named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    message = (
        f"failed to create typed patch object ({named}; {resource.api_version}, Kind={resource.kind}): {why}"
    )
    return ApiError(500, "", message)


def _undecodable(resource: Resource, why: str) -> ApiError:
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


@cache
def _model(resource: Resource) -> Any:
    name = "CoreV1Event" if resource.kind == "Event" else f"V1{resource.kind}"
    file = _SNAKE.sub("_", name).lower().replace("core_v1event", "core_v1_event")
    file = file if file.startswith("core") else file.replace("v1", "v1_", 1)
    module = import_module(f"kubernetes.client.models.{file.replace('__', '_')}")
    return getattr(module, name)


@cache
def _structure(model: Any) -> Convert:
    struct = re.sub(r"^(Core)?V\d", "", model.__name__)
    fields: dict[str, Convert] = {}
    collections: set[str] = set()
    """lists and maps: empty ones are left out, as Go's omitempty does"""

    def convert(value: Any, place: _Place) -> Any:
        if not isinstance(value, dict):
            raise place.mismatch(value, f"v1.{struct}")
        if not fields:
            for name, info in model.model_fields.items():
                own = info.serialization_alias or name
                fields[own] = _converter(info.annotation, own)
                if _is_collection(info.annotation):
                    collections.add(own)
        found = {}
        for key, given in value.items():
            known = fields.get(key)
            if known is None:
                place.unknown.append(".".join((*place.path, key)))
            elif given is not None:
                read = known(given, place.at(key, struct))
                if read or place.keeps_empty or key not in collections:
                    found[key] = read
        return found

    return convert


def _converter(annotation: Any, name: str) -> Convert:
    if name in _UNTYPED:
        return lambda value, _place: value
    if name in _QUANTITY_FIELDS:
        return lambda value, _place: canonical(value)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _converter(arguments[0], name)
    if origin is typing.Union:
        inner = [argument for argument in arguments if argument is not type(None)]
        return _converter(inner[0], name) if len(inner) == 1 else lambda value, _place: value
    if origin is list:
        return _list(_converter(arguments[0], ""), arguments[0])
    if origin is dict:
        quantity = name in _QUANTITIES
        return _map(_quantity if quantity else _converter(arguments[1], ""))
    if annotation is datetime:
        return _time(
            "2006-01-02T15:04:05.000000Z07:00" if name in _MICRO_TIMES else "2006-01-02T15:04:05Z07:00"
        )
    if annotation in _SCALARS:
        return _scalar(annotation)
    return _structure(annotation) if hasattr(annotation, "model_fields") else lambda value, _place: value


def _is_collection(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Union:
        return any(_is_collection(inner) for inner in typing.get_args(annotation))
    return typing.get_origin(annotation) in (list, dict)


def _quantity(value: Any, _place: _Place) -> str:
    return canonical(value)


_SCALARS: dict[Any, tuple[Any, str]] = {
    str: (str, "string"),
    bool: (bool, "bool"),
    int: (int, "int32"),
    float: (int | float, "float64"),
}


def _scalar(annotation: Any) -> Convert:
    accepted, wanted = _SCALARS[annotation]

    def convert(value: Any, place: _Place) -> Any:
        if annotation is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, accepted) or (isinstance(value, bool) and annotation is not bool):
            raise place.mismatch(value, wanted)
        return value

    return convert


def _list(item: Convert, annotation: Any) -> Convert:
    inner = getattr(annotation, "__name__", "string").removeprefix("V1")

    def convert(value: Any, place: _Place) -> Any:
        if not isinstance(value, list):
            raise place.mismatch(value, f"[]v1.{inner}" if inner[:1].isupper() else f"[]{inner}")
        return [item(entry, place) for entry in value if entry is not None]

    return convert


def _map(item: Convert) -> Convert:
    def convert(value: Any, place: _Place) -> Any:
        if not isinstance(value, dict):
            raise place.mismatch(value, "map[string]string")
        return {key: item(entry, place) for key, entry in value.items() if entry is not None}

    return convert


def _time(layout: str) -> Convert:
    micro = "." in layout

    def convert(value: Any, place: _Place) -> Any:
        if not isinstance(value, str):
            raise place.mismatch(value, "string")
        if not _TIME.fullmatch(value):
            raise bad_request(
                f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "{layout[:4]}"'
            )
        moment = datetime.fromisoformat(value.upper().replace("Z", "+00:00"))
        utc = moment.astimezone(UTC)
        return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")

    return convert
