"""Takes what came in from chat, one by one: who is it, what do they ask, do it, answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import structlog

from bot.commands import registry
from bot.commands.registry import NotUnderstood
from bot.commands.verb import Call, Post, Reply
from bot.inbox import Inbound, Inbox
from bot.messages import answers
from bot.messages.model import Message
from bot.operations.house import House
from bot.slack.blocks import action_name
from bot.slack.identity import Caller
from bot.slack.outbox import Whisper
from bot.slack.parse import words
from fleet.errors import BadInput, QuartermasterError
from fleet.ports import Chat

log = structlog.get_logger(__name__)
COMMAND = "/exp"


class Speaker(Chat, Protocol):
    """The Chat port, and messages that one person sees."""

    def whisper(self, *, key: str, to: Whisper, message: Message, now: datetime) -> None:
        """Queue a message for one person."""
        ...


class Callers(Protocol):
    """Who somebody is (`bot.slack.identity.Identities`)."""

    def caller(self, user_id: str, team_id: str, now: datetime) -> Caller:
        """The person behind a user id, and why they may not act."""
        ...


class Desk:
    """Handles inbound commands and clicks over one house."""

    def __init__(self, house: House, inbox: Inbox, chat: Speaker, callers: Callers) -> None:
        self._house = house
        self._inbox = inbox
        self._chat = chat
        self._callers = callers

    def handle(self, inbound: Inbound, now: datetime) -> None:
        """Do what was asked and queue the answer; a second time (after a crash) it is the same thing."""
        ask = _Asked(inbound)
        caller = self._callers.caller(ask.user, ask.team, now)
        call = Call(
            self._house,
            caller.person,
            now,
            inbound.request,
            ask.channel,
            caller.refusal,
            again=inbound.again,
            say=lambda post: send(self._chat, (post,), now),
        )
        self._inbox.begin(inbound, now)
        bound = log.bind(request=inbound.request, person=caller.person.id)
        try:
            reply = self._answer(ask, call)
            outcome = "ok" if reply.ok else "refused"
        except NotUnderstood as error:
            corrected = f"{COMMAND} {error.corrected}" if error.corrected else ""
            reply, outcome = (
                Reply(answers.not_understood(error.problem, corrected), ok=False),
                "not understood",
            )
        except BadInput as error:
            reply, outcome = Reply(answers.said(str(error)), ok=False), "bad input"
        except QuartermasterError as error:
            reply, outcome = Reply(answers.said(str(error)), ok=False), "refused"
        bound.info("asked", kind=inbound.kind, outcome=outcome)
        send(self._chat, reply.posts, now)
        self._whisper(ask, inbound, reply.message, now)
        self._inbox.handled(inbound, now, outcome)

    def broken(self, inbound: Inbound, error_id: str, now: datetime) -> None:
        """Handling it failed by a fault of ours: say so, and do not try for ever."""
        self._whisper(_Asked(inbound), inbound, answers.failed(error_id), now)
        self._inbox.handled(inbound, now, f"fault {error_id}")

    def _answer(self, ask: _Asked, call: Call) -> Reply:
        if ask.action:
            return registry.clicked(call, ask.action, ask.value)
        return registry.run(call, words(ask.text))

    def _whisper(self, ask: _Asked, inbound: Inbound, message: Message | None, now: datetime) -> None:
        if message is None:
            return
        to = Whisper(ask.user, ask.channel, ask.response_url, ask.thread_ts)
        self._chat.whisper(key=f"answer:{inbound.request}", to=to, message=message, now=now)


def send(chat: Chat, posts: tuple[Post, ...], now: datetime) -> None:
    """Queue posts and edits."""
    for post in posts:
        if post.edit:
            chat.update(key=post.key, message=post.message, now=now)
        elif post.channel:
            chat.post(key=post.key, channel=post.channel, message=post.message, thread=post.thread, now=now)


class _Asked:
    """The parts of a payload that matter, whichever kind it is."""

    def __init__(self, inbound: Inbound) -> None:
        payload: Mapping[str, Any] = inbound.payload
        self.response_url = str(payload.get("response_url") or "")
        self.action = self.value = self.text = self.thread_ts = ""
        if inbound.kind == "action":
            clicked = (payload.get("actions") or [{}])[0]
            container = payload.get("container") or {}
            user = payload.get("user") or {}
            self.user = str(user.get("id", ""))
            self.team = str(user.get("team_id") or (payload.get("team") or {}).get("id", ""))
            self.channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or "")
            self.action = action_name(str(clicked.get("action_id", "")))
            self.value = str(clicked.get("value", ""))
            self.thread_ts = str(container.get("thread_ts") or "")
        else:
            self.user = str(payload.get("user_id", ""))
            self.team = str(payload.get("team_id", ""))
            self.channel = str(payload.get("channel_id", ""))
            self.text = str(payload.get("text") or "")
