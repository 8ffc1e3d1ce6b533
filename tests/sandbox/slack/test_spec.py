"""The description of a workspace, and what the shipped manifest says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.slack.manifest import read_manifest
from sandbox.slack.spec import parse_spec

ROOT = Path(__file__).parents[3]
SCOPES_OF_METHOD = {
    "conversations.join": ("channels:join",),
    "auth.test": (),
    "chat.postMessage": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.update": ("chat:write",),
    "chat.delete": ("chat:write",),
    "chat.getPermalink": (),
    "conversations.history": ("channels:history", "groups:history"),
    "conversations.replies": ("channels:history", "groups:history"),
    "conversations.info": ("channels:read", "groups:read"),
    "conversations.list": ("channels:read", "groups:read"),
    "conversations.members": ("channels:read", "groups:read"),
    "conversations.open": ("im:write",),
    "files.upload.v2": ("files:write",),
    "reactions.add": ("reactions:write",),
    "usergroups.list": ("usergroups:read",),
    "usergroups.users.list": ("usergroups:read",),
    "users.info": ("users:read",),
    "users.list": ("users:read",),
    "users.lookupByEmail": ("users:read", "users:read.email"),
    "views.open": (),
    "views.update": (),
    "views.push": (),
}
"""per method of Slack's reference: the scopes it needs for public and private channels"""


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"poeple": []}, "The workspace has no 'poeple'"),
        ({"people": [{"id": "U1", "name": "a", "kind": "boss"}]}, "kind is one of owner"),
        ({"people": [{"id": "U1", "name": "a", "zone": "Mars/Base"}]}, "not a known time zone"),
        ({"people": [{"id": "U1", "name": "a"}] * 2}, "'U1' appears twice in people"),
        ({"people": [{"id": "U1", "nick": "a"}]}, r"people\[0\]"),
        ({"channels": [{"id": "C1", "name": "c", "members": ["U9"]}]}, "a member 'U9' who is not among"),
        ({"channels": [{"name": "c"}]}, r"channels\[0\] needs id and name"),
        ({"typography": "fancy"}, "plain or smart"),
    ],
)
def test_a_wrong_description_is_one_sentence(spec, sentence):
    """It says where and what."""
    with pytest.raises(ValueError, match=sentence):
        parse_spec(spec)


def test_regular_people_and_the_app_are_in_a_channel_unless_said_otherwise():
    """Guests and external people are members only where listed."""
    people = [
        {"id": "U1", "name": "ada"},
        {"id": "U2", "name": "guy", "kind": "guest"},
    ]
    spec = parse_spec({"people": people, "channels": [{"id": "C1", "name": "#a"}]})
    assert (spec.channels[0].name, spec.channels[0].members) == ("a", {"U1", "U0QUARTERM"})


def test_the_shipped_manifest_is_one_slack_takes(shipped):
    """One command with a hint and escaping, Socket Mode, interactivity, within Slack's schema's lengths."""
    read = read_manifest(shipped)
    command = read.commands["/exp"]
    about = shipped["display_information"]
    assert list(read.commands) == ["/exp"]
    assert (command.should_escape, read.socket_mode, read.interactive) == (True, True, True)
    assert 0 < len(command.usage_hint) <= 1000
    assert len(about["name"]) <= 35
    assert len(about["description"]) <= 140
    assert read.bot_events == frozenset()


def test_the_shipped_scopes_are_those_of_the_calls_the_bot_makes(shipped):
    """Neither more nor fewer: a call without its scope fails, a scope without a call is asked for in vain."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "bot").rglob("*.py"))
    known = {name.replace(".", "_"): name for name in SCOPES_OF_METHOD}  # as Slack's SDK names them
    called = {known[word] for word in re.findall(r"client\.(\w+)", source) if word in known}
    needed = {scope for method in called for scope in SCOPES_OF_METHOD[method]}
    assert {"chat.postMessage", "chat.update"} <= called
    # Without a call of their own: the slash command, and channels the app was not invited to.
    assert set(read_manifest(shipped).scopes) == needed | {"commands", "chat:write.public"}


def test_a_manifest_slack_refuses():
    """A command without the slash, and commands without their scope."""
    with pytest.raises(ValueError, match="'exp'"):
        read_manifest({"features": {"slash_commands": [{"command": "exp"}]}})
    with pytest.raises(ValueError, match="scope `commands`"):
        read_manifest({"features": {"slash_commands": [{"command": "/exp"}]}})
