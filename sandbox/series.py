"""Time series as steps, seen through a scrape every fifteen seconds.

Values are kept as spans (from, until, value) instead of samples: a simulated week costs nothing until
somebody asks. What a query sees are the scrapes that fall into the spans, as with the real thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

SCRAPE_SECONDS = 15.0
Span = tuple[float, float, float]
"""(from, until, value): Unix seconds, `until` excluded, `inf` = still so"""
Labels = dict[str, str]
Hints = Mapping[str, frozenset[str]]
"""label → the only values that are asked for: an exporter need not make other series"""


@dataclass(frozen=True, slots=True)
class Series:
    """One series; `labels` without `__name__`. Spans are in order and do not overlap."""

    labels: Labels
    spans: tuple[Span, ...]

    def at(self, moment: float) -> float | None:
        """The value of the last scrape; None where the series was gone by then."""
        scrape = math.floor(moment / SCRAPE_SECONDS) * SCRAPE_SECONDS
        for start, end, value in reversed(self.spans):
            if start <= scrape < end:
                return value
        return None

    def samples(self, after: float, until: float) -> Iterator[tuple[float, int, float]]:
        """(first scrape, number of scrapes, value) of each span within (after, until]."""
        for start, end, value in self.spans:
            first = max(math.ceil(start / SCRAPE_SECONDS), math.floor(after / SCRAPE_SECONDS) + 1)
            last = math.floor(until / SCRAPE_SECONDS)
            if end != math.inf:
                last = min(last, math.ceil(end / SCRAPE_SECONDS) - 1)
            if last >= first:
                yield first * SCRAPE_SECONDS, last - first + 1, value


class Source(Protocol):
    """An exporter."""

    def names(self) -> Iterable[str]:
        """The metrics it has."""
        ...

    def series(self, name: str, after: float, until: float, hints: Hints) -> Iterable[Series]:
        """Series of one metric that may have scrapes within (after, until]; hints may be ignored."""
        ...


Reader = Callable[[str, float, float, Hints], Iterable[Series]]
"""All series of a metric that may have scrapes in an interval."""
