"""What people do: commands, messages, clicks and forms, and what becomes of the app's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.slack.errors import NotPossible, SlackError
from sandbox.slack.forms import form_errors, form_state
from sandbox.slack.link import Envelope, Link
from sandbox.slack.payloads import Payloads, action_of, find_element
from sandbox.slack.responses import Responses
from sandbox.slack.spec import Channel, Person
from sandbox.slack.state import Message, State
from sandbox.slack.typing_habits import encode, smarten, without_names
from sandbox.slack.views import close_view

_RETRY_AFTER_SECONDS = (0.0, 60.0, 300.0)
"""world time; what Slack documents for the Events API, and for nothing else"""


@dataclass(eq=False)
class Act:
    """One thing a person did. `state` is done, sent, acknowledged, failed or refused (by the client)."""

    kind: str
    person: str
    channel: str
    what: str
    state: str = "sent"
    error: str = ""
    ack_ms: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)
    trigger_id: str = ""
    response_url: str = ""
    envelope_id: str = ""
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def summary(self) -> dict[str, Any]:
        """For the page and the journal."""
        names = ("person", "channel", "what", "state", "error", "ack_ms", "envelope_id")
        return {"act": self.kind, **{name: getattr(self, name) for name in names}}


class Acts:
    """The people's side of the workspace."""

    def __init__(self, state: State, link: Link, responses: Responses) -> None:
        self._state = state
        self._link = link
        self._responses = responses
        self._payloads = Payloads(state)
        self.smart = state.spec.smart

    def say(self, person: str, channel: str, text: str, thread_ts: str = "") -> Act:
        """Type a line and press Enter: a slash command, or a message.

        Raises NotPossible where the person cannot write there, KeyError for an unknown person or channel.
        """
        who, where = self._writer(person, channel)
        if self.smart:
            text = smarten(text)
        if not text.startswith("/"):
            return self._message(who, where, text, thread_ts)
        name, _, rest = text.partition(" ")
        act = Act("command", who.id, where.id, text)
        command = self._state.manifest.commands.get(name)
        if thread_ts:
            return self._refuse(act, f"{name} is not supported in threads. Sorry!")
        if command is None:
            return self._refuse(act, _NOT_A_COMMAND.format(name=name))
        typed = encode(self._state, rest.strip()) if command.should_escape else rest.strip()
        url = self._responses.issue(who.id, where.id)
        act.trigger_id, act.response_url = self._state.triggers.issue(who.id), self._responses.address(url)
        payload = self._payloads.command(name, typed, who, where) | {
            "response_url": act.response_url,
            "trigger_id": act.trigger_id,
        }

        def answered(response: dict[str, Any]) -> None:
            if response:
                self._responses.apply(url, response)

        return self._deliver(act, "slash_commands", payload, answered)

    def click(
        self,
        person: str,
        channel: str,
        message_ts: str,
        action: str,
        *,
        value: Any = None,
        block_id: str = "",
    ) -> Act:
        """Press a button (by action_id or by its text), or choose `value` in a menu.

        Raises NotPossible where the person cannot see the message or it has no such element.
        """
        who = self._present(person)
        where = self._state.channel(channel)
        message, ephemeral = self._seen(who, where, message_ts)
        block, element = find_element(message.get("blocks", ()), action, block_id)
        url = self._responses.issue(who.id, where.id, message_ts, ephemeral=ephemeral)
        label = element.get("text", {}).get("text", element.get("action_id", ""))
        act = Act("click", who.id, where.id, label)
        act.trigger_id, act.response_url = self._state.triggers.issue(who.id), self._responses.address(url)
        payload = self._payloads.click(who, where, message, ephemeral=ephemeral) | {
            "actions": [action_of(block, element, value, self._state.next_ts())],
            "response_url": act.response_url,
            "trigger_id": act.trigger_id,
        }
        return self._deliver(act, "interactive", payload, lambda _response: None)

    def submit(self, person: str, view_id: str, values: Mapping[str, Any]) -> Act:
        """Send a form; `values` by action_id or block_id. The client itself refuses missing required fields."""
        who = self._present(person)
        opened = self._state.views.get(view_id)
        if opened is None or opened.person != who.id:
            raise NotPossible(f"{who.real_name} has no form {view_id} open.")
        act = Act("submit", who.id, "", opened.view.get("callback_id") or view_id)
        opened.errors = form_errors(opened.view, values)
        if opened.errors:
            self._state.publish({"type": "views", "person": who.id})
            return self._refuse(act, "")
        opened.view["state"] = {"values": form_state(opened.view, values)}
        act.trigger_id = self._state.triggers.issue(who.id)
        payload = self._payloads.view("view_submission", who, opened.view)
        payload |= {"trigger_id": act.trigger_id, "response_urls": []}

        def answered(response: dict[str, Any]) -> None:
            self._responses.apply_to_view(view_id, response)

        return self._deliver(act, "interactive", payload, answered)

    def close(self, person: str, view_id: str) -> Act | None:
        """Cancel a form; the app is told only where its view asked for that."""
        who = self._present(person)
        opened = self._state.views.get(view_id)
        if opened is None or opened.person != who.id:
            raise NotPossible(f"{who.real_name} has no form {view_id} open.")
        view = opened.view
        close_view(self._state, view_id)
        if not view.get("notify_on_close"):
            return None
        payload = self._payloads.view("view_closed", who, view) | {"is_cleared": False}
        act = Act("close", who.id, "", view.get("callback_id") or view_id)
        return self._deliver(act, "interactive", payload, lambda _response: None)

    def event(self, kind: str, event: dict[str, Any]) -> Act | None:
        """Tell the app of an event where its manifest subscribes to it; retried as Slack documents."""
        if kind not in self._state.manifest.bot_events:
            return None
        act = Act("event", str(event.get("user", "")), str(event.get("channel", "")), kind)
        self._deliver_event(act, self._payloads.event({"type": kind, **event}), 0)
        return act

    def _deliver_event(self, act: Act, payload: dict[str, Any], attempt: int) -> None:
        def done(envelope: Envelope) -> None:
            if envelope.state == "failed" and attempt < len(_RETRY_AFTER_SECONDS):
                delay = _RETRY_AFTER_SECONDS[attempt]
                self._state.world.after(delay, lambda: self._deliver_event(act, payload, attempt + 1))
                return
            self._settle(act, envelope)

        envelope = Envelope(self._state.next_id("envelope-"), "events_api", payload, done)
        envelope.accepts_response, envelope.attempt = False, attempt
        envelope.reason = "timeout" if attempt else ""
        act.envelope_id = envelope.id
        self._link.send(envelope)

    def _deliver(
        self, act: Act, kind: str, payload: dict[str, Any], answered: Callable[[dict[str, Any]], None]
    ) -> Act:
        def done(envelope: Envelope) -> None:
            if envelope.state == "acknowledged":
                try:
                    answered(envelope.response)
                except SlackError as error:
                    envelope.state, envelope.error = "failed", error.code
            self._settle(act, envelope)
            if envelope.state == "failed":
                self._show_failure(act)

        envelope = Envelope(self._state.next_id("envelope-"), kind, payload, done)
        act.envelope_id = envelope.id
        self._state.record("act", **act.summary())
        self._link.send(envelope)
        return act

    def _settle(self, act: Act, envelope: Envelope) -> None:
        act.state, act.error = envelope.state, envelope.error
        act.ack_ms, act.answer = round(envelope.ack_ms, 1), envelope.response
        act.settled.set()
        self._state.publish({"type": "act", "act": act.summary()})

    def _show_failure(self, act: Act) -> None:
        # Whatever the reason, the client only knows that nothing came back.
        error = "operation_timeout" if act.error == "connection_lost" else act.error
        if act.kind == "command":
            self._notice(act, f"{act.what.split()[0]} failed with the error “{error}”")
        elif act.kind == "click":
            self._notice(act, f"⚠ {act.what}: this app did not respond ({error}). Try again.")
        elif act.kind == "submit":
            self._responses.view_failed(act.person, "We had some trouble connecting. Try again?")

    def _refuse(self, act: Act, sentence: str) -> Act:
        act.state, act.error = "refused", sentence
        act.settled.set()
        self._state.record("act", **act.summary())
        if sentence:
            self._notice(act, sentence)
        return act

    def _notice(self, act: Act, text: str) -> None:
        self._state.add_ephemeral(
            act.person, act.channel, {"user": "USLACKBOT", "text": text, "notice": True}
        )

    def _message(self, who: Person, where: Channel, text: str, thread_ts: str) -> Act:
        encoded = without_names(encode(self._state, text))
        message = self._state.add_message(where, {"user": who.id, "text": encoded}, thread_ts)
        act = Act("message", who.id, where.id, text, state="done")
        act.settled.set()
        self._state.record("act", **act.summary())
        bot = self._state.spec.app.bot_user
        event = {"user": who.id, "text": encoded, "ts": message["ts"], "channel": where.id}
        if message.get("thread_ts"):
            event["thread_ts"] = message["thread_ts"]
        if f"<@{bot}" in encoded and self._state.app_is_in(where):
            self.event("app_mention", event)
        if self._state.app_is_in(where):
            kind = {"public": "channels", "private": "groups", "im": "im"}[where.kind]
            if f"message.{kind}" in self._state.manifest.bot_events:
                self._deliver_event(
                    Act("event", who.id, where.id, "message"),
                    self._payloads.event({"type": "message", "channel_type": where.kind, **event}),
                    0,
                )
        return act

    def _present(self, person: str) -> Person:
        who = self._state.person(person)
        if not who.active:
            raise NotPossible(f"{who.real_name} ({who.kind}) cannot sign in.")
        return who

    def _writer(self, person: str, channel: str) -> tuple[Person, Channel]:
        who, where = self._present(person), self._state.channel(channel)
        if not self._state.visible_to(where, who.id):
            raise NotPossible(f"{who.real_name} cannot see #{where.name}.")
        if where.archived:
            raise NotPossible(f"#{where.name} is archived: nobody can write there.")
        return who, where

    def _seen(self, who: Person, where: Channel, ts: str) -> tuple[Message, bool]:
        private = self._state.ephemeral(who.id, ts)
        if private is not None:
            return private.message, True
        message = self._state.messages[where.id].get(ts)
        if message is None or not self._state.visible_to(where, who.id):
            raise NotPossible(f"{who.real_name} sees no message {ts} in #{where.name}.")
        return message, False


_NOT_A_COMMAND = (
    "{name} is not a valid command. In Slack, all messages that start with the “/” character are interpreted "
    "as commands. If you are trying to send a message and not run a command, try preceding the “/” with an "
    "empty space."
)
