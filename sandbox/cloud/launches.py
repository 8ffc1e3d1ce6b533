"""RunInstances and CreateFleet: what a launch checks, what it takes, and what a repeated token returns."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.region import Machine, Region
from sandbox.cloud.spec import CloudSpec, SubnetSpec
from sandbox.world import World

USER_DATA_LIMIT = 16_384


@dataclass
class Launcher:
    """Launches for all regions; `on_launch` is told of each new machine (it boots and joins)."""

    world: World
    spec: CloudSpec
    on_launch: Callable[[Machine], None]
    tokens: dict[tuple[str, str, str], tuple[str, list[str], list[dict[str, Any]]]] = field(
        default_factory=dict
    )
    """(region, action, token) → (the request, instance ids, errors)"""
    counter: int = 0

    def remembered(
        self, region: Region, action: str, request: Mapping[str, Any]
    ) -> tuple[list[str], list[dict[str, Any]]] | None:
        """What the same token returned before; AwsError where its request differs."""
        token = str(request.get("ClientToken", ""))
        known = self.tokens.get((region.spec.name, action, token)) if token else None
        if known is None:
            return None
        if known[0] != _fingerprint(request):
            raise AwsError(
                "IdempotentParameterMismatch",
                "Client token already used before with different parameters.",
            )
        return known[1], known[2]

    def remember(
        self,
        region: Region,
        action: str,
        request: Mapping[str, Any],
        ids: list[str],
        errors: list[dict[str, Any]],
    ) -> None:
        """Keep the first result of a token."""
        token = str(request.get("ClientToken", ""))
        if token:
            self.tokens[region.spec.name, action, token] = (_fingerprint(request), ids, errors)

    def run(self, region: Region, request: Mapping[str, Any]) -> list[Machine]:
        """RunInstances: between MinCount and MaxCount machines, or a typed refusal and nothing."""
        known = self.remembered(region, "RunInstances", request)
        if known is not None:
            return [region.machines[key] for key in known[0]]
        least, most = int(request.get("MinCount", 0)), int(request.get("MaxCount", 0))
        if not 1 <= least <= most:
            raise AwsError(
                "InvalidParameterValue", "The MinCount and MaxCount must be at least 1 and in order."
            )
        order = self._order(region, request)
        if request.get("DryRun"):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        allowed = region.check_quota(order.kind, order.spot, most)
        count = self._obtainable(region, order, allowed, least)
        if not region.launch_tokens.take(count, self.world.now):
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
        machines = self.make(region, order, count)
        self.remember(region, "RunInstances", request, [m.id for m in machines], [])
        return machines

    def _obtainable(self, region: Region, order: Order, most: int, least: int) -> int:
        if most < least:
            region.check_quota(order.kind, order.spot, 0)
        addresses = region.addresses_left(order.subnet)
        if addresses < least:
            raise AwsError(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{order.subnet}' to satisfy the requested number of instances.",
            )
        free = region.free(order.zone, order.kind.name, order.spot)
        if free < least:
            raise region.no_capacity(order.zone, order.kind.name)
        return min(most, addresses, free)

    def _order(self, region: Region, request: Mapping[str, Any]) -> Order:
        kind = region.kind(str(request.get("InstanceType", "m1.small")))
        subnet_id, subnet = self._subnet(region, request)
        image = str(request.get("ImageId", ""))
        if image not in region.spec.images:
            raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
        profile = str(request.get("IamInstanceProfile", {}).get("Name", ""))
        if profile and profile not in self.spec.profiles:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({profile}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            )
        market = request.get("InstanceMarketOptions") or {}
        spot = market.get("MarketType") == "spot"
        price = market.get("SpotOptions", {}).get("MaxPrice")
        offer = region.offer(subnet.zone, kind.name)
        if spot and offer.spot is None:
            raise region.no_capacity(subnet.zone, kind.name)
        limit = None if price is None else Fraction(str(price))
        if spot and limit is not None and region.price(subnet.zone, kind.name, True, self.world.now) > limit:
            raise AwsError(
                "SpotMaxPriceTooLow",
                "Your Spot request price is lower than the minimum required Spot request fulfillment price.",
            )
        return Order(
            kind,
            subnet.zone,
            subnet_id,
            spot,
            image,
            profile,
            _user_data(request),
            _tags(request),
            str(request.get("ClientToken", "")),
            limit,
        )

    @staticmethod
    def _subnet(region: Region, request: Mapping[str, Any]) -> tuple[str, SubnetSpec]:
        interfaces = request.get("NetworkInterfaces") or [{}]
        name = str(request.get("SubnetId") or interfaces[0].get("SubnetId") or "")
        if not name:
            zone = str(request.get("Placement", {}).get("AvailabilityZone", "")) or next(
                iter(region.spec.zones)
            )
            name = next((key for key, subnet in region.spec.subnets.items() if subnet.zone == zone), "")
        subnet = region.spec.subnets.get(name)
        if subnet is None:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{name}' does not exist")
        return name, subnet

    def make(self, region: Region, order: Order, count: int) -> list[Machine]:
        """The machines, launched now."""
        now = self.world.now
        reservation = f"r-{self.world.random.getrandbits(68):017x}"
        machines = []
        for _ in range(count):
            self.counter += 1
            machine = Machine(
                id=f"i-{self.world.random.getrandbits(68):017x}",
                region=region.spec.name,
                zone=order.zone,
                kind=order.kind,
                spot=order.spot,
                subnet=order.subnet,
                image=order.image,
                profile=order.profile,
                user_data=order.user_data,
                tags=dict(order.tags),
                launched=now,
                reservation=reservation,
                token=order.token,
                number=self.counter,
                max_price=order.max_price,
            )
            region.add(machine)
            machines.append(machine)
            self.on_launch(machine)
        return machines

    def order(self, region: Region, request: Mapping[str, Any]) -> Order:
        """A checked order, for fleets."""
        return self._order(region, request)


@dataclass(frozen=True)
class Order:
    """A launch whose parameters are all valid."""

    kind: Any
    zone: str
    subnet: str
    spot: bool
    image: str
    profile: str
    user_data: str
    tags: Mapping[str, str]
    token: str
    max_price: Fraction | None


def _fingerprint(request: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in request.items() if k != "DryRun"}, sort_keys=True, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _user_data(request: Mapping[str, Any]) -> str:
    raw = str(request.get("UserData", ""))
    if len(raw) > USER_DATA_LIMIT * 4 // 3 + 4:
        raise AwsError("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
    try:
        return base64.b64decode(raw, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None


def _tags(request: Mapping[str, Any]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for specification in request.get("TagSpecifications", ()):
        if specification.get("ResourceType") == "instance":
            tags |= {tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags", ())}
    if len(tags) > 50:
        raise AwsError("TagLimitExceeded", "You have reached the limit of 50 tags per resource.")
    return tags
