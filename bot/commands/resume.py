"""`resume`: let a paused run go on. The same journal path as the guard's own."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument, option
from bot.messages import runs as cards
from bot.messages import stops
from bot.operations import stop as operations


def resume(call: Call, run: str, reason: str) -> Reply:
    """Ask for it; what becomes of it is told in the run's thread."""
    found = operations.resume(call.house, call.person, run, reason, call.now, request=call.request)
    return Reply(stops.asked(found), found, ok=found.ok)


def clicked(call: Call, run: str) -> Reply:
    """The Resume button."""
    return resume(call, run, "")


RESUME = Verb(
    "resume",
    "Let a paused run go on",
    resume,
    params=(argument("run"), option("--reason", "why, for the record", default="")),
    examples=("resume dota",),
    acts=True,
    clicks={cards.RESUME: clicked},
)
