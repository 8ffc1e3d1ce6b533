"""One region's state: its machines, free capacity, quotas, addresses, and how many calls it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.spec import OfferSpec, RegionSpec, TypeFacts, type_facts

RUNNING_AFTER = timedelta(seconds=5)
TERMINATED_AFTER = timedelta(seconds=20)
LISTED_FOR = timedelta(hours=1)
SPOT_NOTICE = timedelta(minutes=2)


@dataclass
class Machine:
    """One instance. It is billed from its launch until it begins to shut down."""

    id: str
    region: str
    zone: str
    kind: TypeFacts
    spot: bool
    subnet: str
    image: str
    profile: str
    user_data: str
    tags: dict[str, str]
    launched: datetime
    reservation: str
    token: str = ""
    number: int = 0
    ended: datetime | None = None
    end_reason: str = ""
    marked: datetime | None = None
    """a spot machine's two-minute notice"""
    max_price: Fraction | None = None

    @property
    def live(self) -> bool:
        """Not ending."""
        return self.ended is None

    def state(self, now: datetime) -> tuple[int, str]:
        """EC2's code and name of the state."""
        if self.ended is not None:
            return (48, "terminated") if now >= self.ended + TERMINATED_AFTER else (32, "shutting-down")
        return (0, "pending") if now < self.launched + RUNNING_AFTER else (16, "running")

    @property
    def address(self) -> str:
        """Private address."""
        return f"10.{self.number // 65536 % 256}.{self.number // 256 % 256}.{self.number % 256}"

    @property
    def node_name(self) -> str:
        """The private DNS name, which its Node carries."""
        return f"ip-{self.address.replace('.', '-')}.{self.region}.compute.internal"


@dataclass
class PriceChange:
    """A price from a moment on."""

    at: datetime
    price: Fraction


@dataclass
class Bucket:
    """A token bucket in world time."""

    size: float
    refill: float
    """tokens a second"""
    level: float = -1.0
    at: datetime | None = None

    def take(self, count: float, now: datetime) -> bool:
        """Take tokens if there are enough."""
        if self.at is None:
            self.level = self.size
        else:
            self.level = min(self.size, self.level + (now - self.at).total_seconds() * self.refill)
        self.at = now
        if self.level < count:
            return False
        self.level -= count
        return True


@dataclass
class Region:
    """A region's spec plus what has happened in it."""

    spec: RegionSpec
    start: datetime
    no_capacity_status: int = 500
    machines: dict[str, Machine] = field(default_factory=dict)
    used: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    """(zone, type, spot) → machines of ours"""
    prices: dict[tuple[str, str, bool], list[PriceChange]] = field(default_factory=dict)
    launch_tokens: Bucket = field(default_factory=lambda: Bucket(1000, 2))
    """a machine each; 1,000 at once, then two a second (EC2's resource bucket)"""
    call_tokens: Bucket = field(default_factory=lambda: Bucket(1000, 100))
    down: bool = False

    def __post_init__(self) -> None:
        for zone, offers in self.spec.zones.items():
            for kind, offer in offers.items():
                self.prices[zone, kind, False] = [PriceChange(self.start, offer.price)]
                if offer.spot is not None:
                    self.prices[zone, kind, True] = [PriceChange(self.start, offer.spot)]

    def offer(self, zone: str, kind: str) -> OfferSpec:
        """What the zone sells of a type; AwsError Unsupported where it does not."""
        found = self.spec.zones[zone].get(kind)
        if found is None:
            others = sorted(z for z, offers in self.spec.zones.items() if kind in offers)
            where = (
                f" Please retry your request by not specifying an Availability Zone or choosing {', '.join(others)}."
                if others
                else ""
            )
            raise AwsError(
                "Unsupported",
                f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}).{where}",
            )
        return found

    def kind(self, name: str) -> TypeFacts:
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
        return max(0, capacity - self.used.get((zone, kind, spot), 0))

    def affordable(self, kind: TypeFacts, spot: bool) -> int:
        """Machines of a type that the quota of its family still allows."""
        quotas = self.spec.spot_quotas if spot else self.spec.quotas
        limit = quotas.get(kind.family)
        if limit is None:
            return 10**9
        used = sum(
            m.kind.vcpus
            for m in self.machines.values()
            if m.live and m.spot == spot and m.kind.family == kind.family
        )
        return max(0, (limit - used) // kind.vcpus)

    def check_quota(self, kind: TypeFacts, spot: bool, count: int) -> int:
        """As many of `count` as the quota allows; AwsError where it allows none."""
        allowed = min(count, self.affordable(kind, spot))
        if allowed > 0:
            return allowed
        if spot:
            raise AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        limit = self.spec.quotas.get(kind.family, 0)
        raise AwsError(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance "
            "bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request "
            "to request an adjustment to this limit.",
        )

    def no_capacity(self, zone: str, kind: str) -> AwsError:
        """EC2's words for it; the status is a 500 that clients retry."""
        return AwsError(
            "InsufficientInstanceCapacity",
            f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}). "
            "Our system will be working on provisioning additional capacity.",
            self.no_capacity_status,
        )

    def addresses_left(self, subnet: str) -> int:
        """Free addresses in a subnet."""
        used = sum(1 for m in self.machines.values() if m.live and m.subnet == subnet)
        return max(0, self.spec.subnets[subnet].addresses - used)

    def add(self, machine: Machine) -> None:
        """Take the capacity that a new machine needs."""
        self.machines[machine.id] = machine
        key = (machine.zone, machine.kind.name, machine.spot)
        self.used[key] = self.used.get(key, 0) + 1

    def end(self, machine: Machine, now: datetime, reason: str) -> None:
        """A machine begins to shut down; its capacity is free again."""
        if machine.ended is not None:
            return
        machine.ended = now
        machine.end_reason = f"{reason} ({now:%Y-%m-%d %H:%M:%S} GMT)"
        key = (machine.zone, machine.kind.name, machine.spot)
        self.used[key] -= 1

    def listed(self, now: datetime, visible_after: float) -> list[Machine]:
        """What DescribeInstances shows: not the newest ones yet, and ended ones for an hour."""
        lag = timedelta(seconds=visible_after)
        return [
            m
            for m in self.machines.values()
            if now >= m.launched + lag and (m.ended is None or now < m.ended + LISTED_FOR)
        ]


def matches(machine: Machine, filters: list[Mapping[str, Any]], now: datetime) -> bool:
    """EC2's Filters: all must hold, each by one of its values (* and ? are wildcards)."""
    return all(_holds(machine, each["Name"], list(each.get("Values", ())), now) for each in filters)


def _holds(machine: Machine, name: str, values: list[str], now: datetime) -> bool:
    if name.startswith("tag:"):
        value = machine.tags.get(name[4:])
        return value is not None and any(fnmatchcase(value, pattern) for pattern in values)
    if name == "tag-key":
        return any(key in machine.tags for key in values)
    plain = {
        "instance-id": machine.id,
        "instance-state-name": machine.state(now)[1],
        "instance-type": machine.kind.name,
        "availability-zone": machine.zone,
        "subnet-id": machine.subnet,
        "client-token": machine.token,
        "reservation-id": machine.reservation,
        "private-dns-name": machine.node_name,
        "image-id": machine.image,
    }
    if name not in plain:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return any(fnmatchcase(plain[name], pattern) for pattern in values)
