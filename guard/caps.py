"""Caps: a limit in dollars for a scope and a window; 100 % is where work has stopped. Pure arithmetic.

A cap of zero means zero. Every cap that applies must fit; a refusal names each one that does not,
broadest first. Windows are half-open and start at local midnight of a named IANA zone, so a day has
23, 24 or 25 hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from fleet.errors import BadInput
from fleet.ports import Misfit, Scope
from fleet.values import Money


class ScopeKind(StrEnum):
    """Whom a cap is about, broadest first."""

    FLEET = "fleet"
    CLUSTER = "cluster"
    REGION = "region"
    TEAM = "team"
    PERSON = "person"
    EXPERIMENT = "experiment"
    RUN = "run"


BREADTH = {kind: order for order, kind in enumerate(ScopeKind)}
OWN = (ScopeKind.RUN, ScopeKind.EXPERIMENT)
"""caps of one experiment: the blast belt is for shared caps only"""


class Window(StrEnum):
    """How long a cap's spend is summed for."""

    TOTAL = "total"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit. `raised_by` holds ids of people or names of roles; empty: whom the directory names."""

    name: str
    scope_kind: ScopeKind
    limit: Money
    scope_value: str = ""
    window: Window = Window.TOTAL
    zone: str = "UTC"
    kill: bool = False
    """a pause that failed may become a kill at 110 %"""
    raised_by: tuple[str, ...] = ()
    dimension: str = "usd"

    @property
    def shared(self) -> bool:
        """More than one experiment may spend under it."""
        return self.scope_kind not in OWN

    @property
    def subject(self) -> str:
        """For people: `team vision`, `fleet`."""
        return f"{self.scope_kind} {self.scope_value}".strip()


def checked(cap: Cap) -> Cap:
    """The cap, or BadInput in one sentence: unknown zone or dimension, no name or value, below zero."""
    if not cap.name:
        raise BadInput("A cap needs a name.")
    if cap.dimension != "usd":
        raise BadInput(f"Cap {cap.name}: the dimension {cap.dimension!r} is not known.", hint="Use usd.")
    if cap.limit < Money(0):
        raise BadInput(
            f"Cap {cap.name}: {cap.limit} is below zero.", hint="0 means that nothing may be spent."
        )
    if (cap.scope_kind is ScopeKind.FLEET) == bool(cap.scope_value):
        raise BadInput(
            f"Cap {cap.name}: a cap for {cap.scope_kind} {'takes no' if cap.scope_value else 'needs a'} value."
        )
    _zone(cap.zone, cap.name)
    return cap


@lru_cache(maxsize=64)
def _zone(name: str, cap: str = "") -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInput(
            f"Cap {cap}: {name!r} is not an IANA time zone.", hint="Write it like America/Los_Angeles."
        ) from None


def midnight(day: date, zone: str) -> datetime:
    """The UTC instant at which a local day starts; where midnight is skipped, the instant of the skip."""
    return datetime(day.year, day.month, day.day, tzinfo=_zone(zone)).astimezone(UTC)


def window_at(window: Window, zone: str, moment: datetime) -> tuple[datetime | None, datetime | None]:
    """The half-open UTC window [start, end) that a moment lies in; (None, None) for `total`."""
    if window is Window.TOTAL:
        return None, None
    today = moment.astimezone(_zone(zone)).date()
    if window is Window.DAY:
        first, after = today, today + timedelta(days=1)
    elif window is Window.WEEK:
        first = today - timedelta(days=today.weekday())
        after = first + timedelta(days=7)
    else:
        first = today.replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
    return midnight(first, zone), midnight(after, zone)


def midnights(zone: str, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """Every local midnight in (after, until]: where lines are split for windows of this zone."""
    day = after.astimezone(_zone(zone)).date()
    found: list[datetime] = []
    while True:
        day += timedelta(days=1)
        edge = midnight(day, zone)
        if edge > until:
            return tuple(found)
        if edge > after:
            found.append(edge)


def applies(cap: Cap, scope: Scope) -> bool:
    """Whether a cost of this scope counts against the cap. Unknown dimensions match no narrower cap."""
    if cap.scope_kind is ScopeKind.FLEET:
        return True
    value: str = getattr(scope, cap.scope_kind.value)
    return bool(value) and value == cap.scope_value


def applicable(caps: Iterable[Cap], scope: Scope) -> tuple[Cap, ...]:
    """The caps that apply to a scope, broadest first, then by name."""
    found = [cap for cap in caps if applies(cap, scope)]
    return tuple(sorted(found, key=lambda cap: (BREADTH[cap.scope_kind], cap.name)))


@dataclass(frozen=True, slots=True)
class Standing:
    """A cap at a moment: what is allowed (limit and approvals), spent in its window, and held."""

    cap: Cap
    allowed: Money
    spent: Money
    held: Money

    @property
    def committed(self) -> Money:
        """spent + held."""
        return self.spent + self.held

    @property
    def left(self) -> Money:
        """What may still be committed; never below zero."""
        return max(Money(0), self.allowed - self.committed)


def misfits(standings: Sequence[Standing], amount: Money) -> tuple[Misfit, ...]:
    """Every cap that `amount` more does not fit, in the order given (broadest first)."""
    found = []
    for standing in standings:
        short = standing.committed + amount - standing.allowed
        if short > Money(0):
            found.append(
                Misfit(
                    cap=standing.cap.name,
                    scope=standing.cap.subject,
                    limit=standing.allowed,
                    committed=standing.committed,
                    left=standing.left,
                    short=short,
                    raised_by=standing.cap.raised_by,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class CapStatus:
    """A cap as people see it. `state`: ok, alerted, armed, pausing, paused, reached."""

    cap: Cap
    spent: Money
    held: Money
    committed: Money
    left: Money
    burn: Money
    """dollars an hour right now"""
    window_start: datetime | None
    window_end: datetime | None
    state: str
    time_to_cap: timedelta | None
    """at the present burn; None where it is not reached before the window ends"""
    allowed: Money
    """the limit and what was approved on top of it"""
