"""What EC2 lists: lag, paging, filters, states; ending and tagging machines."""

from __future__ import annotations

import time

import pytest


def count(answer) -> int:
    """Instances of a page."""
    return sum(len(reservation["Instances"]) for reservation in answer["Reservations"])


def test_describe_lags_a_launch(sandbox, refused):
    """Right after it the machine is not listed, and ending or tagging it is InvalidInstanceID.NotFound."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    ec2 = sandbox.clients("ec2")
    assert ec2.describe_instances()["Reservations"] == []
    code, _, message = refused(ec2.terminate_instances, InstanceIds=[machine])
    assert (code, machine in message) == ("InvalidInstanceID.NotFound", True)
    assert refused(ec2.create_tags, Resources=[machine], Tags=[])[0] == "InvalidInstanceID.NotFound"

    sandbox.pass_time(3)

    assert count(ec2.describe_instances()) == 1


def test_pages_follow_max_results_and_survive_changes_between_them(sandbox):
    """Seven machines in pages of five; one of the first page ends and is forgotten before the second."""
    sandbox.launch(MaxCount=5)
    sandbox.launch(InstanceType="p5.48xlarge", MaxCount=2)
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")
    first = ec2.describe_instances(MaxResults=5)
    ended = first["Reservations"][0]["Instances"][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[ended])
    sandbox.pass_time(3700)
    second = ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])

    assert (count(first), count(second)) == (5, 2)
    assert "NextToken" not in second
    assert count(ec2.describe_instances()) == 6


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("tag:quartermaster.dev/run", ["r*"], 5),
        ("tag:quartermaster.dev/run", ["r2", "r?"], 5),
        ("tag:quartermaster.dev/run", ["r"], 0),
        ("tag-key", ["quartermaster.dev/run"], 5),
        ("instance-state-name", ["running"], 6),
        ("instance-state-name", ["terminated", "pending"], 0),
        ("instance-type", ["p5.*"], 1),
        ("instance-lifecycle", ["spot"], 1),
        ("availability-zone", ["us-west-2a"], 6),
    ],
)
def test_filters_choose_by_value_and_wildcard(sandbox, name, values, found):
    """Each by one of its values, all of them together."""
    sandbox.launch(MaxCount=4)
    sandbox.launch(InstanceMarketOptions={"MarketType": "spot"})
    sandbox.launch(InstanceType="p5.48xlarge", TagSpecifications=[])
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")

    assert count(ec2.describe_instances(Filters=[{"Name": name, "Values": values}])) == found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"MaxResults": 4}, "InvalidParameterValue"),
        ({"MaxResults": 1001}, "InvalidParameterValue"),
        ({"NextToken": "tomorrow"}, "InvalidNextToken"),
        ({"InstanceIds": ["i-0123456789abcdef0"], "MaxResults": 5}, "InvalidParameterCombination"),
        ({"InstanceIds": ["i-0123456789abcdef0"]}, "InvalidInstanceID.NotFound"),
        ({"InstanceIds": ["machine"]}, "InvalidInstanceID.Malformed"),
        ({"Filters": [{"Name": "colour", "Values": ["red"]}]}, "InvalidParameterValue"),
    ],
)
def test_wrong_questions_are_refused(sandbox, refused, arguments, code):
    """Also where there is nothing to list."""
    assert refused(sandbox.clients("ec2").describe_instances, **arguments)[0] == code


def test_terminating_twice_is_fine_and_frees_capacity(sandbox):
    """shutting-down, then terminated with its reason, and another can be launched."""
    ids = [i["InstanceId"] for i in sandbox.launch(MaxCount=5)["Instances"]]
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")
    first = ec2.terminate_instances(InstanceIds=ids[:1])["TerminatingInstances"][0]
    again = ec2.terminate_instances(InstanceIds=ids[:1])["TerminatingInstances"][0]
    sandbox.pass_time(30)
    found = ec2.describe_instances(InstanceIds=ids[:1])["Reservations"][0]["Instances"][0]

    assert (first["PreviousState"]["Name"], first["CurrentState"]["Name"]) == ("running", "shutting-down")
    assert again["CurrentState"]["Name"] == "shutting-down"
    assert found["State"]["Name"] == "terminated"
    assert found["StateTransitionReason"] == "User initiated (2026-11-06 17:00:10 GMT)"
    assert found["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert len(sandbox.launch()["Instances"]) == 1


def test_one_unknown_id_refuses_a_whole_termination(sandbox, refused):
    """Nothing ends, and the error names the unknown ones."""
    known = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(10)
    unknown = ["i-00000000000000001", "i-00000000000000002"]
    code, _, message = refused(sandbox.clients("ec2").terminate_instances, InstanceIds=[known, *unknown])

    assert code == "InvalidInstanceID.NotFound"
    assert message == f"The instance IDs '{unknown[0]}, {unknown[1]}' do not exist"
    assert sandbox.cloud.machines()[0].live


def test_ended_machines_are_listed_for_an_hour(sandbox):
    """Then they are gone."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(10)
    ec2 = sandbox.clients("ec2")
    ec2.terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(3599)
    assert count(ec2.describe_instances()) == 1
    sandbox.pass_time(2)
    assert count(ec2.describe_instances()) == 0


def test_tags_can_be_added_and_changed(sandbox, refused):
    """All or none; more than fifty are too many."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(5)
    ec2 = sandbox.clients("ec2")
    ec2.create_tags(Resources=[machine], Tags=[{"Key": "quartermaster.dev/run", "Value": "r2"}])
    many = [{"Key": f"k{n}", "Value": ""} for n in range(50)]

    assert refused(ec2.create_tags, Resources=[machine], Tags=many)[0] == "TagLimitExceeded"
    assert sandbox.cloud.machines()[0].tags == {"quartermaster.dev/run": "r2"}


def test_status_lists_running_machines_unless_all_are_asked_for(sandbox):
    """A machine is pending for seconds."""
    sandbox.launch()
    sandbox.pass_time(4)
    ec2 = sandbox.clients("ec2")
    assert ec2.describe_instance_status()["InstanceStatuses"] == []
    assert len(ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]) == 1
    sandbox.pass_time(4)
    (status,) = ec2.describe_instance_status()["InstanceStatuses"]
    assert status["InstanceState"]["Name"] == "running"


def test_four_thousand_machines_are_listed_within_seconds(make):
    """Through boto3's own paginator and parser."""
    offers = {"m5.xlarge": {"price": "0.192", "capacity": 4000}}
    zone = {"offers": offers, "subnets": {"subnet-a": {"addresses": 5000}}}
    sandbox = make(
        regions={"us-west-2": {"zones": {"us-west-2a": zone}}},
        throttle={"launches": {"size": 4000, "refill": 2}},
        boot_seconds=86_400,
    )
    for _ in range(8):
        sandbox.launch(MinCount=500, MaxCount=500)
    sandbox.pass_time(10)
    start = time.monotonic()
    pages = sandbox.clients("ec2").get_paginator("describe_instances").paginate()
    found = sum(count(page) for page in pages)

    assert found == 4000
    assert time.monotonic() - start < 10
