"""The declarative description of a cloud: what is sold where, for how much, and how fast it boots.

A plain mapping:

```yaml
regions:
  us-west-2:
    zones:
      us-west-2a:
        offers:
          m5.xlarge: {price: "0.192", spot: "0.07", capacity: 20, spot_capacity: 5}
        subnets: {subnet-us-west-2a: {addresses: 4091, joins: true}}     # this one by default
    quotas: {Standard: 2000, P: 3072}          # vCPU, on-demand; absent = none
    spot_quotas: {Standard: 500}
    images: {ami-us-west-2: {joins: true}}     # this one by default
profiles: {node: {joins: true}}                # this one by default
credentials: [AKIASANDBOX]                     # access keys that are known
boot_seconds: 90
gpu_ready_seconds: null                        # GPUs this long after the join; null = at once, -1 = never
visible_after_seconds: 3                       # DescribeInstances lags a launch
bill: {after_hours: 24, final_after_days: 3, tags: [quartermaster.dev/run]}
no_capacity_status: 500                        # as the real service: clients retry it by themselves
```

A type costs the same in all zones of a region: the price of the first zone that names one counts.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

DEFAULT_PROFILE = "node"
DEFAULT_KEY = "AKIASANDBOX"


@dataclass(frozen=True)
class TypeFacts:
    """One EC2 instance type, from the shipped snapshot."""

    name: str
    vcpus: int
    memory_mib: int
    arch: str
    gpu_name: str
    gpus: int
    gpu_memory_mib: int
    allocatable_cpu: str
    allocatable_memory: str
    pods: int

    @property
    def family(self) -> str:
        """Quota group: the letters before the generation decide."""
        letters = "".join(c for c in self.name.split(".")[0] if c.isalpha() or c == "-")
        first = self.name[0]
        if self.name.startswith(("inf", "trn", "dl")):
            return {"i": "Inf", "t": "Trn", "d": "DL"}[first]
        if first == "g" or letters.startswith("vt"):
            return "G and VT"
        return {"p": "P", "f": "F", "x": "X"}.get(first, "Standard")


@cache
def type_facts() -> dict[str, TypeFacts]:
    """Every type of the snapshot by name."""
    raw = json.loads(gzip.decompress((Path(__file__).parent / "types.json.gz").read_bytes()))
    found = {}
    for name, (vcpus, memory, arch, gpu, gpus, gpu_memory, cpu, mem, pods, _) in raw.items():
        found[name] = TypeFacts(
            name,
            vcpus,
            memory,
            arch,
            gpu or "",
            gpus,
            gpu_memory or 0,
            cpu or f"{vcpus * 1000 - 80}m",
            mem or f"{memory * 9 // 10}Mi",
            int(pods or 110),
        )
    return found


@dataclass
class OfferSpec:
    """What a zone sells of a type: price per hour and how many machines are free."""

    price: Fraction
    spot: Fraction | None
    capacity: int
    spot_capacity: int


@dataclass
class SubnetSpec:
    """A subnet; `joins` False: machines in it never reach the cluster."""

    zone: str
    addresses: int = 4091
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


@dataclass
class CloudSpec:
    """The whole cloud."""

    regions: dict[str, RegionSpec]
    profiles: dict[str, bool] = field(default_factory=lambda: {DEFAULT_PROFILE: True})
    credentials: frozenset[str] = frozenset({DEFAULT_KEY})
    boot_seconds: float = 90.0
    gpu_ready_seconds: float | None = None
    visible_after_seconds: float = 3.0
    bill_after_hours: float = 24.0
    final_after_days: float = 3.0
    bill_tags: frozenset[str] = frozenset()
    no_capacity_status: int = 500


def parse_spec(raw: Mapping[str, Any]) -> CloudSpec:
    """The description as values; ValueError where it names types that do not exist."""
    bill = raw.get("bill", {})
    spec = CloudSpec({name: _region(name, region) for name, region in raw.get("regions", {}).items()})
    spec.profiles = {
        name: bool(p.get("joins", True)) for name, p in raw.get("profiles", {DEFAULT_PROFILE: {}}).items()
    }
    spec.credentials = frozenset(raw.get("credentials", [DEFAULT_KEY]))
    spec.boot_seconds = float(raw.get("boot_seconds", 90))
    ready = raw.get("gpu_ready_seconds")
    spec.gpu_ready_seconds = None if ready is None else float(ready)
    spec.visible_after_seconds = float(raw.get("visible_after_seconds", 3))
    spec.bill_after_hours = float(bill.get("after_hours", 24))
    spec.final_after_days = float(bill.get("final_after_days", 3))
    spec.bill_tags = frozenset(bill.get("tags", ()))
    spec.no_capacity_status = int(raw.get("no_capacity_status", 500))
    return spec


def _region(name: str, raw: Mapping[str, Any]) -> RegionSpec:
    zones: dict[str, dict[str, OfferSpec]] = {}
    subnets: dict[str, SubnetSpec] = {}
    for zone, content in raw.get("zones", {}).items():
        zones[zone] = {kind: _offer(kind, offer) for kind, offer in content.get("offers", {}).items()}
        for subnet, given in content.get("subnets", {f"subnet-{zone}": {}}).items():
            subnets[subnet] = SubnetSpec(
                zone, int(given.get("addresses", 4091)), bool(given.get("joins", True))
            )
    images = {
        image: bool(given.get("joins", True))
        for image, given in raw.get("images", {f"ami-{name}": {}}).items()
    }
    return RegionSpec(
        name, zones, subnets, images, dict(raw.get("quotas", {})), dict(raw.get("spot_quotas", {}))
    )


def _offer(kind: str, raw: Mapping[str, Any]) -> OfferSpec:
    if kind not in type_facts():
        raise ValueError(f"There is no EC2 instance type {kind!r}.")
    spot = raw.get("spot")
    return OfferSpec(
        Fraction(str(raw["price"])),
        None if spot is None else Fraction(str(spot)),
        int(raw.get("capacity", 0)),
        int(raw.get("spot_capacity", 0)),
    )
