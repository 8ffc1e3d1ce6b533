"""The command line: `quartermaster serve`, every verb, and the commands that packages above bring along."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

import click
import structlog

from bot import logs
from bot.serve import obey_signals
from bot.terminal import SECTIONS, verb_commands
from bot.wire import build
from config.environment import read_environment
from config.settings import load_settings
from fleet.errors import QuartermasterError

log = structlog.get_logger(__name__)
PLUGINS = "quartermaster.commands"


@click.command()
@click.option("--config", required=True, type=click.Path(path_type=Path), help="settings file (YAML)")
@click.option(
    "--log-level", default="INFO", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING"])
)
@click.option("--check", is_flag=True, help="only check the settings file")
def serve(config: Path, log_level: str, check: bool) -> None:
    """Run the service: chat, guard, scaler and launcher, until it is told to stop."""
    settings = load_settings(config, SECTIONS)
    if check:
        click.echo(f"{config} can be used.")
        return
    logs.setup(log_level)
    built = build(settings, read_environment())
    obey_signals(built.service)
    try:
        code = built.service.run()
    finally:
        built.close()
    sys.exit(code)


def plugin_commands() -> Iterable[click.Command]:
    """Commands of the entry-point group; a package that is not installed here is no mistake."""
    for entry in entry_points(group=PLUGINS):
        try:
            yield from entry.load()
        except (ImportError, AttributeError) as error:
            log.debug("commands not there", entry=entry.name, error=str(error))


def cli() -> click.Group:
    """The whole command line."""
    group = click.Group(
        "quartermaster", help="Launch experiments, buy exactly the machines they need, keep the caps."
    )
    click.version_option(package_name="quartermaster", prog_name="quartermaster")(group)
    group.add_command(serve)
    for name, command in verb_commands().items():
        group.add_command(command, name)
    for command in plugin_commands():
        group.add_command(command)
    return group


def main() -> None:
    """Exit code 0: done; 1: refused or failed; 2: input that cannot be used, told in one sentence on stderr."""
    try:
        logs.setup("WARNING")
        code = cli()(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.UsageError as error:
        _end(error.format_message(), 2)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(1)
    except QuartermasterError as error:
        _end(str(error), 2)


def _end(sentence: str, code: int) -> None:
    click.echo(sentence, err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
