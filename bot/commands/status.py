"""`status`: how one run stands."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument
from bot.messages import runs as cards
from bot.operations import runs as operations


def status(call: Call, run: str) -> Reply:
    """State, roles, machines, money, caps, GPU utilisation."""
    found = operations.status(call.house, run, call.now)
    return Reply(cards.status(found), found)


STATUS = Verb(
    "status",
    "Show how a run stands: roles, machines, money, caps",
    status,
    params=(argument("run"),),
    examples=("status dota", "status 6n4p8"),
)
