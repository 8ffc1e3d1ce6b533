"""Running totals that answer at any moment without looking at a line: closed amounts and open rates.

An open interval adds its rate and rate × start; the sum at a moment is then one multiplication. Rates
are micro-dollars an hour × 2**40, so a tally is within one micro-dollar an open line of the lines' sum
(their floors, and the remainders in the idle line); once closed it is that sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.values import Money
from guard.caps import Cap, ScopeKind
from guard.meter import Account, Line
from guard.moments import HOUR

_SCALE = HOUR << 40


def overlap(line: Line, start: int | None, end: int | None = None) -> int:
    """The part of a line's amount within [start, end); parts of adjoining windows sum to the whole."""
    first = line.started if start is None else max(start, line.started)
    last = line.ended if end is None else min(end, line.ended)
    if (first, last) == (line.started, line.ended):
        return line.amount
    if first >= last:
        return 0
    length = line.ended - line.started
    before = line.amount * (first - line.started) // length
    return line.amount * (last - line.started) // length - before


@dataclass(slots=True)
class Tally:
    """One running total since `start` (None: since ever), until `end` (None: no end)."""

    start: int | None = None
    end: int | None = None
    closed: int = 0
    rate: int = 0
    offset: int = 0

    def open(self, rate: int, since: int) -> None:
        """An interval at this rate began."""
        self.rate += rate
        self.offset += rate * (since if self.start is None else max(since, self.start))

    def shut(self, rate: int, since: int) -> None:
        """It ended; its lines are added by `add`."""
        self.rate -= rate
        self.offset -= rate * (since if self.start is None else max(since, self.start))

    def add(self, line: Line) -> None:
        """A line was closed."""
        self.closed += overlap(line, self.start)

    def at(self, now: int) -> Money:
        """The total at a moment, rounded up to the micro-dollar."""
        return Money(self.closed + max(0, -((self.offset - self.rate * now) // _SCALE)))

    @property
    def burn(self) -> Money:
        """Dollars an hour right now."""
        return Money(self.rate >> 40)


_FIELD = {ScopeKind.PERSON: "owner"}


def counts(cap: Cap, account: Account) -> bool:
    """Whether a cost of this account is spent under the cap: `guard.caps.applies` for accounts, without a Scope."""
    kind = cap.scope_kind
    if kind is ScopeKind.FLEET:
        return True
    value: str = getattr(account, _FIELD.get(kind) or kind.value)
    return value == cap.scope_value and bool(value)
