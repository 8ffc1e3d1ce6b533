"""The declarative description of a workspace: who and what there is when it starts.

A plain mapping, every part of it optional:

```yaml
team: {id: T0LAB, name: Robotics Lab, domain: robotics-lab}
app: {id: A0QM, name: quartermaster, bot_user: U0QM, bot_id: B0QM, bot_token: xoxb-sandbox, app_token: xapp-sandbox}
people:
  - {id: U0ADA, name: ada, real_name: Ada Lovelace, email: ada@lab.example, kind: member, zone: Europe/London}
    # kind: owner | admin | member | guest | external | deactivated | bot
channels:
  - {id: C0ALERTS, name: alerts, topic: Budgets, private: false, archived: false, members: [U0ADA], app: true}
    # app: the app was invited. Without members, everybody but guests and external people is one
usergroups:
  - {id: S0LEADS, handle: leads, name: Leads, members: [U0ADA]}
typography: plain        # or smart: people's clients turn -- into — and straight quotes into curly ones
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

KINDS = ("owner", "admin", "member", "guest", "external", "deactivated", "bot")
_TOP_LEVEL = {"team", "app", "people", "channels", "usergroups", "typography"}


@dataclass(frozen=True)
class Team:
    """The workspace's own identity."""

    id: str = "T0LAB"
    name: str = "Robotics Lab"
    domain: str = "robotics-lab"


@dataclass(frozen=True)
class AppIdentity:
    """The app as installed: its users, and the two tokens made by the installation."""

    id: str = "A0QUARTERM"
    name: str = "quartermaster"
    bot_user: str = "U0QUARTERM"
    bot_id: str = "B0QUARTERM"
    bot_token: str = "xoxb-sandbox"
    app_token: str = "xapp-sandbox"


@dataclass
class Person:
    """A user of the workspace; `kind` is one of `KINDS`."""

    id: str
    name: str
    real_name: str = ""
    email: str = ""
    kind: str = "member"
    zone: str = "UTC"

    @property
    def active(self) -> bool:
        """Somebody who can sign in and type."""
        return self.kind not in ("deactivated", "bot")


@dataclass
class Channel:
    """A conversation; `kind` is public, private or im."""

    id: str
    name: str
    kind: str = "public"
    topic: str = ""
    archived: bool = False
    members: set[str] = field(default_factory=set)
    created: int = 0


@dataclass
class Usergroup:
    """A mentionable group of people."""

    id: str
    handle: str
    name: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkspaceSpec:
    """A checked description."""

    team: Team
    app: AppIdentity
    people: tuple[Person, ...]
    channels: tuple[Channel, ...]
    usergroups: tuple[Usergroup, ...]
    smart: bool


def parse_spec(spec: Mapping[str, Any]) -> WorkspaceSpec:
    """Check a description; raises ValueError with one sentence that says where and what."""
    unknown = sorted(set(spec) - _TOP_LEVEL)
    if unknown:
        raise ValueError(f"The workspace has no {unknown[0]!r}; known are {', '.join(sorted(_TOP_LEVEL))}.")
    typography = spec.get("typography", "plain")
    if typography not in ("plain", "smart"):
        raise ValueError(f"typography is plain or smart, not {typography!r}.")
    app = _build(AppIdentity, spec.get("app", {}), "app")
    people = tuple(_person(each, index) for index, each in enumerate(spec.get("people", ())))
    people += (Person(app.bot_user, app.name, app.name.capitalize(), kind="bot"),)
    ids = _distinct((person.id for person in people), "people")
    channels = tuple(
        _channel(each, index, people, app) for index, each in enumerate(spec.get("channels", ()))
    )
    _distinct((channel.id for channel in channels), "channels")
    _distinct((channel.name for channel in channels), "channels")
    groups = tuple(_usergroup(each, index) for index, each in enumerate(spec.get("usergroups", ())))
    named = [(f"channel {c.name}", m) for c in channels for m in sorted(c.members)]
    named += [(f"usergroup {g.handle}", m) for g in groups for m in g.members]
    for where, member in named:
        if member not in ids:
            raise ValueError(f"The {where} has a member {member!r} who is not among the people.")
    team = _build(Team, spec.get("team", {}), "team")
    return WorkspaceSpec(team, app, people, channels, groups, typography == "smart")


def _distinct(names: Iterable[str], where: str) -> set[str]:
    found: set[str] = set()
    for name in names:
        if name in found:
            raise ValueError(f"{name!r} appears twice in {where}.")
        found.add(name)
    return found


def _build(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{where}: {str(error).partition('__init__() ')[2] or error}.") from error


def _person(given: Mapping[str, Any], index: int) -> Person:
    person: Person = _build(Person, given, f"people[{index}]")
    if person.kind not in KINDS:
        raise ValueError(f"people[{index}] kind is one of {', '.join(KINDS)}, not {person.kind!r}.")
    try:
        ZoneInfo(person.zone)
    except (KeyError, ValueError) as error:
        raise ValueError(f"people[{index}] zone {person.zone!r} is not a known time zone.") from error
    person.real_name = person.real_name or person.name.capitalize()
    return person


def _channel(given: Mapping[str, Any], index: int, people: tuple[Person, ...], app: AppIdentity) -> Channel:
    known = {"id", "name", "topic", "private", "archived", "members", "app"}
    unknown = sorted(set(given) - known)
    if unknown or not {"id", "name"} <= set(given):
        raise ValueError(f"channels[{index}] needs id and name, and may have {', '.join(sorted(known))}.")
    regular = {person.id for person in people if person.kind in ("owner", "admin", "member")}
    members = set(given.get("members", regular))
    if given.get("app", True):
        members.add(app.bot_user)
    kind = "private" if given.get("private", False) else "public"
    archived = bool(given.get("archived", False))
    return Channel(given["id"], given["name"].lstrip("#"), kind, given.get("topic", ""), archived, members)


def _usergroup(given: Mapping[str, Any], index: int) -> Usergroup:
    group: Usergroup = _build(Usergroup, given, f"usergroups[{index}]")
    group.members = tuple(group.members)
    return group
