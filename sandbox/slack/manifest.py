"""What the app may do and listens to, as its manifest (the file pasted at installation) says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """A slash command as Slack's client lists it."""

    name: str
    description: str
    usage_hint: str
    should_escape: bool


@dataclass(frozen=True)
class Manifest:
    """The parts of an app manifest that decide what Slack allows and delivers."""

    scopes: tuple[str, ...]
    commands: Mapping[str, Command]
    bot_events: frozenset[str]
    interactive: bool
    socket_mode: bool
    home_tab: bool


def read_manifest(manifest: Mapping[str, Any]) -> Manifest:
    """Read a manifest given as plain values; raises ValueError where Slack would refuse it."""
    features = manifest.get("features", {})
    settings = manifest.get("settings", {})
    commands = {}
    for each in features.get("slash_commands", ()):
        name = each.get("command", "")
        if not name.startswith("/") or len(name) > 32 or " " in name:
            raise ValueError(f"The manifest's slash command {name!r} is not one Slack accepts.")
        commands[name] = Command(
            name, each.get("description", ""), each.get("usage_hint", ""), bool(each.get("should_escape"))
        )
    scopes = tuple(manifest.get("oauth_config", {}).get("scopes", {}).get("bot", ()))
    if commands and "commands" not in scopes:
        raise ValueError("The manifest has slash commands but not the scope `commands`.")
    return Manifest(
        scopes=scopes,
        commands=commands,
        bot_events=frozenset(settings.get("event_subscriptions", {}).get("bot_events", ())),
        interactive=bool(settings.get("interactivity", {}).get("is_enabled")),
        socket_mode=bool(settings.get("socket_mode_enabled")),
        home_tab=bool(features.get("app_home", {}).get("home_tab_enabled")),
    )
