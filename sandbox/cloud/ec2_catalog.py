"""EC2's actions on what is sold: types, the zones that have them, spot prices, subnets, regions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.costs import decimal
from sandbox.cloud.filters import passing
from sandbox.cloud.paging import page_size, paged
from sandbox.cloud.region import Region
from sandbox.cloud.shapes import ACCOUNT, architecture
from sandbox.cloud.templates import Action
from sandbox.cloud.types import TypeFacts
from sandbox.world import World

_MAX_HISTORY = timedelta(days=90)
_PRODUCT = "Linux/UNIX"
_INTERFACES = {8: (2, 4), 12: (2, 6), 29: (3, 10), 35: (3, 12), 58: (4, 15), 234: (8, 30), 737: (15, 50)}
"""pods → network interfaces and addresses each, as EC2 has them"""


class Catalog:
    """Read-only actions about offers."""

    def __init__(self, world: World, regions: Mapping[str, Region]) -> None:
        self._world = world
        self._regions = regions

    def actions(self) -> dict[str, Action]:
        """By name."""
        return {
            "DescribeInstanceTypes": self.types,
            "DescribeInstanceTypeOfferings": self.offerings,
            "DescribeSpotPriceHistory": self.spot_prices,
            "DescribeSubnets": self.subnets,
            "DescribeRegions": self.regions,
            "DescribeAvailabilityZones": self.zones,
        }

    def types(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Every type that some zone of the region sells."""
        asked = list(request.get("InstanceTypes", ()))
        if asked and request.get("MaxResults"):
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instanceTypes cannot be used with the parameter maxResults",
            )
        unknown = [name for name in asked if name not in region.sold]
        if unknown:
            raise AwsError(
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
            )
        kinds = [region.kind(name) for name in sorted(set(asked) or region.sold)]
        found = passing(
            kinds,
            request,
            {
                "instance-type": lambda kind: kind.name,
                "processor-info.supported-architecture": lambda kind: architecture(kind.arch),
                "current-generation": lambda _: "true",
                "supported-usage-class": lambda _: "on-demand",
            },
        )
        page, token = paged(found, request, page_size(request, 100, least=5, most=100))
        return {"InstanceTypes": [_type(kind) for kind in page], "NextToken": token}

    def offerings(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """(type, place) pairs; places are zones or the region."""
        location = str(request.get("LocationType") or "region")
        if location not in ("region", "availability-zone"):
            raise AwsError("InvalidParameterValue", f"Invalid value '{location}' for LocationType.")
        pairs = {
            (kind, zone if location == "availability-zone" else region.spec.name)
            for zone, offers in region.spec.zones.items()
            for kind in offers
        }
        found = passing(
            sorted(pairs),
            request,
            {"instance-type": lambda pair: pair[0], "location": lambda pair: pair[1]},
        )
        page, token = paged(found, request, page_size(request, 1000, least=5))
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": kind, "Location": place, "LocationType": location} for kind, place in page
            ],
            "NextToken": token,
        }

    def spot_prices(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Changes from StartTime to EndTime, newest first, and the prices that were in force at StartTime."""
        now = self._world.now
        start: datetime = max(request.get("StartTime") or now, now - _MAX_HISTORY)
        end: datetime = request.get("EndTime") or now
        kinds = set(request.get("InstanceTypes", ()))
        products = request.get("ProductDescriptions") or [_PRODUCT]
        zone_asked = request.get("AvailabilityZone")
        rows: list[dict[str, Any]] = [
            {
                "AvailabilityZone": zone,
                "InstanceType": kind,
                "ProductDescription": _PRODUCT,
                "SpotPrice": decimal(change.price, 6),
                "Timestamp": change.at,
            }
            for (zone, kind, spot), changes in region.prices.items()
            if spot and (not kinds or kind in kinds) and zone_asked in (None, zone) and _PRODUCT in products
            for change in [c for c in changes if c.at <= start][-1:]
            + [c for c in changes if start < c.at <= end]
        ]
        found = passing(
            rows,
            request,
            {
                "availability-zone": lambda row: row["AvailabilityZone"],
                "instance-type": lambda row: row["InstanceType"],
                "product-description": lambda row: row["ProductDescription"],
                "spot-price": lambda row: row["SpotPrice"],
            },
        )
        found.sort(
            key=lambda row: (row["Timestamp"], row["AvailabilityZone"], row["InstanceType"]), reverse=True
        )
        page, token = paged(found, request, page_size(request, 1000))
        return {"SpotPriceHistory": page, "NextToken": token or ""}

    def subnets(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Subnets with their free addresses."""
        known = region.spec.subnets
        names = list(request.get("SubnetIds") or known)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{unknown[0]}' does not exist")
        found = passing(
            names,
            request,
            {
                "subnet-id": lambda name: name,
                "availability-zone": lambda name: known[name].zone,
                "vpc-id": lambda _: f"vpc-{region.spec.name}",
                "state": lambda _: "available",
            },
        )
        page, token = paged(found, request, page_size(request, 1000, least=5))
        return {
            "Subnets": [
                {
                    "SubnetId": name,
                    "AvailabilityZone": known[name].zone,
                    "AvailableIpAddressCount": region.addresses_left(name),
                    "State": "available",
                    "VpcId": f"vpc-{region.spec.name}",
                    "OwnerId": ACCOUNT,
                }
                for name in page
            ],
            "NextToken": token,
        }

    def regions(self, _region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """All regions of this cloud."""
        names = list(request.get("RegionNames") or self._regions)
        unknown = [name for name in names if name not in self._regions]
        if unknown:
            raise AwsError("InvalidParameterValue", f"Invalid region name: {unknown[0]}")
        found = passing(names, request, {"region-name": lambda name: name})
        return {
            "Regions": [
                {
                    "RegionName": name,
                    "OptInStatus": "opt-in-not-required",
                    "Endpoint": f"ec2.{name}.amazonaws.com",
                }
                for name in found
            ]
        }

    def zones(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Zones of the region asked."""
        names = list(request.get("ZoneNames") or region.spec.zones)
        unknown = [name for name in names if name not in region.spec.zones]
        if unknown:
            raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
        found = passing(
            names,
            request,
            {
                "zone-name": lambda name: name,
                "region-name": lambda _: region.spec.name,
                "state": lambda _: "available",
            },
        )
        return {
            "AvailabilityZones": [
                {
                    "ZoneName": zone,
                    "RegionName": region.spec.name,
                    "State": "available",
                    "OptInStatus": "opt-in-not-required",
                    "ZoneType": "availability-zone",
                }
                for zone in found
            ]
        }


def _type(kind: TypeFacts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "InstanceType": kind.name,
        "CurrentGeneration": True,
        "VCpuInfo": {"DefaultVCpus": kind.vcpus},
        "MemoryInfo": {"SizeInMiB": kind.memory_mib},
        "ProcessorInfo": {"SupportedArchitectures": [architecture(kind.arch)]},
        "SupportedUsageClasses": ["on-demand", "spot"],
        "NetworkInfo": _network(kind.pods),
    }
    if kind.gpus:
        gpu = {
            "Name": kind.gpu_name.upper(),
            "Manufacturer": kind.gpu_maker,
            "Count": kind.gpus,
            "MemoryInfo": {"SizeInMiB": kind.gpu_memory_mib},
        }
        found["GpuInfo"] = {"Gpus": [gpu], "TotalGpuMemoryInMiB": kind.gpu_memory_mib * kind.gpus}
    return found


def _network(pods: int) -> dict[str, Any]:
    """Interfaces and addresses each that give a node its pods: interfaces x (addresses - 1) + 2."""
    interfaces, addresses = _INTERFACES.get(pods, (0, 0))
    if not interfaces:
        interfaces = next((n for n in (15, 8, 7, 4, 3, 2) if pods > 2 and (pods - 2) % n == 0), 1)
        addresses = max(0, pods - 2) // interfaces + 1
    return {"MaximumNetworkInterfaces": interfaces, "Ipv4AddressesPerInterface": addresses}
