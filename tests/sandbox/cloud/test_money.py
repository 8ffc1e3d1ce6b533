"""Prices and bills: what is listed, what really ran, a day late and in pages."""

from __future__ import annotations

import json
from datetime import timedelta
from fractions import Fraction

import pytest
from botocore.exceptions import ClientError

DAY = 86_400


def bill(sandbox, start: str, end: str, **more):
    """One page of the bill by day."""
    return sandbox.clients("ce", "us-east-1").get_cost_and_usage(
        TimePeriod={"Start": start, "End": end}, Granularity="DAILY", Metrics=["UnblendedCost"], **more
    )


def test_list_prices_are_json_in_json(sandbox):
    """GetProducts with the usual filters finds the region's types."""
    pricing = sandbox.clients("pricing", "us-east-1")
    found = pricing.get_products(
        ServiceCode="AmazonEC2",
        Filters=[
            {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"},
            {"Type": "TERM_MATCH", "Field": "marketoption", "Value": "OnDemand"},
        ],
    )
    prices = {}
    for text in found["PriceList"]:
        product = json.loads(text)
        term = next(iter(product["terms"]["OnDemand"].values()))
        prices[product["product"]["attributes"]["instanceType"]] = next(
            iter(term["priceDimensions"].values())
        )["pricePerUnit"]["USD"]

    assert prices == {"m5.xlarge": "0.1920000000", "p5.48xlarge": "55.0400000000"}


def test_spot_history_tells_the_price_in_force_and_its_changes(sandbox):
    """A change an hour in is listed after the price before it."""
    sandbox.pass_time(3600)
    sandbox.host.call(
        lambda: sandbox.cloud.set_price("us-west-2", "us-west-2a", "m5.xlarge", "0.09", spot=True)
    )
    sandbox.pass_time(60)
    history = sandbox.clients("ec2").describe_spot_price_history(
        InstanceTypes=["m5.xlarge"], StartTime=sandbox.world.now - timedelta(minutes=30)
    )

    assert [row["SpotPrice"] for row in history["SpotPriceHistory"]] == ["0.090000", "0.070000"]


def test_the_bill_comes_a_day_late_and_is_what_ran(sandbox):
    """Two machines for 7 h of Friday: nothing on Saturday, exactly 7 h x 2 x $0.192 from Sunday on."""
    sandbox.launch(MaxCount=2)
    sandbox.pass_time(DAY)
    early = bill(sandbox, "2026-11-06", "2026-11-07")["ResultsByTime"][0]
    sandbox.pass_time(8 * 3600)
    late = bill(sandbox, "2026-11-06", "2026-11-07")["ResultsByTime"][0]
    sandbox.pass_time(4 * DAY)
    final = bill(sandbox, "2026-11-06", "2026-11-07")["ResultsByTime"][0]

    assert early["Total"]["UnblendedCost"]["Amount"] == "0.0000000000"
    assert late["Total"]["UnblendedCost"]["Amount"] == "2.6880000000"
    assert (late["Estimated"], final["Estimated"]) == (True, False)


def test_groups_by_tag_and_region_come_as_aws_writes_them(sandbox):
    """`key$value`, and `key$` for what has no tag."""
    sandbox.launch()
    sandbox.launch(region="us-east-1", subnet="subnet-us-east-1a", TagSpecifications=[])
    sandbox.pass_time(2 * DAY)
    groups = bill(
        sandbox,
        "2026-11-06",
        "2026-11-07",
        GroupBy=[{"Type": "TAG", "Key": "quartermaster.dev/run"}, {"Type": "DIMENSION", "Key": "REGION"}],
    )["ResultsByTime"][0]["Groups"]

    assert {tuple(g["Keys"]): g["Metrics"]["UnblendedCost"]["Amount"] for g in groups} == {
        ("quartermaster.dev/run$", "us-east-1"): "1.4000000000",
        ("quartermaster.dev/run$r1", "us-west-2"): "1.3440000000",
    }


def test_a_start_costs_a_minute_at_least(sandbox):
    """EC2's 60-second minimum."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(10)
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(3600)

    assert (
        sandbox.cloud.spent(sandbox.cloud.machines()[0].launched, sandbox.world.now) == Fraction("0.192") / 60
    )


def test_wrong_questions_are_refused(sandbox):
    """Dates in the wrong order, three groupings, an unknown dimension."""
    with pytest.raises(ClientError, match="Start date"):
        bill(sandbox, "2026-11-07", "2026-11-06")
    sandbox.launch()
    sandbox.pass_time(2 * DAY)
    with pytest.raises(ClientError, match="dimension"):
        bill(sandbox, "2026-11-06", "2026-11-07", Filter={"Dimensions": {"Key": "TENANCY", "Values": ["x"]}})


def test_thousands_of_days_come_in_pages(sandbox):
    """More rows than a page: the token leads on to the rest."""
    sandbox.pass_time(70 * DAY)
    first = bill(sandbox, "2026-11-06", "2027-01-10")
    second = bill(sandbox, "2026-11-06", "2027-01-10", NextPageToken=first["NextPageToken"])

    assert len(first["ResultsByTime"]) == 50
    assert len(second["ResultsByTime"]) == 15
    assert "NextPageToken" not in second
