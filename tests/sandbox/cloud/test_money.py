"""Bills: what really ran, a day late, in pages, grouped and filtered as Cost Explorer does."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cloud.bill import midnight
from sandbox.cloud.costs import decimal
from sandbox.cloud.server import Cloud
from sandbox.world import World

from .conftest import SPEC, START

DAY = 86_400
RUN = {"Type": "TAG", "Key": "quartermaster.dev/run"}
REGION = {"Type": "DIMENSION", "Key": "REGION"}
COMPUTE = "Amazon Elastic Compute Cloud - Compute"


def question(start: str, end: str, **more):
    """Arguments of GetCostAndUsage."""
    return {
        "TimePeriod": {"Start": start, "End": end},
        "Granularity": "DAILY",
        "Metrics": ["UnblendedCost"],
        **more,
    }


def bill(sandbox, start: str, end: str, **more):
    """One page of the bill."""
    return sandbox.clients("ce", "us-east-1").get_cost_and_usage(**question(start, end, **more))


def friday(sandbox, **more):
    """The bill of 6 November."""
    return bill(sandbox, "2026-11-06", "2026-11-07", **more)["ResultsByTime"][0]


def amounts(period) -> dict[tuple[str, ...], str]:
    """Amounts of a period's groups by their keys, without trailing zeros."""
    return {
        tuple(group["Keys"]): group["Metrics"]["UnblendedCost"]["Amount"].rstrip("0")
        for group in period["Groups"]
    }


def total(period) -> str:
    """A period's total without trailing zeros."""
    return str(period["Total"]["UnblendedCost"]["Amount"]).rstrip("0")


def test_the_bill_comes_a_day_late_and_is_what_ran(sandbox):
    """Two machines for 7 h of Friday: nothing on Saturday, exactly 7 h x 2 x $0.192 from Sunday on."""
    sandbox.launch(MaxCount=2)
    sandbox.pass_time(DAY)
    early = friday(sandbox)
    sandbox.pass_time(8 * 3600)
    late = friday(sandbox)
    sandbox.pass_time(4 * DAY)
    final = friday(sandbox)

    assert (total(early), total(late)) == ("0.", "2.688")
    assert late["Total"]["UnblendedCost"]["Unit"] == "USD"
    assert (late["Estimated"], final["Estimated"]) == (True, False)


def test_a_new_account_has_no_bill_at_all_at_first(make):
    """DataUnavailable until its first day is billed."""
    sandbox = make(bill={"new_account": True})
    bills = sandbox.clients("ce", "us-east-1")
    with pytest.raises(bills.exceptions.DataUnavailableException):
        friday(sandbox)
    sandbox.pass_time(2 * DAY)

    assert total(friday(sandbox)) == "0."


def test_groups_by_tag_and_region_come_as_aws_writes_them(sandbox):
    """`key$value`, and `key$` for what has no tag."""
    sandbox.launch()
    sandbox.launch(region="us-east-1", subnet="subnet-us-east-1a", TagSpecifications=[])
    sandbox.pass_time(2 * DAY)

    assert amounts(friday(sandbox, GroupBy=[RUN, REGION])) == {
        ("quartermaster.dev/run$", "us-east-1"): "1.4",
        ("quartermaster.dev/run$r1", "us-west-2"): "1.344",
    }


def test_only_activated_tags_are_on_the_bill(make):
    """Any other key groups as if nothing carried it, and filters nothing in."""
    sandbox = make(bill={"tags": []})
    sandbox.launch()
    sandbox.pass_time(2 * DAY)
    tagged = {"Tags": {"Key": "quartermaster.dev/run", "Values": ["r1"]}}

    assert amounts(friday(sandbox, GroupBy=[RUN])) == {("quartermaster.dev/run$",): "1.344"}
    assert total(friday(sandbox, Filter=tagged)) == "0."


LINES = [
    {
        "day": "2026-11-06",
        "amount": "-1.5",
        "record_type": "Credit",
        "service": COMPUTE,
        "region": "us-west-2",
    },
    {"day": "2026-11-06", "amount": "3.25", "service": "Amazon Simple Storage Service"},
]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (None, "3.094"),
        ({"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Usage"]}}, "4.594"),
        ({"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit"]}}, "-1.5"),
        ({"Not": {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE]}}}, "3.25"),
        ({"Tags": {"Key": "quartermaster.dev/run", "Values": ["r1"]}}, "1.344"),
        ({"Tags": {"Key": "quartermaster.dev/run", "MatchOptions": ["ABSENT"]}}, "1.75"),
        (
            {
                "And": [
                    {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE]}},
                    {"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Usage"]}},
                ]
            },
            "1.344",
        ),
        (
            {
                "Or": [
                    {"Dimensions": {"Key": "INSTANCE_TYPE", "Values": ["m5.xlarge"]}},
                    {"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit"]}},
                ]
            },
            "-0.156",
        ),
    ],
)
def test_filters_tell_usage_from_credits_and_services(make, keep, expected):
    """A credit of $1.50 and $3.25 of storage stand beside a machine's $1.344."""
    sandbox = make(bill={"tags": ["quartermaster.dev/run"], "lines": LINES})
    sandbox.launch()
    sandbox.pass_time(2 * DAY)

    assert total(friday(sandbox, **({"Filter": keep} if keep else {}))) == expected


def test_usage_quantity_is_in_hours(sandbox):
    """Seven of them until midnight, for each of two."""
    sandbox.launch(MaxCount=2)
    sandbox.pass_time(2 * DAY)
    found = friday(sandbox, Metrics=["UsageQuantity", "UnblendedCost"])["Total"]

    assert found["UsageQuantity"]["Amount"] == "14.0000000000"


def test_a_month_is_the_sum_of_its_days(sandbox):
    """Two machines over a change of month."""
    sandbox.launch(MaxCount=2)
    sandbox.pass_time(30 * DAY)
    days = bill(sandbox, "2026-11-06", "2026-12-04")["ResultsByTime"]
    months = bill(sandbox, "2026-11-06", "2026-12-04", Granularity="MONTHLY")["ResultsByTime"]

    assert [month["TimePeriod"] for month in months] == [
        {"Start": "2026-11-06", "End": "2026-12-01"},
        {"Start": "2026-12-01", "End": "2026-12-04"},
    ]
    assert sum(Fraction(total(month)) for month in months) == sum(Fraction(total(day)) for day in days)


def test_many_rows_come_in_pages(sandbox, refused):
    """The token leads on to the rest of the same question, and to no other."""
    sandbox.pass_time(70 * DAY)
    first = bill(sandbox, "2026-11-06", "2027-01-10")
    second = bill(sandbox, "2026-11-06", "2027-01-10", NextPageToken=first["NextPageToken"])
    bills = sandbox.clients("ce", "us-east-1").get_cost_and_usage
    changed = refused(bills, **question("2026-11-06", "2027-01-11", NextPageToken=first["NextPageToken"]))
    wrong = refused(bills, **question("2026-11-06", "2027-01-10", NextPageToken="tomorrow"))

    assert (len(first["ResultsByTime"]), len(second["ResultsByTime"])) == (50, 15)
    assert "NextPageToken" not in second
    assert changed[0] == "RequestChangedException"
    assert wrong[0] == "InvalidNextTokenException"


@pytest.mark.parametrize(
    "change",
    [
        {"TimePeriod": {"Start": "2026-11-07", "End": "2026-11-06"}},
        {"TimePeriod": {"Start": "2026-11-07", "End": "2026-11-07"}},
        {"TimePeriod": {"Start": "2026-12-01", "End": "2026-12-02"}},
        {"TimePeriod": {"Start": "2025-08-01", "End": "2026-11-06"}},
        {"Granularity": "HOURLY"},
        {"Metrics": ["Money"]},
        {"GroupBy": [RUN, REGION, {"Type": "DIMENSION", "Key": "SERVICE"}]},
        {"GroupBy": [{"Type": "DIMENSION", "Key": "TENANCY"}]},
        {"Filter": {"Dimensions": {"Key": "TENANCY", "Values": ["x"]}}},
        {"Filter": {"And": [{"Dimensions": {"Key": "REGION", "Values": ["x"]}}]}},
    ],
)
def test_wrong_questions_are_refused(sandbox, refused, change):
    """Also where nothing ran."""
    arguments = {**question("2026-11-06", "2026-11-07"), **change}

    assert (
        refused(sandbox.clients("ce", "us-east-1").get_cost_and_usage, **arguments)[0]
        == "ValidationException"
    )


def test_a_start_costs_a_minute_at_least(sandbox):
    """EC2's 60-second minimum."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(10)
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(3600)

    assert sandbox.cloud.spent(START, sandbox.world.now) == Fraction("0.192") / 60


def test_the_future_costs_nothing_yet(sandbox):
    """However far one asks."""
    sandbox.launch()
    sandbox.pass_time(3600)

    assert sandbox.cloud.spent(START, START + timedelta(days=9)) == Fraction("0.192")


def test_spending_is_told_by_tag(sandbox):
    """Tags are named without their prefix; all of them must be carried."""
    sandbox.launch()
    sandbox.launch(TagSpecifications=[])
    sandbox.pass_time(3600)
    cloud, now = sandbox.cloud, sandbox.world.now

    assert cloud.spent(START, now) == 2 * Fraction("0.192")
    assert cloud.spent(START, now, run="r1") == Fraction("0.192")
    assert cloud.spent(START, now, run="r1", owner="ada") == 0


PARTS = st.tuples(
    st.booleans(), st.integers(0, 3 * DAY), st.integers(0, 3 * DAY), st.sampled_from(["0.05", "0.09"])
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS, max_size=6))
def test_the_days_add_up_to_what_was_spent(parts):
    """Whatever starts, ends and changes its price: the days' items are the whole, exactly."""
    world = World(START, seed=1)
    cloud = Cloud(world, SPEC)
    region = cloud.regions["us-west-2"]
    for spot, start, seconds, price in parts:
        world.after(start, partial(launch, cloud, world, spot, seconds))
        change = partial(cloud.set_price, "us-west-2", "us-west-2a", "m5.xlarge", price, spot=True)
        world.after(start + seconds / 2, change)
    world.run_until(START + timedelta(days=8))
    days = [midnight(START.date()) + timedelta(days=n) for n in range(9)]
    items = [item for day in days for item in cloud.bill(f"{day:%Y-%m-%d}")]

    assert sum((item.amount for item in items), Fraction(0)) == cloud.spent(days[0], world.now)
    assert all(item.amount > 0 for item in items)
    ended = [m for m in region.machines.values() if m.ended is not None]
    billed = sum((max(m.ended - m.launched, timedelta(minutes=1)) for m in ended if m.ended), timedelta(0))
    assert sum((item.quantity for item in items), Fraction(0)) * 3600 == Fraction(billed.total_seconds())


def launch(cloud: Cloud, world: World, spot: bool, seconds: float) -> None:
    """A machine that its owner ends after so many seconds; none where there is none."""
    region = cloud.regions["us-west-2"]
    if not region.free("us-west-2a", "m5.xlarge", spot):
        return
    request = {"ImageId": "ami-us-west-2", "InstanceType": "m5.xlarge", "MinCount": 1, "MaxCount": 1}
    if spot:
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "1"}}
    answer = cloud.ec2_actions["RunInstances"](region, {**request, "SubnetId": "subnet-a"})
    machine = region.machines[answer["Instances"][0]["InstanceId"]]

    def end() -> None:
        region.end(machine, world.now, "Client.UserInitiatedShutdown")

    world.after(seconds, end)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1/3", "0.33"),
        ("2/3", "0.67"),
        ("1/200", "0.01"),
        ("-1/200", "-0.01"),
        ("-1/1000", "0.00"),
        ("7", "7.00"),
    ],
)
def test_amounts_are_written_as_decimals(value, text):
    """Rounded half away from zero."""
    assert decimal(Fraction(value), 2) == text
