"""The commands that rehearsals bring to the command line: `replay` and `demo`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from fleet.errors import BadInput
from rehearsal.checking import work_state
from rehearsal.demo import LONGEST, Story
from rehearsal.format import Scenario, load_scenario
from rehearsal.outcome import plain
from rehearsal.runner import Options, Play, play
from rehearsal.screen import Screen, closing_text
from rehearsal.staying import stay

SAMPLES = 80
"""samples of a play that goes on until something is done"""


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--no-guard", is_flag=True, help="Lift every cap: what it would have cost. Only in the sandbox."
)
@click.option("--without", default="", metavar="PERSON", help="Leave out what this person does.")
@click.option(
    "--until-done", default="", metavar="EXPERIMENT", help="Go on (or end) when this experiment is done."
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep settings, database and log in this folder."
)
def replay(file: Path, no_guard: bool, without: str, until_done: str, output: str, keep: Path | None) -> int:
    """Play a scenario with the production code in the embedded sandbox; exit code 1 if an expectation fails."""
    scenario, _ = load_scenario(file)
    _check_person(scenario, without)
    options = Options(guarded=not no_guard, without=without)
    milestones: dict[str, Any] = {}
    if until_done:
        options.lasts = LONGEST if no_guard else scenario.lasts
        options.sample_every = options.lasts / (SAMPLES * 2 if no_guard else SAMPLES)
        options.until = lambda run: _done(run, until_done, milestones)
    with _folder(keep) as folder:
        outcome = play(scenario, folder, options, milestones=milestones)
    click.echo(json.dumps(outcome.plain(), indent=2) if output == "json" else outcome.text())
    return 0 if outcome.passed else 1


def _check_person(scenario: Scenario, name: str) -> None:
    known = [str(person["name"]) for person in scenario.settings.get("people", [])]
    if name and name not in known:
        raise BadInput(f"Nobody is called {name!r} in this scenario.", hint=f"There are: {', '.join(known)}.")


def _done(run: Play, experiment: str, milestones: dict[str, Any]) -> bool:
    """Whether an experiment's newest run has completed; notes when it was found to have ended."""
    try:
        newest = run.read().run_of(experiment)
    except BadInput:
        return False
    milestones["done_at"] = run.read().ended(experiment) or None
    cluster = run.scenario.world.clusters[0].name
    return bool(run.stage.host.call(work_state, run.stage, cluster, newest) == "done")


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        folder = keep.resolve()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"The folder {keep} cannot be made: {error.strerror}.", hint="Name another after --keep."
            ) from None
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="quartermaster-") as made:
        yield Path(made)


@click.command("demo")
@click.option("--headless", is_flag=True, help="No live screen.")
@click.option("--json", "as_json", is_flag=True, help="Print the closing figures as JSON.")
@click.option("--keep", is_flag=True, help="Leave the world running afterwards, for a person in a browser.")
@click.option("--scenario", type=click.Path(path_type=Path), help="Another story than the shipped one.")
def demo(headless: bool, as_json: bool, keep: bool, scenario: Path | None) -> int:
    """The main job on the embedded sandbox: launch, overflow, meter, forecast, alert, pause. No cloud needed."""
    file = scenario or Path(str(files("rehearsal") / "stories" / "ghost-story.yaml"))
    story, _ = load_scenario(file)
    screen = Screen(story, live=not headless)

    def close(run: Play, closing: dict[str, Any]) -> None:
        screen.close()
        click.echo(json.dumps(plain(closing), indent=2) if as_json else closing_text(closing))
        if keep:
            stay(run, screen)

    with _folder(None) as folder, screen:
        told = Story(story, file, folder, on_sample=screen.sample, on_ready=screen.ready, on_closing=close)
        closing = told.play()
    return 0 if closing["passed"] else 1


COMMANDS = [replay, demo]
