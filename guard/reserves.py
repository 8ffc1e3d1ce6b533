"""How a run's reserve shrinks as metered spend takes its place. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleet.values import Money


@dataclass(frozen=True, slots=True)
class RunBurn:
    """A run at a tick. `placed`: every pod of it has its machine, so its burn is the whole of it."""

    spent: Money
    burn: Money
    placed: bool


def what_remains(rows: Sequence[Mapping[str, Any]], run: RunBurn, span: timedelta) -> list[int]:
    """Micro-dollars that remain of each reserve of one run, oldest first.

    Rolling: burn × span once the run is placed, and until then never less than what was set aside for
    what is still to come. Declared: the worst case less what has been spent since it was granted.
    """
    room = [row["amount"] - row["drawn"] for row in rows]
    if any(row["rolling"] for row in rows):
        rolling = run.burn.over(span).micros
        total = rolling if run.placed else max(sum(room), rolling)
        return [total] + [0] * (len(rows) - 1)
    used = max(0, run.spent.micros - rows[0]["base"])
    left = []
    for available in room:
        taken = min(used, available)
        used -= taken
        left.append(available - taken)
    return left
