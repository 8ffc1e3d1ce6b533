"""`plan`: what a launch would need and cost; nothing is stored, nothing is bought."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument
from bot.messages import launch as cards
from bot.operations import launch as operations


def plan(call: Call, experiment: str) -> Reply:
    """The launch card without its buttons."""
    found = operations.plan(call.house, call.person, experiment, call.request, call.now)
    return Reply(cards.card(found, buttons=False), found)


PLAN = Verb(
    "plan",
    "Show what an experiment would need and cost",
    plan,
    params=(argument("experiment"),),
    examples=("plan dota",),
)
