"""One region's state: its machines, what is free of capacity, quota and addresses, and its prices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

from sandbox.cloud.codec import AwsError
from sandbox.cloud.machine import Machine
from sandbox.cloud.spec import OfferSpec, RegionSpec
from sandbox.cloud.throttle import Throttle
from sandbox.cloud.types import TypeFacts, type_facts

LISTED_FOR = timedelta(hours=1)
"""ended machines are still listed"""
UNLIMITED = 10**9


@dataclass
class PriceChange:
    """A price from a moment on."""

    at: datetime
    price: Fraction


@dataclass
class Region:
    """A region's spec plus what has happened in it. Keys of tables are (zone, type, spot)."""

    spec: RegionSpec
    start: datetime
    no_capacity_status: int = 500
    throttle: Throttle = field(default_factory=Throttle)
    machines: dict[str, Machine] = field(default_factory=dict)
    """by id, in order of launch"""
    used: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    vcpus: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """(quota group, spot) → vCPUs in use"""
    addresses: Counter[str] = field(default_factory=Counter)
    """subnet → addresses in use"""
    prices: dict[tuple[str, str, bool], list[PriceChange]] = field(default_factory=dict)
    down: bool = False
    """every call answers 503"""
    slow_seconds: float = 0.0
    """real seconds that every call takes"""

    def __post_init__(self) -> None:
        for zone, offers in self.spec.zones.items():
            for kind, offer in offers.items():
                self.prices[zone, kind, False] = [PriceChange(self.start, offer.price)]
                if offer.spot is not None:
                    self.prices[zone, kind, True] = [PriceChange(self.start, offer.spot)]

    @property
    def sold(self) -> set[str]:
        """Types that some zone sells."""
        return {kind for offers in self.spec.zones.values() for kind in offers}

    def offer(self, zone: str, kind: str) -> OfferSpec:
        """What the zone sells of a type; AwsError Unsupported where it does not."""
        found = self.spec.zones[zone].get(kind)
        if found is not None:
            return found
        others = sorted(name for name, offers in self.spec.zones.items() if kind in offers)
        if not others:
            raise AwsError(
                "Unsupported",
                "The requested configuration is currently not supported. "
                "Please check the documentation for supported configurations.",
            )
        raise AwsError(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}). "
            f"Please retry your request by not specifying an Availability Zone or choosing {', '.join(others)}.",
        )

    @staticmethod
    def kind(name: str) -> TypeFacts:
        """The type; AwsError where EC2 does not know it."""
        found = type_facts().get(name)
        if found is None:
            raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
        return found

    def price(self, zone: str, kind: str, spot: bool, at: datetime) -> Fraction:
        """The price per hour in force at a time."""
        changes = self.prices[zone, kind, spot]
        return next(c.price for c in reversed(changes) if c.at <= at or c is changes[0])

    def free(self, zone: str, kind: str, spot: bool) -> int:
        """Machines that can still be had."""
        offer = self.offer(zone, kind)
        capacity = offer.spot_capacity if spot else offer.capacity
        return max(0, capacity - self.used[zone, kind, spot])

    def quota_left(self, family: str, spot: bool) -> int:
        """vCPUs of a quota group that can still be used."""
        quotas = self.spec.spot_quotas if spot else self.spec.quotas
        limit = quotas.get(family)
        return UNLIMITED if limit is None else max(0, limit - self.vcpus[family, spot])

    def addresses_left(self, subnet: str) -> int:
        """Free addresses in a subnet."""
        return max(0, self.spec.subnets[subnet].addresses - self.addresses[subnet])

    def no_quota(self, family: str, spot: bool) -> AwsError:
        """EC2's words where the quota does not allow one machine more."""
        if spot:
            return AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        return AwsError(
            "VcpuLimitExceeded",
            "You have requested more vCPU capacity than your current vCPU limit of "
            f"{self.spec.quotas.get(family, 0)} allows for the instance bucket that the specified instance type "
            "belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to "
            "this limit.",
        )

    def no_capacity(self, zone: str, kind: str, spot: bool) -> AwsError:
        """EC2's words where it has no machine more; with the status 500 clients repeat it by themselves."""
        if spot:
            words = "There is no Spot capacity available that matches your request."
        else:
            words = (
                f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested "
                f"({zone}). Our system will be working on provisioning additional capacity."
            )
        return AwsError("InsufficientInstanceCapacity", words, self.no_capacity_status)

    @staticmethod
    def no_addresses(subnet: str) -> AwsError:
        """EC2's words where a subnet is full."""
        return AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances.",
        )

    def add(self, machine: Machine) -> None:
        """A machine takes what it needs."""
        self.machines[machine.id] = machine
        self._count(machine, 1)

    def end(self, machine: Machine, now: datetime, code: str) -> bool:
        """A machine begins to shut down, and what it took is free again; False where it did already."""
        if machine.ended is not None:
            return False
        machine.ended, machine.end_code = now, code
        self._count(machine, -1)
        return True

    def _count(self, machine: Machine, sign: int) -> None:
        self.used[machine.zone, machine.kind.name, machine.spot] += sign
        self.vcpus[machine.kind.family, machine.spot] += sign * machine.kind.vcpus
        self.addresses[machine.subnet] += sign

    def listed(self, now: datetime, visible_after: float) -> list[Machine]:
        """What EC2 shows, in order of launch: not the newest ones yet, and ended ones for an hour."""
        newest, oldest_end = now - timedelta(seconds=visible_after), now - LISTED_FOR
        return [
            machine
            for machine in self.machines.values()
            if machine.launched <= newest and (machine.ended is None or machine.ended > oldest_end)
        ]
