"""Completion indexes as intervals: `1,3-5,7`. Pure; indexed_job_utils.go's arithmetic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable
from functools import lru_cache

Intervals = tuple[tuple[int, int], ...]
"""Ordered, disjoint, not adjacent; both ends included."""


@lru_cache(maxsize=64)
def parse(text: str | None, completions: int) -> Intervals:
    """What status.completedIndexes says, cut off at the present completions."""
    found: list[int | tuple[int, int]] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or int(first) >= completions:
            continue
        found.append((int(first), min(int(last or first), completions - 1)))
    return merge((), found)


def merge(intervals: Intervals, more: Iterable[int | tuple[int, int]]) -> Intervals:
    """The union of intervals with single indexes or other intervals."""
    spans = [(entry, entry) if isinstance(entry, int) else entry for entry in more]
    result: list[tuple[int, int]] = []
    for first, last in sorted((*intervals, *spans)):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return tuple(result)


def total(intervals: Intervals) -> int:
    """How many indexes."""
    return sum(last - first + 1 for first, last in intervals)


def has(intervals: Intervals, index: int) -> bool:
    """Whether the index is among them."""
    at = bisect_left(intervals, index, key=lambda interval: interval[1])
    return at < len(intervals) and intervals[at][0] <= index


def render(intervals: Intervals) -> str:
    """Two neighbours are written `1,2`, three or more `1-3`."""
    parts = []
    for first, last in intervals:
        joint = "," if last == first + 1 else "-"
        parts.append(str(first) if first == last else f"{first}{joint}{last}")
    return ",".join(parts)


def pending(done: Intervals, taken: Container[int], count: int, completions: int) -> list[int]:
    """The first `count` indexes that are neither done nor taken by a pod."""
    result: list[int] = []
    candidate = 0
    for first, last in (*done, (completions, completions)):
        while candidate < min(first, completions) and len(result) < count:
            if candidate not in taken:
                result.append(candidate)
            candidate += 1
        candidate = max(candidate, last + 1)
    return result


def matches_rule(wanted: Intervals, succeeded: Intervals, count: int | None) -> bool:
    """A successPolicy rule with succeededIndexes: all of them, or `count` of them."""
    overlap = sum(
        max(0, min(last, other_last) - max(first, other_first) + 1)
        for first, last in wanted
        for other_first, other_last in succeeded
    )
    return overlap == total(wanted) or (count is not None and overlap >= count)
