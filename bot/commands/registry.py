"""Every verb, in the order in which help shows them; finding one; answering help and whoami."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from bot.commands.approve import APPROVE
from bot.commands.caps import CAPS, CAPS_CHECK, CAPS_REMOVE, CAPS_SET
from bot.commands.costs import COSTS
from bot.commands.deny import DENY
from bot.commands.help import help_verb
from bot.commands.kill import KILL
from bot.commands.launch import LAUNCH
from bot.commands.ledger import LEDGER_VERIFY
from bot.commands.ls import LS
from bot.commands.pause import PAUSE
from bot.commands.plan import PLAN
from bot.commands.resume import RESUME
from bot.commands.scale import SCALE
from bot.commands.status import STATUS
from bot.commands.verb import Call, Clicked, Reply, Verb
from bot.commands.whoami import whoami_verb
from bot.commands.why import WHY
from bot.operations.rights import NotAllowed, known
from fleet.errors import BadInput

_ASKABLE = (
    LAUNCH,
    PLAN,
    LS,
    STATUS,
    WHY,
    SCALE,
    PAUSE,
    RESUME,
    KILL,
    CAPS,
    CAPS_SET,
    CAPS_CHECK,
    CAPS_REMOVE,
    COSTS,
    APPROVE,
    DENY,
    LEDGER_VERIFY,
)
VERBS: tuple[Verb, ...] = (*_ASKABLE, whoami_verb(_ASKABLE), help_verb(_ASKABLE))
_BY_NAME = {verb.name: verb for verb in VERBS}
_CLICKS: dict[str, tuple[Verb, Clicked]] = {
    action: (verb, handler) for verb in VERBS for action, handler in verb.clicks.items()
}


class NotUnderstood(BadInput):
    """Not a verb; `corrected` is the line that was probably meant, for copying, never run."""

    def __init__(self, problem: str, corrected: str) -> None:
        self.corrected = corrected
        hint = f"Did you mean: {corrected}" if corrected else "Try help."
        super().__init__(problem, hint=hint)


def resolve(words: Sequence[str]) -> tuple[Verb, list[str]]:
    """The verb that the words start with, and the rest. Raises NotUnderstood."""
    if not words:
        return LS, ["--mine"]
    first = words[0].lower()
    if first in ("--help", "-h"):
        return _BY_NAME["help"], list(words[1:])
    pair = " ".join(word.lower() for word in words[:2])
    for name, rest in ((pair, words[2:]), (first, words[1:])):
        if name in _BY_NAME:
            if "--help" in rest:
                return _BY_NAME["help"], name.split()
            return _BY_NAME[name], list(rest)
    raise _unknown(words, first, pair)


def _unknown(words: Sequence[str], first: str, pair: str) -> NotUnderstood:
    for written, rest in ((pair, words[2:]), (first, words[1:])):
        close = difflib.get_close_matches(written, list(_BY_NAME), n=1, cutoff=0.6)
        if close:
            return NotUnderstood(f"{words[0]!r} is not something to ask.", " ".join((close[0], *rest)))
    return NotUnderstood(f"{words[0]!r} is not something to ask.", "")


def run(call: Call, words: Sequence[str]) -> Reply:
    """Run what the words ask for. Raises BadInput (nothing was done) and NotAllowed."""
    verb, rest = resolve(words)
    _may(call, verb)
    return verb.run(call, **verb.parse(rest))


def clicked(call: Call, action: str, value: str) -> Reply:
    """Run what a button stands for. Raises BadInput for one of an older version, and NotAllowed."""
    if action not in _CLICKS:
        raise BadInput(
            "This button is from an older version and does nothing any more.", hint="Ask with a command."
        )
    verb, handler = _CLICKS[action]
    _may(call, verb)
    return handler(call, value)


def _may(call: Call, verb: Verb) -> None:
    """Reading is free; acting needs a known person against whom nothing speaks."""
    if not verb.acts:
        return
    if call.refusal:
        raise NotAllowed(call.refusal)
    known(call.person)
