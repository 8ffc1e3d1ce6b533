"""Experiment files → specs. Every mistake is one sentence with its file and line."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from config.source import Document, load_yaml, parse_yaml, suggestion, validate
from fleet.errors import BadInput
from launcher.spec import Experiment

SUFFIXES = (".yaml", ".yml")


def load_experiment(path: Path) -> Experiment:
    """The experiment in a file. Raises BadInput."""
    return from_document(load_yaml(path))


def parse_experiment(text: str, name: str) -> Experiment:
    """The experiment in a text; `name` stands for the file in messages. Raises BadInput."""
    return from_document(parse_yaml(text, name))


def from_document(document: Document) -> Experiment:
    """The experiment in a document that has been read. Raises BadInput."""
    if document.data is None:
        raise BadInput(
            "The experiment is empty.", where=document.where(), hint="It needs at least name and image."
        )
    return validate(document, Experiment, data=_with_source_texts(document))


def _with_source_texts(document: Document) -> Any:
    """The data, with environment values as they were written: `3.10` is not 3.1, `no` is not false."""
    data = copy.deepcopy(document.data)
    if not isinstance(data, dict):
        return data
    _keep_texts(document, data, ())
    roles = data.get("roles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        _keep_texts(document, role, ("roles", name))
    return data


def _keep_texts(document: Document, holder: Any, place: tuple[str, ...]) -> None:
    if not isinstance(holder, dict):
        return
    env = holder.get("env")
    if isinstance(env, dict):
        for key, value in env.items():
            text = document.text((*place, "env", key))
            env[key] = value if value is None or text is None else text
    sidecars = holder.get("sidecars")
    for name, sidecar in sidecars.items() if isinstance(sidecars, dict) else ():
        _keep_texts(document, sidecar, (*place, "sidecars", name))


def experiment_names(folder: Path) -> tuple[str, ...]:
    """What can be launched from the configured folder: file names without their suffix."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(p.stem for p in folder.iterdir() if p.suffix in SUFFIXES and p.is_file()))


def find_experiment(folder: Path, name: str) -> Experiment:
    """The experiment with this name in the configured folder. Raises BadInput with a did-you-mean."""
    known = experiment_names(folder)
    if name not in known:
        hint = suggestion(name, known) or f"Put {name}.yaml there."
        raise BadInput(f"There is no experiment {name!r} in {folder.name}.", hint=hint)
    path = next(p for p in (folder / f"{name}{suffix}" for suffix in SUFFIXES) if p.is_file())
    experiment = load_experiment(path)
    if experiment.name != name:
        raise BadInput(
            f"The file is called {path.name} and its experiment {experiment.name!r}.",
            where=str(path),
            hint="Give both the same name.",
        )
    return experiment
