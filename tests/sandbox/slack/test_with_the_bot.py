"""The bot's own Slack adapters against the workspace, over the wire, with the manifest we ship."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from bot.inbox import Inbox
from bot.messages.model import Button, Buttons, Confirm, Fields, Header, Message, Text
from bot.slack.app import build_app
from bot.slack.outbox import Outbox, Whisper
from bot.slack.socket import Socket
from bot.slack.web import SlackWeb, web_client
from bot.tables import MIGRATIONS
from fleet.db import Database

CARD = Message(
    text="dota has spent 80 % of its cap",
    blocks=(
        Header("dota is at 80 %"),
        Text("It grows & grows <fast>", mention="U1"),
        Fields((("Spent", "$1,600.00"), ("Cap", "$2,000.00"))),
        Buttons(
            (
                Button("approve", "r1", "Approve"),
                Button("kill", "r1", "Kill", confirm=Confirm("Kill?", "Ends 4 pods", "Kill")),
            )
        ),
    ),
    card=True,
)


@pytest.fixture
def workspace(make, shipped):
    """Installed with the shipped manifest, nothing added."""
    return make(manifest=shipped)


@pytest.fixture
def database():
    """In memory, with the bot's tables."""
    opened = Database(":memory:", [MIGRATIONS])
    yield opened
    opened.close()


@pytest.fixture
def outbox(workspace, database):
    """The durable outbox over the workspace."""
    return Outbox(database, SlackWeb(web_client("xoxb-sandbox", workspace.api_url)))


def close(socket, host, workspace):
    """The other end first: the client's own close may sit in a select of ten seconds."""
    socket._handler.client.auto_reconnect_enabled = False
    host.call(workspace.link.drop)
    socket.close()


def test_a_card_is_posted_once_although_the_reply_was_lost(workspace, outbox, world):
    """The connection breaks after Slack has done it: the card is found by its metadata, not posted again."""
    now = world.now
    workspace.faults.lost_replies["chat.postMessage"] = 1
    outbox.post(key="card", channel="C1", message=CARD, now=now)
    outbox.flush(now)
    assert outbox.waiting() == 1
    outbox.flush(now + timedelta(minutes=5))
    outbox.post(key="note", channel="C1", message=Message("in the thread"), thread="card", now=now)
    outbox.flush(now + timedelta(minutes=6))

    [card] = workspace.messages("C1")
    assert card["blocks"][1]["text"]["text"] == "<@U1> It grows &amp; grows &lt;fast&gt;"
    assert [m["text"] for m in workspace.thread("C1", card["ts"])[1:]] == ["in the thread"]
    assert outbox.waiting() == 0


def test_throttling_and_outages_delay_but_lose_nothing(workspace, outbox, world):
    """429 and 503 leave everything queued, in order."""
    now = world.now
    for number in range(3):
        outbox.post(key=f"m{number}", channel="C1", message=Message(f"message {number}"), now=now)
    workspace.faults.throttled["chat.postMessage"] = 1
    outbox.flush(now)
    workspace.faults.down = True
    outbox.flush(now + timedelta(seconds=5))
    workspace.faults.down = False
    outbox.flush(now + timedelta(minutes=5))

    assert [m["text"] for m in workspace.messages("C1")] == ["message 0", "message 1", "message 2"]


def test_commands_and_clicks_reach_the_inbox_and_answers_the_person(workspace, database, outbox, host, world):
    """One row for each, acknowledged in well under a second; the answer goes through its response_url."""
    inbox = Inbox(database, lambda: world.now, lambda: None)
    client = web_client("xoxb-sandbox", workspace.api_url)
    socket = Socket(build_app(client, inbox), "xapp-sandbox")
    outbox.post(key="card", channel="C1", message=CARD, now=world.now)
    outbox.flush(world.now)
    ts = workspace.messages("C1")[0]["ts"]
    socket.start()
    try:
        host.run(workspace.connected())
        typed = host.run(workspace.settled(host.call(workspace.say, "ada", "C1", "/exp pause @bob")))
        clicked = host.run(workspace.settled(host.call(workspace.click, "bob", "C1", ts, "Kill")))
    finally:
        close(socket, host, workspace)

    command, action = inbox.pending()
    assert (typed.state, clicked.state) == ("acknowledged", "acknowledged")
    assert max(typed.ack_ms, clicked.ack_ms) < 1000
    assert command.payload["text"] == "pause <@U2|bob>"
    assert (action.payload["user"]["id"], action.payload["actions"][0]["value"]) == ("U2", "r1")
    to = Whisper("U1", "C1", response_url=command.payload["response_url"])
    outbox.whisper(key="answer", to=to, message=Message("It is paused."), now=world.now)
    outbox.flush(world.now)
    assert [m["text"] for m in workspace.ephemerals("ada")] == ["It is paused."]
    assert workspace.calls["response_url"] == 1


def test_the_socket_is_back_soon_after_a_hard_drop(workspace, database, host, world):
    """Within a few real seconds, although nobody said goodbye."""
    inbox = Inbox(database, lambda: world.now, lambda: None)
    socket = Socket(build_app(web_client("xoxb-sandbox", workspace.api_url), inbox), "xapp-sandbox")
    socket.start()
    try:
        host.run(workspace.connected())
        number = workspace.link.connections[0].number
        host.call(workspace.link.drop)
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            if any(c.number > number for c in workspace.link.connections):
                break
            time.sleep(0.02)
        assert any(c.number > number for c in workspace.link.connections)
    finally:
        close(socket, host, workspace)
