"""The verbs as terminal commands: parsed here for their help and their mistakes, carried out by a running serve."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from bot.commands.registry import VERBS
from bot.commands.verb import Verb
from bot.control import BAD, OK, ask, listens
from bot.messages.costs import verified
from bot.messages.plain import as_text
from bot.operations.costs import Verified
from bot.operations.values import plain
from bot.settings import ServeSettings, SlackSettings
from config.environment import read_environment
from config.settings import load_settings
from fleet.db import Database
from fleet.errors import BadInput, QuartermasterError
from guard.settings import GuardSettings
from guard.verify import verify
from launcher.settings import LauncherSettings
from scaler.settings import ScalerSettings

SECTIONS: dict[str, type[BaseModel]] = {
    "guard": GuardSettings,
    "scaler": ScalerSettings,
    "launcher": LauncherSettings,
    "slack": SlackSettings,
    "serve": ServeSettings,
}
"""Every section of the settings file and the model that owns it."""
DATABASE = "quartermaster.db"
SOCKET = "control.sock"


class VerbCommand(click.Command):
    """A click command that keeps the words it was given, so that serve parses the very same ones."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the words, without the options that are the terminal's own."""
        ctx.meta["words"] = tuple(_without_own(args))
        return super().parse_args(ctx, args)


def _without_own(args: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in args:
        if skip:
            skip = False
        elif word in ("--config", "--output"):
            skip = True
        elif not word.startswith(("--config=", "--output=")):
            kept.append(word)
    return kept


def verb_commands() -> dict[str, click.Command]:
    """All verbs by their first word; those of two words as groups."""
    commands: dict[str, click.Command] = {}
    for verb in VERBS:
        first, _, second = verb.name.partition(" ")
        if not second and not any(v.name.startswith(f"{first} ") for v in VERBS):
            commands[first] = _command(verb, first)
    for first in {v.name.partition(" ")[0] for v in VERBS if " " in v.name}:
        commands[first] = _group(first, [v for v in VERBS if v.name.partition(" ")[0] == first])
    return commands


class _Group(click.Group):
    """`caps` alone, `caps vision` and `caps set …`: a word that is no sub-command goes to the verb itself."""

    def __init__(
        self, name: str, alone: VerbCommand | None, more: dict[str, click.Command], summary: str
    ) -> None:
        super().__init__(
            name, commands=dict(sorted(more.items())), help=summary, invoke_without_command=bool(alone)
        )
        self.alone = alone
        if alone is not None:
            self.add_command(alone, "show")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hand everything that is no sub-command to `show`."""
        if self.alone is not None and not (args and (args[0] in self.commands or args[0] == "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def _group(first: str, verbs: list[Verb]) -> click.Group:
    alone = next((_command(v, "show") for v in verbs if v.name == first), None)
    more: dict[str, click.Command] = {
        v.name.partition(" ")[2]: _command(v, v.name.partition(" ")[2]) for v in verbs if v.name != first
    }
    summary = next((v.summary for v in verbs if v.name == first), verbs[0].summary)
    return _Group(first, alone, more, summary)


def _command(verb: Verb, name: str) -> VerbCommand:
    examples = "\n".join(f"  quartermaster {example}" for example in verb.examples)
    own = [
        click.Option(
            ["--config"], type=click.Path(path_type=Path), help="settings file of the running serve"
        ),
        click.Option(["--output"], type=click.Choice(["text", "json"]), default="text", show_default=True),
    ]
    return VerbCommand(
        name,
        params=[*verb.params, *own],
        help=verb.summary,
        epilog=f"\b\nExamples:\n{examples}" if examples else None,
        callback=_callback(verb),
    )


def _callback(verb: Verb) -> Callable[..., None]:
    @click.pass_context
    def run(ctx: click.Context, /, config: Path | None, output: str, **_parsed: Any) -> None:
        words = (*verb.name.split(), *ctx.meta["words"])
        try:
            place = Place.find(config)
            answer = _offline(verb, place) or ask(place.socket, words, f"cli-{uuid.uuid4().hex[:12]}")
        except BadInput as error:
            answer = {"code": BAD, "text": str(error), "data": None}
        except QuartermasterError as error:
            answer = {"code": 1, "text": str(error), "data": None}
        show(ctx, answer, output)

    return run


def _offline(verb: Verb, place: Place) -> dict[str, Any] | None:
    """`ledger verify` reads only, so it works on the file where no serve is running."""
    if verb.name != "ledger verify" or listens(place.socket) or not place.database.exists():
        return None
    database = Database(place.database)
    try:
        reply = _verified(database)
    finally:
        database.close()
    return reply


def _verified(database: Database) -> dict[str, Any]:
    found = Verified(verify(database))
    return {"code": 1 if found.faults else OK, "text": as_text(verified(found)), "data": plain(found)}


class Place:
    """Where a serve keeps its data."""

    def __init__(self, data_dir: Path, socket: Path | None) -> None:
        self.data_dir = data_dir
        self.socket = socket or data_dir / SOCKET
        self.database = data_dir / DATABASE

    @classmethod
    def find(cls, config: Path | None) -> Place:
        """From --config, else from $QM_DATA_DIR. Raises BadInput."""
        environment = read_environment()
        if config is not None:
            settings = load_settings(config, SECTIONS)
            serve = settings.section("serve", ServeSettings)
            data_dir = settings.core.data_dir or environment.data_dir
            if data_dir is None:
                raise BadInput(
                    "Neither data_dir: nor $QM_DATA_DIR says where the data are.", where=str(config)
                )
            return cls(settings.resolve(data_dir), settings.resolve(serve.socket) if serve.socket else None)
        if environment.data_dir is None:
            raise BadInput(
                "It is not known which serve to ask.", hint="Give --config FILE, or set $QM_DATA_DIR."
            )
        return cls(environment.data_dir, None)


def show(ctx: click.Context, answer: dict[str, Any], output: str) -> None:
    """Print the answer and end with its exit code; what cannot be used goes to stderr as one sentence."""
    code = int(answer["code"])
    if output == "json":
        body = {"ok": code == OK, "text": answer["text"], "data": answer["data"]}
        click.echo(json.dumps(body, indent=2, sort_keys=True))
    elif answer["text"]:
        click.echo(answer["text"], err=code != OK and answer["data"] is None)
    ctx.exit(code)
