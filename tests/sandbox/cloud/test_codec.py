"""The codec against botocore itself: what it serializes we read, what we write it parses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from sandbox.cloud.codec import AwsError, JsonCodec, QueryCodec
from sandbox.cloud.server import Cloud
from sandbox.world import World

WORLD = World(datetime(2026, 11, 6, tzinfo=UTC))
EC2 = QueryCodec("ec2")
OFFERED = sorted(Cloud(WORLD, {}).ec2_actions)
VALUES: dict[str, Any] = {
    "string": "a <b> & 'c' \"d\" é\n e",
    "integer": 7,
    "long": 2**40,
    "boolean": True,
    "float": 1.5,
    "double": 2.25,
    "blob": b"\x00\x01binary",
    "timestamp": datetime(2026, 11, 6, 17, 0, 5, tzinfo=UTC),
}


def sample(shape, depth: int = 0) -> Any:
    """A value of a shape with every member set, down to a depth."""
    if shape.type_name == "structure":
        if depth > 5:
            return {}
        return {name: sample(member, depth + 1) for name, member in shape.members.items()}
    if shape.type_name == "list":
        return [sample(shape.member, depth + 1)] * 2
    if getattr(shape, "enum", None):
        return shape.enum[-1]
    return VALUES[shape.type_name]


def without_empty(value: Any) -> Any:
    """The query protocol cannot say empty structures; drop them on both sides."""
    if isinstance(value, dict):
        cleaned = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in cleaned.items() if each not in ({}, [])}
    if isinstance(value, list):
        return [each for each in map(without_empty, value) if each not in ({}, [])]
    return value


def test_there_are_operations_to_compare():
    """An empty list would pass everything."""
    assert len(OFFERED) >= 14
    assert {"RunInstances", "CreateFleet", "DescribeInstances"} <= set(OFFERED)


@pytest.mark.parametrize("name", OFFERED)
def test_what_botocore_sends_is_read(name):
    """Every member of every input arrives with its value and type."""
    operation = EC2.operation(name)
    given = sample(operation.input_shape)
    request = create_serializer("ec2", include_validation=False).serialize_to_request(given, operation)

    assert without_empty(EC2.read(operation, request["body"])) == without_empty(given)


@pytest.mark.parametrize("name", OFFERED)
def test_what_we_write_botocore_parses(name):
    """Every member of every output arrives with its value and type."""
    operation = EC2.operation(name)
    answer = sample(operation.output_shape) if operation.output_shape else {}
    response = {"body": EC2.write(operation, answer), "headers": {}, "status_code": 200}
    parsed = create_parser("ec2").parse(response, operation.output_shape)
    del parsed["ResponseMetadata"]

    assert without_empty(parsed) == without_empty(answer)


def test_errors_are_parsed():
    """Code, message and status, with what XML has to escape and cannot hold."""
    body = EC2.error(AwsError("Some.Code", "a <b> & \x00 c", 503))
    parsed = create_parser("ec2").parse({"body": body, "headers": {}, "status_code": 503}, None)

    assert parsed["Error"] == {"Code": "Some.Code", "Message": "a <b> & \N{REPLACEMENT CHARACTER} c"}
    assert parsed["ResponseMetadata"]["HTTPStatusCode"] == 503


def test_every_answer_has_its_own_request_id():
    """Logs tell calls apart by it."""
    operation = EC2.operation("DescribeRegions")

    assert EC2.write(operation, {}) != EC2.write(operation, {})


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"MaxResults": "many"}, "InvalidParameterValue"),
        ({"DryRun": "perhaps"}, "InvalidParameterValue"),
        ({"InstanceId": "i-1"}, "InvalidParameterValue"),
        ({"InstanceId.first": "i-1"}, "InvalidParameterValue"),
        ({"Filter.1": "x"}, "InvalidParameterValue"),
        ({"Filter.1.Nmae": "x"}, "UnknownParameter"),
        ({"MaxResults.1": "5"}, "UnknownParameter"),
        ({"Nothing": "5"}, "UnknownParameter"),
        ({"InstanceId.1": "i-1", "InstanceId.1.x": "i-2"}, "MalformedQueryString"),
        ({"Filter.1.Name": "x", "Filter.1": "y"}, "MalformedQueryString"),
    ],
)
def test_a_malformed_request_is_refused(form, code):
    """One typed error, whatever is sent."""
    with pytest.raises(AwsError) as caught:
        EC2.read(EC2.operation("DescribeInstances"), form)

    assert caught.value.code == code


def test_an_unknown_action_is_refused():
    """As EC2 does."""
    with pytest.raises(AwsError, match="not valid") as caught:
        EC2.operation("BuyEverything")

    assert caught.value.code == "InvalidAction"


@pytest.mark.parametrize("body", [b"[1]", b"{", b"7"])
def test_json_that_is_no_object_is_refused(body):
    """The JSON services' own code."""
    with pytest.raises(AwsError) as caught:
        JsonCodec.read(body)

    assert caught.value.code == "SerializationException"
