"""What the Billing port promises, over every provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.values import Money
from tests.contracts.clouds import PROVIDERS, Provider
from tests.contracts.test_machines import request as purchase


@pytest.fixture(params=list(PROVIDERS))
def provider(request) -> Iterator[Provider]:
    """A provider with its world."""
    with PROVIDERS[request.param]() as made:
        yield made


def test_what_ran_is_billed_a_day_late(provider):
    """Two machines for an hour are two hours of their price, on the day they ran, estimated at first, then final."""
    ids = [one.id for one in provider.machines.launch(purchase(2)).instances]
    provider.pass_(hours=1)
    provider.machines.terminate("us-west-2", ids)
    day = "2026-11-06"
    assert sum(line.amount.micros for line in provider.billing.days(day, day)) == 0
    provider.pass_(days=2)
    lines = [line for line in provider.billing.days(day, "2026-11-07") if line.amount]
    assert [(line.day, line.region, line.amount) for line in lines] == [
        (day, "us-west-2", Money.usd("0.384"))
    ]
    assert lines[0].estimated
    provider.pass_(days=10)
    assert not any(line.estimated for line in provider.billing.days(day, day))


def test_by_tag(provider):
    """A tag that the account has activated divides the bill; what carries none has the empty value."""
    provider.machines.launch(purchase(1, "h1"))
    provider.machines.launch(purchase(2, "h2", tags={"quartermaster.dev/run": "zzz99"}))
    provider.machines.launch(purchase(1, "h3", tags={}))
    provider.pass_(hours=2)
    provider.machines.terminate("us-west-2", [one.id for one in provider.machines.describe()])
    provider.pass_(days=2)
    tag = "quartermaster.dev/run"
    lines = provider.billing.days("2026-11-06", "2026-11-06", group_by_tag=tag)
    found = {line.tags[tag]: line.amount for line in lines if line.amount}
    assert found == {"abc12": Money.usd("0.384"), "zzz99": Money.usd("0.768"), "": Money.usd("0.384")}


def test_many_days_come_in_pages(provider):
    """A month with two regions is more than a page, and all of it comes."""
    provider.machines.launch(purchase(1, "h1"))
    provider.machines.launch(purchase(1, "h2", region="us-east-1", zone="us-east-1a"))
    provider.pass_(days=40)
    lines = [line for line in provider.billing.days("2026-11-07", "2026-12-06") if line.amount]
    assert {line.amount for line in lines} == {Money.usd("0.192") * 24}
    assert len(lines) == 60
    assert len({(line.day, line.region) for line in lines}) == 60
