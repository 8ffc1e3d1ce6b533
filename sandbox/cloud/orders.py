"""Launch parameters, checked one by one as EC2 does: what is left is an order that only scarcity can refuse."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.region import Region
from sandbox.cloud.types import TypeFacts

USER_DATA_LIMIT = 16_384
TAGS, TAG_KEY, TAG_VALUE = 50, 128, 256
_TAGGABLE = ("instance", "volume", "network-interface", "spot-instances-request", "fleet")


@dataclass(frozen=True)
class Order:
    """A launch whose parameters are all valid."""

    kind: TypeFacts
    zone: str
    subnet: str
    spot: bool
    image: str
    profile: str
    groups: tuple[str, ...]
    user_data: str
    tags: Mapping[str, str]
    token: str
    max_price: Fraction | None
    """$/h above which a spot machine is taken back"""


def read_order(
    region: Region, profiles: Mapping[str, bool], request: Mapping[str, Any], now: datetime
) -> Order:
    """The order of a RunInstances request; AwsError for the first parameter that is wrong."""
    kind = region.kind(str(request.get("InstanceType") or "m1.small"))
    image = _image(region, request)
    subnet, zone = _subnet(region, request)
    groups = _groups(region, request)
    profile = _profile(profiles, request.get("IamInstanceProfile") or {})
    user_data = _user_data(str(request.get("UserData", "")))
    tags = read_tags(request.get("TagSpecifications", ()))
    offer = region.offer(zone, kind.name)
    spot, limit = _market(request.get("InstanceMarketOptions") or {})
    if spot:
        if offer.spot is None:
            raise region.no_capacity(zone, kind.name, spot)
        limit = region.price(zone, kind.name, False, now) if limit is None else limit
        _check_price(region.price(zone, kind.name, True, now), limit)
    return Order(
        kind=kind,
        zone=zone,
        subnet=subnet,
        spot=spot,
        image=image,
        profile=profile,
        groups=groups,
        user_data=user_data,
        tags=tags,
        token=str(request.get("ClientToken", "")),
        max_price=limit,
    )


def _image(region: Region, request: Mapping[str, Any]) -> str:
    image = str(request.get("ImageId", ""))
    if not image:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    if image not in region.spec.images:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
    return image


def _subnet(region: Region, request: Mapping[str, Any]) -> tuple[str, str]:
    interfaces: Sequence[Mapping[str, Any]] = request.get("NetworkInterfaces") or [{}]
    name = str(request.get("SubnetId") or interfaces[0].get("SubnetId") or "")
    zone = str((request.get("Placement") or {}).get("AvailabilityZone") or "")
    if zone and zone not in region.spec.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    if not name:
        zone = zone or next(iter(region.spec.zones))
        name = next((key for key, subnet in region.spec.subnets.items() if subnet.zone == zone), "")
    subnet = region.spec.subnets.get(name)
    if subnet is None:
        raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{name}' does not exist")
    if zone and zone != subnet.zone:
        raise AwsError(
            "InvalidParameterValue",
            f"The availability zone {zone} is not that of subnet {name} ({subnet.zone}).",
        )
    return name, subnet.zone


def _groups(region: Region, request: Mapping[str, Any]) -> tuple[str, ...]:
    interfaces: Sequence[Mapping[str, Any]] = request.get("NetworkInterfaces") or [{}]
    groups = tuple(request.get("SecurityGroupIds") or interfaces[0].get("Groups") or ())
    known = region.spec.security_groups
    unknown = [group for group in groups if known is not None and group not in known]
    if unknown:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{unknown[0]}' does not exist")
    return groups


def _profile(profiles: Mapping[str, bool], given: Mapping[str, Any]) -> str:
    arn = str(given.get("Arn", ""))
    name = str(given.get("Name") or arn.rpartition("/")[2])
    if name and name not in profiles:
        field = "iamInstanceProfile.arn" if arn else "iamInstanceProfile.name"
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({arn or name}) for parameter {field} is invalid. Invalid IAM Instance Profile name",
        )
    return name


def _user_data(raw: str) -> str:
    try:
        data = base64.b64decode(raw, validate=True)
    except binascii.Error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(data) > USER_DATA_LIMIT:
        raise AwsError("InvalidUserData.Malformed", f"User data is limited to {USER_DATA_LIMIT} bytes")
    return data.decode(errors="replace")


def read_tags(specifications: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The instance's tags of TagSpecifications; AwsError for tags that EC2 does not take."""
    found: dict[str, str] = {}
    for specification in specifications:
        kind = specification.get("ResourceType")
        if kind not in _TAGGABLE:
            raise AwsError(
                "InvalidParameterValue", f"'{kind}' is not a valid taggable resource type for this operation."
            )
        tags = check_tags(specification.get("Tags", ()))
        if kind == "instance":
            found |= tags
    return found


def check_tags(tags: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Tags by key; AwsError for too many, too long, reserved or repeated ones."""
    found: dict[str, str] = {}
    for tag in tags:
        key, value = str(tag.get("Key", "")), str(tag.get("Value", ""))
        if not 0 < len(key) <= TAG_KEY or key.startswith("aws:"):
            raise AwsError("InvalidParameterValue", f"Tag key '{key}' is too long, empty or reserved.")
        if len(value) > TAG_VALUE:
            raise AwsError("InvalidParameterValue", f"Tag value of '{key}' exceeds {TAG_VALUE} characters.")
        if key in found:
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        found[key] = value
    if len(found) > TAGS:
        raise AwsError("TagLimitExceeded", f"More than {TAGS} tags specified")
    return found


def _market(market: Mapping[str, Any]) -> tuple[bool, Fraction | None]:
    kind = market.get("MarketType")
    if kind not in (None, "spot"):
        raise AwsError("InvalidParameterValue", f"Value ({kind}) for parameter MarketType is invalid.")
    price = (market.get("SpotOptions") or {}).get("MaxPrice")
    if price in (None, ""):
        return kind == "spot", None
    try:
        return kind == "spot", Fraction(str(price))
    except (ValueError, ZeroDivisionError):
        raise AwsError("InvalidParameterValue", f"Invalid value '{price}' for spotPrice.") from None


def _check_price(price: Fraction, limit: Fraction) -> None:
    if price > limit:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {float(limit):g} is lower than the minimum required Spot request "
            f"fulfillment price of {float(price):g}.",
        )
