"""`costs`: what was spent, grouped; or a day's bill beside the ledger."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, option
from bot.messages import costs as cards
from bot.operations import costs as operations


def costs(call: Call, by: str, since: str, bill: str) -> Reply:
    """Rows, dearest first."""
    if bill:
        compared = operations.bill(call.house, bill, call.now)
        return Reply(cards.bill(compared), compared)
    found = operations.costs(call.house, by, since, call.now)
    return Reply(cards.costs(found), found)


COSTS = Verb(
    "costs",
    "Show what was spent, by experiment, team, owner, region or day",
    costs,
    params=(
        option("--by", ", ".join(operations.DIMENSIONS), default="experiment"),
        option("--since", "how far back: 12h, 7d", default="7d"),
        option("--bill", "a UTC day: its bill beside the ledger", default="", metavar="day"),
    ),
    examples=("costs --by team --since 30d", "costs --bill 2026-11-06"),
)
