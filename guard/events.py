"""What the guard tells people, as values: the wording is the bot's.

Every event names whom it is about, the amounts, and (where somebody can answer) the request id that the
buttons carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fleet.values import Money


@dataclass(frozen=True, slots=True)
class About:
    """Whom an event is about; empty where it does not apply."""

    cluster: str = ""
    run: str = ""
    experiment: str = ""
    owner: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True)
class CapFigures:
    """A cap at the moment of the event."""

    cap: str
    scope: str
    limit: Money
    """with approvals"""
    spent: Money
    held: Money
    burn: Money
    """dollars an hour"""
    window_start: datetime | None = None
    window_end: datetime | None = None
    cap_reached_at: datetime | None = None
    """at the present burn"""


@dataclass(frozen=True, slots=True)
class ForecastFigures:
    """Cost to completion. `high` None: no end is declared and too few completions to tell."""

    low: Money
    high: Money | None
    basis: str


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """Thresholds of a cap were passed; `threshold` is the highest of them, `passed` are all."""

    about: About
    figures: CapFigures
    threshold: str
    """`80` (percent spent) or `committed 90`"""
    passed: tuple[str, ...]
    forecast: ForecastFigures | None
    request: str
    """for the Approve button"""
    suggested: Money
    """what Approve would add"""
    raised_by: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountdownArmed:
    """Unless somebody approves more, these runs are paused at `deadline` (or earlier if the burn grows)."""

    about: About
    figures: CapFigures
    deadline: datetime
    victims: tuple[About, ...]
    """in the order in which they would be paused"""
    belt: bool
    """more runs than the blast belt allows unasked: nothing new starts until somebody answers"""
    forecast: ForecastFigures | None
    request: str
    suggested: Money
    raised_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountdownCancelled:
    """An approval or a lower burn made room before the deadline."""

    about: About
    figures: CapFigures
    reason: str
    request: str


@dataclass(frozen=True, slots=True)
class PauseStarted:
    """A pause was asked of the cluster; it is not verified yet."""

    about: About
    actor: str
    reason: str
    decision: str


@dataclass(frozen=True, slots=True)
class PauseVerified:
    """No pod of the run is active or terminating."""

    about: About
    actor: str
    reason: str
    spent: Money
    """of the run"""
    figures: CapFigures | None
    """of the cap that caused it; None for a person's pause"""
    request: str
    """for Approve and resume; "" for a person's pause"""
    suggested: Money
    took_seconds: int
    decision: str


@dataclass(frozen=True, slots=True)
class PauseStuck:
    """A pause that has not become true in time."""

    about: About
    detail: str
    """e.g. `pausing (3 pods stuck on node x)`"""
    since: datetime
    burn: Money
    decision: str


@dataclass(frozen=True, slots=True)
class UnpausedByHand:
    """Somebody released a run that a cap had paused. `again_at` None: the guard gives up and escalates."""

    about: About
    times: int
    again_at: datetime | None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run runs again."""

    about: About
    actor: str
    reason: str
    decision: str


@dataclass(frozen=True, slots=True)
class Killed:
    """The run was ended for good; its record stays."""

    about: About
    actor: str
    reason: str
    spent: Money
    decision: str


@dataclass(frozen=True, slots=True)
class DecisionFailed:
    """Something that was decided could not be done."""

    about: About
    kind: str
    reason: str
    decision: str


@dataclass(frozen=True, slots=True)
class ApprovalGranted:
    """A cap was raised for a bounded time."""

    about: About
    figures: CapFigures
    approver: str
    amount: Money
    expires: datetime
    request: str
    resumed: tuple[str, ...]
    """runs that are being resumed because of it: not verified yet"""


@dataclass(frozen=True, slots=True)
class ApprovalLapsed:
    """An approval ended; what was not used of it is gone."""

    figures: CapFigures
    approver: str
    amount: Money
    about: About = About()


@dataclass(frozen=True, slots=True)
class ForecastAdvice:
    """At completion the work would cost more than its cap. Advice only: never pauses."""

    about: About
    figures: CapFigures
    forecast: ForecastFigures


@dataclass(frozen=True, slots=True)
class UnknownPrice:
    """No price is known: metered at an upper bound, flagged."""

    machine: str
    region: str
    instance_type: str
    hourly: Money
    source: str


@dataclass(frozen=True, slots=True)
class GhostMachine:
    """A machine of ours that bills and has not joined any cluster."""

    about: About
    machine: str
    region: str
    instance_type: str
    launched: datetime
    spent: Money


@dataclass(frozen=True, slots=True)
class NoOwner:
    """Work in a governed namespace that names no owner."""

    cluster: str
    namespace: str
    pods: int
    example: str


@dataclass(frozen=True, slots=True)
class GuardGap:
    """The guard did not look for a while (or the clock went backwards)."""

    since: datetime
    until: datetime
    detail: str


@dataclass(frozen=True, slots=True)
class DigestLine:
    """One line of a digest."""

    name: str
    amount: Money


@dataclass(frozen=True, slots=True)
class Digest:
    """What a day cost."""

    day: str
    """local date of the digest's zone"""
    since: datetime
    until: datetime
    total: Money
    teams: tuple[DigestLine, ...]
    experiments: tuple[DigestLine, ...]
    regions: tuple[DigestLine, ...]
    overhead: Money
    estimated: Money
    """part that was metered at estimated prices"""
    burn: Money
    """now, in dollars an hour"""
    caps: tuple[CapFigures, ...]
    waiting: tuple[str, ...]
    """open requests"""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BillArrived:
    """The provider's bill of a UTC day beside what was metered."""

    day: str
    billed: Money
    metered: Money
    drift_percent: str
    """with two decimals, signed"""
    estimated: bool
    differences: Mapping[str, Money] = field(default_factory=dict)
