"""Which machine to buy next for pods that are left: the cheapest per pod it really holds. Pure.

Every candidate is filled the way it would be used, all dimensions at once, and judged by what a filled one
costs for the share of the demand that it takes. So a machine that fills on memory while its CPU stays empty
loses against one that both fill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fleet.model import Offer
from fleet.values import Resources
from scaler.fit import Space
from scaler.values import PodClass

Pattern = tuple[tuple[int, int], ...]
"""(position in the needs, pods of it on one machine)"""


@dataclass(slots=True)
class Need:
    """Pods of one class that still want a machine."""

    cls: PodClass
    left: int
    zones: Mapping[str, int] | None = None
    """zone → how many may still go there; None = anywhere"""

    def wanted(self, zone: str) -> int:
        """How many may go into this zone now."""
        return self.left if self.zones is None else min(self.left, self.zones.get(zone, 0))

    def take(self, zone: str, count: int) -> None:
        """Some of them got a place there."""
        self.left -= count
        if self.zones is not None:
            self.zones = {**self.zones, zone: self.zones.get(zone, 0) - count}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An offer, what one machine of it would hold empty, and which needs it may serve."""

    offer: Offer
    space: Space
    serves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate to buy, how one machine of it is filled, and how many such machines fill up."""

    candidate: Candidate
    pattern: Pattern
    repeat: int


def fill(space: Space, needs: Sequence[Need], serves: Sequence[int]) -> Pattern:
    """Fill a space: always the class whose shape points most along what is still free. Changes `space`."""
    placed: dict[int, int] = {}
    total = space.free
    while True:
        best, best_score, best_room = -1, -1.0, 0
        for position in serves:
            need = needs[position]
            wanted = need.wanted(space.zone) - placed.get(position, 0)
            room = space.room(need.cls.sample, wanted) if wanted > 0 else 0
            if room:
                score = _alignment(need.cls.sample.requests, space.free, total)
                if score > best_score:
                    best, best_score, best_room = position, score, room
        if best < 0:
            return tuple(sorted(placed.items()))
        # In steps, so that classes mix; a lone class goes in at once.
        step = best_room if len(serves) == 1 else max(1, best_room // 4)
        space.add(needs[best].cls.sample, step)
        placed[best] = placed.get(best, 0) + step


def _alignment(request: Resources, free: Resources, total: Resources) -> float:
    """Cosine between what is asked and what is free, in shares of the whole machine; large pods win ties."""
    asked = _shares(request, total)
    left = _shares(free, total)
    size = math.hypot(*asked)
    length = math.hypot(*left)
    if not size or not length:
        return 0.0
    return sum(a * f for a, f in zip(asked, left, strict=True)) / (size * length) + size * 1e-3


def _shares(part: Resources, whole: Resources) -> tuple[float, float, float]:
    return (
        part.millicores / whole.millicores if whole.millicores else 0.0,
        part.memory / whole.memory if whole.memory else 0.0,
        part.gpus / whole.gpus if whole.gpus else 0.0,
    )


def weights(needs: Sequence[Need]) -> list[Fraction]:
    """What placing one pod of each need is worth: its share of the whole demand, summed over resources."""
    cpu = sum(need.cls.sample.requests.millicores * need.left for need in needs)
    memory = sum(need.cls.sample.requests.memory * need.left for need in needs)
    gpus = sum(need.cls.sample.requests.gpus * need.left for need in needs)
    count = sum(need.left for need in needs)
    found = []
    for need in needs:
        asked = need.cls.sample.requests
        share = Fraction(1, 1000 * max(count, 1))  # a pod that asks for nothing is worth something, too
        for part, whole in ((asked.millicores, cpu), (asked.memory, memory), (asked.gpus, gpus)):
            share += Fraction(part, whole) if whole else 0
        found.append(share)
    return found


def choose(candidates: Sequence[Candidate], needs: Sequence[Need], first: Sequence[int]) -> Choice | None:
    """The candidate with the lowest price for what it takes; None where none takes anything.

    `first` are the needs that a machine is bought for now; the others only fill what these leave free.
    """
    worth = weights(needs)
    best: Choice | None = None
    best_rank: tuple[Fraction, int, str] | None = None
    for candidate in candidates:
        space = candidate.space.copy()
        leading = [position for position in candidate.serves if position in first]
        pattern = fill(space, needs, leading)
        if not pattern:
            continue
        others = [position for position in candidate.serves if position not in first]
        if others:
            pattern = (*pattern, *fill(space, needs, others))
        value = sum((worth[position] * count for position, count in pattern), Fraction(0))
        # Equal price: the larger machine, as fewer DaemonSet pods then cost anything.
        rank = (
            Fraction(candidate.offer.price.hourly.micros) / value,
            -candidate.offer.allocatable.millicores,
            candidate.offer.key,
        )
        if best_rank is None or rank < best_rank:
            best_rank = rank
            best = Choice(candidate, pattern, _repeats(pattern, needs, candidate.space.zone))
    return best


def _repeats(pattern: Pattern, needs: Sequence[Need], zone: str) -> int:
    """How many machines can be filled exactly like this."""
    return max(1, min(needs[position].wanted(zone) // count for position, count in pattern))
