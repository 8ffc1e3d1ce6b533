"""On-premises pools: a rate, and nothing to buy."""

from __future__ import annotations

import pytest

from fleet.clouds.onprem import OnPremCatalog, OnPremMachines
from fleet.errors import NoCapacity
from fleet.model import CapacityType
from fleet.pools import Pool
from fleet.values import Money, Resources
from tests.builders import T0
from tests.fleet.clouds.stubbed import launch, pool

RACK = Pool("rack", "home", "onprem", selector={"rack": "a"}, hourly=Money.usd("1.20"))


def test_its_offer_tells_the_rate_and_has_no_room():
    """One offer a pool, of fixed capacity; AWS pools are not its business."""
    (offer,) = OnPremCatalog([RACK, pool()]).offers(T0)
    assert (offer.pool, offer.capacity_type, offer.price.hourly) == (
        "rack",
        CapacityType.FIXED,
        Money.usd("1.20"),
    )
    assert offer.allocatable == Resources()
    assert offer.labels["rack"] == "a"
    assert OnPremCatalog([RACK]).quotas(T0) == ()


def test_a_pool_without_a_rate_is_not_free():
    """An upper bound, flagged."""
    (offer,) = OnPremCatalog([Pool("rack", "home", "onprem")]).offers(T0)
    assert offer.price.estimated
    assert offer.price.hourly > Money.usd(100)


def test_nothing_can_be_bought_or_ended():
    """A launch is NoCapacity; there are no machines to list or to end."""
    machines = OnPremMachines()
    with pytest.raises(NoCapacity, match="cannot grow"):
        machines.launch(launch())
    machines.terminate("rack", ["x"])
    assert machines.describe() == ()
    assert machines.interruptions() == ()
