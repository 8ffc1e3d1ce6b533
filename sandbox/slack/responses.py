"""What apps answer to an interaction: through the ack, or later through its response_url."""

from __future__ import annotations

from typing import Any

from sandbox.slack.chat import check_message_blocks, with_ids
from sandbox.slack.errors import SlackError
from sandbox.slack.spec import Channel
from sandbox.slack.state import State
from sandbox.slack.triggers import RESPONSE_WINDOW, ResponseUrl
from sandbox.slack.views import checked_view, close_view, open_view, update_view


class Responses:
    """Applies answers to messages and views."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._urls: dict[str, ResponseUrl] = {}

    def issue(
        self, person: str, channel: str, message_ts: str = "", *, ephemeral: bool = False
    ) -> ResponseUrl:
        """A new response_url for an interaction."""
        expires = self._state.world.now + RESPONSE_WINDOW
        token = self._state.next_id("response")
        url = ResponseUrl(token, person, channel, expires, message_ts=message_ts, ephemeral=ephemeral)
        self._urls[token] = url
        return url

    def address(self, url: ResponseUrl) -> str:
        """Where it is reached."""
        return f"{self._state.address}/response/{url.token}"

    def respond(self, token: str, body: dict[str, Any]) -> None:
        """A POST to a response_url; raises SlackError (used_url, expired_url, invalid_blocks, no_text)."""
        url = self._urls.get(token)
        if url is None:
            raise SlackError("no_such_url")
        url.use(self._state.world.now)
        self.apply(url, body)

    def apply(self, url: ResponseUrl, body: dict[str, Any]) -> None:
        """Show an answer where it belongs; raises SlackError for content Slack refuses."""
        if body.get("delete_original"):
            self._remove_original(url)
            return
        content = _content(self._state, body)
        if body.get("replace_original") and url.message_ts:
            self._replace_original(url, content)
            return
        app = self._state.spec.app
        message = {"user": app.bot_user, "bot_id": app.bot_id, "app_id": app.id, **content}
        thread_ts = str(body.get("thread_ts") or "")
        if body.get("response_type") == "in_channel":
            self._state.add_message(self._channel(url), message, thread_ts)
            return
        if thread_ts:
            message["thread_ts"] = thread_ts
        self._state.add_ephemeral(url.person, url.channel, message)

    def apply_to_view(self, view_id: str, response: dict[str, Any]) -> None:
        """The response_action of a view_submission; none closes the view. Raises SlackError."""
        opened = self._state.views.get(view_id)
        if opened is None:
            return
        action = response.get("response_action")
        if action == "errors":
            self._show_errors(view_id, response.get("errors") or {})
        elif action == "update":
            update_view(self._state, view_id, checked_view(response.get("view")))
        elif action == "push":
            open_view(self._state, opened.person, checked_view(response.get("view")), view_id)
        else:
            close_view(self._state, view_id, whole_stack=action == "clear")

    def view_failed(self, person: str, sentence: str) -> None:
        """Keep the person's forms open and say that sending did not work."""
        for opened in self._state.views.values():
            if opened.person == person and opened.view["type"] == "modal":
                opened.errors = {"": sentence}
        self._state.publish({"type": "views", "person": person})

    def _show_errors(self, view_id: str, errors: dict[str, str]) -> None:
        opened = self._state.views[view_id]
        inputs = {b["block_id"] for b in opened.view["blocks"] if b["type"] == "input"}
        if not errors or not set(errors) <= inputs:
            # Slack shows its trouble connecting where errors name a block that is no input.
            raise SlackError("invalid_errors")
        opened.errors = dict(errors)
        self._state.publish({"type": "views", "person": opened.person})

    def _channel(self, url: ResponseUrl) -> Channel:
        return self._state.channels[url.channel]

    def _remove_original(self, url: ResponseUrl) -> None:
        if url.ephemeral:
            self._state.remove_ephemeral(url.person, url.message_ts)
        elif url.message_ts:
            self._state.remove_message(self._channel(url), url.message_ts)

    def _replace_original(self, url: ResponseUrl, content: dict[str, Any]) -> None:
        changes = {"blocks": None, **content}
        if not url.ephemeral:
            self._state.change_message(self._channel(url), url.message_ts, changes)
            return
        shown = self._state.ephemeral(url.person, url.message_ts)
        if shown is None:
            return
        kept = {key: value for key, value in {**shown.message, **changes}.items() if value is not None}
        shown.message = kept
        self._state.publish({"type": "ephemeral", "person": url.person, "message": kept})


def _content(state: State, body: dict[str, Any]) -> dict[str, Any]:
    text, blocks = body.get("text") or "", body.get("blocks")
    if not text and not blocks:
        raise SlackError("no_text")
    content: dict[str, Any] = {"text": str(text)[:40_000]}
    if blocks:
        check_message_blocks(blocks)
        content["blocks"] = [with_ids(block, state.next_id) for block in blocks]
    return content
