"""Who may do what. Unknown callers may read; the owner of a thing, a lead of its team, operators and admins act."""

from __future__ import annotations

from collections.abc import Sequence

from bot.words import name, people
from fleet.errors import QuartermasterError
from fleet.model import Person
from fleet.ports import Directory


class NotAllowed(QuartermasterError):
    """Somebody asked for what is not theirs to ask; the sentence says who can."""


STAFF = frozenset({"operator", "admin"})


def known(person: Person) -> None:
    """Only people of the settings act. Raises NotAllowed."""
    if not person.known:
        raise NotAllowed(
            f"{name(person.name)} is not in the settings' people, so this is read-only for you. "
            "An admin can add you under people:."
        )


def acts_on(person: Person, owner: str, team: str, what: str, directory: Directory) -> None:
    """The owner, a lead of the team, an operator or an admin. Raises NotAllowed."""
    known(person)
    if person.id == owner or person.roles & STAFF:
        return
    if team and person.team == team and "lead" in person.roles:
        return
    others = _leads(directory.team_members(team)) if team else ()
    owned = directory.by_chat_id(owner)
    can = people([owned, *[lead for lead in others if lead.id != owner]])
    raise NotAllowed(f"{what} is not yours to change: {can}, operators and admins can.")


def _leads(members: Sequence[Person]) -> tuple[Person, ...]:
    return tuple(member for member in members if "lead" in member.roles)


def may_set_caps(person: Person) -> bool:
    """Whether there is any cap that this person may set: see `sets_cap`."""
    return "admin" in person.roles or ("lead" in person.roles and bool(person.team))


def sets_cap(person: Person, kind: str, value: str, team: str) -> None:
    """Admins set every cap; a lead sets those of the own team, its people and experiments. Raises NotAllowed."""
    known(person)
    if "admin" in person.roles:
        return
    if "lead" in person.roles and kind in ("team", "person", "experiment") and team == person.team and team:
        return
    about = f"{kind} {name(value)}".strip()
    raise NotAllowed(f"The caps of {about} are set by admins" + (f" and leads of {team}." if team else "."))
