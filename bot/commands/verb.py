"""What a verb is: its words and options (one definition for chat and terminal), its operation, its help.

`bot.commands.registry` lists the verbs; each file holds one, with its clicks beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import click

from bot.messages.answers import VerbHelp
from bot.messages.model import Message
from bot.operations.house import House
from fleet.errors import BadInput
from fleet.model import Person
from fleet.values import Money


@dataclass(frozen=True, slots=True)
class Post:
    """A message for a channel, beside the answer."""

    key: str
    channel: str
    message: Message
    thread: str = ""
    """key of the thread's root"""
    edit: bool = False
    """the message with this key is there already and is edited"""


def _unsaid(post: Post) -> None:
    """Where nobody listens."""
    del post


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, when, and where. `request` is unique per command or click: what it leads to happens once."""

    house: House
    person: Person
    now: datetime
    request: str
    channel: str = ""
    """where it was asked; "" in a terminal"""
    refusal: str = ""
    """why this caller may not act, whatever the directory says"""
    again: bool = False
    """the same command or click, taken up after a crash: what is done already is no surprise"""
    say: Callable[[Post], None] = _unsaid
    """queue a post now, before what follows has something to say"""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer for the caller alone (None: a post is the answer), what is posted, and the value for JSON."""

    message: Message | None
    data: Any = None
    ok: bool = True
    posts: tuple[Post, ...] = ()


def _wholly(call: Call) -> str | None:
    """What every known person may use on what is theirs."""
    del call
    return ""


Run = Callable[..., Reply]
Clicked = Callable[[Call, str], Reply]


@dataclass(frozen=True)
class Verb:
    """One verb. `acts`: it changes something, so unknown callers may not."""

    name: str
    summary: str
    run: Run
    params: tuple[click.Parameter, ...] = ()
    examples: tuple[str, ...] = ()
    acts: bool = False
    reach: Callable[[Call], str | None] = _wholly
    """of a known caller: None where the verb is not theirs, else how far it goes for them ("" = all of it)"""
    clicks: Mapping[str, Clicked] = field(default_factory=dict)
    """action → handler; the value of a click is a request or run id"""

    def open_to(self, call: Call) -> str | None:
        """None where this caller may not; else how far, in words ("" = all of it)."""
        if not self.acts:
            return ""
        if call.refusal or not call.person.known:
            return None
        return self.reach(call)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """The words after the verb as parameters. Raises BadInput."""
        below = next((word for word in words if re.fullmatch(r"-\$?[\d.,]+[kKmM]?", word)), "")
        if below and any(isinstance(param.type, Dollars) for param in self.params):
            # Else it is taken for an option, and the answer is about options.
            raise BadInput(f"An amount cannot be below zero: {below}.", hint=f"Write: {self.usage}.")
        command = click.Command(self.name, params=list(self.params), add_help_option=False)
        try:
            with command.make_context(self.name, list(words)) as context:
                return dict(context.params)
        except click.UsageError as error:
            raise BadInput(error.format_message(), hint=f"Write: {self.usage}.") from None

    @property
    def usage(self) -> str:
        """`scale RUN REPLICAS [--role TEXT]`."""
        return " ".join((self.name, *map(_usage, self.params)))

    def help(self) -> VerbHelp:
        """For the help cards."""
        options = tuple(
            (param.opts[0], param.help or "")
            for param in self.params
            if isinstance(param, click.Option) and not param.hidden
        )
        return VerbHelp(self.usage, self.summary, self.examples, options)


def _usage(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        value = "" if param.is_flag else f" {(param.metavar or param.name or '').upper()}"
        return f"[{param.opts[0]}{value}]"
    name = (param.metavar or param.name or "").upper()
    return name if param.required else f"[{name}]"


class Dollars(click.ParamType[Money]):
    """An amount: `1204.18`, `$1,204.18`, `1.5k`."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Money:
        """Money, or a usage error that says how to write it."""
        if isinstance(value, Money):
            return value
        try:
            amount = Money.usd(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)
        if amount < Money(0):
            self.fail(f"{value!r} is below zero.", param, ctx)
        return amount


DOLLARS = Dollars()


def argument(name: str, **more: Any) -> click.Argument:
    """A word of the verb."""
    return click.Argument([name], **more)


def option(flag: str, help: str, **more: Any) -> click.Option:
    """An option of the verb; long names only."""
    return click.Option([flag], help=help, **more)
