"""`deny`: no more money; what was announced happens at its time."""

from __future__ import annotations

from bot.commands.verb import Call, Reply, Verb, argument
from bot.messages.alerts import DENY as ACTION
from bot.messages.answers import said
from bot.operations import approvals as operations


def deny(call: Call, request: str) -> Reply:
    """Answer a card of the guard by its request id."""
    outcome = operations.deny(call.house, call.person, request, call.now)
    return Reply(said(outcome.sentence), outcome, ok=outcome.ok)


def _reach(call: Call) -> str | None:
    return "" if call.person.roles & {"lead", "admin"} else "for your own run"


DENY = Verb(
    "deny",
    "Say no to a cap that asks for more",
    deny,
    params=(argument("request"),),
    examples=("deny q-4f2a9c",),
    acts=True,
    reach=_reach,
    clicks={ACTION: deny},
)
