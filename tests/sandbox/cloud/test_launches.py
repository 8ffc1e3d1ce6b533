"""RunInstances through unmodified boto3: what it takes, what it refuses, and what a token returns."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cloud.codec import AwsError
from sandbox.cloud.server import Cloud
from sandbox.world import World

from .conftest import SPEC, START


def ids(answer) -> list[str]:
    """Instance ids of a launch."""
    return [instance["InstanceId"] for instance in answer["Instances"]]


def test_a_token_buys_once(sandbox, refused):
    """The same token and request return the first result; another request is refused."""
    first = sandbox.launch(ClientToken="hold-1", MaxCount=2)
    again = sandbox.launch(ClientToken="hold-1", MaxCount=2)

    assert ids(first) == ids(again)
    assert len(sandbox.cloud.machines()) == 2
    assert refused(sandbox.launch, ClientToken="hold-1", MaxCount=1)[:2] == (
        "IdempotentParameterMismatch",
        400,
    )


def test_the_same_seed_gives_the_same_machines(make):
    """Ids, addresses and reservations: decisions about them repeat exactly."""
    first, second = make(), make()
    for sandbox in (first, second):
        sandbox.launch(MaxCount=3)
        sandbox.launch("us-east-1", "subnet-us-east-1a")

    def identities(sandbox):
        return [(m.id, m.node_name, m.reservation) for m in sandbox.cloud.machines()]

    assert identities(first) == identities(second)
    assert len({identity for identity, _, _ in identities(first)}) == 4


def test_a_token_belongs_to_its_region(sandbox):
    """The same token in another region is another purchase."""
    sandbox.launch(ClientToken="hold-1")
    sandbox.launch("us-east-1", "subnet-us-east-1a", ClientToken="hold-1")

    assert {machine.region for machine in sandbox.cloud.machines()} == {"us-west-2", "us-east-1"}


def test_a_failed_attempt_keeps_its_token_to_its_parameters(sandbox, refused):
    """After a want of capacity the token may repeat its request, and no other one."""
    sandbox.host.call(lambda: sandbox.cloud.set_capacity("us-west-2", "us-west-2a", "m5.xlarge", 0))
    assert refused(sandbox.launch, ClientToken="hold-1")[0] == "InsufficientInstanceCapacity"
    other = refused(sandbox.launch, ClientToken="hold-1", InstanceType="p5.48xlarge")
    sandbox.host.call(lambda: sandbox.cloud.set_capacity("us-west-2", "us-west-2a", "m5.xlarge", 1))

    assert other[0] == "IdempotentParameterMismatch"
    assert len(ids(sandbox.launch(ClientToken="hold-1"))) == 1


def test_a_token_whose_machines_have_ended_is_told_apart(sandbox, refused):
    """EC2 launches nothing in their place."""
    bought = ids(sandbox.launch(ClientToken="hold-1", MaxCount=2))
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")
    ec2.terminate_instances(InstanceIds=bought[:1])
    assert ids(sandbox.launch(ClientToken="hold-1", MaxCount=2)) == bought
    ec2.terminate_instances(InstanceIds=bought)

    assert refused(sandbox.launch, ClientToken="hold-1", MaxCount=2)[0] == "IdempotentInstanceTerminated"
    assert len(sandbox.cloud.machines()) == 2


def test_capacity_ends_and_part_of_a_launch_is_had(sandbox, refused):
    """Five are there: MinCount 1 of 8 gives five, then none; all-or-nothing gives nothing."""
    assert refused(sandbox.launch, MinCount=8, MaxCount=8)[0] == "InsufficientInstanceCapacity"
    assert len(ids(sandbox.launch(MaxCount=8))) == 5
    assert refused(sandbox.launch)[0] == "InsufficientInstanceCapacity"


def test_the_usual_status_of_no_capacity_makes_clients_repeat(make):
    """A 500, as the real service: botocore sends the same token again by itself."""
    sandbox = make(no_capacity_status=500)
    sandbox.host.call(lambda: sandbox.cloud.set_capacity("us-west-2", "us-west-2a", "m5.xlarge", 0))
    tries: list[str] = []
    sandbox.host.call(
        sandbox.cloud.on_request, lambda moment, info: tries.append(info["form"]["ClientToken"])
    )
    client = sandbox.clients("ec2", attempts=2)
    with pytest.raises(client.exceptions.ClientError, match="InsufficientInstanceCapacity"):
        client.run_instances(
            ImageId="ami-us-west-2", InstanceType="m5.xlarge", MinCount=1, MaxCount=1, SubnetId="subnet-a"
        )

    assert len(tries) == 2
    assert len(set(tries)) == 1


def test_a_quota_is_told_apart_from_capacity(sandbox, refused):
    """P has 384 vCPU: two p5.48xlarge of 192, though three machines are free."""
    assert len(ids(sandbox.launch(InstanceType="p5.48xlarge", MaxCount=3))) == 2
    code, _, message = refused(sandbox.launch, InstanceType="p5.48xlarge")
    assert code == "VcpuLimitExceeded"
    assert "vCPU limit of 384" in message


def test_a_full_subnet_is_told_apart_from_capacity(sandbox, refused):
    """Addresses run out before machines do."""
    sandbox.cloud.regions["us-west-2"].spec.subnets["subnet-a"].addresses = 2
    sandbox.launch(MaxCount=2)

    assert refused(sandbox.launch)[0] == "InsufficientFreeAddressesInSubnet"


TAG = {"Key": "a", "Value": "b"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"InstanceType": "p5.48xlarge", "SubnetId": "subnet-us-west-2b"}, "Unsupported"),
        ({"InstanceType": "c5.large"}, "Unsupported"),
        ({"InstanceType": "m5.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-none"}, "InvalidAMIID.NotFound"),
        ({"ImageId": ""}, "MissingParameter"),
        ({"SubnetId": "subnet-none"}, "InvalidSubnetID.NotFound"),
        ({"Placement": {"AvailabilityZone": "us-west-2b"}}, "InvalidParameterValue"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"IamInstanceProfile": {"Arn": "arn:aws:iam::0:instance-profile/nobody"}}, "InvalidParameterValue"),
        ({"MinCount": 3, "MaxCount": 2}, "InvalidParameterValue"),
        ({"MinCount": 0, "MaxCount": 2}, "InvalidParameterValue"),
        ({"UserData": "x" * 16_385}, "InvalidUserData.Malformed"),
        ({"ClientToken": "x" * 65}, "InvalidParameterValue"),
        (
            {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "a"}}},
            "InvalidParameterValue",
        ),
        (
            {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.01"}}},
            "SpotMaxPriceTooLow",
        ),
        ({"TagSpecifications": [{"ResourceType": "castle", "Tags": [TAG]}]}, "InvalidParameterValue"),
        ({"TagSpecifications": [{"ResourceType": "instance", "Tags": [TAG, TAG]}]}, "InvalidParameterValue"),
        (
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:a", "Value": "b"}]}]},
            "InvalidParameterValue",
        ),
        (
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b" * 257}]}]},
            "InvalidParameterValue",
        ),
        (
            {
                "TagSpecifications": [
                    {"ResourceType": "instance", "Tags": [{"Key": f"k{n}", "Value": ""} for n in range(51)]}
                ]
            },
            "TagLimitExceeded",
        ),
        ({"LaunchTemplate": {"LaunchTemplateName": "none"}}, "InvalidLaunchTemplateName.NotFoundException"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_a_wrong_launch_is_refused_like_ec2_does(sandbox, refused, change, expected):
    """The real code, and nothing is launched or taken."""
    assert refused(sandbox.launch, **change)[0] == expected
    assert sandbox.cloud.machines() == []
    assert not +sandbox.cloud.regions["us-west-2"].used


def test_the_message_of_an_unsupported_zone_names_the_others(sandbox, refused):
    """Clients read the zones that do have the type."""
    message = refused(sandbox.launch, InstanceType="p5.48xlarge", SubnetId="subnet-us-west-2b")[2]
    assert message.endswith("by not specifying an Availability Zone or choosing us-west-2a.")


def test_security_groups_are_checked_where_the_spec_names_them(make, refused):
    """Unknown groups are refused; without a list any is known."""
    region = {**SPEC["regions"]["us-west-2"], "security_groups": ["sg-1"]}
    sandbox = make(regions={"us-west-2": region})

    assert refused(sandbox.launch, SecurityGroupIds=["sg-2"])[0] == "InvalidGroup.NotFound"
    assert sandbox.launch(SecurityGroupIds=["sg-1"])["Instances"][0]["SecurityGroups"][0]["GroupId"] == "sg-1"


def test_a_launch_template_fills_in_what_a_request_leaves_out(sandbox):
    """The request wins over its template."""
    ec2 = sandbox.clients("ec2")
    ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={"ImageId": "ami-us-west-2", "InstanceType": "p5.48xlarge"},
    )
    given = {"LaunchTemplate": {"LaunchTemplateName": "nodes"}, "MinCount": 1, "MaxCount": 1}
    assert ec2.run_instances(**given)["Instances"][0]["InstanceType"] == "p5.48xlarge"
    assert ec2.run_instances(**given, InstanceType="m5.xlarge")["Instances"][0]["InstanceType"] == "m5.xlarge"


def test_machine_launches_are_throttled_in_world_time(make, refused):
    """Three at once, then two a second, whatever real time passes."""
    sandbox = make(throttle={"launches": {"size": 3, "refill": 2}})
    sandbox.launch(MaxCount=3)
    assert refused(sandbox.launch)[:2] == ("RequestLimitExceeded", 503)
    sandbox.pass_time(1)
    assert len(ids(sandbox.launch(MaxCount=2))) == 2


def test_calls_are_throttled_by_action_and_region(make, refused):
    """One action's bucket says nothing about another's, nor about another region's."""
    sandbox = make(throttle={"DescribeInstances": {"size": 1, "refill": 0.5}})
    ec2 = sandbox.clients("ec2")
    ec2.describe_instances()
    assert refused(ec2.describe_instances)[0] == "RequestLimitExceeded"
    ec2.describe_regions()
    sandbox.clients("ec2", "us-east-1").describe_instances()
    sandbox.pass_time(2)
    assert ec2.describe_instances()["Reservations"] == []


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["m5.xlarge", "p5.48xlarge"]),
            st.sampled_from(["subnet-a", "subnet-us-west-2b"]),
            st.booleans(),
            st.integers(1, 4),
            st.integers(0, 40),
        ),
        max_size=12,
    )
)
def test_never_more_is_taken_than_there_is(attempts):
    """Whatever is launched and ended: capacity, quota and addresses hold, and counters equal a recount."""
    world = World(START, seed=1)
    cloud = Cloud(world, SPEC)
    region = cloud.regions["us-west-2"]
    for kind, subnet, spot, count, ending in attempts:
        request = {"ImageId": "ami-us-west-2", "InstanceType": kind, "SubnetId": subnet}
        request |= {"MinCount": 1, "MaxCount": count}
        if spot:
            request["InstanceMarketOptions"] = {"MarketType": "spot"}
        with suppress(AwsError):
            cloud.ec2_actions["RunInstances"](region, request)
        machines = cloud.machines()
        if ending < len(machines):
            region.end(machines[ending], world.now, "Client.UserInitiatedShutdown")

    live = [machine for machine in cloud.machines() if machine.live]
    for (zone, kind, spot), used in region.used.items():
        offer = region.offer(zone, kind)
        assert used == sum((m.zone, m.kind.name, m.spot) == (zone, kind, spot) for m in live)
        assert used <= (offer.spot_capacity if spot else offer.capacity)
    assert region.vcpus["P", False] == sum(m.kind.vcpus for m in live if m.kind.family == "P") <= 384
    assert region.addresses["subnet-a"] == sum(m.subnet == "subnet-a" for m in live) <= 100
