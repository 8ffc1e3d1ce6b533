"""Buying, listing and ending EC2 machines: what is sent, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fleet.clouds.aws_machines import AwsMachines, Join, fill
from fleet.errors import BadInput, Conflict, NoCapacity, Refused, Unavailable
from fleet.model import CapacityType
from fleet.pools import Region, Zone
from fleet.values import Money
from tests.builders import T0
from tests.fleet.clouds.stubbed import StubbedAws, Ticking, launch, pool, raw_instance

JOINS = {"home": Join("http://127.0.0.1:6443", "join-token", "Q0E=")}
FLEET = {"Name": "tag:quartermaster.dev/fleet", "Values": ["uid-home"]}
OURS = {
    "Filters": [{"Name": "tag:quartermaster.dev/cluster", "Values": ["home"]}, FLEET],
    "MaxResults": 1000,
}


@pytest.fixture
def aws() -> Iterator[StubbedAws]:
    """AWS, which must have been asked all that the test expects."""
    made = StubbedAws()
    yield made
    made.done()


@pytest.fixture
def clock() -> Ticking:
    """A clock that stands still."""
    return Ticking()


@pytest.fixture
def machines(aws, clock) -> AwsMachines:
    """Machines of one pool."""
    return AwsMachines([pool()], aws, JOINS, clock, ours)


def ours() -> str:
    """The name of this installation."""
    return "uid-home"


def sends(aws: StubbedAws, *instances: dict[str, Any]) -> dict[str, Any]:
    """RunInstances answers with these; returns a dict that the request is put into."""
    seen: dict[str, Any] = {}
    client = aws.ec2("us-west-2")
    client.meta.events.register(
        "provide-client-params.ec2.RunInstances", lambda params, **_: seen.update(params)
    )
    aws.ec2_stub().add_response("run_instances", {"Instances": list(instances)})
    return seen


def listing(aws: StubbedAws, *instances: dict[str, Any], region: str = "us-west-2") -> None:
    """DescribeInstances answers with these."""
    answer = {"Reservations": [{"Instances": [one]} for one in instances]}
    aws.ec2_stub(region).add_response("describe_instances", answer, OURS)


def test_a_launch_says_everything_a_machine_needs_to_join(aws, machines):
    """Image, subnet of the zone, groups, profile, token, tags and filled user data go out with the hold's id."""
    seen = sends(aws, raw_instance("i-1"), raw_instance("i-2"))
    result = machines.launch(launch(2, minimum=2))
    assert [one.id for one in result.instances] == ["i-1", "i-2"]
    assert result.shortfall is None
    tags = {tag["Key"]: tag["Value"] for tag in seen["TagSpecifications"][0]["Tags"]}
    assert tags == {
        "Name": "home-aws",
        "team": "vision",
        "quartermaster.dev/run": "abc12",
        "quartermaster.dev/cluster": "home",
        "quartermaster.dev/pool": "aws",
        "quartermaster.dev/capacity-type": "on-demand",
        "quartermaster.dev/hold": "hold-1",
        "quartermaster.dev/fleet": "uid-home",
    }
    labels = (
        "disk=fast,quartermaster.dev/capacity-type=on-demand,quartermaster.dev/cluster=home,"
        "quartermaster.dev/pool=aws,quartermaster.dev/run=abc12"
    )
    assert seen["UserData"].splitlines() == [
        "endpoint=http://127.0.0.1:6443",
        "token=join-token",
        "ca=Q0E=",
        f"labels={labels}",
        "taints=gpu=yes:NoSchedule",
        "x=${HOME}",
    ]
    del seen["TagSpecifications"], seen["UserData"]
    assert seen == {
        "ImageId": "ami-1",
        "InstanceType": "m5.xlarge",
        "MinCount": 2,
        "MaxCount": 2,
        "SubnetId": "subnet-a",
        "SecurityGroupIds": ["sg-1"],
        "IamInstanceProfile": {"Name": "node"},
        "ClientToken": "hold-1",
        "InstanceInitiatedShutdownBehavior": "terminate",
    }


def test_a_spot_launch_has_a_highest_price(aws, machines):
    """Spot machines end on interruption and never cost more than the request allows."""
    seen = sends(aws, raw_instance("i-1", InstanceLifecycle="spot"))
    request = launch(1, capacity_type=CapacityType.SPOT, max_price=Money.usd("0.192"))
    (bought,) = machines.launch(request).instances
    assert bought.capacity_type is CapacityType.SPOT
    assert seen["InstanceMarketOptions"]["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "MaxPrice": "0.192000",
    }


def test_fewer_than_asked_is_a_shortfall(aws, machines):
    """What was bought is the result; what was not is NoCapacity beside it."""
    sends(aws, raw_instance("i-1"))
    result = machines.launch(launch(3))
    assert len(result.instances) == 1
    assert isinstance(result.shortfall, NoCapacity)
    assert "1 of 3" in str(result.shortfall)


def test_a_refused_launch_is_its_type(aws, machines):
    """Nothing was bought: the typed error says why."""
    aws.ec2_stub().add_client_error("run_instances", "InsufficientInstanceCapacity", "none", 500)
    with pytest.raises(NoCapacity, match=r"m5\.xlarge in us-west-2a"):
        machines.launch(launch())


def test_a_token_that_aws_refuses_is_looked_up_by_its_tag(aws, machines, clock):
    """Where settings changed since the first try, what carries the hold's tag is the result of the purchase.

    Where nothing does, it may not be listed yet for a minute; after that the token is of no use.
    """
    stub = aws.ec2_stub()
    stub.add_client_error("run_instances", "IdempotentParameterMismatch", "other parameters", 400)
    stub.add_response(
        "describe_instances",
        {"Reservations": [{"Instances": [raw_instance("i-1"), raw_instance("i-2")]}]},
        {
            "Filters": [{"Name": "tag:quartermaster.dev/hold", "Values": ["hold-1"]}, FLEET],
            "MaxResults": 1000,
        },
    )
    assert [one.id for one in machines.launch(launch(2)).instances] == ["i-1", "i-2"]
    for seconds, kind in ((0, Unavailable), (60, Unavailable), (1, Conflict)):
        clock.pass_(seconds=seconds)
        stub.add_client_error("run_instances", "IdempotentParameterMismatch", "other parameters", 400)
        stub.add_response("describe_instances", {"Reservations": []})
        with pytest.raises(kind):
            machines.launch(launch(2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pool": "other"}, "no AWS pool 'other'"),
        ({"zone": "us-west-2c"}, "no zone us-west-2c"),
        ({"region": "eu-west-1"}, "in eu-west-1"),
        ({"cluster": "away"}, "QM_JOIN_TOKEN_AWAY"),
        ({"token": "x" * 65}, "ClientToken"),
        ({"token": ""}, "ClientToken"),
        ({"token": "münzen"}, "ClientToken"),
    ],
)
def test_a_request_that_does_not_fit_the_settings_is_not_sent(machines, change, words):
    """A machine that could never join is not bought."""
    with pytest.raises(BadInput, match=words):
        machines.launch(launch(**change))


def test_user_data_that_are_too_long_are_not_sent(aws, clock):
    """EC2 takes 16 KB."""
    big = AwsMachines([pool(user_data="x" * 16_385)], aws, JOINS, clock, ours)
    with pytest.raises(BadInput, match="longer than 16384 bytes"):
        big.launch(launch())


def test_filling_touches_only_what_it_knows():
    """Shell variables and JSON braces in a template stay."""
    assert fill("{token} ${token} {other} {{x}} {}", {"token": "T"}) == "T ${token} {other} {{x}} {}"


def test_describe_reads_all_pages_and_every_field(aws, machines):
    """State, zone, type, launch, end and tags become values; the next page is read."""
    stub = aws.ec2_stub()
    ended = raw_instance(
        "i-2", "terminated", StateTransitionReason="User initiated (2026-11-06 17:05:00 GMT)"
    )
    stub.add_response(
        "describe_instances", {"Reservations": [{"Instances": [raw_instance("i-1")]}], "NextToken": "t"}, OURS
    )
    stub.add_response(
        "describe_instances", {"Reservations": [{"Instances": [ended]}]}, {**OURS, "NextToken": "t"}
    )
    first, second = machines.describe()
    assert (first.id, first.zone, first.launched, first.live, first.ended) == (
        "i-1",
        "us-west-2a",
        T0,
        True,
        None,
    )
    assert first.tags == {"quartermaster.dev/cluster": "home"}
    assert (second.state, second.live, second.ended) == ("terminated", False, T0 + timedelta(minutes=5))


def test_a_launch_is_listed_although_aws_lags(aws, machines, clock):
    """What was just bought is there at once, is not doubled when AWS lists it, and is believed gone after a minute."""
    sends(aws, raw_instance("i-1", "pending"), raw_instance("i-2", "pending"))
    machines.launch(launch(2))
    listing(aws)
    assert [(one.id, one.state) for one in machines.describe()] == [("i-1", "pending"), ("i-2", "pending")]
    clock.pass_(seconds=2)
    listing(aws, raw_instance("i-1"))
    assert [(one.id, one.state) for one in machines.describe()] == [("i-1", "running"), ("i-2", "pending")]
    clock.pass_(seconds=61)
    listing(aws, raw_instance("i-1"))
    assert [one.id for one in machines.describe()] == ["i-1"]


def test_a_region_that_does_not_answer_keeps_its_last_list(aws, clock):
    """Machines do not vanish with an API; what was never listed raises."""
    regions = tuple(Region(name, (Zone(f"{name}a", "s"),), "ami") for name in ("us-west-2", "eu-west-1"))
    machines = AwsMachines([pool(regions=regions)], aws, JOINS, clock, ours)
    listing(aws, raw_instance("i-1"))
    aws.ec2_stub("eu-west-1").add_client_error("describe_instances", "Unavailable", "no", 503)
    with pytest.raises(Unavailable):
        machines.describe()
    clock.pass_(seconds=2)
    listing(aws, raw_instance("i-1"))
    listing(aws, raw_instance("i-9"), region="eu-west-1")
    assert [one.id for one in machines.describe()] == ["i-1", "i-9"]
    clock.pass_(seconds=2)
    aws.ec2_stub().add_client_error("describe_instances", "RequestLimitExceeded", "slow", 503)
    listing(aws, region="eu-west-1")
    assert [one.id for one in machines.describe()] == ["i-1"]
    assert "slow" in machines.problems[0]
    clock.pass_(seconds=2)
    listing(aws)
    listing(aws, region="eu-west-1")
    assert machines.describe() == ()
    assert machines.problems == ()


def test_two_who_ask_at_one_moment_cost_one_call(aws, machines, clock):
    """Guard and scaler look one after the other: the second answer is the first; a launch or an end asks anew."""
    listing(aws, raw_instance("i-1"))
    assert machines.describe() == machines.describe()
    listing(aws)
    aws.ec2_stub().add_response("terminate_instances", {"TerminatingInstances": []}, {"InstanceIds": ["i-1"]})
    clock.pass_(seconds=2)
    assert machines.describe() == ()
    machines.terminate("us-west-2", ["i-1"])
    listing(aws, raw_instance("i-2"))
    assert [one.id for one in machines.describe()] == ["i-2"]


def test_machines_end_in_chunks(aws, machines):
    """1,200 machines are three calls of at most 500; none is no call."""
    ids = [f"i-{number:08x}" for number in range(1200)]
    for start in (0, 500, 1000):
        aws.ec2_stub().add_response(
            "terminate_instances", {"TerminatingInstances": []}, {"InstanceIds": ids[start : start + 500]}
        )
    machines.terminate("us-west-2", ids)
    machines.terminate("us-west-2", [])


def test_unknown_machines_do_not_keep_the_others_alive(aws, machines):
    """One unknown id refuses the whole call: the call is made again without it."""
    stub = aws.ec2_stub()
    stub.add_client_error(
        "terminate_instances", "InvalidInstanceID.NotFound", "The instance IDs 'i-0b, i-0c' do not exist", 400
    )
    stub.add_response("terminate_instances", {"TerminatingInstances": []}, {"InstanceIds": ["i-0a"]})
    machines.terminate("us-west-2", ["i-0a", "i-0b", "i-0c"])
    stub.add_client_error(
        "terminate_instances", "InvalidInstanceID.NotFound", "The instance ID 'i-0b' does not exist"
    )
    machines.terminate("us-west-2", ["i-0b"])


def test_a_machine_bought_a_moment_ago_is_not_given_up(aws, machines):
    """AWS may not know it yet: ending it has to be tried again, or it bills for ever."""
    sends(aws, raw_instance("i-0a"))
    machines.launch(launch(1))
    aws.ec2_stub().add_client_error(
        "terminate_instances", "InvalidInstanceID.NotFound", "The instance ID 'i-0a' does not exist", 400
    )
    with pytest.raises(Unavailable, match="does not know i-0a yet"):
        machines.terminate("us-west-2", ["i-0a"])


def test_ending_without_permission_is_refused(aws, machines):
    """Other errors are their types."""
    aws.ec2_stub().add_client_error("terminate_instances", "UnauthorizedOperation", "no", 403)
    with pytest.raises(Refused):
        machines.terminate("us-west-2", ["i-0a"])


def test_interruptions_are_asked_where_spot_is_bought(aws, clock, machines):
    """Machines marked for termination are named; without spot pools nothing is asked."""
    assert machines.interruptions() == ()
    spot = AwsMachines([pool(capacity_types=(CapacityType.SPOT,))], aws, JOINS, clock, ours)
    aws.ec2_stub().add_response(
        "describe_spot_instance_requests", {"SpotInstanceRequests": [{"InstanceId": "i-1"}, {}]}
    )
    assert spot.interruptions() == ("i-1",)
