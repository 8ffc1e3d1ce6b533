"""Answering a card of the guard: more money for a while, or none."""

from __future__ import annotations

from datetime import datetime

from bot.operations import rights
from bot.operations.house import House
from fleet.model import Person
from fleet.values import Money
from guard.answers import Outcome


def approve(
    house: House, person: Person, request: str, amount: Money | None, now: datetime, *, again: bool = False
) -> Outcome:
    """Raise the cap by the amount (the card's proposal where None); bounded and expiring. Raises NotAllowed.

    `again`: the same click after a crash.
    """
    rights.known(person)
    return house.guard.approve(request, person, amount, now, again=again)


def deny(house: House, person: Person, request: str, now: datetime) -> Outcome:
    """Say no: what was announced happens at its time. Raises NotAllowed."""
    rights.known(person)
    return house.guard.deny(request, person, now)
