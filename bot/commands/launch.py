"""`launch`: a card with the plan, and a click that starts it. In the terminal, `--yes` is the click."""

from __future__ import annotations

from bot.commands.verb import Call, Post, Reply, Verb, argument, option
from bot.messages import launch as cards
from bot.messages.answers import said
from bot.operations import launch as operations
from bot.operations.launch import LaunchOutcome, thread_key


def launch(call: Call, experiment: str, yes: bool) -> Reply:
    """Propose, and show the card where it was asked (the team's channel for a terminal)."""
    house = call.house
    channel = call.channel or house.channel_of(call.person.team)
    plan = operations.propose(house, call.person, experiment, call.request, call.now, channel)
    card = Post(thread_key(call.request), channel, cards.card(plan))
    if not yes:
        terminal = cards.card(plan, buttons=False) if not call.channel else None
        return Reply(terminal, plan, ok=plan.launchable, posts=(card,))
    call.say(card)  # first, so that what the launch tells finds its thread
    outcome = operations.start(house, call.person, call.request, call.now, again=call.again)
    edited = Post(card.key, channel, cards.decided(outcome), edit=True)
    return Reply(said(outcome.sentence), outcome, ok=outcome.ok, posts=(edited,))


def clicked_start(call: Call, request: str) -> Reply:
    """The Launch button."""
    return _decided(operations.start(call.house, call.person, request, call.now, again=call.again))


def clicked_cancel(call: Call, request: str) -> Reply:
    """The Cancel button."""
    return _decided(operations.cancel(call.house, call.person, request, call.now, again=call.again))


def _decided(outcome: LaunchOutcome) -> Reply:
    """The card shows what was decided; whoever came too late, or is refused, is told alone."""
    if not outcome.ok and outcome.plan is None:
        return Reply(said(outcome.sentence), outcome, ok=False)
    edit = Post(thread_key(outcome.request), "", cards.decided(outcome), edit=True)
    alone = None if outcome.ok else said(outcome.sentence)
    return Reply(alone, outcome, ok=outcome.ok, posts=(edit,))


LAUNCH = Verb(
    "launch",
    "Plan an experiment and, after a click, launch it",
    launch,
    params=(
        argument("experiment"),
        option("--yes", "start it at once, without the click", is_flag=True),
    ),
    examples=("launch dota", "launch dota --yes"),
    acts=True,
    clicks={cards.START: clicked_start, cards.CANCEL: clicked_cancel},
)
