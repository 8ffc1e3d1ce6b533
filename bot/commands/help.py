"""`help`: only what the caller may do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from bot.commands.verb import Call, Reply, Verb, argument
from bot.messages import answers
from fleet.errors import BadInput


def help_verb(verbs: Sequence[Verb]) -> Verb:
    """The verb that explains these verbs."""

    def help_(call: Call, verb: tuple[str, ...]) -> Reply:
        prefix = "/exp" if call.channel else "quartermaster"
        wanted = " ".join(verb).lower()
        if not wanted:
            able = [v.help() for v in verbs if v.open_to(call) is not None]
            return Reply(answers.overview(prefix, able), able)
        found = [v for v in verbs if v.name == wanted or v.name.startswith(f"{wanted} ")]
        if not found:
            close = difflib.get_close_matches(wanted, [v.name for v in verbs], n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "Try help."
            raise BadInput(f"There is no help about {wanted!r}.", hint=hint)
        if len(found) > 1:
            return Reply(answers.overview(prefix, [v.help() for v in found]), [v.help() for v in found])
        return Reply(answers.one_verb(prefix, found[0].help()), found[0].help())

    return Verb(
        "help",
        "Explain what can be asked",
        help_,
        params=(argument("verb", nargs=-1),),
        examples=("help", "help launch"),
    )
