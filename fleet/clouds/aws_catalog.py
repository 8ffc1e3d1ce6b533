"""What AWS sells to the configured pools: types, zones that have them, prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import product

import structlog

from fleet.clouds.aged import Aged
from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_errors import translated
from fleet.clouds.aws_prices import AwsPrices
from fleet.clouds.aws_types import InstanceType, instance_type
from fleet.model import (
    L_CAPACITY_TYPE,
    L_CLUSTER,
    L_INSTANCE_TYPE,
    L_POOL,
    L_REGION,
    L_ZONE,
    CapacityType,
    Offer,
    Price,
)
from fleet.pools import Pool, Region
from fleet.ports import Quota
from fleet.prices import KnownRate, upper_bound

log = structlog.get_logger(__name__)
TYPES_LIFE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Sold:
    """What one region has: types by name, and the zones that offer each."""

    types: Mapping[str, InstanceType]
    zones: Mapping[str, frozenset[str]]


class AwsCatalog:
    """The `Catalog` of AWS pools; also the `RateSource` of `fleet.prices`."""

    provider = "aws"

    def __init__(self, pools: Sequence[Pool], clients: AwsClients) -> None:
        self._pools = tuple(pool for pool in pools if pool.provider == self.provider)
        self._clients = clients
        regions = list(dict.fromkeys(region.name for pool in self._pools for region in pool.regions))
        spot = [
            name
            for pool in self._pools
            if CapacityType.SPOT in pool.capacity_types
            for name in pool.instance_types
        ]
        self._types = {
            region: sorted(
                {
                    name
                    for pool in self._pools
                    if any(r.name == region for r in pool.regions)
                    for name in pool.instance_types
                }
            )
            for region in regions
        }
        self._sold: dict[str, Aged[Sold]] = {region: Aged(TYPES_LIFE) for region in regions}
        self._prices = AwsPrices(clients, regions, sorted(set(spot)))
        self._offers: tuple[Offer, ...] | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be fetched again, a sentence each; old data are used meanwhile."""
        return (*(aged.problem for aged in self._sold.values() if aged.problem), *self._prices.problems)

    def offers(self, now: datetime) -> tuple[Offer, ...]:
        """Every offer of the pools in their order of preference; unknown prices are upper bounds, flagged.

        Fetches what is missing or old. A region of which nothing is known yet has no offers.
        """
        self.refresh(now)
        if self._offers is None:
            self._offers = tuple(
                self._offer(pool, region, zone, kind, capacity, now)
                for pool in self._pools
                for region in pool.regions
                for zone, kind, capacity in self._combinations(pool, region)
            )
        return self._offers

    def quotas(self, now: datetime) -> tuple[Quota, ...]:
        """None: quotas show as typed errors when they are reached (Service Quotas needs its own rights)."""
        del now
        return ()

    def refresh(self, now: datetime) -> None:
        """Fetch what is missing or old; failures keep what was known and show in `problems`."""
        for region, aged in self._sold.items():
            if aged.due(now):
                before = aged.problem
                if aged.renew(now, partial(self._fetch, region)):
                    self._offers = None
                elif aged.problem != before:
                    log.warning("catalog not renewed", region=region, error=aged.problem)
        before_prices = self._prices.problems
        if self._prices.refresh(now) or self._prices.problems != before_prices:
            self._offers = None

    def on_demand(self, region: str, instance_type: str, at: datetime) -> Price | None:
        """The list price; see `RateSource`."""
        self.refresh(at)
        return self._prices.on_demand(region, instance_type)

    def spot(self, zone: str, instance_type: str, at: datetime) -> Price | None:
        """The spot price in force at a time; see `RateSource`."""
        self.refresh(at)
        return self._prices.spot(zone, instance_type, at)

    def known_rates(self) -> Sequence[KnownRate]:
        """All on-demand rates known; see `RateSource`."""
        return self._prices.known_rates()

    def size(self, instance_type: str) -> tuple[int, int] | None:
        """vCPUs and GPUs of a type; see `RateSource`."""
        for aged in self._sold.values():
            found = aged.value.types.get(instance_type) if aged.value else None
            if found is not None:
                return found.vcpus, found.gpus
        return self._prices.size(instance_type)

    def _combinations(self, pool: Pool, region: Region) -> list[tuple[str, InstanceType, CapacityType]]:
        sold = self._sold[region.name].value
        if sold is None:
            return []
        kinds = [sold.types[name] for name in pool.instance_types if name in sold.types]
        zones = [zone.name for zone in region.zones]
        return [
            (zone, kind, capacity)
            for zone, kind, capacity in product(zones, kinds, pool.capacity_types)
            if zone in sold.zones.get(kind.name, ())
        ]

    def _offer(
        self,
        pool: Pool,
        region: Region,
        zone: str,
        kind: InstanceType,
        capacity: CapacityType,
        now: datetime,
    ) -> Offer:
        labels = {
            **pool.labels,
            L_REGION: region.name,
            L_ZONE: zone,
            L_INSTANCE_TYPE: kind.name,
            L_CAPACITY_TYPE: str(capacity),
            L_POOL: pool.name,
            L_CLUSTER: pool.cluster,
            "kubernetes.io/arch": kind.arch,
            "kubernetes.io/os": "linux",
        }
        return Offer(
            provider=self.provider,
            region=region.name,
            zone=zone,
            instance_type=kind.name,
            capacity_type=capacity,
            price=self._price(region.name, zone, kind, capacity, now),
            allocatable=kind.allocatable,
            vcpus=kind.vcpus,
            family=kind.family,
            gpu_name=kind.gpu_name,
            labels=labels,
            pool=pool.name,
        )

    def _price(
        self, region: str, zone: str, kind: InstanceType, capacity: CapacityType, now: datetime
    ) -> Price:
        listed = self._prices.on_demand(region, kind.name)
        if capacity is CapacityType.SPOT:
            spot = self._prices.spot(zone, kind.name, now)
            if spot is not None:
                return spot
            if listed is not None:
                return Price(listed.hourly, "on-demand, spot price unknown", estimated=True)
        return listed or upper_bound(kind.name, kind.vcpus, kind.gpus, self._prices.known_rates())

    def _fetch(self, region: str, _old: Sold | None) -> Sold:
        names = self._types[region]
        ec2 = self._clients.ec2(region)
        filters = [{"Name": "instance-type", "Values": names}]
        types: dict[str, InstanceType] = {}
        zones: dict[str, set[str]] = {}
        with translated(f"EC2 instance types in {region}"):
            for page in ec2.get_paginator("describe_instance_types").paginate(Filters=filters):
                types |= {found["InstanceType"]: instance_type(found) for found in page["InstanceTypes"]}
            pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="availability-zone", Filters=filters
            )
            for offering in (found for page in pages for found in page["InstanceTypeOfferings"]):
                zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
        return Sold(types, {name: frozenset(places) for name, places in zones.items()})
