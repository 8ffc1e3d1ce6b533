"""`ledger verify`: recompute every line from the observations."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb
from bot.messages import costs as cards
from bot.operations import costs as operations


def verify(call: Call) -> Reply:
    """Every fault, named."""
    found = operations.verify(call.house)
    return Reply(cards.verified(found), found, ok=not found.faults)


LEDGER_VERIFY = Verb(
    "ledger verify",
    "Recompute the ledger from its observations and name every fault",
    verify,
    examples=("ledger verify",),
)
