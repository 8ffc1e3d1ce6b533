"""What the guard answers when it is asked (`guard.book.Guard`): plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleet.model import Decision
from fleet.values import Money
from guard.caps import CapStatus
from guard.events import ForecastFigures


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a click or a command, in one sentence for people."""

    ok: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class CostRow:
    """Cost of one experiment, run, owner, team, region, instance type or day."""

    key: str
    """"" = nobody's: the fleet's overhead, or work that names none"""
    amount: Money
    estimated: Money
    """the part that was metered at an estimated price"""


@dataclass(frozen=True, slots=True)
class RunCosts:
    """What a run costs, now and to completion."""

    run: str
    spent: Money
    burn: Money
    held: Money
    forecast: ForecastFigures
    caps: tuple[CapStatus, ...]
    """those that apply, broadest first"""
    state: str


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one look led to."""

    at: datetime
    observed: int
    """new observations"""
    lines: int
    """lines that were closed"""
    findings: tuple[str, ...]
    """what the rules found, a sentence each"""
    decided: tuple[Decision, ...]
    waiting_for: tuple[str, ...]
    """clusters whose first full list is missing: nothing is decided from them"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A named part of the drift between bill and ledger."""

    name: str
    amount: Money
    """positive: the ledger says more than the bill"""
    explanation: str


@dataclass(frozen=True, slots=True)
class BillComparison:
    """A provider's bill of a UTC day beside the ledger's day."""

    day: str
    billed: Money
    """compute that the guard meters, gross of credits"""
    metered: Money
    drift_percent: str
    """(metered - billed) / billed, signed, two decimals; `n/a` where nothing was billed"""
    estimated: bool
    regions: tuple[tuple[str, Money, Money], ...]
    """region, billed, metered"""
    differences: tuple[Difference, ...]
    note: str = ""
    """why there is nothing to compare (no billing configured, bill not there yet)"""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that `verify_ledger` found."""

    kind: str
    """changed, missing, doubled, shifted, gap, unexpected, uneven, totals, open"""
    machine: str
    subject: str
    started: datetime | None
    detail: str
