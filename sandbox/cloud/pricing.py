"""The Price List Query API: GetProducts for EC2, JSON documents inside JSON, in pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.costs import decimal
from sandbox.cloud.paging import page_size, paged
from sandbox.cloud.region import Region
from sandbox.cloud.types import TypeFacts, type_facts
from sandbox.world import World

_PAGE = 100
_TERM = "JRTCKXETXF"
_RATE = "6YS6EN2CT7"


class Pricing:
    """On-demand list prices of all regions."""

    def __init__(self, world: World, regions: Mapping[str, Region]) -> None:
        self._world = world
        self._regions = regions

    def get_products(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Products that pass all filters (TERM_MATCH)."""
        if request.get("ServiceCode") != "AmazonEC2":
            raise AwsError("InvalidParameterException", f"Unknown service {request.get('ServiceCode')!r}.")
        filters = list(request.get("Filters", ()))
        for each in filters:
            if each.get("Type") not in ("TERM_MATCH", "EQUALS"):
                raise AwsError(
                    "InvalidParameterException", f"The filter type {each.get('Type')!r} is not valid."
                )
        found = [p for p in self._products() if all(_passes(p, each) for each in filters)]
        size = page_size(request, _PAGE, most=_PAGE)
        page, token = paged(found, request, size, code="InvalidNextTokenException")
        answer: dict[str, Any] = {
            "FormatVersion": "aws_v1",
            "PriceList": [json.dumps(product) for product in page],
        }
        return answer | ({"NextToken": token} if token else {})

    def _products(self) -> Iterator[dict[str, Any]]:
        for name, region in self._regions.items():
            for kind in sorted(region.sold):
                zone = next(z for z, offers in region.spec.zones.items() if kind in offers)
                price = decimal(region.price(zone, kind, False, self._world.now), 10)
                yield _product(name, type_facts()[kind], price)


def _passes(product: Mapping[str, Any], each: Mapping[str, Any]) -> bool:
    field, value = str(each["Field"]), str(each["Value"])
    if field == "ServiceCode":
        return value == str(product["serviceCode"])
    return str(product["product"]["attributes"].get(field)) == value


def _product(region: str, kind: TypeFacts, price: str) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region} {kind.name}".encode()).hexdigest()[:16].upper()
    attributes = {
        "regionCode": region,
        "servicecode": "AmazonEC2",
        "instanceType": kind.name,
        "vcpu": str(kind.vcpus),
        "memory": f"{kind.memory_mib // 1024} GiB",
        "physicalProcessor": "AWS Graviton" if kind.arch == "arm64" else "Intel Xeon",
        "gpu": str(kind.gpus) if kind.gpus else None,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "locationType": "AWS Region",
        "licenseModel": "No License required",
        "operation": "RunInstances",
        "usagetype": f"BoxUsage:{kind.name}",
    }
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "rateCode": f"{sku}.{_TERM}.{_RATE}",
        "description": f"${price} per On Demand Linux {kind.name} Instance Hour",
        "pricePerUnit": {"USD": price},
    }
    return {
        "serviceCode": "AmazonEC2",
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {key: value for key, value in attributes.items() if value is not None},
        },
        "terms": {"OnDemand": {f"{sku}.{_TERM}": {"priceDimensions": {f"{sku}.{_TERM}.{_RATE}": dimension}}}},
    }
