"""AWS' price list and spot prices, per region, with their age.

Prices on the list change rarely, spot prices every few minutes. What cannot be fetched again stays, and
says since when it is old.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import partial
from typing import Any

import structlog

from fleet.clouds.aged import Aged
from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_errors import translated
from fleet.model import Price
from fleet.prices import KnownRate, is_sane
from fleet.values import MICROS, Money

log = structlog.get_logger(__name__)
LIST_LIFE = timedelta(hours=6)
SPOT_LIFE = timedelta(minutes=5)
SPOT_HISTORY = timedelta(days=7)
"""how far back spot prices are read at the start: an outage over a long weekend can still be metered"""
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Listed:
    """On-demand rates of one region by instance type."""

    rates: Mapping[str, KnownRate]


SpotHistory = Mapping[tuple[str, str], tuple[tuple[datetime, Money], ...]]
"""(zone, instance type) → (since when, price), oldest first"""


class AwsPrices:
    """Prices of some regions. `spot_types` are the types whose spot prices are followed."""

    def __init__(self, clients: AwsClients, regions: Sequence[str], spot_types: Sequence[str]) -> None:
        self._clients = clients
        self._spot_types = tuple(spot_types)
        self._listed: dict[str, Aged[Listed]] = {region: Aged(LIST_LIFE) for region in regions}
        self._spot: dict[str, Aged[SpotHistory]] = (
            {region: Aged(SPOT_LIFE) for region in regions} if spot_types else {}
        )
        self._known: tuple[KnownRate, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be renewed, a sentence each."""
        aged: list[Aged[Any]] = [*self._listed.values(), *self._spot.values()]
        return tuple(one.problem for one in aged if one.problem)

    def refresh(self, now: datetime) -> bool:
        """Fetch what is missing, and one of the lists that are old; True where something new came."""
        came = False
        renewed = False
        for region, listed in self._listed.items():
            if listed.due(now) and (listed.value is None or not renewed):
                renewed = renewed or listed.value is not None
                came |= listed.renew(now, partial(self._fetch_list, region))
        for region, spot in self._spot.items():
            if spot.due(now):
                came |= spot.renew(now, partial(self._fetch_spot, region, now))
        if came:
            self._known = tuple(
                rate for aged in self._listed.values() if aged.value for rate in aged.value.rates.values()
            )
        return came

    def on_demand(self, region: str, instance_type: str) -> Price | None:
        """The list price of a region, None where the list does not have it."""
        listed = self._listed.get(region)
        rate = listed.value.rates.get(instance_type) if listed and listed.value else None
        if listed is None or rate is None:
            return None
        return Price(rate.hourly, _aged("on-demand list", listed))

    def spot(self, zone: str, instance_type: str, at: datetime) -> Price | None:
        """The spot price in force at a time; before the first known one, that one, flagged."""
        for aged in self._spot.values():
            points = aged.value.get((zone, instance_type)) if aged.value else None
            if not points:
                continue
            index = bisect_right(points, at, key=lambda point: point[0])
            price = points[max(0, index - 1)][1]
            return Price(price, _aged("spot history", aged), estimated=index == 0)
        return None

    def known_rates(self) -> tuple[KnownRate, ...]:
        """Every on-demand rate of every region."""
        return self._known

    def size(self, instance_type: str) -> tuple[int, int] | None:
        """vCPUs and GPUs by the price list."""
        for listed in self._listed.values():
            rate = listed.value.rates.get(instance_type) if listed.value else None
            if rate is not None:
                return rate.vcpus, rate.gpus
        return None

    def _fetch_list(self, region: str, old: Listed | None) -> Listed:
        with translated(f"Pricing GetProducts for {region}"):
            pages = (
                self._clients.pricing()
                .get_paginator("get_products")
                .paginate(
                    ServiceCode="AmazonEC2", Filters=_filters(region), PaginationConfig={"PageSize": 100}
                )
            )
            found = dict(_rates(text for page in pages for text in page.get("PriceList", ())))
        rates: dict[str, KnownRate] = {}
        for name, rate in found.items():
            before = old.rates.get(name) if old else None
            if is_sane(rate.hourly, [*self._elsewhere(name, region), *([before.hourly] if before else [])]):
                rates[name] = rate
            elif before is not None:
                log.error("price refused", region=region, instance_type=name, price=str(rate.hourly))
                rates[name] = before
        return Listed(rates)

    def _elsewhere(self, instance_type: str, region: str) -> list[Money]:
        others = (a.value for name, a in self._listed.items() if name != region and a.value)
        return [rate.hourly for o in others if (rate := o.rates.get(instance_type)) is not None]

    def _fetch_spot(self, region: str, now: datetime, old: SpotHistory | None) -> SpotHistory:
        aged = self._spot[region]
        start = aged.fetched - SPOT_LIFE if aged.fetched else now - SPOT_HISTORY
        merged: dict[tuple[str, str], dict[datetime, Money]] = {
            key: dict(points) for key, points in (old or {}).items()
        }
        with translated(f"DescribeSpotPriceHistory in {region}"):
            pages = (
                self._clients.ec2(region)
                .get_paginator("describe_spot_price_history")
                .paginate(
                    InstanceTypes=list(self._spot_types),
                    ProductDescriptions=["Linux/UNIX"],
                    StartTime=start,
                    EndTime=now,
                )
            )
            for entry in (entry for page in pages for entry in page.get("SpotPriceHistory", ())):
                points = merged.setdefault((entry["AvailabilityZone"], entry["InstanceType"]), {})
                price = dollars(str(entry["SpotPrice"]))
                if price is not None and is_sane(price, list(points.values())):
                    points[entry["Timestamp"].astimezone(UTC)] = price
        return {key: tuple(sorted(points.items())) for key, points in merged.items()}


def _aged(source: str, aged: Aged[Any]) -> str:
    return f"{source}, not renewed since {aged.fetched:%Y-%m-%d %H:%M} UTC" if aged.problem else source


def _filters(region: str) -> list[dict[str, str]]:
    wanted = {
        "regionCode": region,
        "tenancy": "Shared",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]


def _rates(texts: Iterator[str]) -> Iterator[tuple[str, KnownRate]]:
    best: dict[str, KnownRate] = {}
    for text in texts:
        document = json.loads(text) if isinstance(text, str) else text
        attributes = document.get("product", {}).get("attributes", {})
        name, hourly = attributes.get("instanceType"), _hourly(document)
        if not name or hourly is None:
            continue
        rate = KnownRate(name, _int(attributes.get("vcpu")), _int(attributes.get("gpu")), hourly)
        if name not in best or best[name].hourly < hourly:
            best[name] = rate
    yield from best.items()


def _hourly(document: Mapping[str, Any]) -> Money | None:
    """The highest hourly on-demand price in dollars; a product listed at zero has no known price."""
    found = [
        dollars(str(dimension.get("pricePerUnit", {}).get("USD", "")))
        for term in document.get("terms", {}).get("OnDemand", {}).values()
        for dimension in term.get("priceDimensions", {}).values()
        if dimension.get("unit") in ("Hrs", "Hours")
    ]
    return max((price for price in found if price), default=None)


def dollars(text: str) -> Money | None:
    """An AWS price (up to ten decimals) in micro-dollars, rounded up; None where it is no price."""
    try:
        amount = Decimal(text) * MICROS
    except InvalidOperation:
        return None
    if not amount.is_finite() or amount <= _ZERO:
        return None
    return Money(int(amount.to_integral_value(ROUND_CEILING)))


def _int(text: object) -> int:
    cleaned = str(text or "").replace(",", "")
    return int(cleaned) if cleaned.isdigit() else 0
