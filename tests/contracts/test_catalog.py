"""What the Catalog port promises, over every provider."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from fleet.clouds.aws_prices import LIST_LIFE, SPOT_LIFE
from fleet.model import CapacityType
from fleet.prices import PriceBook
from fleet.values import Money, Resources
from tests.builders import T0
from tests.contracts.clouds import PROVIDERS, Provider
from tests.contracts.test_machines import request as purchase


@pytest.fixture(params=list(PROVIDERS))
def provider(request) -> Iterator[Provider]:
    """A provider with its world."""
    with PROVIDERS[request.param]() as made:
        yield made


def test_every_offer_of_the_pools_is_there_and_priced(provider):
    """Zones that have a type offer it, others do not; the price is the provider's."""
    offers = [offer for offer in provider.catalog.offers(T0) if offer.pool == "steady"]
    assert [(o.zone, o.instance_type, str(o.price.hourly.exact())) for o in offers] == [
        (f"{region}{zone}", kind, price)
        for region in ("us-west-2", "us-east-1")
        for zone in "ab"
        for kind, price in (("m5.xlarge", "0.192000"), ("p5.48xlarge", "55.040000"))
        if zone == "a" or kind == "m5.xlarge"
    ]
    assert not any(offer.price.estimated for offer in offers)
    assert len({offer.key for offer in offers}) == len(offers)


def test_an_offer_tells_what_a_node_of_it_will_have(provider):
    """Allocatable, GPUs, quota family and the labels that pods select by."""
    big = next(o for o in provider.catalog.offers(T0) if o.instance_type == "p5.48xlarge")
    assert (big.vcpus, big.family, big.allocatable.gpus, big.gpu_name) == (192, "P", 8, "H100")
    small = next(o for o in provider.catalog.offers(T0) if o.instance_type == "m5.xlarge")
    assert small.allocatable.fits_in(Resources(4000, 16 * 2**30, 0, 110))
    assert Resources(3500, 13 * 2**30, 0, 10).fits_in(small.allocatable)
    assert small.labels["topology.kubernetes.io/zone"] == small.zone
    assert small.labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert small.labels["quartermaster.dev/pool"] == small.pool


def test_spot_offers_cost_the_spot_price(provider):
    """And follow it within minutes."""

    def spot() -> set[Money]:
        found = provider.catalog.offers(provider.clock.now())
        return {
            o.price.hourly for o in found if o.capacity_type is CapacityType.SPOT and o.zone == "us-west-2a"
        }

    assert spot() == {Money.usd("0.07")}
    provider.pass_(minutes=1)
    provider.do(provider.cloud.set_price, "us-west-2", "us-west-2a", "m5.xlarge", "0.09", spot=True)
    provider.pass_(minutes=1)
    assert spot() == {Money.usd("0.07")}
    provider.pass_(seconds=SPOT_LIFE.total_seconds())
    assert spot() == {Money.usd("0.09")}


def test_a_changed_list_price_shows_within_hours(provider):
    """The list is asked again when it is old."""
    provider.catalog.offers(T0)
    provider.pass_(hours=1)
    for zone in ("us-west-2a", "us-west-2b"):
        provider.do(provider.cloud.set_price, "us-west-2", zone, "m5.xlarge", "0.3")
    for step in range(3):
        provider.pass_(seconds=LIST_LIFE.total_seconds() if not step else 60)
        offers = provider.catalog.offers(provider.clock.now())
    assert {
        o.price.hourly
        for o in offers
        if o.region == "us-west-2" and o.instance_type == "m5.xlarge" and o.pool == "steady"
    } == {Money.usd("0.3")}


def test_what_does_not_answer_keeps_its_last_offers(provider):
    """A region that is down still has its offers, and the problem is told."""
    before = provider.catalog.offers(T0)
    provider.do(setattr, provider.cloud.regions["us-west-2"], "down", True)
    provider.pass_(days=2)
    after = provider.catalog.offers(provider.clock.now())
    assert {o.key for o in after} == {o.key for o in before}
    assert provider.catalog.problems


def test_a_bought_machine_has_a_price_from_its_launch(provider):
    """What the meter asks: a machine's price by region and type, at any time since it was bought."""
    book = PriceBook(provider.pools, [provider.catalog])
    (steady,) = provider.machines.launch(purchase(1, "h1")).instances
    (cheap,) = provider.machines.launch(
        purchase(1, "h2", pool="cheap", capacity_type=CapacityType.SPOT)
    ).instances
    provider.pass_(minutes=30)
    provider.do(provider.cloud.set_price, "us-west-2", "us-west-2a", "m5.xlarge", "0.14", spot=True)
    provider.pass_(minutes=30)
    now = provider.clock.now()
    assert book.instance_price(steady, now).hourly == Money.usd("0.192")
    assert book.instance_price(cheap, now).hourly == Money.usd("0.14")
    assert book.instance_price(cheap, now - timedelta(minutes=45)).hourly == Money.usd("0.07")
    assert not book.instance_price(cheap, now).estimated
