"""Computes a PromQL expression at one moment."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable

from sandbox.promql import (
    COMPARISONS,
    OVER_TIME,
    RATES,
    Aggregate,
    Binary,
    Call,
    Expression,
    Number,
    QueryError,
    Selector,
)
from sandbox.series import SCRAPE_SECONDS, Labels, Reader, Series

Vector = list[tuple[Labels, float]]
"""(labels incl. `__name__`, value)"""
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else _by_zero(left),
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def evaluate(expression: Expression, read: Reader, at: float) -> Vector | float:
    """A vector, or a scalar. QueryError where the types do not go together."""
    match expression:
        case Number():
            return expression.value
        case Selector():
            return _instant(expression, read, at)
        case Call():
            return _call(expression, read, at)
        case Aggregate():
            return _aggregate(expression, read, at)
        case Binary():
            return _binary(expression, read, at)


def select(selector: Selector, read: Reader, at: float) -> Iterable[Series]:
    """The series that a selector means."""
    until = at - selector.offset
    after = until - (selector.window or SCRAPE_SECONDS)
    for series in read(selector.name, after, until, selector.hints()):
        if all(matcher.matches(series.labels.get(matcher.label, "")) for matcher in selector.matchers):
            yield series


def _instant(selector: Selector, read: Reader, at: float) -> Vector:
    if selector.window is not None:
        raise QueryError(
            'invalid expression type "range vector" for range query, must be Scalar or instant Vector'
        )
    found = []
    for series in select(selector, read, at):
        value = series.at(at - selector.offset)
        if value is not None:
            found.append(({"__name__": selector.name, **series.labels}, value))
    return found


def _call(call: Call, read: Reader, at: float) -> Vector | float:
    if call.name == "time":
        return at
    wanted = 2 if call.name.startswith("clamp_") else 1
    if len(call.arguments) != wanted:
        raise QueryError(
            f'parse error: expected {wanted} argument(s) in call to "{call.name}", got {len(call.arguments)}'
        )
    argument = call.arguments[0]
    if call.name in OVER_TIME or call.name in RATES:
        if not isinstance(argument, Selector) or argument.window is None:
            raise QueryError(
                f'parse error: expected type range vector in call to function "{call.name}", got instant vector'
            )
        return _over_time(call.name, argument, read, at)
    value = evaluate(argument, read, at)
    if call.name == "vector":
        return [({}, _scalar(value, call.name))]
    vector = _vector(value, call.name)
    if call.name == "absent":
        return [] if vector else [(_equalities(argument), 1.0)]
    if call.name == "abs":
        return [(_unnamed(labels), abs(number)) for labels, number in vector]
    bound = _scalar(evaluate(call.arguments[1], read, at), call.name)
    pick = min if call.name == "clamp_max" else max
    return [(_unnamed(labels), pick(number, bound)) for labels, number in vector]


def _over_time(name: str, selector: Selector, read: Reader, at: float) -> Vector:
    until = at - selector.offset
    window = selector.window or 0.0
    found = []
    for series in select(selector, read, at):
        samples = list(series.samples(until - window, until))
        if not samples:
            continue
        value = _rate(name, samples, until, window) if name in RATES else _fold(name, samples)
        if value is not None:
            labels = (
                {"__name__": selector.name, **series.labels} if name == "last_over_time" else series.labels
            )
            found.append((labels, value))
    return found


def _fold(name: str, samples: list[tuple[float, int, float]]) -> float:
    count = sum(number for _, number, _ in samples)
    match name.removesuffix("_over_time"):
        case "avg":
            return sum(number * value for _, number, value in samples) / count
        case "sum":
            return sum(number * value for _, number, value in samples)
        case "min":
            return min(value for _, _, value in samples)
        case "max":
            return max(value for _, _, value in samples)
        case "count":
            return float(count)
        case "last":
            return samples[-1][2]
        case _:
            return 1.0


def _rate(name: str, samples: list[tuple[float, int, float]], until: float, window: float) -> float | None:
    """extrapolatedRate of a counter; None below two samples."""
    first, last = samples[0][0], samples[-1][0] + (samples[-1][1] - 1) * SCRAPE_SECONDS
    count = sum(number for _, number, _ in samples)
    if count < 2:
        return None
    values = [value for _, _, value in samples]
    grown = sum(after - before if after >= before else after for before, after in itertools.pairwise(values))
    sampled = last - first
    interval = sampled / (count - 1)
    to_start, to_end = first - (until - window), until - last
    if to_start >= interval * 1.1:
        to_start = interval / 2
    if grown > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * values[0] / grown)
    if to_end >= interval * 1.1:
        to_end = interval / 2
    increase = grown * (sampled + to_start + to_end) / sampled
    return increase / window if name == "rate" else increase


def _aggregate(aggregate: Aggregate, read: Reader, at: float) -> Vector:
    vector = _vector(evaluate(aggregate.argument, read, at), aggregate.name)
    groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for labels, value in vector:
        if aggregate.by:
            kept = {name: labels[name] for name in aggregate.labels if name in labels}
        else:
            dropped = {*aggregate.labels, "__name__"}
            kept = {name: text for name, text in labels.items() if name not in dropped}
        groups.setdefault(tuple(sorted(kept.items())), []).append(value)
    fold: dict[str, Callable[[list[float]], float]] = {
        "sum": math.fsum,
        "avg": lambda values: math.fsum(values) / len(values),
        "min": min,
        "max": max,
        "count": lambda values: float(len(values)),
    }
    return [(dict(key), fold[aggregate.name](values)) for key, values in groups.items()]


def _binary(binary: Binary, read: Reader, at: float) -> Vector | float:
    left, right = evaluate(binary.left, read, at), evaluate(binary.right, read, at)
    compute = _OPERATORS[binary.operator]
    compares = binary.operator in COMPARISONS
    if isinstance(left, float) and isinstance(right, float):
        if compares and not binary.as_bool:
            raise QueryError("parse error: comparisons between scalars must use BOOL modifier")
        return float(compute(left, right))
    if isinstance(left, list) and isinstance(right, list):
        raise QueryError("the stand-in does not match vectors with vectors", "execution")
    vector = left if isinstance(left, list) else _vector(right, binary.operator)
    found = []
    for labels, value in vector:
        pair = (value, right) if isinstance(right, float) else (left, value)
        result = float(compute(_scalar(pair[0], ""), _scalar(pair[1], "")))
        if compares and not binary.as_bool:
            if result:
                found.append((labels, value))
        else:
            found.append((_unnamed(labels), result))
    return found


def _vector(value: Vector | float, where: str) -> Vector:
    if isinstance(value, float):
        raise QueryError(f'parse error: expected type instant vector in "{where}", got scalar')
    return value


def _scalar(value: Vector | float, where: str) -> float:
    if isinstance(value, list):
        raise QueryError(
            f'parse error: expected type scalar in call to function "{where}", got instant vector'
        )
    return value


def _unnamed(labels: Labels) -> Labels:
    return {name: text for name, text in labels.items() if name != "__name__"}


def _equalities(argument: Expression) -> Labels:
    """What absent() says about the series that is not there."""
    if not isinstance(argument, Selector):
        return {}
    return {matcher.label: matcher.value for matcher in argument.matchers if matcher.operator == "="}


def _by_zero(left: float) -> float:
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
