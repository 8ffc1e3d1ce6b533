"""`caps`, `caps set`, `caps check`, `caps remove`."""

from __future__ import annotations

from bot.commands.verb import DOLLARS, Call, Post, Reply, Verb, argument, option
from bot.messages import caps as cards
from bot.operations import caps as operations
from bot.operations.caps import CapChanged, CapOrder
from bot.operations.rights import may_set_caps
from fleet.values import Money


def caps(call: Call, about: str) -> Reply:
    """All caps, or those about a word."""
    found = operations.standing(call.house, call.now, about or "")
    return Reply(cards.standing(found), found)


def put(call: Call, name: str, limit: Money, scope: str, window: str, zone: str) -> Reply:
    """Set a cap, or change one; its team's channel is told by whom."""
    order = CapOrder(name, scope, limit, window, zone)
    return _told(call, operations.put(call.house, call.person, order, call.now))


def remove(call: Call, name: str) -> Reply:
    """Remove a cap; its team's channel is told by whom."""
    return _told(call, operations.remove(call.house, call.person, name, call.now))


def check(call: Call, amount: Money) -> Reply:
    """Would this much fit now?"""
    found = operations.would_fit(call.house, call.person, amount, call.now)
    return Reply(cards.would_fit(found), found, ok=found.answer.granted)


def _reach(call: Call) -> str | None:
    if not may_set_caps(call.person):
        return None
    return "" if "admin" in call.person.roles else f"of {call.person.team}"


def _told(call: Call, change: CapChanged) -> Reply:
    message = cards.changed(change)
    post = Post(f"cap:{call.request}", call.house.channel_of(change.team), message)
    return Reply(message, change, posts=(post,))


CAPS = Verb(
    "caps",
    "Show every cap: spent, held, left, burn",
    caps,
    params=(argument("about", required=False),),
    examples=("caps", "caps vision"),
)
CAPS_SET = Verb(
    "caps set",
    "Set a cap, or change its limit",
    put,
    params=(
        argument("name"),
        argument("limit", type=DOLLARS),
        option(
            "--scope", "fleet, team:NAME, person:ID, cluster:NAME, region:NAME, experiment:NAME", default=""
        ),
        option("--window", "total, day, week or month", default=""),
        option("--zone", "IANA zone whose midnights bound the window", default=""),
    ),
    examples=("caps set team-vision 20k", "caps set nightly 500 --scope experiment:dota --window day"),
    acts=True,
    reach=_reach,
)
CAPS_CHECK = Verb(
    "caps check",
    "Ask whether an amount would fit every cap now",
    check,
    params=(argument("amount", type=DOLLARS),),
    examples=("caps check 1.5k",),
)
CAPS_REMOVE = Verb(
    "caps remove",
    "Remove a cap",
    remove,
    params=(argument("name"),),
    examples=("caps remove nightly",),
    acts=True,
    reach=_reach,
)
