"""What a node costs an hour: one resolver for offers, holds and the meter.

In this order: the configured rate of an on-premises pool; the spot price in force at the time; the
on-demand list; an upper bound, flagged as estimated. Never zero, never a guess below what it may cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from statistics import median
from typing import Protocol

from fleet.model import (
    L_CAPACITY_TYPE,
    L_INSTANCE_TYPE,
    L_REGION,
    L_ZONE,
    CapacityType,
    Instance,
    Node,
    Price,
)
from fleet.pools import Pool
from fleet.values import Money

UNKNOWN_FACTOR = Fraction(5, 4)
"""An unknown price is taken as the dearest comparable one and a quarter."""
SANE_FACTOR = 30
"""A price this many times above or below the median of its type is a mistake (OpenCost #927)."""
DEAREST_GPU = Money.usd("17.81")
"""Where no price is known at all: the dearest GPU of the 2026 on-demand list, $/h (p6-b300: 142.416 / 8)."""
DEAREST_CORE = Money.usd("0.35")
"""Likewise for a core: high-memory machines' on-demand $/h by their vCPUs, rounded up."""
_FOREIGN_CAPACITY_LABELS = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType")


@dataclass(frozen=True, slots=True)
class KnownRate:
    """The on-demand rate of one instance type somewhere, with its size."""

    instance_type: str
    vcpus: int
    gpus: int
    hourly: Money


class RateSource(Protocol):
    """A provider's price list. Refreshes itself when asked for a later time than it knows."""

    provider: str

    def on_demand(self, region: str, instance_type: str, at: datetime) -> Price | None:
        """The list price, None where it is not known."""
        ...

    def spot(self, zone: str, instance_type: str, at: datetime) -> Price | None:
        """The spot price in force in that zone at that time, None where it is not known."""
        ...

    def known_rates(self) -> Sequence[KnownRate]:
        """All on-demand rates known now, for upper bounds."""
        ...

    def size(self, instance_type: str) -> tuple[int, int] | None:
        """vCPUs and GPUs of a type, None where it is not known."""
        ...


def upper_bound(instance_type: str, vcpus: int, gpus: int, known: Iterable[KnownRate]) -> Price:
    """A rate that a machine of unknown price hardly exceeds, flagged as estimated.

    Known types of its family give the highest rate, and the highest per GPU (or core) times its own
    number: whichever is more. Without any, the dearest GPU or core of all known types does. Both times
    a quarter more.
    """
    rates = list(known)
    letters = instance_type.partition(".")[0]
    family = [rate for rate in rates if letters and rate.instance_type.partition(".")[0] == letters]
    highest = max((rate.hourly.micros for rate in family), default=0)
    if not vcpus and not gpus:
        # Not even its size is known: as dear as the dearest machine.
        highest = highest or max((rate.hourly.micros for rate in rates), default=8 * DEAREST_GPU.micros)
        return _bound(Fraction(highest), "a machine of unknown size")
    for group, words in ((family, "its family"), (rates, "the dearest known type")):
        units = [unit for unit in (_per_unit(rate, gpus > 0) for rate in group) if unit is not None]
        if units:
            return _bound(max(max(units) * (gpus or vcpus), Fraction(highest)), words)
    fallback = DEAREST_GPU * gpus if gpus else DEAREST_CORE * vcpus
    return _bound(max(Fraction(fallback.micros), Fraction(highest)), "the dearest on any list")


def _bound(micros: Fraction, words: str) -> Price:
    whole = micros * UNKNOWN_FACTOR
    source = f"upper bound: {words}, and a quarter"
    return Price(Money(-(-whole.numerator // whole.denominator)), source, estimated=True)


def _per_unit(rate: KnownRate, by_gpu: bool) -> Fraction | None:
    units = rate.gpus if by_gpu else rate.vcpus
    if not units or (not by_gpu and rate.gpus):
        # A GPU machine's rate says nothing about the price of a core.
        return None
    return Fraction(rate.hourly.micros, units)


def is_sane(price: Money, others: Sequence[Money]) -> bool:
    """False where a price is not positive, or 30 times off the median of its type elsewhere or earlier."""
    if price.micros <= 0:
        return False
    if not others:
        return True
    middle = median(other.micros for other in others)
    return middle / SANE_FACTOR <= price.micros <= middle * SANE_FACTOR


class PriceBook:
    """The one resolver. `pools` tell the on-premises rates, `sources` the providers' lists."""

    def __init__(self, pools: Sequence[Pool], sources: Sequence[RateSource] = ()) -> None:
        self._fixed = tuple(pool for pool in pools if pool.provider == "onprem")
        self._sources = {source.provider: source for source in sources}
        self._bounds: dict[tuple[str, int, int], Price] = {}
        self._bounds_of: tuple[Sequence[KnownRate], ...] = ()

    def node_price(self, node: Node, instance: Instance | None, at: datetime) -> Price:
        """What a node costs an hour at a time; `instance` is its machine where the provider knows it."""
        if instance is not None:
            return self.instance_price(instance, at)
        for pool in self._fixed:
            if _belongs(node, pool) and pool.hourly is not None:
                return Price(pool.hourly, f"configured rate of pool {pool.name}")
        labelled = _labelled_instance(node)
        if labelled is not None:
            found = self._listed(labelled, at)
            if found is not None:
                return found
        cores = -(-node.allocatable.millicores // 1000)
        return self._bound(node.labels.get(L_INSTANCE_TYPE, ""), cores, node.allocatable.gpus)

    def instance_price(self, instance: Instance, at: datetime) -> Price:
        """What a machine costs an hour at a time, joined or not."""
        found = self._listed(instance, at)
        if found is not None:
            return found
        source = self._sources.get(instance.provider)
        vcpus, gpus = (source.size(instance.instance_type) if source else None) or (0, 0)
        return self._bound(instance.instance_type, vcpus, gpus)

    def _listed(self, instance: Instance, at: datetime) -> Price | None:
        source = self._sources.get(instance.provider)
        if source is None:
            return None
        if instance.capacity_type is CapacityType.SPOT:
            spot = source.spot(instance.zone, instance.instance_type, at)
            if spot is not None:
                return spot
            listed = source.on_demand(instance.region, instance.instance_type, at)
            # Our own spot requests never pay more than on-demand.
            return Price(listed.hourly, "on-demand, spot price unknown", True) if listed else None
        return source.on_demand(instance.region, instance.instance_type, at)

    def _bound(self, instance_type: str, vcpus: int, gpus: int) -> Price:
        known = tuple(source.known_rates() for source in self._sources.values())
        if len(known) != len(self._bounds_of) or any(
            new is not old for new, old in zip(known, self._bounds_of, strict=True)
        ):
            # Thousands of nodes of one unknown type are looked up each minute: one pass over the lists.
            self._bounds, self._bounds_of = {}, known
        size = (instance_type, vcpus, gpus)
        if size not in self._bounds:
            self._bounds[size] = upper_bound(*size, (rate for rates in known for rate in rates))
        return self._bounds[size]


def _belongs(node: Node, pool: Pool) -> bool:
    """A pool without a selector has every node of its cluster that no cloud made."""
    if node.cluster != pool.cluster:
        return False
    if not pool.selector:
        return not node.provider_id
    return all(node.labels.get(key) == value for key, value in pool.selector.items())


def _labelled_instance(node: Node) -> Instance | None:
    """The machine behind a node that others bought, as far as its labels and provider id tell."""
    provider = node.provider_id.partition(":")[0]
    kind, region = node.labels.get(L_INSTANCE_TYPE), node.labels.get(L_REGION)
    if not provider or not kind or not region or node.created is None:
        return None
    labels = (L_CAPACITY_TYPE, *_FOREIGN_CAPACITY_LABELS)
    spot = any(node.labels.get(label, "").lower() == "spot" for label in labels)
    return Instance(
        provider=provider,
        region=region,
        zone=node.labels.get(L_ZONE, ""),
        id=node.instance_id,
        instance_type=kind,
        capacity_type=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
        state="running",
        launched=node.created,
    )
