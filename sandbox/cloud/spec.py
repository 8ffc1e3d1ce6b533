"""The declarative description of a cloud: what is sold where, for how much, and how fast it boots.

A plain mapping; everything but `regions` has a default, and an unknown key is refused:

```yaml
regions:
  us-west-2:
    zones:
      us-west-2a:
        offers:
          m5.xlarge:
            price: "0.192"              # on-demand, $/h
            spot: "0.07"                # absent: no spot machines of it here
            capacity: 20                # machines free at the start
            spot_capacity: 5
            spot_changes: [{after_seconds: 3600, price: "0.09"}]
        subnets: {subnet-us-west-2a: {addresses: 4091, joins: true}}     # this one by default
    quotas: {Standard: 2000, P: 3072}   # vCPU, on-demand, by quota group; a group not named has no limit
    spot_quotas: {Standard: 500}
    images: {ami-us-west-2: {joins: true}}     # this one by default
    security_groups: [sg-1]                    # absent: any is known
    boot_seconds: 120                          # where they differ from those of the cloud
    gpu_ready_seconds: 30
profiles: {node: {joins: true}}                # this one by default
credentials: [AKIASANDBOX]                     # access keys; or {KEY: ["ec2:Describe*", …]}: what each may do
boot_seconds: 90
gpu_ready_seconds: null                        # GPUs this long after the join; null = with it, -1 = never
visible_after_seconds: 3                       # DescribeInstances lags a launch
throttle: {RunInstances: {size: 5, refill: 2}} # calls at once and a second, by action; `*` = the others;
                                               # `launches`, `terminations`: machines (1,000 and 2 or 20 a second)
no_capacity_status: 500                        # as the real service: clients retry it by themselves
bill:
  after_hours: 24                              # a day is on the bill this long after its end
  final_after_days: 3                          # and no longer an estimate this long after its end
  new_account: false                           # true: DataUnavailable, not zeros, before its first day is billed
  tags: [quartermaster.dev/run]                # keys activated for cost allocation
  lines:                                       # what else is on it
    - {day: 2026-11-06, amount: "-12.5", record_type: Credit, service: AmazonS3, region: us-east-1, tags: {}}
```

On-demand prices are per region: zones that disagree are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from sandbox.cloud.types import QUOTA_GROUPS, type_facts

DEFAULT_PROFILE = "node"
DEFAULT_KEY = "AKIASANDBOX"
NEVER = -1.0
"""`gpu_ready_seconds`: the device plugin never comes up"""
COMPUTE = "Amazon Elastic Compute Cloud - Compute"
_ADDRESSES = 4091


@dataclass
class OfferSpec:
    """What a zone sells of a type: price per hour and how many machines there are."""

    price: Fraction
    spot: Fraction | None
    capacity: int
    spot_capacity: int
    spot_changes: tuple[tuple[float, Fraction], ...] = ()
    """(seconds after the start, price)"""


@dataclass
class SubnetSpec:
    """A subnet; `joins` False: machines in it never reach the cluster."""

    zone: str
    addresses: int = _ADDRESSES
    joins: bool = True


@dataclass
class RegionSpec:
    """One region."""

    name: str
    zones: dict[str, dict[str, OfferSpec]]
    subnets: dict[str, SubnetSpec]
    images: dict[str, bool]
    quotas: dict[str, int]
    spot_quotas: dict[str, int]
    security_groups: frozenset[str] | None = None
    """None: any"""
    boot_seconds: float | None = None
    gpu_ready_seconds: float | None = None


@dataclass(frozen=True)
class RateSpec:
    """A token bucket: `size` at once, then `refill` a second of world time."""

    size: float
    refill: float


@dataclass(frozen=True)
class BillLine:
    """Something on the bill that no machine ran up: a credit, tax, another service."""

    day: date
    amount: Fraction
    record_type: str = "Usage"
    service: str = COMPUTE
    region: str = "us-east-1"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BillSpec:
    """When and how the bill comes."""

    after_hours: float = 24.0
    final_after_days: float = 3.0
    tags: frozenset[str] = frozenset()
    lines: tuple[BillLine, ...] = ()
    new_account: bool = False


@dataclass
class CloudSpec:
    """The whole cloud. `credentials`: access key → patterns of `service:Action` it may do."""

    regions: dict[str, RegionSpec]
    profiles: dict[str, bool] = field(default_factory=lambda: {DEFAULT_PROFILE: True})
    credentials: dict[str, tuple[str, ...]] = field(default_factory=lambda: {DEFAULT_KEY: ("*",)})
    boot_seconds: float = 90.0
    gpu_ready_seconds: float | None = None
    visible_after_seconds: float = 3.0
    throttle: dict[str, RateSpec] = field(default_factory=dict)
    bill: BillSpec = BillSpec()
    no_capacity_status: int = 500


def parse_spec(raw: Mapping[str, Any]) -> CloudSpec:
    """The description as values; ValueError with the place where it names what does not exist."""
    _known("cloud", raw, {"regions", "profiles", "credentials", "boot_seconds", "gpu_ready_seconds",
                          "visible_after_seconds", "throttle", "bill", "no_capacity_status"})  # fmt: skip
    return CloudSpec(
        regions={name: _region(name, region) for name, region in raw.get("regions", {}).items()},
        profiles={
            name: _joins(name, given) for name, given in raw.get("profiles", {DEFAULT_PROFILE: {}}).items()
        },
        credentials=_credentials(raw.get("credentials", [DEFAULT_KEY])),
        boot_seconds=float(raw.get("boot_seconds", 90)),
        gpu_ready_seconds=_seconds(raw.get("gpu_ready_seconds")),
        visible_after_seconds=float(raw.get("visible_after_seconds", 3)),
        throttle={name: _rate(name, rate) for name, rate in raw.get("throttle", {}).items()},
        bill=_bill(raw.get("bill", {})),
        no_capacity_status=int(raw.get("no_capacity_status", 500)),
    )


def _known(place: str, raw: Mapping[str, Any], keys: set[str]) -> None:
    unknown = sorted(set(raw) - keys)
    if unknown:
        raise ValueError(f"{place}: there is no {unknown[0]!r}; there are {', '.join(sorted(keys))}.")


def _joins(place: str, raw: Mapping[str, Any] | None) -> bool:
    _known(place, raw or {}, {"joins"})
    return bool((raw or {}).get("joins", True))


def _seconds(value: float | None) -> float | None:
    return None if value is None else float(value)


def _credentials(raw: Mapping[str, Any] | list[str]) -> dict[str, tuple[str, ...]]:
    if isinstance(raw, Mapping):
        return {key: tuple(patterns) for key, patterns in raw.items()}
    return dict.fromkeys(raw, ("*",))


def _rate(place: str, raw: Mapping[str, Any]) -> RateSpec:
    _known(f"throttle of {place}", raw, {"size", "refill"})
    return RateSpec(float(raw["size"]), float(raw["refill"]))


def _bill(raw: Mapping[str, Any]) -> BillSpec:
    _known("bill", raw, {"after_hours", "final_after_days", "tags", "lines", "new_account"})
    return BillSpec(
        float(raw.get("after_hours", 24)),
        float(raw.get("final_after_days", 3)),
        frozenset(raw.get("tags", ())),
        tuple(bill_line(line) for line in raw.get("lines", ())),
        bool(raw.get("new_account", False)),
    )


def bill_line(raw: Mapping[str, Any]) -> BillLine:
    """One further line of the bill."""
    _known("bill line", raw, {"day", "amount", "record_type", "service", "region", "tags"})
    day = raw["day"]
    texts = {key: str(raw[key]) for key in ("record_type", "service", "region") if key in raw}
    return BillLine(
        day if isinstance(day, date) else date.fromisoformat(str(day)),
        Fraction(str(raw["amount"])),
        tags=dict(raw.get("tags", {})),
        **texts,
    )


def _region(name: str, raw: Mapping[str, Any]) -> RegionSpec:
    _known(name, raw, {"zones", "quotas", "spot_quotas", "images", "security_groups", "boot_seconds",
                       "gpu_ready_seconds"})  # fmt: skip
    zones: dict[str, dict[str, OfferSpec]] = {}
    subnets: dict[str, SubnetSpec] = {}
    for zone, content in raw.get("zones", {}).items():
        _known(zone, content, {"offers", "subnets"})
        zones[zone] = {kind: _offer(zone, kind, offer) for kind, offer in content.get("offers", {}).items()}
        for subnet, given in content.get("subnets", {f"subnet-{zone}": {}}).items():
            subnets[subnet] = _subnet(subnet, zone, given or {})
    _check_prices(zones)
    groups = raw.get("security_groups")
    return RegionSpec(
        name,
        zones,
        subnets,
        {image: _joins(image, given) for image, given in raw.get("images", {f"ami-{name}": {}}).items()},
        _quotas(name, raw.get("quotas", {})),
        _quotas(name, raw.get("spot_quotas", {})),
        None if groups is None else frozenset(groups),
        _seconds(raw.get("boot_seconds")),
        _seconds(raw.get("gpu_ready_seconds")),
    )


def _check_prices(zones: Mapping[str, Mapping[str, OfferSpec]]) -> None:
    listed: dict[str, Fraction] = {}
    for zone, offers in zones.items():
        for kind, offer in offers.items():
            if listed.setdefault(kind, offer.price) != offer.price:
                raise ValueError(f"{zone}: {kind} has another on-demand price than in the zones before.")


def _quotas(place: str, raw: Mapping[str, Any]) -> dict[str, int]:
    unknown = sorted(set(raw) - QUOTA_GROUPS)
    if unknown:
        raise ValueError(
            f"{place}: there is no quota group {unknown[0]!r}; there are {', '.join(sorted(QUOTA_GROUPS))}."
        )
    return {group: int(limit) for group, limit in raw.items()}


def _subnet(name: str, zone: str, raw: Mapping[str, Any]) -> SubnetSpec:
    _known(name, raw, {"addresses", "joins"})
    return SubnetSpec(zone, int(raw.get("addresses", _ADDRESSES)), bool(raw.get("joins", True)))


def _offer(zone: str, kind: str, raw: Mapping[str, Any]) -> OfferSpec:
    if kind not in type_facts():
        raise ValueError(f"{zone}: there is no EC2 instance type {kind!r}.")
    _known(f"{kind} in {zone}", raw, {"price", "spot", "capacity", "spot_capacity", "spot_changes"})
    spot = raw.get("spot")
    return OfferSpec(
        Fraction(str(raw["price"])),
        None if spot is None else Fraction(str(spot)),
        int(raw.get("capacity", 0)),
        int(raw.get("spot_capacity", 0)),
        tuple(
            (float(change["after_seconds"]), Fraction(str(change["price"])))
            for change in raw.get("spot_changes", ())
        ),
    )
