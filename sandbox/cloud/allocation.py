"""Which overrides of a fleet give how many machines: a pure choice over what a region has free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.orders import Order
from sandbox.cloud.region import Region

_UNFULFILLABLE = AwsError(
    "UnfulfillableCapacity",
    "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.",
)
_BY_PRIORITY = ("prioritized", "capacity-optimized-prioritized")


@dataclass(frozen=True)
class Candidate:
    """One override with its template: what it would launch, and at what price now."""

    order: Order
    price: Fraction
    priority: float
    shape: Mapping[str, Any]
    """LaunchTemplateAndOverrides, as answers name it"""


@dataclass(frozen=True)
class Terms:
    """OnDemandOptions or SpotOptions."""

    strategy: str = "lowest-price"
    minimum: int = 0
    single_type: bool = False
    single_zone: bool = False
    max_hourly: Fraction | None = None

    def ordered(self, candidates: Sequence[Candidate], region: Region) -> list[Candidate]:
        """The preferred ones first; equal ones in the order given."""
        if self.strategy in _BY_PRIORITY:
            return sorted(candidates, key=lambda c: c.priority)
        if self.strategy == "capacity-optimized":
            return sorted(
                candidates, key=lambda c: -region.free(c.order.zone, c.order.kind.name, c.order.spot)
            )
        return sorted(candidates, key=lambda c: c.price)

    def groups(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """What may be mixed, in order of preference."""
        found: dict[tuple[str, str], list[Candidate]] = {}
        for candidate in candidates:
            order = candidate.order
            key = (order.kind.name if self.single_type else "", order.zone if self.single_zone else "")
            found.setdefault(key, []).append(candidate)
        return list(found.values())


@dataclass(frozen=True)
class Allocation:
    """Machines by candidate, and the error of each one that gave less than was needed."""

    taken: tuple[tuple[Candidate, int], ...] = ()
    errors: tuple[tuple[Candidate, AwsError], ...] = ()

    @property
    def count(self) -> int:
        """Machines in all."""
        return sum(count for _, count in self.taken)


Taken = tuple[tuple[Candidate, int], ...]


def allocate(
    region: Region, candidates: Sequence[Candidate], wanted: int, terms: Terms, before: Taken = ()
) -> Allocation:
    """`wanted` machines over the candidates, or as many as there are beside `before`; none below the minimum."""
    best = Allocation()
    errors: tuple[tuple[Candidate, AwsError], ...] = ()
    ordered = terms.ordered(candidates, region)
    for group in terms.groups(ordered):
        tried = _fill(region, group, wanted, terms, before)
        errors += tried.errors
        if tried.count > best.count:
            best = tried
        if best.count >= wanted:
            break
    if best.count < terms.minimum:
        return Allocation((), (*errors, *((candidate, _UNFULFILLABLE) for candidate in ordered[:1])))
    return Allocation(best.taken, errors)


def _fill(region: Region, group: Sequence[Candidate], wanted: int, terms: Terms, before: Taken) -> Allocation:
    taken: list[tuple[Candidate, int]] = []
    errors: list[tuple[Candidate, AwsError]] = []
    for candidate in group:
        left = wanted - sum(count for _, count in taken)
        if left <= 0:
            break
        room, error = _room(region, candidate, (*before, *taken), terms)
        if room:
            taken.append((candidate, min(room, left)))
        if room < left:
            errors.append((candidate, error))
    return Allocation(tuple(taken), tuple(errors))


def _room(
    region: Region, candidate: Candidate, taken: Sequence[tuple[Candidate, int]], terms: Terms
) -> tuple[int, AwsError]:
    """Machines that are left for a candidate, and what there is too little of."""
    order, kind = candidate.order, candidate.order.kind
    here = [(other.order, count) for other, count in taken]
    vcpus = sum(
        count * o.kind.vcpus for o, count in here if (o.kind.family, o.spot) == (kind.family, order.spot)
    )
    addresses = sum(count for o, count in here if o.subnet == order.subnet)
    machines = sum(count for o, count in here if (o.zone, o.kind, o.spot) == (order.zone, kind, order.spot))
    limits = [
        (
            (region.quota_left(kind.family, order.spot) - vcpus) // kind.vcpus,
            region.no_quota(kind.family, order.spot),
        ),
        (region.addresses_left(order.subnet) - addresses, region.no_addresses(order.subnet)),
        (
            region.free(order.zone, kind.name, order.spot) - machines,
            region.no_capacity(order.zone, kind.name, order.spot),
        ),
    ]
    if terms.max_hourly is not None:
        spent = sum((o.price * count for o, count in taken if o.order.spot == order.spot), Fraction(0))
        limits.append((int((terms.max_hourly - spent) / candidate.price), _UNFULFILLABLE))
    return min(((max(0, room), error) for room, error in limits), key=lambda limit: limit[0])
