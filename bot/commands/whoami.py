"""`whoami`: who the caller is here, and what that allows."""

from __future__ import annotations

from collections.abc import Sequence

from bot.commands.verb import Call, Reply, Verb
from bot.messages import answers


def whoami_verb(verbs: Sequence[Verb]) -> Verb:
    """The verb that says which of these verbs the caller may use."""

    def whoami(call: Call) -> Reply:
        reaches = ((verb.name, verb.open_to(call)) for verb in verbs)
        able = [f"{name} ({reach})" if reach else name for name, reach in reaches if reach is not None]
        return Reply(answers.whoami(call.person, able), call.person)

    return Verb("whoami", "Say who you are here and what you may do", whoami, examples=("whoami",))
