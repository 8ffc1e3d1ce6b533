"""The Bolt app at its one entry: written down, acknowledged at once, nothing else."""

from __future__ import annotations

import time

import pytest
from slack_bolt import BoltRequest

from bot.inbox import Inbox
from bot.slack.app import NOT_RECORDED, build_app
from bot.slack.web import web_client
from bot.tables import MIGRATIONS
from fleet.db import Database
from fleet.errors import Unavailable
from tests.builders import T0

COMMAND = {
    "command": "/exp",
    "text": "ls",
    "user_id": "U1",
    "team_id": "T1",
    "channel_id": "C1",
    "token": "legacy-verification",
    "trigger_id": "1.2.3",
    "response_url": "http://r",
}
CLICK = {
    "type": "block_actions",
    "actions": [{"action_id": "old.button", "value": "r-1", "block_id": "b", "type": "button"}],
    "user": {"id": "U1"},
    "team": {"id": "T1"},
    "channel": {"id": "C1"},
    "trigger_id": "1.2.4",
}


@pytest.fixture
def inbox():
    """An inbox in memory."""
    return Inbox(Database(":memory:", [MIGRATIONS]), lambda: T0, lambda: None)


@pytest.fixture
def app(inbox):
    """The app; its client's address answers nobody, because nothing may be called on the way to an ack."""
    return build_app(web_client("xoxb-1", "http://127.0.0.1:1/api/"), inbox)


def dispatch(app, body):
    """As the socket hands it over."""
    return app.dispatch(BoltRequest(body=body, mode="socket_mode"))


def test_a_command_is_written_down_and_acknowledged_within_100_ms(app, inbox):
    """No call to Slack stands between."""
    dispatch(app, {**COMMAND, "trigger_id": "0.0.0"})
    started = time.perf_counter()
    answer = dispatch(app, COMMAND)
    took = time.perf_counter() - started

    assert answer.status == 200
    assert took < 0.1
    assert [inbound.kind for inbound in inbox.pending()] == ["command", "command"]


def test_what_is_not_needed_is_not_kept(app, inbox):
    """The legacy verification token stays out of the database."""
    dispatch(app, COMMAND)

    assert "legacy" not in str(inbox.pending())


def test_a_button_nobody_knows_is_acknowledged(app, inbox):
    """A stale action_id gets an answer later, not a warning triangle now."""
    assert dispatch(app, CLICK).status == 200
    assert inbox.pending()[0].kind == "action"


def test_a_redelivered_envelope_is_acknowledged_and_counts_once(app, inbox):
    """bolt-js#2188: slash commands arrive more than once."""
    assert [dispatch(app, COMMAND).status for _ in range(3)] == [200] * 3
    assert len(inbox.pending()) == 1


def test_what_cannot_be_written_down_is_said_at_once(app, inbox, monkeypatch):
    """A full disk: nothing was done, and the person knows."""

    def put(*_):
        raise Unavailable("database or disk is full")

    monkeypatch.setattr(inbox, "put", put)

    answer = dispatch(app, COMMAND)
    assert answer.status == 200
    assert NOT_RECORDED in answer.body
