"""Label and field selectors as the API server reads them (apimachinery/pkg/labels, pkg/fields)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sandbox.kube.errors import ApiError, bad_request
from sandbox.kube.names import label_key_problem, label_value_problem
from sandbox.kube.resources import Resource

Object = dict[str, Any]
_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key. `operator` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; `notin` is also satisfied by a label that is not there."""
        value = labels.get(self.key)
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        if self.operator == "notin":
            return value not in self.values
        if value is None:
            return False
        if self.operator == "in":
            return value in self.values
        return self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "gt" else left < right


Requirements = tuple[Requirement, ...]


def matches_labels(requirements: Requirements, obj: Object) -> bool:
    """Whether an object's labels satisfy all requirements."""
    if not requirements:
        return True
    labels = obj["metadata"].get("labels") or {}
    return all(requirement.matches(labels) for requirement in requirements)


class _Parser:
    """Recursive descent over the tokens of one label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> Requirements:
        found: list[Requirement] = []
        if not self._tokens:
            return ()
        while True:
            found.append(self._requirement())
            token = self._next()
            if token == "":
                return tuple(found)
            if token != ",":
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._next()
        if not key or key in "=!,()<>==":
            raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
        if problem := label_key_problem(key):
            raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {problem}')
        if negated:
            return Requirement(key, "absent")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        return self._condition(key)

    def _condition(self, key: str) -> Requirement:
        operator = self._next()
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        known = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
        if operator not in known:
            raise bad_request(f"unable to parse requirement: found '{operator}', expected: {_OPERATORS}")
        value = "" if self._peek() in ("", ",") else self._next()
        if value in ("=", "==", "!=", "(", ")", "!"):
            raise bad_request(f"unable to parse requirement: found '{value}', expected: identifier")
        if problem := label_value_problem(value):
            raise bad_request(
                f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {problem}'
            )
        return Requirement(key, known[operator], (value,))

    def _values(self) -> tuple[str, ...]:
        if self._next() != "(":
            raise bad_request(f"unable to parse requirement: found '{self._peek()}', expected: '('")
        values: list[str] = []
        wants_value = True
        while True:
            token = self._next()
            if token == ")":
                return tuple(sorted({*values, ""} if wants_value else set(values)))
            if token == "," and not wants_value:
                wants_value = True
            elif token not in ("", ",", "(", "=", "==", "!=", "!") and wants_value:
                values.append(token)
                wants_value = False
            else:
                raise bad_request(f"unable to parse requirement: found '{token}', expected: ',' or ')'")


@lru_cache(maxsize=512)
def parse_labels(text: str) -> Requirements:
    """A `labelSelector` parameter; ApiError 400 where it cannot be read."""
    return _Parser(text).requirements()


_EXPRESSION_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def requirements_of(selector: Mapping[str, Any] | None) -> Requirements | None:
    """A LabelSelector object as requirements; None (selects nothing) where there is no selector."""
    if selector is None:
        return None
    found = [Requirement(key, "in", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        found.append(Requirement(expression["key"], _EXPRESSION_OPERATORS[expression["operator"]], values))
    return tuple(found)


# Field selectors

Reader = Callable[[Object], str]


def _path(*names: str) -> Reader:
    def read(obj: Object) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return "" if value is None else str(value)

    return read


def _or(first: Reader, default: str) -> Reader:
    return lambda obj: first(obj) or default


_METADATA: dict[str, Reader] = {
    "metadata.name": _path("metadata", "name"),
    "metadata.namespace": _path("metadata", "namespace"),
}
_FIELDS: dict[str, dict[str, Reader]] = {
    "pods": {
        "spec.nodeName": _path("spec", "nodeName"),
        "spec.restartPolicy": _path("spec", "restartPolicy"),
        "spec.schedulerName": _path("spec", "schedulerName"),
        "spec.serviceAccountName": _path("spec", "serviceAccountName"),
        "spec.hostNetwork": _or(_path("spec", "hostNetwork"), "false"),
        "status.phase": _path("status", "phase"),
        "status.podIP": _path("status", "podIP"),
        "status.nominatedNodeName": _path("status", "nominatedNodeName"),
    },
    "nodes": {"spec.unschedulable": _or(_path("spec", "unschedulable"), "false")},
    "namespaces": {"status.phase": _path("status", "phase")},
    "jobs.batch": {"status.successful": _or(_path("status", "succeeded"), "0")},
    "secrets": {"type": _path("type")},
    "events": {
        **{
            f"involvedObject.{name}": _path("involvedObject", name)
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": _path("reason"),
        "reportingComponent": _path("reportingComponent"),
        "source": _path("source", "component"),
        "type": _path("type"),
    },
}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on one field."""

    field: str
    value: str
    equal: bool
    read: Reader

    def matches(self, obj: Object) -> bool:
        """Whether the object's field has, or has not, the value."""
        return (self.read(obj) == self.value) is self.equal


FieldTerms = tuple[FieldTerm, ...]


@lru_cache(maxsize=512)
def parse_fields(text: str, resource: Resource) -> FieldTerms:
    """A `fieldSelector` parameter; ApiError 400 for a form or field that the resource does not support."""
    found = []
    readers = _METADATA | _FIELDS.get(resource.key, {})
    for part in _split(text):
        match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        name, operator, value = match.groups()
        if name not in readers:
            raise _unsupported_field(name, resource)
        unescaped = re.sub(r"\\([\\,=])", r"\1", value)
        found.append(FieldTerm(name, unescaped, operator != "!=", readers[name]))
    return tuple(found)


def _split(text: str) -> Sequence[str]:
    return [part for part in re.split(r"(?<!\\),", text) if part]


def _unsupported_field(name: str, resource: Resource) -> ApiError:
    if resource.key in ("pods", "nodes", "namespaces", "events", "secrets"):
        return bad_request(f"field label not supported: {name}")
    if resource.key == "jobs.batch":
        return bad_request(f'field label "{name}" not supported for Job')
    return bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def matches_fields(terms: FieldTerms, obj: Object) -> bool:
    """Whether the object satisfies all terms."""
    return all(term.matches(obj) for term in terms)
