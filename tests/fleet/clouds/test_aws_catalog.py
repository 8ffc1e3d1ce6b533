"""Offers and prices of AWS pools, and how they age."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fleet.clouds.aws_catalog import AwsCatalog
from fleet.clouds.aws_prices import LIST_LIFE, SPOT_LIFE, dollars
from fleet.model import CapacityType
from fleet.pools import Region, Zone
from fleet.values import Money, Resources
from tests.builders import T0
from tests.fleet.clouds.stubbed import StubbedAws, described, pool, product


@pytest.fixture
def aws() -> Iterator[StubbedAws]:
    """AWS, which must have been asked all that the test expects."""
    made = StubbedAws()
    yield made
    made.done()


def types(aws: StubbedAws, *found: dict[str, Any], region: str = "us-west-2", zones: str = "ab") -> None:
    """The types of a region, offered in these zones."""
    stub = aws.ec2_stub(region)
    stub.add_response("describe_instance_types", {"InstanceTypes": list(found)})
    offerings = [
        {"InstanceType": one["InstanceType"], "LocationType": "availability-zone", "Location": region + zone}
        for one in found
        for zone in zones
    ]
    stub.add_response("describe_instance_type_offerings", {"InstanceTypeOfferings": offerings})


def prices(aws: StubbedAws, *products: str) -> None:
    """The next price list asked for."""
    aws.stub("pricing", "us-east-1").add_response(
        "get_products", {"FormatVersion": "aws_v1", "PriceList": list(products)}
    )


def spots(aws: StubbedAws, *points: tuple[str, int, str]) -> None:
    """The next spot price history: (zone, minutes after T0, price)."""
    history = [
        {
            "AvailabilityZone": zone,
            "InstanceType": "m5.xlarge",
            "SpotPrice": price,
            "Timestamp": T0 + timedelta(minutes=at),
        }
        for zone, at, price in points
    ]
    aws.ec2_stub().add_response("describe_spot_price_history", {"SpotPriceHistory": history})


def test_offers_are_zones_times_types(aws):
    """Each zone that has the type is an offer with price, size and the labels of its future node."""
    types(aws, described(), zones="a")
    prices(aws, product("m5.xlarge", "0.1920000000"))
    (offer,) = AwsCatalog([pool()], aws).offers(T0)
    assert offer.key == "aws/us-west-2/us-west-2a/m5.xlarge/on-demand"
    assert (offer.price.hourly, offer.price.source, offer.price.estimated) == (
        Money.usd("0.192"),
        "on-demand list",
        False,
    )
    assert offer.allocatable == Resources(3920, 14162 * 2**20, 0, 58)
    assert (offer.vcpus, offer.family, offer.pool) == (4, "Standard", "aws")
    assert offer.labels["topology.kubernetes.io/zone"] == "us-west-2a"
    assert offer.labels["disk"] == "fast"
    assert offer.labels["quartermaster.dev/capacity-type"] == "on-demand"


def test_the_order_is_the_pools(aws):
    """Regions, zones and types come in the order of the settings, which is the order of preference."""
    regions = tuple(
        Region(name, (Zone(f"{name}b", "s"), Zone(f"{name}a", "s")), "ami")
        for name in ("us-west-2", "us-east-1")
    )
    for region in ("us-west-2", "us-east-1"):
        types(aws, described(), described("c5.large", 2, 4096), region=region)
    prices(aws, product("m5.xlarge", "0.2"))
    prices(aws, product("m5.xlarge", "0.2"))
    catalog = AwsCatalog([pool(regions=regions, instance_types=("m5.xlarge", "c5.large"))], aws)
    assert [(o.zone, o.instance_type) for o in catalog.offers(T0)][:4] == [
        ("us-west-2b", "m5.xlarge"),
        ("us-west-2b", "c5.large"),
        ("us-west-2a", "m5.xlarge"),
        ("us-west-2a", "c5.large"),
    ]


def test_a_type_without_a_price_has_an_upper_bound(aws):
    """What is not on the list is never free: at least the dearest of its family, and a quarter more, flagged."""
    types(
        aws,
        described("p5.48xlarge", 192, 2_097_152, GpuInfo={"Gpus": [{"Name": "H100", "Count": 8}]}),
        zones="a",
    )
    prices(aws, product("p5.4xlarge", "6.88", "16", "1"), product("m5.xlarge", "0.192"))
    (offer,) = AwsCatalog([pool(instance_types=("p5.48xlarge",))], aws).offers(T0)
    assert offer.price.hourly == Money.usd("68.8")
    assert offer.price.estimated


def test_spot_prices_by_zone_and_time(aws):
    """The price in force at a time; before the first one known, that one, flagged; unknown ones are on-demand, flagged."""
    types(aws, described(), zones="ab")
    prices(aws, product("m5.xlarge", "0.192"))
    spots(aws, ("us-west-2a", -60, "0.0700"), ("us-west-2a", -10, "0.0801"))
    catalog = AwsCatalog([pool(capacity_types=(CapacityType.SPOT,))], aws)
    first, second = catalog.offers(T0)
    assert (first.price.hourly, first.price.estimated) == (Money.usd("0.0801"), False)
    assert (second.price.hourly, second.price.estimated) == (Money.usd("0.192"), True)
    at = catalog.spot("us-west-2a", "m5.xlarge", T0 - timedelta(minutes=30))
    assert at is not None
    assert (at.hourly, at.estimated) == (Money.usd("0.07"), False)
    early = catalog.spot("us-west-2a", "m5.xlarge", T0 - timedelta(days=1))
    assert early is not None
    assert (early.hourly, early.estimated) == (Money.usd("0.07"), True)
    spots(aws, ("us-west-2a", 4, "0.0900"))
    later = catalog.spot("us-west-2a", "m5.xlarge", T0 + SPOT_LIFE)
    assert later is not None
    assert later.hourly == Money.usd("0.09")
    still = catalog.spot("us-west-2a", "m5.xlarge", T0 + timedelta(minutes=2))
    assert still is not None
    assert still.hourly == Money.usd("0.0801")


def test_offers_are_fetched_once_and_again_when_old(aws):
    """Within their life nothing is asked; after it the new price shows."""
    types(aws, described(), zones="a")
    prices(aws, product("m5.xlarge", "0.192"))
    catalog = AwsCatalog([pool()], aws)
    assert catalog.offers(T0) is catalog.offers(T0 + timedelta(hours=1))
    prices(aws, product("m5.xlarge", "0.250"))
    assert catalog.offers(T0 + LIST_LIFE)[0].price.hourly == Money.usd("0.25")


def test_a_failure_keeps_the_old_price_and_says_so(aws):
    """A price list that does not answer leaves the last prices, named as old, and is asked again after a minute."""
    types(aws, described(), zones="a")
    prices(aws, product("m5.xlarge", "0.192"))
    catalog = AwsCatalog([pool()], aws)
    catalog.offers(T0)
    aws.stub("pricing", "us-east-1").add_client_error("get_products", "ThrottlingException", "slow down", 400)
    (offer,) = catalog.offers(T0 + LIST_LIFE)
    assert offer.price.hourly == Money.usd("0.192")
    assert "not renewed since 2026-11-06 17:00 UTC" in offer.price.source
    assert "slow down" in catalog.problems[0]
    assert catalog.offers(T0 + LIST_LIFE + timedelta(seconds=30))[0] is offer
    prices(aws, product("m5.xlarge", "0.200"))
    (offer,) = catalog.offers(T0 + LIST_LIFE + timedelta(minutes=1))
    assert (offer.price.source, catalog.problems) == ("on-demand list", ())


def test_a_region_that_never_answered_has_no_offers(aws):
    """Without knowing what a region sells nothing is offered there, and the reason shows."""
    aws.ec2_stub().add_client_error("describe_instance_types", "UnauthorizedOperation", "not you", 403)
    prices(aws, product("m5.xlarge", "0.192"))
    catalog = AwsCatalog([pool()], aws)
    assert catalog.offers(T0) == ()
    assert "not you" in catalog.problems[0]


def test_an_absurd_price_is_not_believed(aws):
    """Thirty times off what it was before is a mistake of the list: the price before stays."""
    types(aws, described(), zones="a")
    prices(aws, product("m5.xlarge", "0.192"))
    catalog = AwsCatalog([pool()], aws)
    catalog.offers(T0)
    prices(aws, product("m5.xlarge", "192"))
    assert catalog.offers(T0 + LIST_LIFE)[0].price.hourly == Money.usd("0.192")
    prices(aws, product("m5.xlarge", "0.001"))
    assert catalog.offers(T0 + 2 * LIST_LIFE)[0].price.hourly == Money.usd("0.192")
    prices(aws, product("m5.xlarge", "1.92"))
    assert catalog.offers(T0 + 3 * LIST_LIFE)[0].price.hourly == Money.usd("1.92")


def test_a_product_at_zero_is_not_free(aws):
    """Reserved and placeholder products are listed at zero dollars: no price, so an upper bound."""
    types(aws, described(), zones="a")
    prices(aws, product("m5.xlarge", "0.0000000000"), product("m5.large", "0.096", "2"), "{}")
    (offer,) = AwsCatalog([pool()], aws).offers(T0)
    assert offer.price.estimated
    assert offer.price.hourly == Money.usd("0.24")


def test_no_quotas_are_claimed(aws):
    """Quotas show as errors when they are reached."""
    assert AwsCatalog([pool()], aws).quotas(T0) == ()


def test_sizes_come_from_types_then_from_the_list(aws):
    """The meter asks for sizes of machines that no pool has."""
    types(aws, described(), zones="a")
    prices(aws, product("g5.48xlarge", "16.288", "192", "8"))
    catalog = AwsCatalog([pool()], aws)
    catalog.refresh(T0)
    assert (catalog.size("m5.xlarge"), catalog.size("g5.48xlarge"), catalog.size("x")) == (
        (4, 0),
        (192, 8),
        None,
    )


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0.1920000000", 192_000),
        ("0.0000000001", 1),
        ("0.0965004", 96_501),
        ("0", None),
        ("-1", None),
        ("NaN", None),
        ("", None),
        ("x", None),
    ],
)
def test_dollars(text, micros):
    """Ten decimals are rounded up to the micro-dollar; what is no price is none."""
    assert dollars(text) == (None if micros is None else Money(micros))
