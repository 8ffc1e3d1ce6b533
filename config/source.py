"""YAML as people mean it, with the file and line of every value.

PyYAML's YAML 1.1 turns `no` into False, `010` into 8, `22:22` into 1342, leaves `1e3` a string and takes
the last of two equal keys. This loader reads plain scalars by the YAML 1.2 core rules, refuses duplicate
keys with both lines, and keeps for every value where it stands and how it was written, so that a bad value
gets one sentence with its place (`validate`) and an environment variable keeps its source text (`text`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from fleet.errors import BadInput

Key = str | int
Place = tuple[Key, ...]
Model = TypeVar("Model", bound=BaseModel)

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
MAX_DEPTH = 50
MAX_NODES = 200_000


@dataclass(frozen=True)
class Document:
    """Plain values (`data`) and, for each place in them, its line and its source text."""

    name: str
    data: Any
    lines: Mapping[Place, int] = field(default_factory=dict)
    texts: Mapping[Place, str] = field(default_factory=dict)

    def where(self, place: Sequence[Key] = ()) -> str:
        """`file:line` of the nearest place that exists."""
        known = tuple(place)
        while known and known not in self.lines:
            known = known[:-1]
        return f"{self.name}:{self.lines.get(known, 1)}"

    def text(self, place: Sequence[Key]) -> str | None:
        """A scalar as it was written (`3.10`, not 3.1); None where the place is no scalar."""
        return self.texts.get(tuple(place))


def load_yaml(path: Path) -> Document:
    """Read one YAML file. Raises BadInput with file:line where it cannot be read or parsed."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput("There is no such file.", where=str(path), hint="Check the path.") from None
    except IsADirectoryError:
        raise BadInput("This is a folder, not a file.", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The file cannot be read: {error}.", where=str(path)) from None
    return parse_yaml(content, str(path))


def parse_yaml(content: str, name: str) -> Document:
    """Parse YAML text; `name` stands for the file in messages. Raises BadInput."""
    try:
        documents = list(yaml.compose_all(content, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        shown = content.splitlines()[line - 1 : line]
        hint = "Indent with spaces, not tabs." if shown and "\t" in shown[0] else ""
        raise BadInput(
            f"This is not valid YAML: {error.problem}.", where=f"{name}:{line}", hint=hint
        ) from None
    except yaml.YAMLError as error:
        raise BadInput(f"This is not valid YAML: {str(error).splitlines()[0]}.", where=name) from None
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1
        raise BadInput(
            "There is more than one document in the file.",
            where=f"{name}:{line}",
            hint="Keep one, without ---.",
        )
    builder = _Builder(name)
    data = builder.build(documents[0], ()) if documents and documents[0] is not None else None
    return Document(name, data, builder.lines, builder.texts)


class _Builder:
    """Turns composed YAML nodes into plain values while noting lines and source texts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Place, int] = {}
        self.texts: dict[Place, str] = {}
        self._count = 0

    def build(self, node: yaml.Node, place: Place) -> Any:
        self._count += 1
        line = node.start_mark.line + 1
        if len(place) > MAX_DEPTH or self._count > MAX_NODES:
            raise BadInput("The file is nested too deeply or too large.", where=f"{self.name}:{line}")
        self.lines.setdefault(place, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*place, index)) for index, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        self.texts[place] = node.value
        if node.style is None and node.tag.startswith("tag:yaml.org,2002:"):
            return self._plain(node.value)
        if node.tag not in ("tag:yaml.org,2002:str", "!"):
            raise BadInput(
                f"The tag {node.tag} is not supported here.",
                where=f"{self.name}:{line}",
                hint="Write the plain value.",
            )
        return node.value

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadInput("A key must be plain text.", where=f"{self.name}:{line}")
            key = key_node.value
            if key in first:
                raise BadInput(
                    f"The key {key!r} is there twice, on lines {first[key]} and {line}.",
                    where=f"{self.name}:{line}",
                    hint="Keep one of them.",
                )
            if key == "<<":
                raise BadInput(
                    "Merge keys (<<) are not supported.",
                    where=f"{self.name}:{line}",
                    hint="Repeat the values.",
                )
            first[key] = line
            self.lines[(*place, key)] = line
            found[key] = self.build(value_node, (*place, key))
        return found

    @staticmethod
    def _plain(text: str) -> Any:
        if text in _NULLS:
            return None
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9]+", text, re.ASCII):
            return float(text)
        return text


def validate(document: Document, model: type[Model], at: Place = (), *, data: Any = None) -> Model:
    """The model built from the document's value at a place; BadInput is one sentence with file:line."""
    value = data if data is not None else _value_at(document, at)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        name = ".".join(map(str, at)) or "The file"
        raise BadInput(f"{name} must be a mapping, not {_kind(value)}.", where=document.where(at))
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _sentence(document, model, at, error) from None


def _value_at(document: Document, at: Place) -> Any:
    value = document.data
    for key in at:
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def _kind(value: Any) -> str:
    names = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true/false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "nothing")


def _sentence(document: Document, model: type[BaseModel], at: Place, error: ValidationError) -> BadInput:
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda problem: _rank(document, at, problem))
    place: Place = (*at, *_real_place(document, at, first["loc"]))
    dotted = ".".join(map(str, place)) or "The file"
    where = document.where(place)
    more = f" ({len(problems) - 1} more after this one)" if len(problems) > 1 and not _union(problems) else ""
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        allowed = allowed_keys(model, first["loc"][:-1])
        return BadInput(
            f"{dotted} is not a setting that exists{more}.", where=where, hint=suggestion(key, allowed)
        )
    if first["type"] == "missing":
        return BadInput(f"{dotted} is missing{more}.", where=where, hint=f"Add `{place[-1]}: …`.")
    message = _plain_words(first)
    shown = first.get("input")
    given = (
        f" (given: {shown!r})"
        if isinstance(shown, str | int | float | bool) and repr(shown) not in message
        else ""
    )
    return BadInput(f"{dotted}: {message}{given}{more}.", where=where)


_WORDS = {
    "int_parsing": "it must be a whole number",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "bool_parsing": "it must be true or false",
    "bool_type": "it must be true or false",
    "string_type": "it must be text",
    "tuple_type": "it must be a list",
    "list_type": "it must be a list",
    "dict_type": "it must be a mapping",
    "model_type": "it must be a mapping",
    "path_type": "it must be a path",
}
"""pydantic's type of error → what a person understands"""


def _plain_words(problem: Any) -> str:
    known = _WORDS.get(str(problem["type"]))
    return known or str(problem["msg"]).removeprefix("Value error, ").rstrip(".")


def _union(problems: Sequence[Any]) -> bool:
    """Several branches of one union failed: they are one problem, not many."""
    return len({problem["loc"][:1] for problem in problems}) == 1


def _rank(document: Document, at: Place, problem: Any) -> tuple[int, int, int]:
    place = (*at, *_real_place(document, at, problem["loc"]))
    line = document.lines.get(place, document.lines.get(place[:-1], 0))
    follows = problem["type"] == "too_short"  # an item that failed is missing from its list
    return (int(follows), line, 0 if problem["type"] == "extra_forbidden" else 1)


def _real_place(document: Document, at: Place, loc: Sequence[Key]) -> Place:
    """The part of pydantic's location that exists in the file (it adds names of union branches)."""
    real: list[Key] = []
    for index, key in enumerate(loc):
        candidate = (*at, *real, key)
        is_last = index == len(loc) - 1
        if (
            candidate in document.lines
            or (is_last and not isinstance(key, str))
            or (is_last and re.fullmatch(r"[a-z_]+", str(key)))
        ):
            real.append(key)
    return tuple(real)


def allowed_keys(model: type[BaseModel], path: Sequence[Key]) -> list[str]:
    """The keys a model takes, at a path below it; all keys of the model where the path is not clear."""
    current: Any = model
    for part in path:
        fields = getattr(current, "model_fields", {})
        if isinstance(part, str) and part in fields:
            current = _inner_model(fields[part].annotation) or current
    return list(getattr(current, "model_fields", {}))


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None


def suggestion(word: str, known: Sequence[str]) -> str:
    """`Did you mean 'x'?`, or the list of what exists."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"It can be: {', '.join(sorted(known))}." if known else ""
