"""The commands that rehearsals bring to the command line: `replay` and `demo`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from rehearsal.format import load_scenario
from rehearsal.runner import Options, play


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--no-guard", is_flag=True, help="Lift every cap: what it would have cost. Only in the sandbox."
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep settings, database and log in this folder."
)
def replay(file: Path, no_guard: bool, output: str, keep: Path | None) -> int:
    """Play a scenario with the production code in the embedded sandbox; exit code 1 if an expectation fails."""
    scenario, _ = load_scenario(file)
    options = Options(guarded=not no_guard)
    if keep is not None:
        outcome = play(scenario, keep.resolve(), options)
    else:
        with tempfile.TemporaryDirectory(prefix="quartermaster-") as folder:
            outcome = play(scenario, Path(folder), options)
    click.echo(json.dumps(outcome.plain(), indent=2) if output == "json" else outcome.text())
    return 0 if outcome.passed else 1


COMMANDS = [replay]
