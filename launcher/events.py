"""What the launcher has to tell people, as values; the wording is the bot's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchStarted:
    """Every object of the run exists and is released."""

    run: str
    experiment: str
    owner: str
    team: str
    cluster: str
    channel: str
    thread: str
    roles: tuple[tuple[str, int], ...]
    """role and replicas (for a sweep: trials at once)"""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The run does not start. `cleaned`: nothing of it is left behind, else it goes when the cluster answers."""

    run: str
    experiment: str
    owner: str
    team: str
    channel: str
    thread: str
    reason: str
    cleaned: bool = True


@dataclass(frozen=True, slots=True)
class Scaled:
    """A role of a run has another size; `warning` is "" where there is none."""

    run: str
    experiment: str
    owner: str
    team: str
    role: str
    before: int
    after: int
    actor: str
    warning: str


@dataclass(frozen=True, slots=True)
class ScaleFailed:
    """A role could not be given the size that `actor` asked for; what was held for it is free again."""

    run: str
    experiment: str
    owner: str
    team: str
    role: str
    after: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run has ended by itself. `outcome` is done, failed or gone."""

    run: str
    experiment: str
    owner: str
    team: str
    channel: str
    thread: str
    outcome: str
    reason: str
