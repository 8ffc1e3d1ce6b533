"""`kill`: end a run for good. The same journal path as the guard's own."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument, option
from bot.messages import runs as cards
from bot.messages import stops
from bot.operations import stop as operations


def kill(call: Call, run: str, reason: str) -> Reply:
    """Ask for it; what becomes of it is told in the run's thread."""
    found = operations.kill(call.house, call.person, run, reason, call.now, again=call.again)
    return Reply(stops.asked(found), found, ok=found.ok)


def clicked(call: Call, run: str) -> Reply:
    """The Kill button, after its question."""
    return kill(call, run, "")


KILL = Verb(
    "kill",
    "End a run for good; its record stays",
    kill,
    params=(argument("run"), option("--reason", "why, for the record", default="")),
    examples=("kill dota --reason wrong-data",),
    acts=True,
    clicks={cards.KILL: clicked},
)
