"""Socket Mode through unmodified slack_bolt: what people do reaches the app, and its answers reach them."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import websocket
from slack_bolt import App
from slack_bolt.adapter.socket_mode.websocket_client import SocketModeHandler
from slack_sdk import WebClient

from sandbox.slack.errors import NotPossible

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)


@pytest.fixture
def connected(host):
    """Run a Bolt app against a workspace for the length of a `with` block."""

    @contextmanager
    def run(workspace, register, connections=1):
        client = WebClient(token="xoxb-sandbox", base_url=workspace.api_url, timeout=5)
        app = App(client=client, token_verification_enabled=False)
        register(app)
        handlers = [SocketModeHandler(app, "xapp-sandbox", ping_interval=1) for _ in range(connections)]
        for handler in handlers:
            handler.connect()
        try:
            host.run(workspace.connected(connections))
            yield app
        finally:
            # The client's own close may sit in a select of ten seconds on a socket it closed itself;
            # where the other end goes first it wakes at once.
            for handler in handlers:
                handler.client.auto_reconnect_enabled = False
            host.call(workspace.link.drop)
            for handler in handlers:
                handler.close()

    return run


def did(host, workspace, act):
    """Wait until an act is settled."""
    return host.run(workspace.settled(act), 10)


def card(channel="C1", **more):
    """A message with three buttons."""

    def button(text, action_id, **style):
        label = {"type": "plain_text", "text": text}
        return {"type": "button", "text": label, "action_id": action_id, "value": "r1", **style}

    elements = [button("Approve", "approve", style="primary"), button("Kill", "kill", style="danger")]
    return {
        "channel": channel,
        "text": "80 % of the cap is spent",
        "blocks": [{"type": "actions", "block_id": "b", "elements": elements}],
        **more,
    }


def test_a_command_is_acknowledged_and_answered(connected, workspace, host):
    """The text of the ack is an ephemeral; mentions arrive as ids, entities escaped."""
    seen = {}

    def register(app):
        @app.command("/exp")
        def exp(ack, command):
            seen.update(command)
            ack("on it")

    with connected(workspace, register):
        act = did(
            host, workspace, host.call(workspace.say, "ada", "experiments", "/exp ls @bob #elsewhere a&b")
        )

    assert (act.state, act.error) == ("acknowledged", "")
    assert seen["text"] == "ls <@U2|bob> <#C2|elsewhere> a&amp;b"
    assert (seen["user_id"], seen["channel_id"], seen["command"]) == ("U1", "C1", "/exp")
    assert [m["text"] for m in workspace.ephemerals("ada", "experiments")] == ["on it"]
    assert workspace.ephemerals("bob") == []


def test_smart_typography_reaches_the_app(connected, make, host):
    """Where people's clients are smart, -- and quotes arrive as an em dash and curly quotes."""
    seen = []

    def register(app):
        @app.command("/exp")
        def exp(ack, command):
            ack()
            seen.append(command["text"])

    workspace = make({"typography": "smart"})
    with connected(workspace, register):
        did(host, workspace, host.call(workspace.say, "ada", "C1", '/exp launch --gpus 8 "my job"'))
    assert seen == ["launch —gpus 8 “my job”"]


def test_a_click_carries_the_message_and_can_replace_it(connected, workspace, host, client):
    """block_actions with value, channel and thread; response_url replaces the card for all."""
    seen = {}
    replaced = threading.Event()

    def register(app):
        @app.action("approve")
        def approve(ack, body, respond):
            ack()
            seen.update(body)
            respond(replace_original=True, text="Approved by Ada")
            replaced.set()

    ts = client.chat_postMessage(**card())["ts"]
    with connected(workspace, register):
        did(host, workspace, host.call(workspace.click, "ada", "C1", ts, "Approve"))
        assert replaced.wait(5)

    assert seen["actions"][0]["value"] == "r1"
    assert (seen["message"]["ts"], seen["user"]["id"], seen["container"]["is_ephemeral"]) == (ts, "U1", False)
    assert workspace.messages("C1")[0]["text"] == "Approved by Ada"
    assert "blocks" not in workspace.messages("C1")[0]


def test_nobody_listening_is_told_to_the_person(workspace, host):
    """Without a connection a command fails at once, in the words of Slack's client."""
    act = host.call(workspace.say, "ada", "C1", "/exp ls")
    assert (act.state, act.error) == ("failed", "dispatch_failed")
    assert [m["text"] for m in workspace.ephemerals("ada")] == [
        "/exp failed with the error “dispatch_failed”"
    ]


def test_an_ack_after_the_limit_is_too_late(connected, workspace, host):
    """The person sees operation_timeout, although the app did its work."""
    workspace.link.ack_seconds = 0.05

    def register(app):
        @app.command("/exp")
        def exp(ack):
            time.sleep(0.2)
            ack("done")

    with connected(workspace, register):
        act = did(host, workspace, host.call(workspace.say, "ada", "C1", "/exp ls"))
    assert (act.state, act.error) == ("failed", "operation_timeout")
    assert [m["text"] for m in workspace.ephemerals("ada")] == [
        "/exp failed with the error “operation_timeout”"
    ]


def test_a_command_that_is_not_in_the_manifest_never_leaves_the_client(connected, workspace, host):
    """Slack's own client refuses it, and refuses commands in threads."""
    act = host.call(workspace.say, "ada", "C1", "/deploy now")
    assert act.state == "refused"
    assert workspace.ephemerals("ada")[0]["text"].startswith("/deploy is not a valid command.")
    host.call(workspace.say, "ada", "C1", "root")
    root = workspace.messages("C1")[0]["ts"]
    inside = host.call(lambda: workspace.say("ada", "C1", "/exp ls", thread_ts=root))
    assert inside.error == "/exp is not supported in threads. Sorry!"


def test_people_who_cannot(workspace, host, client):
    """Leavers sign in no more; guests and outsiders of a channel neither read nor click there."""
    ts = client.chat_postMessage(**card())["ts"]
    attempts = [
        lambda: workspace.say("gone", "C1", "hello"),
        lambda: workspace.say("guy", "C1", "hello"),
        lambda: workspace.say("bob", "secret", "hello"),
        lambda: workspace.say("ada", "old", "hello"),
        lambda: workspace.click("guy", "C1", ts, "Kill"),
        lambda: workspace.click("ada", "C1", ts, "Snooze"),
    ]
    for attempt in attempts:
        with pytest.raises(NotPossible):
            host.call(attempt)


def test_one_of_several_connections_gets_each_envelope(connected, workspace, host):
    """Ten commands over three connections are handled once each, on more than one of them."""
    seen = []

    def register(app):
        @app.command("/exp")
        def exp(ack, command):
            ack()
            seen.append(command["text"])

    with connected(workspace, register, connections=3):
        for number in range(10):
            did(host, workspace, host.call(workspace.say, "ada", "C1", f"/exp {number}"))
        used = {each.connection.number for [each] in workspace.link.envelopes.values()}
    assert sorted(seen, key=int) == [str(number) for number in range(10)]
    assert len(used) > 1


def test_a_redelivered_envelope_is_handled_twice(connected, workspace, host, world):
    """The same envelope again: the app sees it twice, and the world counts two."""
    seen = []
    twice = threading.Event()

    def register(app):
        @app.command("/exp")
        def exp(ack, command):
            ack()
            seen.append(command["trigger_id"])
            if len(seen) == 2:
                twice.set()

    host.call(lambda: world.expect("serve"))
    with connected(workspace, register):
        act = did(host, workspace, host.call(workspace.say, "ada", "C1", "/exp ls"))
        host.call(workspace.link.redeliver, act.envelope_id)
        assert twice.wait(30)
        participant = world.expect("serve")
        deadline = time.monotonic() + 30
        while participant.delivered < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
    assert seen[0] == seen[1]
    assert (participant.delivered, participant.on_the_way) == (2, 0)


def test_the_app_is_back_after_a_refresh_and_after_a_hard_drop(connected, workspace, host):
    """Both ends reconnect, and commands arrive again."""

    def register(app):
        @app.command("/exp")
        def exp(ack):
            ack()

    with connected(workspace, register):
        for cut in (lambda: workspace.link.refresh(grace=0.2), workspace.link.drop):
            before = workspace.link.connections[0].number
            host.call(cut)
            # The client looks at its connection every ten seconds at worst; a busy machine takes longer.
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                fresh = [c for c in workspace.link.connections if c.wanted and c.number > before]
                if fresh:
                    break
                time.sleep(0.01)
            assert fresh
            # The client may replace its connection once more; what is on its way then is lost, as with Slack.
            act = did(host, workspace, host.call(workspace.say, "ada", "C1", "/exp ls"))
            while act.state != "acknowledged" and time.monotonic() < deadline:
                act = did(host, workspace, host.call(workspace.say, "ada", "C1", "/exp ls"))
            assert act.state == "acknowledged"


def test_a_command_on_a_connection_that_breaks_is_lost_and_holds_nobody(workspace, host, connected, world):
    """The person sees a failure; the stepped world does not wait for an answer that cannot come."""
    arrived, release = threading.Event(), threading.Event()

    def register(app):
        @app.command("/exp")
        def exp(ack):
            arrived.set()
            release.wait(5)
            ack()

    host.call(lambda: world.expect("serve"))
    with connected(workspace, register):
        act = host.call(workspace.say, "ada", "C1", "/exp ls")
        assert arrived.wait(5)
        assert world.expect("serve").on_the_way == 1
        host.call(workspace.link.drop)
        did(host, workspace, act)
        release.set()
    assert (act.state, act.error) == ("failed", "connection_lost")
    assert world.expect("serve").on_the_way == 0


def test_a_mention_is_an_event_retried_on_the_worlds_clock(workspace, host, world, connected):
    """Events alone are retried: at once, after a minute, after five; a connected app gets them once."""
    seen = []

    def register(app):
        @app.event("app_mention")
        def mention(event):
            seen.append(event["text"])

    host.call(workspace.say, "ada", "C1", "@quartermaster help")
    host.spawn(world.run)
    host.run(world.wait("runner", START + timedelta(minutes=1, seconds=30)))
    tries = [entry["state"] for entry in workspace.journal if entry["kind"] == "envelope"]
    assert tries == ["failed", "failed", "failed"]
    with connected(workspace, register):
        host.run(world.wait("runner", START + timedelta(minutes=10)))
        deadline = time.monotonic() + 5
        while not seen and time.monotonic() < deadline:
            time.sleep(0.005)
    assert seen == ["<@U0QUARTERM> help"]


def _form():
    return {
        "type": "modal",
        "callback_id": "confirm",
        "title": {"type": "plain_text", "text": "Kill dota?"},
        "submit": {"type": "plain_text", "text": "Kill"},
        "blocks": [
            {
                "type": "input",
                "block_id": "name",
                "label": {"type": "plain_text", "text": "Its name"},
                "element": {"type": "plain_text_input", "action_id": "value"},
            }
        ],
    }


def test_a_ticket_is_used_once(workspace, client):
    """The WebSocket's address is good for one connection, and a made-up one for none."""
    answer = WebClient(base_url=workspace.api_url).apps_connections_open(app_token="xapp-sandbox")
    first = websocket.create_connection(answer["url"], timeout=5)
    try:
        assert '"hello"' in first.recv()
        with pytest.raises(websocket.WebSocketBadStatusException):
            websocket.create_connection(answer["url"], timeout=5)
    finally:
        first.close()
