"""Label selectors, node selector terms, taints and tolerations, as the scheduler matches them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Requirement = tuple[str, str, tuple[str, ...]]
"""(key, operator, values)"""
Selector = tuple[Requirement, ...] | None
"""All requirements have to hold; None (no selector at all) matches nothing, an empty one everything."""


def compile_selector(selector: Mapping[str, Any] | None) -> Selector:
    """A LabelSelector as requirements."""
    if selector is None:
        return None
    found = [(key, "In", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())]
    return (*found, *compile_expressions(selector.get("matchExpressions")))


def compile_expressions(expressions: Iterable[Mapping[str, Any]] | None) -> tuple[Requirement, ...]:
    """A matchExpressions list as requirements."""
    return tuple(
        (entry["key"], entry["operator"], tuple(entry.get("values") or ())) for entry in expressions or ()
    )


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy every requirement."""
    return selector is not None and all(_holds(requirement, labels) for requirement in selector)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement
    present = labels.get(key)
    match operator:
        case "In":
            return present in values
        case "NotIn":
            return present not in values
        case "Exists":
            return present is not None
        case "DoesNotExist":
            return present is None
        case _:
            return _compares(operator, present, values)


def _compares(operator: str, present: str | None, values: tuple[str, ...]) -> bool:
    """Gt and Lt: both sides have to be integers (nodeaffinity only)."""
    if present is None or len(values) != 1:
        return False
    try:
        left, right = int(present), int(values[0])
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right


NodeTerm = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""(matchExpressions, matchFields)"""


def compile_node_term(term: Mapping[str, Any]) -> NodeTerm:
    """A NodeSelectorTerm."""
    return compile_expressions(term.get("matchExpressions")), compile_expressions(term.get("matchFields"))


def node_term_matches(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    """A term without any requirement matches no node."""
    expressions, fields = term
    if not expressions and not fields:
        return False
    return matches(expressions, labels) and matches(fields, {"metadata.name": name})


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Whether any toleration covers the taint (k8s.io/component-helpers/…/toleration)."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(
    tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Mapping[str, Any]], effects: tuple[str, ...]
) -> bool:
    """Whether some taint of these effects is not tolerated."""
    return any(t.get("effect") in effects and not tolerates(tolerations, t) for t in taints)
