"""Short answers: done, refused, not understood, who you are, and help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.messages.model import Block, Context, Header, Message, Table, Text
from bot.words import name
from fleet.model import Person
from fleet.values import Money


@dataclass(frozen=True, slots=True)
class VerbHelp:
    """What help says about one verb."""

    usage: str
    summary: str
    examples: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


def said(sentence: str) -> Message:
    """One sentence."""
    return Message(sentence)


def not_understood(problem: str, corrected: str = "") -> Message:
    """What was wrong, and a corrected line to copy. The guess is never run; without one, what to type next."""
    hint = f"Did you mean: {corrected}" if corrected else "Type /exp help."
    return Message(f"{problem} {hint}", (Text(problem), Text(hint)))


def failed(error_id: str) -> Message:
    """Something of ours broke; the id finds it in the log."""
    return Message(
        f"This did not work because of a fault in Quartermaster (error {error_id}); it was logged."
    )


def whoami(person: Person, able: Sequence[str]) -> Message:
    """`whoami`."""
    if not person.known:
        return Message(
            f"You are {name(person.name)} ({person.id}). You are not in the settings' people, so you may read only."
        )
    roles = ", ".join(sorted(person.roles)) or "no role"
    limit = f", may approve up to {person.approval_limit} at once" if person.approval_limit > Money(0) else ""
    team = f" of {person.team}" if person.team else ""
    text = f"You are {name(person.name)}{team} ({person.id}): {roles}{limit}."
    return Message(text, (Text(text), Context("You may: " + ", ".join(able) + ".")))


def overview(prefix: str, verbs: Sequence[VerbHelp]) -> Message:
    """`help`: only what the caller may do here."""
    rows = tuple((f"{prefix} {verb.usage}", verb.summary) for verb in verbs)
    text = f"{len(verbs)} things you can ask; `{prefix} help VERB` tells more about one.".replace("`", "")
    blocks: tuple[Block, ...] = (Header("What you can ask"), Table(("", ""), rows), Context(text))
    return Message(text, blocks)


def one_verb(prefix: str, verb: VerbHelp) -> Message:
    """`help VERB`: usage, options, two real examples."""
    blocks: list[Block] = [Text(f"{prefix} {verb.usage}", strong=True), Text(verb.summary)]
    if verb.options:
        blocks.append(Table(("OPTION", ""), verb.options))
    if verb.examples:
        blocks.append(Table(("EXAMPLES",), tuple((f"{prefix} {example}",) for example in verb.examples)))
    return Message(f"{prefix} {verb.usage}: {verb.summary}", tuple(blocks))
