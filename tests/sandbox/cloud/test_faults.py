"""Who may call, and what goes wrong on purpose."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

LOST = (EndpointConnectionError, HTTPClientError)


def test_unknown_credentials_are_refused_by_every_service(sandbox, refused):
    """With each one's own code."""
    key = "AKIAOTHER"
    clients = sandbox.clients

    assert refused(clients("ec2", key=key).describe_instances)[:2] == ("AuthFailure", 401)
    products = refused(clients("pricing", "us-east-1", key=key).get_products, ServiceCode="AmazonEC2")
    assert products[0] == "UnrecognizedClientException"


def test_unknown_regions_are_refused(sandbox, refused):
    """EC2 in a region that this world does not have; pricing and bills outside their home."""
    assert refused(sandbox.clients("ec2", "sa-east-1").describe_instances)[0] == "AuthFailure"
    products = refused(sandbox.clients("pricing", "us-west-2").get_products, ServiceCode="AmazonEC2")
    assert products[0] == "InvalidSignatureException"


def test_a_key_may_do_what_its_permissions_hold(make, refused):
    """Anything else is UnauthorizedOperation, or AccessDenied for the JSON services."""
    sandbox = make(credentials={"AKIAREADER": ["ec2:Describe*"], "AKIASANDBOX": ["*"]})
    ec2 = sandbox.clients("ec2", key="AKIAREADER")
    ec2.describe_instances()
    arguments = {"ImageId": "ami-us-west-2", "MinCount": 1, "MaxCount": 1, "InstanceType": "m5.xlarge"}
    code, status, message = refused(ec2.run_instances, **arguments)
    denied = refused(
        sandbox.clients("pricing", "us-east-1", key="AKIAREADER").get_products, ServiceCode="AmazonEC2"
    )

    assert (code, status) == ("UnauthorizedOperation", 403)
    assert "ec2:RunInstances" in message
    assert denied[0] == "AccessDeniedException"
    assert sandbox.cloud.machines() == []


def test_an_action_that_is_not_offered_says_so(sandbox, refused):
    """Nothing is answered that was not thought about."""
    assert refused(sandbox.clients("ec2").describe_volumes)[0] == "UnsupportedOperation"


def test_a_lost_reply_is_carried_out_and_repeated_by_its_token(sandbox):
    """The connection closes after the purchase; the same token finds it done."""
    sandbox.host.call(sandbox.cloud.lose_replies)
    with pytest.raises(LOST):
        sandbox.launch(ClientToken="hold-2")

    assert len(sandbox.launch(ClientToken="hold-2")["Instances"]) == 1
    assert len(sandbox.cloud.machines()) == 1


def test_boto3_finds_a_lost_purchase_by_itself(sandbox):
    """Its own retry sends the token that it made."""
    sandbox.host.call(sandbox.cloud.lose_replies)
    sandbox.clients("ec2", attempts=3).run_instances(
        ImageId="ami-us-west-2", InstanceType="m5.xlarge", MinCount=1, MaxCount=1, SubnetId="subnet-a"
    )

    assert len(sandbox.cloud.machines()) == 1


def test_reads_are_never_lost(sandbox):
    """Only what changes something counts."""
    sandbox.host.call(sandbox.cloud.lose_replies)
    sandbox.clients("ec2").describe_instances()

    assert sandbox.cloud.faults.lost_replies == 1


@pytest.mark.parametrize(("moment", "bought"), [("before", 0), ("after", 1)])
def test_a_hook_may_end_the_connection_around_a_change(sandbox, moment, bought):
    """Before it is carried out, or after: for crashes at every step."""
    seen: list[tuple[str, str, str]] = []

    def hook(when, info):
        seen.append((when, info["action"], info["region"]))
        return "drop" if when == moment else None

    sandbox.host.call(sandbox.cloud.on_request, hook)
    with pytest.raises(LOST):
        sandbox.launch()

    assert len(sandbox.cloud.machines()) == bought
    assert seen[-1] == (moment, "RunInstances", "us-west-2")
    assert len(sandbox.cloud.requests) == bought


def test_errors_can_be_ordered(sandbox, refused):
    """So many times, with the status that AWS sends with the code."""
    sandbox.host.call(lambda: sandbox.cloud.fail_next("RunInstances", "RequestLimitExceeded", times=2))
    sandbox.host.call(lambda: sandbox.cloud.fail_next("RunInstances", "PendingVerification"))
    sandbox.host.call(lambda: sandbox.cloud.fail_next("GetProducts", "ThrottlingException"))

    assert [refused(sandbox.launch)[:2] for _ in range(3)] == [
        ("RequestLimitExceeded", 503),
        ("RequestLimitExceeded", 503),
        ("PendingVerification", 400),
    ]
    assert len(sandbox.launch()["Instances"]) == 1
    pricing = sandbox.clients("pricing", "us-east-1")
    assert refused(pricing.get_products, ServiceCode="AmazonEC2")[0] == "ThrottlingException"


def test_one_region_can_be_down_while_others_work(sandbox, refused):
    """A 503 for everything in it."""
    sandbox.cloud.regions["us-west-2"].down = True

    assert refused(sandbox.launch)[:2] == ("Unavailable", 503)
    assert sandbox.launch("us-east-1", "subnet-us-east-1a")["Instances"]


def test_one_region_can_be_slow(sandbox):
    """In real time; the world does not move."""
    sandbox.clients("ec2").describe_regions()
    sandbox.cloud.regions["us-west-2"].slow_seconds = 0.2
    start, world = time.monotonic(), sandbox.world.now
    sandbox.clients("ec2").describe_instances()

    assert time.monotonic() - start >= 0.2
    assert sandbox.world.now == world


def test_an_error_of_the_cloud_is_the_modelled_exception(sandbox):
    """boto3 makes its own exception type of a JSON service's error."""
    bills = sandbox.clients("ce", "us-east-1")
    sandbox.host.call(lambda: sandbox.cloud.fail_next("GetCostAndUsage", "LimitExceededException"))

    with pytest.raises(bills.exceptions.LimitExceededException) as caught:
        bills.get_cost_and_usage(
            TimePeriod={"Start": "2026-11-06", "End": "2026-11-07"},
            Granularity="DAILY",
            Metrics=["UnblendedCost"],
        )
    assert isinstance(caught.value, ClientError)
