"""Every setting of the settings file: its type, default and meaning, read from the models that own it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import time, timedelta
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bot.terminal import SECTIONS
from config.settings import CoreSettings
from fleet.values import Money, format_duration

_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    Money: "dollars",
    timedelta: "duration",
    ZoneInfo: "time zone",
    time: "time of day",
}
_BELOW = "see below"


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the reference."""

    name: str
    type: str
    default: str
    meaning: str


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Where a model stands in the file (`pools[].regions[]`), and the model."""
    yield "", CoreSettings
    yield from _below("", CoreSettings)
    for name, model in SECTIONS.items():
        yield name, model
        yield from _below(f"{name}.", model)


def _below(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        found, many = _model_in(field.annotation)
        if found is not None:
            path = f"{prefix}{name}{'[]' if many else ''}"
            yield path, found
            yield from _below(f"{path}.", found)


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    found = next((each for each in map(_model_in, get_args(annotation)) if each[0]), (None, False))
    return found[0], found[1] or get_origin(annotation) is tuple


def settings_of(model: type[BaseModel]) -> tuple[Setting, ...]:
    """The settings of one model, in its order."""
    meanings = _docstrings(model)
    return tuple(
        Setting(name, _type(field.annotation) + _bounds(field), _default(field), meanings.get(name, ""))
        for name, field in model.model_fields.items()
    )


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The strings that stand right below the fields."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str() as words)):
                    found[field.target.id] = " ".join(words.split())
    return found


def _type(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin is Annotated:
        return _type(inside[0])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inside)
    if origin is tuple:
        of = _type(inside[0])
        return f"list, {of}" if of == _BELOW else f"list of {of}"
    if origin is dict:
        return "names and values"
    if _model_in(annotation)[0] is not None:
        return _BELOW
    return " or ".join(_type(each) for each in inside if each is not NoneType)


def _bounds(field: FieldInfo) -> str:
    parts = []
    for bound in field.metadata:
        match bound:
            case Ge(ge=least):
                parts.append(f"≥ {least}")
            case Gt(gt=above):
                parts.append(f"> {above}")
            case Le(le=most):
                parts.append(f"≤ {most}")
    return f" ({', '.join(parts)})" if parts else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", (), {}):
        return "none"
    return f"`{_written(value)}`"


def _written(value: Any) -> str:
    """As it would stand in the file."""
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return format_duration(value).replace(" ", "")
        case Money():
            return value.exact().rstrip("0").rstrip(".")
        case time():
            return f'"{value:%H:%M}"'
        case tuple():
            return f"[{', '.join(map(_written, value))}]"
        case _:
            return str(value)


def settings_tables() -> str:
    """A heading and a table for every part of the file."""
    return "\n".join(_part(path, model) for path, model in sections())


def _part(path: str, model: type[BaseModel]) -> str:
    heading = f"`{path}`" if path else "The file"
    rows = [f"| `{s.name}` | {s.type} | {s.default} | {s.meaning} |" for s in settings_of(model)]
    head = "| setting | type | default | meaning |\n| --- | --- | --- | --- |\n"
    about = " ".join((model.__doc__ or "").split())
    return f"### {heading}\n\n{about}\n\n{head}" + "\n".join(rows) + "\n"
