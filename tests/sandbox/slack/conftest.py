"""A workspace with three people and four channels, served on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.hosting import Host
from sandbox.slack.workspace import Workspace
from sandbox.world import World

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
MANIFEST = Path(__file__).parents[3] / "config/slack/manifest.yaml"

SPEC: dict[str, Any] = {
    "people": [
        {"id": "U1", "name": "ada", "real_name": "Ada Lovelace", "email": "ada@lab.example", "kind": "admin"},
        {"id": "U2", "name": "bob", "real_name": "Bob Ross", "zone": "Europe/Berlin"},
        {"id": "U3", "name": "guy", "kind": "guest"},
        {"id": "U4", "name": "eve", "kind": "external"},
        {"id": "U5", "name": "gone", "kind": "deactivated", "email": "gone@lab.example"},
    ],
    "channels": [
        {"id": "C1", "name": "experiments", "topic": "What is running"},
        {"id": "C2", "name": "elsewhere", "app": False},
        {"id": "C3", "name": "secret", "private": True, "app": False, "members": ["U1"]},
        {"id": "C4", "name": "old", "archived": True},
    ],
    "usergroups": [{"id": "S1", "handle": "leads", "name": "Leads", "members": ["U1"]}],
}


@pytest.fixture
def shipped() -> dict[str, Any]:
    """The manifest we ship."""
    manifest: dict[str, Any] = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    return manifest


@pytest.fixture
def manifest(shipped):
    """The shipped manifest and more, to reach everything the workspace can do."""
    more = ("app_mentions:read", "channels:read", "files:write", "groups:read", "im:write", "reactions:write")
    shipped["oauth_config"]["scopes"]["bot"] += [*more, "usergroups:read"]
    shipped["settings"]["event_subscriptions"] = {"bot_events": ["app_mention"]}
    return shipped


@pytest.fixture
def host():
    """A sandbox thread."""
    running = Host()
    yield running
    running.close()


@pytest.fixture
def world() -> World:
    """A stepped world on a Friday, five in the afternoon."""
    return World(START)


@pytest.fixture
def make(host, world, manifest):
    """Serve a workspace that differs from the usual one in the given keys of its spec, or in its options."""

    def made(spec: dict[str, Any] | None = None, **options: Any) -> Workspace:
        settings: dict[str, Any] = {"manifest": manifest, "rate_limits": False, **options}
        workspace = Workspace(world, {**SPEC, **(spec or {})}, **settings)
        workspace.serve(host)
        return workspace

    return made


@pytest.fixture
def workspace(make):
    """Served, without rate limits."""
    return make()


@pytest.fixture
def client(workspace):
    """Slack's own SDK with the bot token, without retries of its own."""
    return WebClient(token="xoxb-sandbox", base_url=workspace.api_url, timeout=5, retry_handlers=[])


@pytest.fixture
def refused(client):
    """The error code of a call that Slack refuses."""

    def code(method: str, using: WebClient | None = None, **arguments: Any) -> str:
        with pytest.raises(SlackApiError) as caught:
            (using or client).api_call(method, json=arguments)
        return str(caught.value.response["error"])

    return code
