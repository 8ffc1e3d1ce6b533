"""Who acts, decided when they act: the directory says who may, Slack says whether it is really them.

A payload proves nothing about what its sender may do: guests, people of other workspaces, bots and people who
have left are refused, whatever button they reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from bot.slack.web import SlackDown, SlackRefused, SlackThrottled
from fleet.model import Person
from fleet.ports import Directory

REMEMBER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Caller:
    """A person, and why this person may not act; "" where nothing speaks against it."""

    person: Person
    refusal: str = ""


class Users(Protocol):
    """Who Slack says somebody is (`bot.slack.web.SlackWeb`)."""

    def user(self, user_id: str) -> Mapping[str, Any]:
        """users.info."""
        ...

    def own(self) -> Mapping[str, Any]:
        """auth.test."""
        ...


class Identities:
    """Callers by Slack user id; what Slack says about somebody is remembered for five minutes."""

    def __init__(self, web: Users, directory: Directory, team_id: str = "") -> None:
        self._web = web
        self._directory = directory
        self._team = team_id
        self._known: dict[str, tuple[datetime, Mapping[str, Any]]] = {}

    def caller(self, user_id: str, team_id: str, now: datetime) -> Caller:
        """Who this is. Never raises: where Slack does not tell, the caller may read and not act."""
        person = self._directory.by_chat_id(user_id)
        if team_id and self._own_team() and team_id != self._team:
            return Caller(person, "You belong to another workspace; only members of this one can act here.")
        try:
            user = self._user(user_id, now)
        except (SlackDown, SlackThrottled):
            return Caller(
                person, "Slack does not tell who you are at the moment. Use `quartermaster` in a terminal."
            )
        except SlackRefused as error:
            return Caller(person, f"Slack does not know you ({error.code}).")
        if not person.known:
            person = replace(person, name=_name(user) or person.name)
        return Caller(person, _objection(user, self._team))

    def _user(self, user_id: str, now: datetime) -> Mapping[str, Any]:
        found = self._known.get(user_id)
        if found and timedelta(0) <= now - found[0] < REMEMBER:
            return found[1]
        user = self._web.user(user_id)
        self._known[user_id] = (now, user)
        return user

    def _own_team(self) -> str:
        if not self._team:
            try:
                self._team = str(self._web.own().get("team_id", ""))
            except (SlackDown, SlackThrottled, SlackRefused):
                return ""
        return self._team


def _name(user: Mapping[str, Any]) -> str:
    profile = user.get("profile") or {}
    return str(profile.get("display_name") or user.get("real_name") or user.get("name") or "")


def _objection(user: Mapping[str, Any], team: str) -> str:
    if user.get("deleted"):
        return "This account is deactivated."
    if user.get("is_bot") or user.get("id") == "USLACKBOT":
        return "Bots cannot act here; only people can."
    if user.get("is_restricted") or user.get("is_ultra_restricted"):
        return "Guests cannot act here; ask a member of the team."
    if user.get("is_stranger") or (team and user.get("team_id") and user["team_id"] != team):
        return "You belong to another workspace; only members of this one can act here."
    return ""
