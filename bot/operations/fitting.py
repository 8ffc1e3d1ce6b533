"""What a set of pods would need: nodes to buy, pods that fit what is there, pods that fit nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.values import Money


@dataclass(frozen=True, slots=True)
class NodeLine:
    """So many machines of one offer."""

    count: int
    instance_type: str
    region: str
    zone: str
    capacity_type: str
    hourly: Money
    """of all of them"""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for a launch card."""

    nodes: tuple[NodeLine, ...]
    existing: int
    """pods that fit on nodes that are there"""
    unplaced: tuple[tuple[int, str], ...]
    """pods that fit nowhere, and why"""
    hourly: Money
    """of what would be bought, and of the share of what is there already"""
    worst_hourly: Money
    """the same machines at the dearest price that overflow may lead to"""
    regions: tuple[str, ...]
    """order of preference"""
    estimated: bool = False
    """a price in it is an upper bound"""

    @property
    def count(self) -> int:
        """Machines to buy."""
        return sum(line.count for line in self.nodes)
