"""How a run's reserve shrinks as metered spend takes its place, and which part of it may still be drawn. Pure.

`running` is the part that belongs to machines that run already: burn × (tick + countdown + drain), what
stopping them would still cost. A purchase draws on the rest alone, so that however fast a run grows it can
still be stopped under its caps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleet.values import Money


@dataclass(frozen=True, slots=True)
class RunBurn:
    """A run at a tick."""

    spent: Money
    burn: Money
    placed: bool
    """every pod of it has its machine, so its burn is the whole of it"""
    coming: Money = Money(0)
    """held for purchases that are settled and whose machines are not metered yet"""


def what_remains(rows: Sequence[Mapping[str, Any]], run: RunBurn, span: timedelta) -> list[tuple[int, int]]:
    """(remaining, running) micro-dollars of each reserve of one run, oldest first.

    Rolling: what runs, and until the run is placed never less than was set aside for what is to come.
    Declared: the worst case less what has been spent since it was granted, never less than what runs.
    """
    room = [row["amount"] - row["drawn"] for row in rows]
    running = run.burn.over(span).micros + run.coming.micros
    if any(row["rolling"] for row in rows):
        total = running if run.placed else max(sum(room), running)
        return [(total, running)] + [(0, 0)] * (len(rows) - 1)
    used = max(0, run.spent.micros - rows[0]["base"])
    left = []
    for available in room:
        taken = min(used, available)
        used -= taken
        left.append(available - taken)
    return _allot(left, running)


def _allot(left: Sequence[int], running: int) -> list[tuple[int, int]]:
    """Give what runs its part of each reserve in turn; what is short of it goes on top of the first."""
    allotted = []
    rest = running
    for available in left:
        part = min(available, rest)
        rest -= part
        allotted.append((available, part))
    first = allotted[0]
    return [(first[0] + rest, first[1] + rest), *allotted[1:]]
