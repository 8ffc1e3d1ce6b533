"""Our messages are found again in the workspace itself, over the Web API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from bot.slack.web import SlackRefused, SlackWeb, web_client
from sandbox.hosting import Host
from sandbox.slack.workspace import Workspace
from sandbox.world import World
from tests.builders import T0

MANIFEST = Path(__file__).resolve().parents[3] / "config/slack/manifest.yaml"
CHANNELS = [
    {"id": "C1", "name": "elsewhere", "app": False},
    {"id": "C2", "name": "secret", "private": True, "app": False},
]


@pytest.fixture
def web() -> Iterator[SlackWeb]:
    """The calls of the outbox, to a workspace with the shipped manifest, in no channel of which we are."""
    host = Host()
    world = host.call(lambda: World(T0))
    spec = {"people": [{"id": "U1", "name": "ada"}], "channels": CHANNELS}
    workspace = host.call(lambda: Workspace(world, spec, yaml.safe_load(MANIFEST.read_text())))
    workspace.serve(host)
    yield SlackWeb(web_client("xoxb-sandbox", workspace.api_url))
    host.close()


def test_a_message_is_found_where_nobody_invited_us(web):
    """A public channel can be written to, and not read, without being in it: it would be said twice."""
    ts = web.post("C1", "d-1:paused", {"text": "paused"})

    assert web.find("C1", "d-1:paused", thread_ts="", since=T0 - timedelta(hours=1)) == ts
    assert web.find("C1", "d-2:paused", thread_ts="", since=T0 - timedelta(hours=1)) == ""


def test_a_private_channel_we_are_not_in_stays_closed(web):
    """Neither read nor joined: whoever asks learns what Slack said."""
    with pytest.raises(SlackRefused, match="channel_not_found"):
        web.find("C2", "d-1:paused", thread_ts="", since=T0 - timedelta(hours=1))
