"""`why`: why a run is pending, refused or paused."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument
from bot.messages import runs as cards
from bot.operations import runs as operations


def why(call: Call, run: str) -> Reply:
    """Reasons as sentences."""
    found = operations.why(call.house, run, call.now)
    return Reply(cards.why(found), found)


def clicked(call: Call, run: str) -> Reply:
    """The Why? button."""
    return why(call, run)


WHY = Verb(
    "why",
    "Say why a run waits, was refused or is paused",
    why,
    params=(argument("run"),),
    examples=("why dota",),
    clicks={cards.WHY: clicked},
)
