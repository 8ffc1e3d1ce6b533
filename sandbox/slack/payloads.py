"""The payloads Slack sends to an app."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox.slack.errors import NotPossible
from sandbox.slack.spec import Channel, Person
from sandbox.slack.state import Message, State

_VERIFICATION_TOKEN = "sandbox-verification-token"


class Payloads:
    """Builds payloads out of the workspace's state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def command(self, name: str, text: str, who: Person, where: Channel) -> dict[str, Any]:
        """A slash command, without its response_url and trigger_id."""
        team = self._state.spec.team
        return {
            "token": _VERIFICATION_TOKEN,
            "team_id": team.id,
            "team_domain": team.domain,
            "channel_id": where.id,
            "channel_name": self._channel_name(where),
            "user_id": who.id,
            "user_name": who.name,
            "command": name,
            "text": text,
            "api_app_id": self._state.spec.app.id,
            "is_enterprise_install": "false",
        }

    def click(self, who: Person, where: Channel, message: Message, *, ephemeral: bool) -> dict[str, Any]:
        """A block_actions payload, without its actions."""
        container = {
            "type": "message",
            "message_ts": message["ts"],
            "channel_id": where.id,
            "is_ephemeral": ephemeral,
        }
        if message.get("thread_ts"):
            container["thread_ts"] = message["thread_ts"]
        payload = {
            "type": "block_actions",
            **self._common(who),
            "container": container,
            "channel": {"id": where.id, "name": self._channel_name(where)},
            "state": {"values": {}},
        }
        if not ephemeral:
            payload["message"] = {k: v for k, v in message.items() if k != "channel"}
        return payload

    def view(self, kind: str, who: Person, view: dict[str, Any]) -> dict[str, Any]:
        """A view_submission or view_closed payload."""
        return {"type": kind, **self._common(who), "view": view}

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """An Events API payload."""
        team, app = self._state.spec.team, self._state.spec.app
        ts = self._state.next_ts()
        return {
            "token": _VERIFICATION_TOKEN,
            "team_id": team.id,
            "api_app_id": app.id,
            "event": {"event_ts": ts, **event},
            "type": "event_callback",
            "event_id": self._state.next_id("Ev"),
            "event_time": int(float(ts)),
            "authorizations": [
                {"enterprise_id": None, "team_id": team.id, "user_id": app.bot_user, "is_bot": True}
            ],
            "is_ext_shared_channel": False,
        }

    def _common(self, who: Person) -> dict[str, Any]:
        team = self._state.spec.team
        return {
            "user": {"id": who.id, "username": who.name, "name": who.name, "team_id": team.id},
            "api_app_id": self._state.spec.app.id,
            "token": _VERIFICATION_TOKEN,
            "team": {"id": team.id, "domain": team.domain},
            "enterprise": None,
            "is_enterprise_install": False,
        }

    @staticmethod
    def _channel_name(where: Channel) -> str:
        return {"im": "directmessage", "private": "privategroup"}.get(where.kind, where.name)


def interactive_elements(blocks: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(block, element) for everything that can be clicked or chosen."""
    found = []
    for block in blocks:
        elements = list(block.get("elements", ())) if block["type"] == "actions" else []
        if isinstance(block.get("accessory"), dict) and block["accessory"].get("type") != "image":
            elements.append(block["accessory"])
        found += [(block, element) for element in elements]
    return found


def find_element(
    blocks: Iterable[dict[str, Any]], wanted: str, block_id: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The element with this action_id or, failing that, this text; raises NotPossible naming those there are."""
    elements = interactive_elements(blocks)
    if block_id:
        elements = [each for each in elements if each[0].get("block_id") == block_id]
    for block, element in elements:
        if element.get("action_id") == wanted:
            return block, element
    for block, element in elements:
        if element.get("text", {}).get("text", "").casefold() == wanted.casefold():
            return block, element
    names = [e.get("text", {}).get("text") or e.get("action_id", "") for _, e in elements]
    there = ", ".join(names) if names else "no buttons"
    raise NotPossible(f"There is no {wanted!r} on this message; it has {there}.")


def action_of(block: dict[str, Any], element: dict[str, Any], value: Any, ts: str) -> dict[str, Any]:
    """What was done to an element, as block_actions reports it; raises NotPossible for an unknown option."""
    kind = element["type"]
    action = {"type": kind, "action_id": element["action_id"], "block_id": block["block_id"], "action_ts": ts}
    if kind == "button":
        action |= {key: element[key] for key in ("text", "value", "style", "url") if key in element}
        return action
    return action | element_value(element, value)


def element_value(element: dict[str, Any], value: Any) -> dict[str, Any]:
    """The chosen value in the key Slack uses for this type of element; raises NotPossible for an unknown option."""
    kind = element["type"]
    if kind in ("static_select", "radio_buttons", "overflow"):
        return {"selected_option": _option(element, value) if value else None}
    if kind in ("multi_static_select", "checkboxes"):
        chosen = value if isinstance(value, list) else [value] if value else []
        return {"selected_options": [_option(element, each) for each in chosen]}
    key = {
        "datepicker": "selected_date",
        "timepicker": "selected_time",
        "users_select": "selected_user",
        "channels_select": "selected_channel",
        "conversations_select": "selected_conversation",
        "multi_users_select": "selected_users",
    }.get(kind, "value")
    return {key: value if value != "" else None}


def _option(element: dict[str, Any], wanted: Any) -> dict[str, Any]:
    options = list(element.get("options") or ())
    for group in element.get("option_groups") or ():
        options += group["options"]
    for option in options:
        if wanted in (option["value"], option["text"]["text"]):
            chosen: dict[str, Any] = option
            return chosen
    raise NotPossible(f"There is no option {wanted!r}; there are {', '.join(o['value'] for o in options)}.")
