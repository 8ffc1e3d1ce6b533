"""`approve`: more money for a cap, bounded and for a while."""

from __future__ import annotations

from bot.commands.verb import DOLLARS, Call, Reply, Verb, argument
from bot.messages.alerts import APPROVE as ACTION
from bot.messages.answers import said
from bot.operations import approvals as operations
from fleet.values import Money


def approve(call: Call, request: str, amount: Money | None) -> Reply:
    """Answer a card of the guard by its request id."""
    outcome = operations.approve(call.house, call.person, request, amount, call.now, again=call.again)
    return Reply(said(outcome.sentence), outcome, ok=outcome.ok)


def clicked(call: Call, request: str) -> Reply:
    """The Approve button: the amount that it names."""
    return approve(call, request, None)


def _reach(call: Call) -> str | None:
    if call.person.approval_limit > Money(0):
        return ""
    own = call.house.guard_settings.self_approval
    return f"for your own run, up to {own} once a window" if own > Money(0) else None


APPROVE = Verb(
    "approve",
    "Approve more for a cap that asks",
    approve,
    params=(argument("request"), argument("amount", required=False, type=DOLLARS)),
    examples=("approve q-4f2a9c 500",),
    acts=True,
    reach=_reach,
    clicks={ACTION: clicked},
)
