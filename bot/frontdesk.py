"""Answers questions of terminals on the deciding thread: the same verbs, the answer as text and as data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from bot.commands import registry
from bot.commands.verb import Call
from bot.control import BAD, OK, REFUSED, ControlSocket, Question
from bot.desk import send
from bot.messages.plain import as_text
from bot.operations.house import House
from bot.operations.values import plain
from fleet.errors import BadInput, QuartermasterError
from fleet.ports import Chat

log = structlog.get_logger(__name__)


class FrontDesk:
    """Terminals' questions over one house."""

    def __init__(self, house: House, control: ControlSocket, chat: Chat) -> None:
        self._house = house
        self._control = control
        self._chat = chat

    def waiting(self) -> bool:
        """Whether somebody waits."""
        return not self._control.pending.empty()

    def next(self) -> Question | None:
        """The next question that somebody still waits for."""
        while self.waiting():
            question = self._control.pending.get()
            if not question.given_up:
                return question
        return None

    def answer(self, question: Question, now: datetime, flush: Callable[[], object]) -> None:
        """Do it and answer. `flush` sends what it has to say before the terminal gets its prompt back."""
        person = self._house.directory.by_system_user(question.system_user)
        call = Call(
            self._house, person, now, question.request, say=lambda post: send(self._chat, (post,), now)
        )
        try:
            reply = registry.run(call, question.words)
        except BadInput as error:
            question.reply(BAD, str(error))
            return
        except QuartermasterError as error:
            question.reply(REFUSED, str(error))
            return
        log.info("asked", request=question.request, person=person.id, kind="terminal", ok=reply.ok)
        send(self._chat, reply.posts, now)
        flush()
        text = as_text(reply.message) if reply.message is not None else ""
        question.reply(OK if reply.ok else REFUSED, text, plain(reply.data))
