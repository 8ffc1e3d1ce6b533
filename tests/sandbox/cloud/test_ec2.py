"""EC2 through unmodified boto3: launches, idempotency, refusals with the real codes, lag and paging."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from sandbox.cloud.spec import RateSpec


def code(caught) -> str:
    """The error code that boto3 read."""
    return str(caught.value.response["Error"]["Code"])


def test_a_token_buys_once(sandbox):
    """The same token and request return the first result; another request is refused."""
    first = sandbox.launch(ClientToken="hold-1", MaxCount=2)
    again = sandbox.launch(ClientToken="hold-1", MaxCount=2)

    assert [i["InstanceId"] for i in first["Instances"]] == [i["InstanceId"] for i in again["Instances"]]
    assert len(sandbox.cloud.machines()) == 2
    with pytest.raises(ClientError) as caught:
        sandbox.launch(ClientToken="hold-1", MaxCount=1)
    assert code(caught) == "IdempotentParameterMismatch"


def test_capacity_ends_and_part_of_a_launch_is_had(sandbox):
    """Five are there: MinCount 1 of 8 gives five, then none; all-or-nothing gives nothing."""
    with pytest.raises(ClientError) as caught:
        sandbox.launch(MinCount=8, MaxCount=8)
    assert code(caught) == "InsufficientInstanceCapacity"
    assert len(sandbox.launch(MaxCount=8)["Instances"]) == 5
    with pytest.raises(ClientError) as caught:
        sandbox.launch()
    assert code(caught) == "InsufficientInstanceCapacity"


def test_a_quota_is_told_apart_from_capacity(sandbox):
    """P has 384 vCPU: two p5.48xlarge of 192, though three machines are free."""
    assert len(sandbox.launch(InstanceType="p5.48xlarge", MaxCount=3)["Instances"]) == 2
    with pytest.raises(ClientError) as caught:
        sandbox.launch(InstanceType="p5.48xlarge")
    assert code(caught) == "VcpuLimitExceeded"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"InstanceType": "p5.48xlarge", "SubnetId": "subnet-us-west-2b"}, "Unsupported"),
        ({"InstanceType": "m5.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-none"}, "InvalidAMIID.NotFound"),
        ({"SubnetId": "subnet-none"}, "InvalidSubnetID.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"MinCount": 3, "MaxCount": 2}, "InvalidParameterValue"),
        ({"UserData": "x" * 20_000}, "InvalidUserData.Malformed"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_a_wrong_launch_is_refused_like_ec2_does(sandbox, change, expected):
    """The real code, and nothing is launched."""
    with pytest.raises(ClientError) as caught:
        sandbox.launch(**change)

    assert code(caught) == expected
    assert sandbox.cloud.machines() == []


def test_unknown_credentials_and_regions_are_refused(sandbox):
    """AuthFailure for both, as EC2 answers."""
    with pytest.raises(ClientError) as caught:
        sandbox.clients("ec2", key="AKIAOTHER").describe_instances()
    assert code(caught) == "AuthFailure"
    with pytest.raises(ClientError) as caught:
        sandbox.clients("ec2", "sa-east-1").describe_instances()
    assert code(caught) == "AuthFailure"


def test_describe_lags_a_launch_and_pages(sandbox):
    """A launch is listed after seconds; pages follow MaxResults; filters by tag and state."""
    machine = sandbox.launch(MaxCount=5)["Instances"][0]["InstanceId"]
    sandbox.launch(InstanceType="p5.48xlarge", MaxCount=2)
    ec2 = sandbox.clients("ec2")
    assert ec2.describe_instances()["Reservations"] == []
    with pytest.raises(ClientError) as caught:
        ec2.terminate_instances(InstanceIds=[machine])
    assert code(caught) == "InvalidInstanceID.NotFound"

    sandbox.pass_time(10)
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    assert [sum(len(r["Instances"]) for r in p["Reservations"]) for p in pages] == [5, 2]
    running = ec2.describe_instances(
        Filters=[
            {"Name": "tag:quartermaster.dev/run", "Values": ["r*"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
    )
    assert [len(r["Instances"]) for r in running["Reservations"]] == [5, 2]


def test_terminating_twice_is_fine_and_frees_capacity(sandbox):
    """shutting-down, then terminated with its reason, and another can be launched."""
    ids = [i["InstanceId"] for i in sandbox.launch(MaxCount=5)["Instances"]]
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")
    first = ec2.terminate_instances(InstanceIds=ids[:1])["TerminatingInstances"][0]
    ec2.terminate_instances(InstanceIds=ids[:1])
    sandbox.pass_time(30)
    found = ec2.describe_instances(InstanceIds=ids[:1])["Reservations"][0]["Instances"][0]

    assert first["CurrentState"]["Name"] == "shutting-down"
    assert found["State"]["Name"] == "terminated"
    assert found["StateTransitionReason"] == "User initiated (2026-11-06 17:00:10 GMT)"
    assert len(sandbox.launch()["Instances"]) == 1


def test_a_lost_reply_is_carried_out_and_repeated_by_its_token(sandbox):
    """The connection closes after the purchase; boto3's own retry with the same token finds it done."""
    sandbox.cloud.faults.lost_replies = 1
    with pytest.raises((EndpointConnectionError, HTTPClientError)):
        sandbox.launch(ClientToken="hold-2")

    again = sandbox.launch(ClientToken="hold-2")

    assert len(again["Instances"]) == 1
    assert len(sandbox.cloud.machines()) == 1


def test_throttling_is_in_world_time(sandbox):
    """1,000 launches at once, then two a second."""
    sandbox.cloud.regions["us-west-2"].throttle.rates["launches"] = RateSpec(3, 2)
    sandbox.launch(MaxCount=3)
    with pytest.raises(ClientError) as caught:
        sandbox.launch()
    assert code(caught) == "RequestLimitExceeded"
    sandbox.pass_time(1)
    assert len(sandbox.launch()["Instances"]) == 1


def test_spot_is_taken_back_with_two_minutes_notice(sandbox):
    """Marked first, ended two minutes later; its request says so."""
    machine = sandbox.launch(
        InstanceMarketOptions={"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.1"}}
    )["Instances"][0]
    sandbox.pass_time(5)
    sandbox.host.call(sandbox.cloud.interrupt, machine["InstanceId"])
    ec2 = sandbox.clients("ec2")
    marked = ec2.describe_spot_instance_requests(
        Filters=[{"Name": "status-code", "Values": ["marked-for-termination"]}]
    )
    sandbox.pass_time(121)

    assert machine["InstanceLifecycle"] == "spot"
    assert marked["SpotInstanceRequests"][0]["InstanceId"] == machine["InstanceId"]
    assert sandbox.cloud.machines()[0].ended is not None


def test_a_fleet_tells_what_it_got_and_what_failed(sandbox):
    """One machine in 2b and five in 2a; asking for eight gives six and the errors of both."""
    ec2 = sandbox.clients("ec2")
    ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={"ImageId": "ami-us-west-2", "InstanceType": "m5.xlarge"},
    )
    request = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                "Overrides": [
                    {"SubnetId": "subnet-us-west-2b"},
                    {"SubnetId": "subnet-a"},
                    {"SubnetId": "subnet-a", "InstanceType": "p5.48xlarge"},
                ],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 6, "DefaultTargetCapacityType": "on-demand"},
        "ClientToken": "fleet-1",
    }
    answer = ec2.create_fleet(**request)
    again = ec2.create_fleet(**request)
    short = ec2.create_fleet(
        **(
            request
            | {
                "ClientToken": "fleet-2",
                "OnDemandOptions": {"MinTargetCapacity": 4, "SingleAvailabilityZone": True},
            }
        )
    )

    assert sum(len(i["InstanceIds"]) for i in answer["Instances"]) == 6
    assert [i["InstanceIds"] for i in again["Instances"]] == [i["InstanceIds"] for i in answer["Instances"]]
    assert short["Instances"] == []
    assert short["Errors"][0]["ErrorCode"] == "InsufficientInstanceCapacity"
