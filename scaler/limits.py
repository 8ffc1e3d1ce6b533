"""Counting down what may still be bought while a plan is made."""

from __future__ import annotations

from fleet.model import CapacityType, Offer
from scaler.values import Group, Limits

_PLENTY = 10**9


class Allowance:
    """Nodes left per pool, region and run, and vCPUs left per quota. Hard: counted before the purchase."""

    def __init__(self, limits: Limits) -> None:
        self._pools = dict(limits.pools)
        self._regions = dict(limits.regions)
        self._runs = dict(limits.runs)
        self._quotas = {
            (q.provider, q.region, q.family, q.capacity_type): q.limit - q.used
            for q in limits.quotas
            if q.limit is not None
        }

    def left(self, offer: Offer, group: Group) -> int:
        """Machines of this offer that may still be bought for the group."""
        vcpus = self._quotas.get(_quota(offer), _PLENTY)
        return max(
            0,
            min(
                self._pools.get(offer.pool, _PLENTY),
                self._regions.get((offer.pool, offer.region), _PLENTY),
                self._runs.get(group.run, _PLENTY),
                vcpus // offer.vcpus if offer.vcpus else _PLENTY,
            ),
        )

    def take(self, offer: Offer, group: Group, count: int) -> None:
        """That many are planned."""
        if offer.pool in self._pools:
            self._pools[offer.pool] -= count
        if (offer.pool, offer.region) in self._regions:
            self._regions[offer.pool, offer.region] -= count
        if group.run in self._runs:
            self._runs[group.run] -= count
        if _quota(offer) in self._quotas:
            self._quotas[_quota(offer)] -= count * offer.vcpus

    def why(self, offer: Offer, group: Group) -> str:
        """Which limit leaves none of this offer; "" where none does."""
        if self.left(offer, group) > 0:
            return ""
        if self._runs.get(group.run, 1) <= 0:
            return "limits.max_nodes of the experiment is reached"
        if self._pools.get(offer.pool, 1) <= 0:
            return f"max_nodes of pool {offer.pool} is reached"
        if self._regions.get((offer.pool, offer.region), 1) <= 0:
            return f"max_nodes of {offer.region} in pool {offer.pool} is reached"
        return f"the {offer.family} quota in {offer.region} has no room for {offer.vcpus} more vCPUs"


def _quota(offer: Offer) -> tuple[str, str, str, CapacityType]:
    return (offer.provider, offer.region, offer.family, offer.capacity_type)
