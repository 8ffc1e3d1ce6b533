"""Spot machines: their price now and before, and how they are taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from .conftest import START

SPOT = {"MarketType": "spot"}


def at_most(price: str) -> dict[str, Any]:
    """Market options with a highest price."""
    return {"MarketType": "spot", "SpotOptions": {"MaxPrice": price}}


def codes(sandbox) -> list[str]:
    """Status codes of all spot requests."""
    answer = sandbox.clients("ec2").describe_spot_instance_requests()
    return [request["Status"]["Code"] for request in answer["SpotInstanceRequests"]]


def set_spot_price(sandbox, price: str) -> None:
    """The spot price of m5.xlarge in us-west-2a from now on."""
    sandbox.host.call(
        lambda: sandbox.cloud.set_price("us-west-2", "us-west-2a", "m5.xlarge", price, spot=True)
    )


def test_spot_capacity_is_its_own(sandbox, refused):
    """Two are there for spot, whatever is free on demand; a zone without a spot price has none."""
    assert len(sandbox.launch(InstanceMarketOptions=SPOT, MaxCount=5)["Instances"]) == 2
    code, _, message = refused(sandbox.launch, InstanceMarketOptions=SPOT)
    assert code == "InsufficientInstanceCapacity"
    assert message == "There is no Spot capacity available that matches your request."
    assert refused(sandbox.launch, InstanceMarketOptions=SPOT, SubnetId="subnet-us-west-2b")[0] == code
    assert len(sandbox.launch(MaxCount=5)["Instances"]) == 5


def test_a_spot_quota_is_its_own(make, refused):
    """MaxSpotInstanceCountExceeded, while on-demand machines of the family can be had."""
    sandbox = make()
    sandbox.cloud.regions["us-west-2"].spec.spot_quotas["Standard"] = 4
    assert len(sandbox.launch(InstanceMarketOptions=SPOT, MaxCount=2)["Instances"]) == 1
    assert refused(sandbox.launch, InstanceMarketOptions=SPOT)[0] == "MaxSpotInstanceCountExceeded"
    assert len(sandbox.launch()["Instances"]) == 1


def test_a_spot_machine_is_taken_back_with_two_minutes_notice(sandbox):
    """Marked first, ended two minutes later, and its capacity goes with it."""
    machine = sandbox.launch(InstanceMarketOptions=SPOT)["Instances"][0]
    sandbox.pass_time(5)
    sandbox.host.call(sandbox.cloud.interrupt, machine["InstanceId"])
    ec2 = sandbox.clients("ec2")
    marked = ec2.describe_spot_instance_requests(
        Filters=[{"Name": "status-code", "Values": ["marked-for-termination"]}]
    )["SpotInstanceRequests"]
    sandbox.pass_time(119)
    still = sandbox.cloud.machines()[0].live
    sandbox.pass_time(2)
    found = ec2.describe_instances()["Reservations"][0]["Instances"][0]

    assert machine["InstanceLifecycle"] == "spot"
    assert [request["InstanceId"] for request in marked] == [machine["InstanceId"]]
    assert marked[0]["State"] == "active"
    assert still
    assert found["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert codes(sandbox) == ["instance-terminated-no-capacity"]
    assert len(sandbox.launch(InstanceMarketOptions=SPOT, MaxCount=2)["Instances"]) == 1


def test_only_spot_machines_are_taken_back(sandbox):
    """An on-demand machine is its buyer's."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]

    with pytest.raises(ValueError, match="not a spot machine"):
        sandbox.host.call(sandbox.cloud.interrupt, machine)


def test_a_price_above_its_limit_takes_a_machine_back(sandbox):
    """Without a limit of its own the on-demand price is it."""
    low, open_ = (
        sandbox.launch(InstanceMarketOptions=options)["Instances"][0]["InstanceId"]
        for options in (at_most("0.08"), SPOT)
    )
    sandbox.pass_time(5)
    set_spot_price(sandbox, "0.10")
    sandbox.pass_time(121)
    live = [machine.id for machine in sandbox.cloud.machines() if machine.live]
    set_spot_price(sandbox, "0.20")

    assert live == [open_] != [low]
    assert codes(sandbox) == ["instance-terminated-by-price", "marked-for-termination"]


def test_a_machine_that_its_owner_ends_is_not_ended_again(sandbox):
    """Its request says who did."""
    machine = sandbox.launch(InstanceMarketOptions=SPOT)["Instances"][0]["InstanceId"]
    sandbox.pass_time(5)
    sandbox.host.call(sandbox.cloud.interrupt, machine)
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    ended = sandbox.cloud.machines()[0].ended
    sandbox.pass_time(200)

    assert sandbox.cloud.machines()[0].ended == ended
    assert codes(sandbox) == ["instance-terminated-by-user"]


def test_spot_history_tells_the_price_in_force_and_its_changes(sandbox):
    """A change an hour in is listed after the price before it."""
    sandbox.pass_time(3600)
    set_spot_price(sandbox, "0.09")
    sandbox.pass_time(60)
    history = sandbox.clients("ec2").describe_spot_price_history(
        InstanceTypes=["m5.xlarge"], StartTime=START + timedelta(minutes=30)
    )

    assert [row["SpotPrice"] for row in history["SpotPriceHistory"]] == ["0.090000", "0.070000"]


def test_the_spec_may_say_how_a_spot_price_goes(make):
    """Changes come by themselves, at their world time, and machines cost accordingly."""
    offer = {
        "price": "0.192",
        "spot": "0.06",
        "spot_capacity": 1,
        "spot_changes": [{"after_seconds": 1800, "price": "0.12"}],
    }
    sandbox = make(regions={"us-west-2": {"zones": {"us-west-2a": {"offers": {"m5.xlarge": offer}}}}})
    sandbox.launch(subnet="subnet-us-west-2a", InstanceMarketOptions=SPOT)
    sandbox.pass_time(3600)

    spent = sandbox.host.call(
        lambda: sandbox.cloud.spent(sandbox.cloud.machines()[0].launched, sandbox.world.now)
    )
    assert float(spent) == pytest.approx(0.09)
