"""EC2's actions on what is sold: types, the zones that have them, spot prices, subnets, regions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.costs import decimal
from sandbox.cloud.ec2 import Action, paged
from sandbox.cloud.region import Region
from sandbox.cloud.spec import TypeFacts
from sandbox.world import World

_MAX_HISTORY = timedelta(days=90)


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
        sold = {kind for offers in region.spec.zones.values() for kind in offers}
        for name in request.get("InstanceTypes", ()):
            if name not in sold:
                raise AwsError(
                    "InvalidInstanceType", f"The following supplied instance types do not exist: [{name}]"
                )
        wanted = set(request.get("InstanceTypes") or sold)
        names = sorted(n for n in sold & wanted if _passes(n, request))
        page, token = paged(names, request, default=100)
        return {"InstanceTypes": [_type(region.kind(name)) for name in page], "NextToken": token}

    def offerings(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """(type, place) pairs; places are zones or the region."""
        if request.get("LocationType", "region") == "availability-zone":
            places = [(kind, zone) for zone, offers in region.spec.zones.items() for kind in offers]
        else:
            places = sorted(
                {(kind, region.spec.name) for offers in region.spec.zones.values() for kind in offers}
            )
        found = [(kind, place) for kind, place in places if _passes(kind, request, location=place)]
        page, token = paged(sorted(found), request, default=1000)
        kind_of_place = request.get("LocationType", "region")
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": kind, "Location": place, "LocationType": kind_of_place}
                for kind, place in page
            ],
            "NextToken": token,
        }

    def spot_prices(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Changes since StartTime, and the price that was in force at it."""
        now = self._world.now
        start: datetime = max(request.get("StartTime") or now, now - _MAX_HISTORY)
        end: datetime = request.get("EndTime") or now
        kinds = set(request.get("InstanceTypes", ()))
        rows = []
        for (zone, kind, spot), changes in region.prices.items():
            if not spot or (kinds and kind not in kinds) or not _passes(kind, request, location=zone):
                continue
            before = [c for c in changes if c.at <= start][-1:]
            for change in before + [c for c in changes if start < c.at <= end]:
                rows.append(
                    {
                        "AvailabilityZone": zone,
                        "InstanceType": kind,
                        "ProductDescription": "Linux/UNIX",
                        "SpotPrice": decimal(change.price, 6),
                        "Timestamp": change.at,
                    }
                )
        rows.sort(
            key=lambda row: (row["Timestamp"], row["AvailabilityZone"], row["InstanceType"]), reverse=True
        )
        page, token = paged(rows, request, default=1000)
        return {"SpotPriceHistory": page, "NextToken": token or ""}

    def subnets(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Subnets with their free addresses."""
        wanted = request.get("SubnetIds") or list(region.spec.subnets)
        for name in wanted:
            if name not in region.spec.subnets:
                raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{name}' does not exist")
        return {
            "Subnets": [
                {
                    "SubnetId": name,
                    "AvailabilityZone": region.spec.subnets[name].zone,
                    "AvailableIpAddressCount": region.addresses_left(name),
                    "State": "available",
                    "VpcId": f"vpc-{region.spec.name}",
                }
                for name in wanted
            ]
        }

    def regions(self, _region: Region, _request: Mapping[str, Any]) -> dict[str, Any]:
        """All regions of this cloud."""
        return {
            "Regions": [
                {
                    "RegionName": name,
                    "OptInStatus": "opt-in-not-required",
                    "Endpoint": f"ec2.{name}.amazonaws.com",
                }
                for name in self._regions
            ]
        }

    def zones(self, region: Region, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Zones of the region asked."""
        return {
            "AvailabilityZones": [
                {
                    "ZoneName": zone,
                    "RegionName": region.spec.name,
                    "State": "available",
                    "ZoneType": "availability-zone",
                }
                for zone in region.spec.zones
            ]
        }


def _passes(kind: str, request: Mapping[str, Any], *, location: str = "") -> bool:
    names = {"instance-type": kind, "location": location, "availability-zone": location}
    for each in request.get("Filters", ()):
        value = names.get(each["Name"])
        if value is None:
            if each["Name"] == "product-description":
                continue
            raise AwsError("InvalidParameterValue", f"The filter '{each['Name']}' is invalid")
        if not any(fnmatchcase(value, pattern) for pattern in each.get("Values", ())):
            return False
    return True


def _type(kind: TypeFacts) -> dict[str, Any]:
    arm = kind.arch == "arm64"
    found: dict[str, Any] = {
        "InstanceType": kind.name,
        "CurrentGeneration": True,
        "VCpuInfo": {"DefaultVCpus": kind.vcpus},
        "MemoryInfo": {"SizeInMiB": kind.memory_mib},
        "ProcessorInfo": {"SupportedArchitectures": ["arm64" if arm else "x86_64"]},
        "SupportedUsageClasses": ["on-demand", "spot"],
        "NetworkInfo": _network(kind.pods),
    }
    if kind.gpus:
        memory = {"SizeInMiB": kind.gpu_memory_mib}
        gpu = {
            "Name": kind.gpu_name.upper(),
            "Manufacturer": "NVIDIA",
            "Count": kind.gpus,
            "MemoryInfo": memory,
        }
        found["GpuInfo"] = {"Gpus": [gpu], "TotalGpuMemoryInMiB": kind.gpu_memory_mib * kind.gpus}
    return found


def _network(pods: int) -> dict[str, Any]:
    """Interfaces and addresses each that give a node its pods: interfaces x (addresses - 1) + 2."""
    for interfaces in (2, 3, 4, 8, 15, 7, 1):
        if pods > 2 and (pods - 2) % interfaces == 0:
            return {
                "MaximumNetworkInterfaces": interfaces,
                "Ipv4AddressesPerInterface": (pods - 2) // interfaces + 1,
            }
    return {"MaximumNetworkInterfaces": 1, "Ipv4AddressesPerInterface": max(2, pods - 1)}
