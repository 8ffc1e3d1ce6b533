"""A sweep → its trials, one an index. Pure: the same sweep gives the same trials on every machine."""

from __future__ import annotations

import itertools
import math
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fleet.errors import BadInput
from launcher.spec import Command, Sweep

MAX_SCRIPT_BYTES = 900 * 1024
"""All trials of a sweep share one ConfigMap, which may hold a mebibyte."""
_DRAWN = ("uniform", "log_uniform")


@dataclass(frozen=True, slots=True)
class Trial:
    """One point of the sweep; `values` are text, ready for the command line."""

    index: int
    values: tuple[tuple[str, str], ...]


def expand(sweep: Sweep) -> tuple[Trial, ...]:
    """Every trial in order. Raises BadInput for an empty, an uneven or a too large sweep."""
    if sweep.method == "random":
        points = _random_points(sweep)
    else:
        axes = {name: _axis(name, value) for name, value in sweep.params.items()}
        points = _grid_points(axes, sweep) if sweep.method == "grid" else _listed_points(axes, sweep)
    return tuple(Trial(index, tuple(point)) for index, point in enumerate(points))


def _axis(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        if set(value) == {"range"}:
            return _range(name, value["range"])
        drawn = next((key for key in _DRAWN if key in value), None)
        hint = f"{drawn} is for method: random." if drawn else "Write a list, or {range: [from, to]}."
        raise BadInput(f"sweep.params.{name} does not list values.", hint=hint)
    if not isinstance(value, list):
        raise BadInput(f"sweep.params.{name} is {value!r}, not a list.", hint=f"Write it like [{value}].")
    if not value:
        raise BadInput(f"sweep.params.{name} is empty, so there would be no trials.", hint="Give it values.")
    return [_written(name, item) for item in value]


def _range(name: str, bounds: Any) -> list[str]:
    numbers = isinstance(bounds, list) and all(type(item) in (int, float) for item in bounds)
    if not numbers or len(bounds) not in (2, 3):
        raise BadInput(
            f"sweep.params.{name}.range is {bounds!r}.", hint="Write it like [0, 20] or [0, 1, 0.1]."
        )
    start, end, *rest = (Decimal(str(item)) for item in bounds)
    step = rest[0] if rest else Decimal(1)
    count = math.ceil((end - start) / step) if step else 0
    if count <= 0:
        raise BadInput(
            f"sweep.params.{name}.range {bounds!r} holds no values.", hint="Its end is not included."
        )
    if count > 100_000:
        raise BadInput(
            f"sweep.params.{name}.range holds {count} values.", hint="At most 100000 are possible."
        )
    return [format((start + step * index), "f") for index in range(count)]


def _written(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise BadInput(f"sweep.params.{name} holds {value!r}.", hint="Values are numbers, texts, true and false.")


def _grid_points(axes: Mapping[str, list[str]], sweep: Sweep) -> list[list[tuple[str, str]]]:
    _check_count(math.prod(len(values) for values in axes.values()), sweep)
    return [list(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def _listed_points(axes: Mapping[str, list[str]], sweep: Sweep) -> list[list[tuple[str, str]]]:
    lengths = {name: len(values) for name, values in axes.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise BadInput(f"method: list goes through all params together, and they differ in length: {told}.")
    _check_count(next(iter(lengths.values())), sweep)
    return [list(zip(axes, point, strict=True)) for point in zip(*axes.values(), strict=True)]


def _random_points(sweep: Sweep) -> list[list[tuple[str, str]]]:
    if sweep.samples is None:
        raise BadInput("method: random needs samples.", hint="Write samples: 50 below sweep.")
    _check_count(sweep.samples, sweep)
    # Drawn from a seed of the spec: a retried launch has the same trials.
    source = random.Random(sweep.seed)
    return [
        [(name, _draw(name, value, source)) for name, value in sweep.params.items()]
        for _ in range(sweep.samples)
    ]


def _draw(name: str, value: Any, source: random.Random) -> str:
    kind = next((key for key in _DRAWN if isinstance(value, Mapping) and set(value) == {key}), None)
    if kind is None:
        return source.choice(_axis(name, value))
    bounds = value[kind]
    numbers = isinstance(bounds, list) and len(bounds) == 2 and all(type(b) in (int, float) for b in bounds)
    if not numbers or bounds[0] > bounds[1] or (kind == "log_uniform" and bounds[0] <= 0):
        raise BadInput(
            f"sweep.params.{name}.{kind} is {bounds!r}.", hint="Write it like [1e-5, 1e-2], low first."
        )
    if kind == "uniform":
        return repr(source.uniform(bounds[0], bounds[1]))
    return repr(math.exp(source.uniform(math.log(bounds[0]), math.log(bounds[1]))))


def _check_count(count: int, sweep: Sweep) -> None:
    if count > sweep.max_trials:
        raise BadInput(
            f"The sweep has {count} trials, and max_trials is {sweep.max_trials}.",
            hint=f"Write max_trials: {count} below sweep if you mean it.",
        )


def script(command: Command, trial: Trial) -> str:
    """The shell script that runs one trial: the command with `{param}` filled in, quoted where it is a list."""
    values = dict(trial.values)
    if isinstance(command, str):
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return f"set -e\n{_filled(command, quoted)}\n"
    return "exec " + " ".join(shlex.quote(_filled(part, values)) for part in command) + "\n"


def _filled(text: str, values: Mapping[str, str]) -> str:
    # Only the sweep's own names are replaced: other braces are the user's (JSON, shell).
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def scripts(command: Command, trials: Sequence[Trial]) -> dict[str, str]:
    """File name → script for every trial. Raises BadInput where they do not fit into one ConfigMap."""
    files = {f"{trial.index}.sh": script(command, trial) for trial in trials}
    size = sum(len(name) + len(text.encode()) for name, text in files.items())
    if size > MAX_SCRIPT_BYTES:
        raise BadInput(
            f"The {len(trials)} trials take {size // 1024} KiB, and one ConfigMap holds {MAX_SCRIPT_BYTES // 1024}.",
            hint="Shorten the command, or split the sweep.",
        )
    return files
