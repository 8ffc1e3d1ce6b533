"""What a node costs: the order of sources, and upper bounds where none knows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.model import CapacityType, Price
from fleet.pools import Pool
from fleet.prices import DEAREST_CORE, DEAREST_GPU, KnownRate, PriceBook, is_sane, upper_bound
from fleet.values import Money
from tests.builders import T0, instance, node

RACK = Pool("rack", "home", "onprem", selector={"rack": "a"}, hourly=Money.usd("1.20"))
RATES = (
    KnownRate("m5.large", 2, 0, Money.usd("0.096")),
    KnownRate("m5.xlarge", 4, 0, Money.usd("0.192")),
    KnownRate("p5.4xlarge", 16, 1, Money.usd("6.88")),
    KnownRate("p5.48xlarge", 192, 8, Money.usd("55.04")),
    KnownRate("g4dn.xlarge", 4, 1, Money.usd("0.526")),
)


class List:
    """A price list of one region with a spot price that doubles at T0."""

    provider = "aws"

    def on_demand(self, region: str, instance_type: str, at: datetime) -> Price | None:
        """Of us-west-2 alone."""
        found = {rate.instance_type: rate.hourly for rate in RATES}.get(instance_type)
        return Price(found, "list") if found and region == "us-west-2" else None

    def spot(self, zone: str, instance_type: str, at: datetime) -> Price | None:
        """Of one zone alone."""
        if zone != "us-west-2a":
            return None
        return Price(Money.usd("0.05" if at < T0 else "0.10"), "spot")

    def known_rates(self) -> Sequence[KnownRate]:
        """All of them."""
        return RATES

    def size(self, instance_type: str) -> tuple[int, int] | None:
        """By the list."""
        return next(((r.vcpus, r.gpus) for r in RATES if r.instance_type == instance_type), None)


@pytest.fixture
def book() -> PriceBook:
    """A book with one rack and one list."""
    return PriceBook([RACK], [List()])


def test_a_machine_costs_its_list_price(book):
    """On-demand by region and type."""
    assert book.node_price(node(), instance(), T0) == Price(Money.usd("0.192"), "list")


def test_a_spot_machine_costs_what_was_in_force(book):
    """The spot price at the time that is asked about, by zone."""
    spot = instance(capacity_type=CapacityType.SPOT)
    assert book.instance_price(spot, T0 - timedelta(seconds=1)).hourly == Money.usd("0.05")
    assert book.instance_price(spot, T0).hourly == Money.usd("0.10")


def test_an_unknown_spot_price_is_on_demand(book):
    """Our spot requests never pay more; it is flagged."""
    price = book.instance_price(instance(capacity_type=CapacityType.SPOT, zone="us-west-2b"), T0)
    assert (price.hourly, price.estimated) == (Money.usd("0.192"), True)


def test_a_rack_costs_its_configured_rate(book):
    """Nodes with the pool's labels cost its rate; the same labels in another cluster are not it."""
    assert book.node_price(node(labels={"rack": "a"}), None, T0).hourly == Money.usd("1.20")
    assert book.node_price(node(labels={"rack": "a"}, cluster="away"), None, T0).estimated
    assert book.node_price(node(labels={"rack": "b"}), None, T0).estimated


def test_a_pool_without_a_selector_has_the_nodes_that_no_cloud_made():
    """Everything without a provider id in its cluster."""
    book = PriceBook([Pool("rack", "home", "onprem", hourly=Money.usd(2))], [List()])
    assert book.node_price(node(), None, T0).hourly == Money.usd(2)
    assert book.node_price(node(provider_id="aws:///us-west-2a/i-1"), None, T0).hourly != Money.usd(2)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "0.192"),
        ({"karpenter.sh/capacity-type": "spot"}, "0.10"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "0.10"),
    ],
)
def test_nodes_that_others_bought_are_priced_by_their_labels(book, labels, expected):
    """Managed node groups and other autoscalers label type, region and capacity type."""
    bought = node(
        provider_id="aws:///us-west-2a/i-1",
        labels={
            "node.kubernetes.io/instance-type": "m5.xlarge",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.kubernetes.io/zone": "us-west-2a",
            **labels,
        },
    )
    assert book.node_price(bought, None, T0).hourly == Money.usd(expected)


def test_an_unknown_price_is_never_zero(book):
    """A type on no list, a region on no list, a node that nothing is known about: bounds, flagged."""
    for price in (
        book.instance_price(instance(instance_type="p5.24xlarge"), T0),
        book.instance_price(instance(region="ap-south-1"), T0),
        book.instance_price(instance(provider="elsewhere", instance_type="x"), T0),
        book.node_price(node(), None, T0),
        book.node_price(node(gpus=8), None, T0),
        PriceBook([]).node_price(node(cpu="0.5"), None, T0),
    ):
        assert price.estimated
        assert price.hourly > Money.zero()


@pytest.mark.parametrize(
    ("name", "vcpus", "gpus", "usd"),
    [
        ("m5.16xlarge", 64, 0, "3.84"),
        ("p5.48xlarge-next", 192, 8, "68.8"),
        ("p5.96xlarge", 384, 16, "137.6"),
        ("p5.small", 4, 1, "68.8"),
        ("c9.large", 2, 0, "0.12"),
        ("p9.large", 8, 2, "17.2"),
        ("nobody-knows", 0, 0, "68.8"),
    ],
)
def test_upper_bounds(name, vcpus, gpus, usd):
    """The dearest of the family, and the dearest per unit of it, else of all, and a quarter more."""
    price = upper_bound(name, vcpus, gpus, RATES)
    assert (price.hourly, price.estimated) == (Money.usd(usd), True)


def test_without_any_list_the_dearest_on_earth_counts():
    """No price list at all still gives no zero."""
    assert upper_bound("x", 4, 0, ()).hourly == (DEAREST_CORE * 5)
    assert upper_bound("x", 4, 2, ()).hourly == (DEAREST_GPU * 2 + Money(DEAREST_GPU.micros // 2))
    assert upper_bound("", 0, 0, ()).hourly == DEAREST_GPU * 10


@given(st.integers(1, 400), st.integers(0, 16))
def test_a_bound_is_above_every_known_type_of_no_more_size(vcpus, gpus):
    """No known machine of at most that size and sort costs more than the bound."""
    bound = upper_bound("new.type", vcpus, gpus, RATES).hourly
    for rate in RATES:
        same_sort = bool(rate.gpus) == bool(gpus)
        if same_sort and rate.gpus <= gpus and (gpus or rate.vcpus <= vcpus):
            assert rate.hourly <= bound


def test_sanity():
    """Thirty times the median either way is a mistake; zero is one; without others anything positive passes."""
    others = [Money.usd(1), Money.usd(1), Money.usd(100)]
    assert is_sane(Money.usd(30), others)
    assert not is_sane(Money.usd("30.01"), others)
    assert not is_sane(Money.usd("0.03"), others)
    assert not is_sane(Money.zero(), [])
    assert is_sane(Money.usd(10**6), [])
