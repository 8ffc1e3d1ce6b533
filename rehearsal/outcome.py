"""What a replay gives: plain values that print as text or JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleet.values import Money, format_duration


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation or invariant, and whether it held."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The world at one moment, for progress and charts."""

    at: datetime
    nodes: dict[str, int]
    """by region; on-premises nodes under ``"""
    pods: dict[str, int]
    """running, by experiment"""
    spent: dict[str, Money]
    """by experiment"""
    burn: Money
    """machines' price per hour now, by the cloud's own list"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole replay."""

    scenario: str
    start: datetime
    end: datetime
    seconds: float
    """real time it took"""
    checks: tuple[Check, ...]
    samples: tuple[Sample, ...]
    spent: dict[str, Money]
    """by experiment, at the end, by the product's ledger"""
    cloud_spent: Money
    """all machines, by the cloud's own account"""
    milestones: dict[str, Any]
    """times and figures that a story tells"""

    @property
    def passed(self) -> bool:
        """Everything held."""
        return all(check.held for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """JSON values; money as decimal dollars."""
        return dict(plain(asdict(self))) | {"passed": self.passed}

    def text(self) -> str:
        """For a terminal, a line a fact."""
        lines = [
            f"{self.scenario}: {format_duration(self.end - self.start)} of world time in {self.seconds:.1f} s",
            *(
                f"  spent by {name or 'nobody (overhead)'}: {amount}"
                for name, amount in sorted(self.spent.items())
            ),
        ]
        lines += [
            f"  {'ok  ' if check.held else 'FAIL'} {check.name}: {check.detail}" for check in self.checks
        ]
        lines.append(
            "passed"
            if self.passed
            else f"{sum(not c.held for c in self.checks)} of {len(self.checks)} failed"
        )
        return "\n".join(lines)


def plain(value: Any) -> Any:
    """Values as JSON has them: money as exact decimal dollars, times as RFC 3339."""
    if isinstance(value, dict) and set(value) == {"micros"}:
        return Money(value["micros"]).exact()
    if isinstance(value, Money):
        return value.exact()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
