"""`pause`: stop a run so that it can be resumed. The same journal path as the guard's own."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument, option
from bot.messages import runs as cards
from bot.messages import stops
from bot.operations import stop as operations


def pause(call: Call, run: str, reason: str) -> Reply:
    """Ask for it; what becomes of it is told in the run's thread."""
    found = operations.pause(call.house, call.person, run, reason, call.now, again=call.again)
    return Reply(stops.asked(found), found, ok=found.ok)


def clicked(call: Call, run: str) -> Reply:
    """The Pause button."""
    return pause(call, run, "")


PAUSE = Verb(
    "pause",
    "Stop a run; it can be resumed",
    pause,
    params=(argument("run"), option("--reason", "why, for the record", default="")),
    examples=("pause dota", "pause dota --reason eval-first"),
    acts=True,
    clicks={cards.PAUSE: clicked},
)
