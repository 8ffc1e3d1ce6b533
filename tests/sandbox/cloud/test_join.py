"""A machine joins only as a real one would, and its Node goes when it ends."""

from __future__ import annotations

import pytest


def test_a_right_machine_becomes_a_node(sandbox):
    """After its boot, with labels, taints, provider id and what a node of its type offers."""
    machine = sandbox.launch(InstanceType="p5.48xlarge")["Instances"][0]
    sandbox.pass_time(59)
    assert sandbox.api.nodes == {}
    sandbox.pass_time(2)
    node = next(iter(sandbox.api.nodes.values()))

    assert node["spec"]["providerID"] == f"aws:///us-west-2a/{machine['InstanceId']}"
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "us-west-2"
    assert node["metadata"]["labels"]["quartermaster.dev/run"] == "r1"
    assert node["status"]["allocatable"] == {
        "cpu": "191450m",
        "memory": "1938410Mi",
        "pods": "100",
        "ephemeral-storage": "17Gi",
        "nvidia.com/gpu": "8",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"SubnetId": "subnet-island"},
        {"IamInstanceProfile": {}},
        {"UserData": "endpoint=http://127.0.0.1:1\ntoken=join-me"},
        {"UserData": "nothing of use"},
    ],
)
def test_a_wrong_machine_bills_and_never_joins(sandbox, change):
    """Wrong subnet, profile, endpoint or user data: no Node, and money all the same."""
    sandbox.launch(**change)
    sandbox.pass_time(600)

    assert sandbox.api.nodes == {}
    assert sandbox.cloud.spent(sandbox.cloud.machines()[0].launched, sandbox.world.now) > 0


def test_a_wrong_token_never_joins(sandbox):
    """The API refuses it, and it is not tried for ever."""
    sandbox.launch(UserData=f"endpoint={sandbox.api_address}\ntoken=guess")
    sandbox.pass_time(600)

    assert sandbox.api.nodes == {}


def test_a_join_waits_for_an_api_that_is_down(sandbox):
    """It is repeated until the API answers."""
    sandbox.api.down = True
    sandbox.launch()
    sandbox.pass_time(90)
    assert sandbox.api.nodes == {}
    sandbox.api.down = False
    sandbox.pass_time(30)

    assert len(sandbox.api.nodes) == 1


def test_the_node_of_an_ended_machine_is_removed(sandbox):
    """Within seconds of the termination."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(61)
    assert len(sandbox.api.nodes) == 1
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(6)

    assert sandbox.api.nodes == {}
