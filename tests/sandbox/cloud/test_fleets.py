"""CreateFleet type=instant and launch templates: partial results with the errors of what failed."""

from __future__ import annotations

import pytest


@pytest.fixture
def ec2(sandbox):
    """A client, with a launch template `nodes`."""
    client = sandbox.clients("ec2")
    client.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={
            "ImageId": "ami-us-west-2",
            "InstanceType": "m5.xlarge",
            "IamInstanceProfile": {"Name": "node"},
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}]}
            ],
        },
    )
    return client


A = {"SubnetId": "subnet-a"}
B = {"SubnetId": "subnet-us-west-2b"}
P5 = {"SubnetId": "subnet-a", "InstanceType": "p5.48xlarge"}


def request(count: int, *overrides, token: str = "fleet-1", spot: bool = False, **more):
    """A fleet of `count` machines over overrides of the template `nodes`."""
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                "Overrides": list(overrides),
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "ClientToken": token,
        **more,
    }


def got(answer) -> list[tuple[str, str, int]]:
    """(type, subnet, machines) of an answer."""
    return [
        (
            each["InstanceType"],
            each["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"],
            len(each["InstanceIds"]),
        )
        for each in answer["Instances"]
    ]


def errors(answer) -> list[tuple[str, str]]:
    """(subnet, code) of an answer."""
    return [
        (each["LaunchTemplateAndOverrides"]["Overrides"].get("SubnetId", ""), each["ErrorCode"])
        for each in answer["Errors"]
    ]


def test_a_fleet_takes_the_rest_elsewhere_and_tells_what_failed(ec2):
    """One machine in 2b and five in 2a: both come, and 2b's error with them."""
    answer = ec2.create_fleet(**request(6, B, A, P5))

    assert got(answer) == [("m5.xlarge", "subnet-us-west-2b", 1), ("m5.xlarge", "subnet-a", 5)]
    assert errors(answer) == [("subnet-us-west-2b", "InsufficientInstanceCapacity")]


def test_the_same_token_returns_the_same_fleet(ec2, sandbox, refused):
    """Ids, errors and the fleet's own id; another request is refused."""
    first = ec2.create_fleet(**request(6, B, A))
    again = ec2.create_fleet(**request(6, B, A))
    del first["ResponseMetadata"], again["ResponseMetadata"]

    assert again == first
    assert len(sandbox.cloud.machines()) == 6
    assert refused(ec2.create_fleet, **request(5, B, A))[0] == "IdempotentParameterMismatch"


def test_less_than_there_is_wanted_gives_what_there_is(ec2):
    """No error of the call: an empty or partial list and an error an override."""
    answer = ec2.create_fleet(**request(9, A, B))
    nothing = ec2.create_fleet(**request(1, A, B, token="fleet-2"))

    assert sum(count for _, _, count in got(answer)) == 6
    assert got(nothing) == []
    assert {code for _, code in errors(nothing)} == {"InsufficientInstanceCapacity"}


def test_wrong_overrides_are_told_beside_right_ones(ec2):
    """A type that a zone does not have, an unknown subnet, an unknown image."""
    answer = ec2.create_fleet(
        **request(1, {**P5, **B}, {"SubnetId": "subnet-none"}, {**A, "ImageId": "ami-none"}, A)
    )

    assert got(answer) == [("m5.xlarge", "subnet-a", 1)]
    assert [code for _, code in errors(answer)] == [
        "Unsupported",
        "InvalidSubnetID.NotFound",
        "InvalidAMIID.NotFound",
    ]


def test_a_quota_shared_by_overrides_is_counted_once(ec2, sandbox):
    """384 vCPU of P are two machines, over however many overrides."""
    answer = ec2.create_fleet(**request(3, P5, {**P5, "Priority": 2.0}))

    assert sum(count for _, _, count in got(answer)) == 2
    assert {code for _, code in errors(answer)} == {"VcpuLimitExceeded"}


def test_priority_decides_where_asked_and_price_otherwise(ec2):
    """The dear type first by priority, the cheap one first by price."""
    dear, cheap = {**P5, "Priority": 1.0}, {**A, "Priority": 2.0}
    by_priority = ec2.create_fleet(
        **request(1, cheap, dear, OnDemandOptions={"AllocationStrategy": "prioritized"})
    )
    by_price = ec2.create_fleet(**request(1, dear, cheap, token="fleet-2"))

    assert got(by_priority) == [("p5.48xlarge", "subnet-a", 1)]
    assert got(by_price) == [("m5.xlarge", "subnet-a", 1)]


def test_below_its_minimum_a_fleet_launches_nothing(ec2, sandbox):
    """All in one zone: five in 2a do; seven are in no zone."""
    options = {"SingleAvailabilityZone": True, "MinTargetCapacity": 5}
    whole = ec2.create_fleet(**request(5, B, A, OnDemandOptions=options))
    short = ec2.create_fleet(
        **request(7, B, A, token="fleet-2", OnDemandOptions={**options, "MinTargetCapacity": 7})
    )

    assert got(whole) == [("m5.xlarge", "subnet-a", 5)]
    assert got(short) == []
    assert errors(short)[-1][1] == "UnfulfillableCapacity"
    assert len(sandbox.cloud.machines()) == 5
    assert sum(sandbox.cloud.regions["us-west-2"].used.values()) == 5


def test_one_type_may_come_from_several_zones(ec2):
    """SingleInstanceType mixes zones and no types."""
    answer = ec2.create_fleet(
        **request(6, A, P5, B, OnDemandOptions={"SingleInstanceType": True, "MinTargetCapacity": 6})
    )

    assert {kind for kind, _, _ in got(answer)} == {"m5.xlarge"}
    assert sum(count for _, _, count in got(answer)) == 6


def test_a_price_limit_ends_a_fleet(ec2):
    """$0.40 an hour are two machines of $0.192."""
    answer = ec2.create_fleet(**request(5, A, OnDemandOptions={"MaxTotalPrice": "0.40"}))

    assert got(answer) == [("m5.xlarge", "subnet-a", 2)]


def test_spot_and_on_demand_may_be_mixed(ec2, sandbox):
    """Two of three on spot, the rest on demand, each with its lifecycle."""
    target = {"TotalTargetCapacity": 3, "SpotTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"}
    answer = ec2.create_fleet(**(request(3, A) | {"TargetCapacitySpecification": target}))

    assert [(each["Lifecycle"], len(each["InstanceIds"])) for each in answer["Instances"]] == [
        ("on-demand", 1),
        ("spot", 2),
    ]
    assert sum(machine.spot for machine in sandbox.cloud.machines()) == 2


def test_fleet_machines_carry_the_tags_of_template_and_request(ec2, sandbox):
    """Both, and they are listed like any other."""
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "run", "Value": "r1"}]}]
    ec2.create_fleet(**request(1, A, TagSpecifications=tags))
    sandbox.pass_time(5)
    (found,) = ec2.describe_instances()["Reservations"][0]["Instances"]

    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == {"from": "template", "run": "r1"}
    assert found["IamInstanceProfile"]["Arn"].endswith("/node")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Type": "maintain"}, "InvalidParameterValue"),
        ({"OnDemandOptions": {"MinTargetCapacity": 2}}, "InvalidParameterCombination"),
        (
            {"OnDemandOptions": {"MinTargetCapacity": 1001, "SingleInstanceType": True}},
            "InvalidParameterValue",
        ),
        ({"TargetCapacitySpecification": {"TotalTargetCapacity": 0}}, "InvalidParameterValue"),
        (
            {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-none"}}]},
            "InvalidLaunchTemplateId.NotFound",
        ),
        (
            {
                "LaunchTemplateConfigs": [
                    {"LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "9"}}
                ]
            },
            "InvalidLaunchTemplateId.VersionNotFound",
        ),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_a_wrong_fleet_is_refused_whole(ec2, sandbox, refused, change, code):
    """With the real code, and nothing is launched."""
    assert refused(ec2.create_fleet, **(request(3, A) | change))[0] == code
    assert sandbox.cloud.machines() == []


def test_templates_are_found_by_name_and_id_until_deleted(ec2, sandbox, refused):
    """And belong to their region."""
    (template,) = ec2.describe_launch_templates(LaunchTemplateNames=["nodes"])["LaunchTemplates"]
    assert ec2.describe_launch_templates(LaunchTemplateIds=[template["LaunchTemplateId"]])["LaunchTemplates"]
    assert sandbox.clients("ec2", "us-east-1").describe_launch_templates()["LaunchTemplates"] == []
    taken = refused(ec2.create_launch_template, LaunchTemplateName="nodes", LaunchTemplateData={})
    assert taken[0] == "InvalidLaunchTemplateName.AlreadyExistsException"

    ec2.delete_launch_template(LaunchTemplateName="nodes")

    gone = refused(ec2.describe_launch_templates, LaunchTemplateNames=["nodes"])
    assert gone[0] == "InvalidLaunchTemplateName.NotFoundException"
