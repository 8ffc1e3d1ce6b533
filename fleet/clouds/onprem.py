"""On-premises pools: machines that exist, cost a configured rate, and cannot be bought."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleet.errors import NoCapacity
from fleet.model import L_CAPACITY_TYPE, L_CLUSTER, L_POOL, CapacityType, Instance, Offer, Price
from fleet.pools import Pool
from fleet.ports import LaunchRequest, LaunchResult, Quota
from fleet.prices import upper_bound
from fleet.values import Resources


class OnPremCatalog:
    """The `Catalog` of on-premises pools: one offer a pool, of capacity type FIXED.

    It tells the pool's rate and has no room: its nodes are in the cluster already and fit plans as
    nodes do. A pool without a rate has an upper bound, flagged.
    """

    provider = "onprem"

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = tuple(pool for pool in pools if pool.provider == self.provider)

    def offers(self, now: datetime) -> tuple[Offer, ...]:
        """One offer a pool; never to be bought."""
        del now
        return tuple(_offer(pool) for pool in self._pools)

    def quotas(self, now: datetime) -> tuple[Quota, ...]:
        """None."""
        del now
        return ()


class OnPremMachines:
    """The `Machines` of on-premises pools: none can be bought or ended."""

    provider = "onprem"

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Always NoCapacity."""
        raise NoCapacity(f"Pool {request.pool} is on-premises and cannot grow.", code="OnPremises")

    def describe(self) -> tuple[Instance, ...]:
        """None: its nodes are known from the cluster."""
        return ()

    def terminate(self, region: str, ids: Sequence[str]) -> None:
        """Nothing: nothing here was bought by us."""

    def interruptions(self) -> tuple[str, ...]:
        """None."""
        return ()


def _offer(pool: Pool) -> Offer:
    price = (
        Price(pool.hourly, f"configured rate of pool {pool.name}")
        if pool.hourly is not None
        else upper_bound("", 0, 0, ())
    )
    return Offer(
        provider=OnPremCatalog.provider,
        region=pool.name,
        zone=pool.name,
        instance_type="onprem",
        capacity_type=CapacityType.FIXED,
        price=price,
        allocatable=Resources(),
        labels={
            **pool.labels,
            **pool.selector,
            L_POOL: pool.name,
            L_CLUSTER: pool.cluster,
            L_CAPACITY_TYPE: CapacityType.FIXED.value,
        },
        pool=pool.name,
    )
