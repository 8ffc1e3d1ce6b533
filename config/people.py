"""Who is this, which team, which roles: the Directory port over the settings' people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from config.settings import PersonSettings
from fleet.model import Person
from fleet.ports import Scope
from fleet.values import Money


class PeopleDirectory:
    """People as the settings list them. Unknown callers get a Person with `known` False: they may read."""

    def __init__(self, people: Sequence[PersonSettings]) -> None:
        self._people = {entry.id: _person(entry) for entry in people}
        self._system = {entry.system_user: entry.id for entry in people if entry.system_user}
        self._kubernetes = {entry.kubernetes: entry.id for entry in people if entry.kubernetes}

    def by_chat_id(self, chat_id: str) -> Person:
        """The person behind a Slack user id."""
        return self._people.get(chat_id) or Person(id=chat_id, name=chat_id, known=False)

    def by_system_user(self, name: str) -> Person:
        """The person behind a user of this machine."""
        return self._people.get(self._system.get(name, "")) or Person(
            id=f"system:{name}", name=name, known=False
        )

    def by_kubernetes_name(self, name: str) -> Person:
        """The person behind a Kubernetes user, or an owner label (a chat id in lower case)."""
        found = self._kubernetes.get(name) or next(
            (key for key in self._people if key.lower() == name.lower()), ""
        )
        return self._people.get(found) or Person(id=name, name=name, known=False)

    def team_members(self, team: str) -> tuple[Person, ...]:
        """People of a team, in the settings' order."""
        return tuple(person for person in self._people.values() if person.team == team)

    def approvers(self, scope: Scope, amount: Money) -> tuple[Person, ...]:
        """Who may add this amount: leads only for their own team's scopes, admins for all, within their limit."""
        able = (person for person in self._people.values() if person.approval_limit >= amount)
        return tuple(person for person in able if self._may(person, scope))

    @staticmethod
    def _may(person: Person, scope: Scope) -> bool:
        if "admin" in person.roles:
            return True
        return "lead" in person.roles and bool(scope.team) and person.team == scope.team

    def everybody(self) -> Iterable[Person]:
        """All known people."""
        return self._people.values()


def _person(entry: PersonSettings) -> Person:
    return Person(
        id=entry.id,
        name=entry.name,
        team=entry.team,
        roles=frozenset(entry.roles),
        approval_limit=entry.approval_limit,
    )
