"""Machines of the cloud stand-in join a real API as real ones would, and their nodes go with them."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.world import World

pytestmark = pytest.mark.service("control-plane")

OFFERS = {"p5.48xlarge": {"price": "55.04", "capacity": 5}}
SPEC = {"regions": {"eu-west-1": {"zones": {"eu-west-1a": {"offers": OFFERS}}}}, "boot_seconds": 30}


@pytest.fixture
def cloud():
    """A cloud whose world is sixty times as fast as real time."""
    host = Host()

    async def make() -> Cloud:
        return Cloud(World(datetime(2026, 11, 6, 17, tzinfo=UTC), scale=60), SPEC)

    made = host.run(make())
    host.spawn(made.world.run)
    yield boto3.client(
        "ec2",
        region_name="eu-west-1",
        endpoint_url=made.serve(host),
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}),
    )
    host.close()


def launch(cloud, plane, token: str) -> dict[str, Any]:
    """One machine that is told of the control plane."""
    data = (
        f"endpoint={plane.address}\ntoken={token}\ninsecure=true\nlabels=pool=aws\ntaints=gpu=yes:NoSchedule"
    )
    answer = cloud.run_instances(
        ImageId="ami-eu-west-1",
        InstanceType="p5.48xlarge",
        MinCount=1,
        MaxCount=1,
        SubnetId="subnet-eu-west-1a",
        IamInstanceProfile={"Name": "node"},
        UserData=data,
    )
    found: dict[str, Any] = answer["Instances"][0]
    return found


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What the condition gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def node(plane, name: str) -> dict[str, Any] | None:
    """The Node, None where there is none."""
    try:
        found: dict[str, Any] = plane.request("GET", f"/api/v1/nodes/{name}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None
    return found


def test_a_machine_joins_a_real_api_and_leaves_it(control_plane, cloud):
    """Registered with its token's rights alone; kwok makes it ready; ended, its node goes."""
    machine = launch(cloud, control_plane, control_plane.tokens["machine"])
    name = machine["PrivateDnsName"]
    found = until(lambda: node(control_plane, name))
    until(
        lambda: any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in (node(control_plane, name) or found)["status"].get("conditions", ())
        )
    )
    cloud.terminate_instances(InstanceIds=[machine["InstanceId"]])
    until(lambda: node(control_plane, name) is None)

    assert found["spec"]["providerID"] == f"aws:///eu-west-1a/{machine['InstanceId']}"
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert found["metadata"]["labels"]["topology.kubernetes.io/zone"] == "eu-west-1a"
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in found["spec"]["taints"]


def test_a_wrong_token_never_joins_a_real_api(control_plane, cloud):
    """It runs, it costs, and there is no node."""
    wrong = launch(cloud, control_plane, "guess")
    right = launch(cloud, control_plane, control_plane.tokens["machine"])
    until(lambda: node(control_plane, right["PrivateDnsName"]))
    cloud.terminate_instances(InstanceIds=[right["InstanceId"]])
    until(lambda: node(control_plane, right["PrivateDnsName"]) is None)

    assert node(control_plane, wrong["PrivateDnsName"]) is None
