"""What the scaler has to tell people, as values; the wording is the bot's."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.values import Money


@dataclass(frozen=True, slots=True)
class MachinesBought:
    """Machines were launched for a run (or for pods of no run)."""

    run: str
    experiment: str
    owner: str
    team: str
    cluster: str
    region: str
    instance_type: str
    count: int
    hourly: Money


@dataclass(frozen=True, slots=True)
class Overflowed:
    """The preferred place had nothing; the run goes on elsewhere. `reason` is the provider's."""

    run: str
    experiment: str
    owner: str
    team: str
    from_region: str
    reason: str


@dataclass(frozen=True, slots=True)
class PurchaseRefused:
    """The budget did not allow a purchase."""

    run: str
    experiment: str
    owner: str
    team: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProviderRefused:
    """Credentials, permissions or configuration are wrong: nothing is bought there until somebody looks."""

    provider: str
    pool: str
    reason: str


@dataclass(frozen=True, slots=True)
class QuotaReached:
    """The account's quota of a whole family in a region is used up."""

    provider: str
    region: str
    family: str
    reason: str


@dataclass(frozen=True, slots=True)
class PodsUnplaced:
    """Pods that no machine on sale fits, with what would fix it."""

    run: str
    experiment: str
    owner: str
    team: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class LaunchesWithoutProgress:
    """Machines were bought again and again and the pods still do not start."""

    run: str
    experiment: str
    owner: str
    team: str
    launches: int


@dataclass(frozen=True, slots=True)
class MachineFailed:
    """A machine was paid for, did not become useful in time, and was ended."""

    run: str
    owner: str
    team: str
    machine: str
    region: str
    instance_type: str
    reason: str
