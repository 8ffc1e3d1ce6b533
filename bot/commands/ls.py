"""`ls`: what runs. A bare command is `ls --mine`."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, option
from bot.messages import runs as cards
from bot.operations import runs as operations
from bot.operations.runs import RunLine


def ls(call: Call, all: bool, mine: bool) -> Reply:
    """Live runs and those of the last day."""
    lines = operations.listing(call.house, call.now, everything=all)
    others: tuple[RunLine, ...] = ()
    if mine:
        others = tuple(line for line in lines if line.owner_name != call.person.name)
        lines = tuple(line for line in lines if line.owner_name == call.person.name)
    return Reply(cards.listing(lines, others), lines)


LS = Verb(
    "ls",
    "List what runs, what it has spent and burns",
    ls,
    params=(
        option("--all", "also what ended long ago", is_flag=True),
        option("--mine", "only what you launched", is_flag=True),
    ),
    examples=("ls", "ls --mine"),
)
