"""Who acts is decided when they act."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.slack.identity import REMEMBER, Identities
from bot.slack.web import SlackDown, SlackRefused
from config.people import PeopleDirectory
from config.settings import PersonSettings
from tests.builders import T0

DIRECTORY = PeopleDirectory([PersonSettings(id="U1", name="Ada")])


class Users:
    """users.info and auth.test."""

    def __init__(self, **user):
        self.answer = {"id": "U1", "team_id": "T1", "name": "ada", **user}
        self.calls = 0
        self.error = None

    def user(self, user_id):
        self.calls += 1
        if self.error:
            raise self.error
        return {**self.answer, "id": user_id}

    def own(self):
        return {"team_id": "T1"}


def test_a_listed_member_may_act():
    """Nothing speaks against it."""
    caller = Identities(Users(), DIRECTORY).caller("U1", "T1", T0)

    assert (caller.person.name, caller.person.known, caller.refusal) == ("Ada", True, "")


@pytest.mark.parametrize(
    ("user", "word"),
    [
        ({"is_restricted": True}, "Guests"),
        ({"is_ultra_restricted": True}, "Guests"),
        ({"deleted": True}, "deactivated"),
        ({"is_bot": True}, "Bots"),
        ({"team_id": "T2"}, "another workspace"),
    ],
)
def test_a_payload_proves_nothing(user, word):
    """Listed in the settings, and still refused for what Slack says about the account."""
    assert word in Identities(Users(**user), DIRECTORY).caller("U1", "T1", T0).refusal


def test_somebody_of_another_workspace_is_refused_before_any_lookup():
    """A shared channel."""
    assert "another workspace" in Identities(Users(), DIRECTORY).caller("U1", "T9", T0).refusal


@pytest.mark.parametrize("error", [SlackDown("no answer"), SlackRefused("user_not_found")])
def test_where_slack_does_not_tell_nobody_acts(error):
    """Reading goes on; for acting there is the terminal."""
    users = Users()
    users.error = error

    assert Identities(users, DIRECTORY).caller("U1", "T1", T0).refusal


def test_what_slack_said_is_remembered_for_a_while_and_then_asked_again():
    """A leaver is refused within five minutes."""
    users = Users()
    identities = Identities(users, DIRECTORY)
    identities.caller("U1", "T1", T0)
    identities.caller("U1", "T1", T0 + timedelta(minutes=1))
    users.answer["deleted"] = True
    late = identities.caller("U1", "T1", T0 + REMEMBER)

    assert users.calls == 2
    assert "deactivated" in late.refusal


def test_an_unknown_caller_is_called_by_their_name():
    """Not by an id."""
    assert Identities(Users(), DIRECTORY).caller("U7", "T1", T0).person.name == "ada"
