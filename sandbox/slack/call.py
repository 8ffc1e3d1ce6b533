"""One call of the Web API: its arguments, however they were encoded, and who is asking."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.slack.errors import SlackError
from sandbox.slack.spec import Channel
from sandbox.slack.state import State

ACCESS_SCOPE = {"public": "channels", "private": "groups", "im": "im"}


@dataclass(frozen=True)
class Call:
    """Arguments and state for a method's handler."""

    state: State
    method: str
    arguments: Mapping[str, Any]

    def text(self, name: str, *, required: bool = False) -> str:
        """A string argument, empty where absent; raises SlackError invalid_arguments where required."""
        value = self.arguments.get(name)
        if value is None or value == "":
            if required:
                problem = f"[ERROR] missing required field: {name}"
                raise SlackError("invalid_arguments", response_metadata={"messages": [problem]})
            return ""
        return value if isinstance(value, str) else str(value)

    def flag(self, name: str) -> bool:
        """A boolean argument: true, "true", 1, "1"."""
        return self.arguments.get(name) in (True, "true", "True", "1", 1)

    def number(self, name: str, default: int) -> int:
        """A whole number; raises SlackError invalid_arguments for anything else."""
        value = self.arguments.get(name)
        if value in (None, ""):
            return default
        try:
            return int(str(value))
        except ValueError as error:
            raise SlackError("invalid_arguments") from error

    def decoded(self, name: str, code: str) -> Any:
        """A structured argument: a JSON value, or JSON in a string; raises SlackError `code`."""
        value = self.arguments.get(name)
        if not isinstance(value, str) or value == "":
            return value or None if value == "" else value
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise SlackError(code) from error

    def need(self, *scopes: str) -> None:
        """Refuse with missing_scope unless the manifest has one of the scopes."""
        provided = self.state.manifest.scopes
        if scopes and not set(scopes) & set(provided):
            raise SlackError("missing_scope", needed=scopes[0], provided=",".join(provided))

    def need_access(self, channel: Channel, right: str) -> None:
        """The scope for reading (`read`, `history`) this kind of conversation."""
        self.need(f"{ACCESS_SCOPE[channel.kind]}:{right}")

    def conversation(self, name: str = "channel") -> Channel:
        """The channel the app may know of; raises SlackError channel_not_found."""
        channel = self.state.channels.get(self.text(name, required=True))
        if channel is None or (channel.kind != "public" and not self.state.app_is_in(channel)):
            raise SlackError("channel_not_found")
        return channel


Handler = Callable[[Call], dict[str, Any]]


@dataclass(frozen=True)
class Method:
    """How a Web API method is reached: its scopes, its rate tier, and whether it changes anything."""

    handler: Handler
    tier: int
    scopes: tuple[str, ...] = ()
    mutating: bool = False
    app_level: bool = False


def page_of(items: list[Any], call: Call, default: int, most: int) -> tuple[list[Any], dict[str, str]]:
    """One page and its response_metadata; the cursor is an offset, opaque to clients."""
    limit = max(1, min(call.number("limit", default), most))
    cursor = call.text("cursor")
    if cursor and not cursor.startswith("next:"):
        raise SlackError("invalid_cursor")
    start = int(cursor.removeprefix("next:") or 0)
    more = start + limit < len(items)
    return items[start : start + limit], {"next_cursor": f"next:{start + limit}" if more else ""}
