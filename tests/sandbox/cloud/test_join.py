"""A machine joins only as a real one would, and its Node goes when it ends."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from sandbox.cloud.user_data import CannotJoin, read_user_data

CERTIFICATE = Path(__file__).parent / "self-signed.pem"


def nodes(sandbox) -> list[str]:
    """Instance ids of the nodes that the API has."""
    return [node["spec"]["providerID"].rsplit("/", 1)[-1] for node in sandbox.api.nodes.values()]


def test_a_right_machine_becomes_a_node(sandbox):
    """After its boot, with labels, taints, provider id and what a node of its type offers."""
    machine = sandbox.launch(InstanceType="p5.48xlarge")["Instances"][0]
    sandbox.pass_time(59)
    assert sandbox.api.nodes == {}
    sandbox.pass_time(2)
    ((name, node),) = sandbox.api.nodes.items()

    assert name == machine["PrivateDnsName"]
    assert node["spec"]["providerID"] == f"aws:///us-west-2a/{machine['InstanceId']}"
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["metadata"]["labels"] == {
        "pool": "aws",
        "quartermaster.dev/run": "r1",
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "topology.kubernetes.io/region": "us-west-2",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    assert node["metadata"]["annotations"] == {}
    assert node["status"]["capacity"]["cpu"] == "192"
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
        {"UserData": "endpoint=somewhere\ntoken=join-me"},
        {"UserData": "nothing of use"},
        {"UserData": ""},
    ],
)
def test_a_wrong_machine_bills_and_never_joins(sandbox, change):
    """Wrong subnet, profile, endpoint or user data: no Node, and money all the same."""
    sandbox.launch(**change)
    sandbox.pass_time(600)

    assert sandbox.api.nodes == {}
    assert sandbox.cloud.spent(sandbox.cloud.machines()[0].launched, sandbox.world.now) > 0


def test_an_image_that_does_not_join_bills(make):
    """It boots into something else."""
    sandbox = make()
    sandbox.cloud.regions["us-west-2"].spec.images["ami-other"] = False
    sandbox.launch(ImageId="ami-other")
    sandbox.pass_time(600)

    assert sandbox.api.nodes == {}


def test_a_wrong_token_never_joins(sandbox):
    """The API refuses it, and it is not tried for ever."""
    sandbox.launch(UserData=f"endpoint={sandbox.api_address}\ntoken=guess")
    sandbox.pass_time(600)

    assert sandbox.api.nodes == {}
    assert sandbox.api.tries == 1


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
    assert nodes(sandbox) == [machine]
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(6)

    assert sandbox.api.nodes == {}
    assert sandbox.cloud.joining.joined == frozenset()


def test_a_node_is_removed_once_the_api_answers_again(sandbox):
    """The cloud controller does not give up."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(61)
    sandbox.api.down = True
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(60)
    assert nodes(sandbox) == [machine]
    sandbox.api.down = False
    sandbox.pass_time(11)

    assert sandbox.api.nodes == {}


def test_a_machine_that_ends_while_it_boots_never_joins(sandbox):
    """Nothing is left behind."""
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(30)
    sandbox.clients("ec2").terminate_instances(InstanceIds=[machine])
    sandbox.pass_time(600)

    assert sandbox.api.tries == 0


def test_a_lost_answer_to_a_join_is_not_a_second_node(sandbox):
    """The repeated POST conflicts, which is as good as an answer."""
    sandbox.api.lose = 1
    machine = sandbox.launch()["Instances"][0]["InstanceId"]
    sandbox.pass_time(80)

    assert sandbox.api.tries == 2
    assert sandbox.cloud.joining.joined == {machine}


def test_the_world_stands_still_while_a_machine_joins(sandbox):
    """Whatever an answer takes in real time, it comes at the same world time."""
    sandbox.api.seconds = 0.2
    sandbox.api.clock = sandbox.world
    sandbox.launch(MaxCount=3)
    sandbox.host.call(lambda: sandbox.world.after(60.001, lambda: sandbox.api.marks.append("later")))
    sandbox.pass_time(61)

    assert [mark for mark in sandbox.api.marks if mark != "later"] == [60.0] * 3
    assert sandbox.api.marks[-1] == "later"


@pytest.mark.parametrize(("seconds", "annotation"), [(45, "45"), (-1, "never"), (0.5, "0.5")])
def test_gpus_may_come_late_or_never(make, seconds, annotation):
    """Capacity says that they are there; nothing is allocatable yet, and the kubelet is told when."""
    sandbox = make(gpu_ready_seconds=seconds)
    sandbox.launch(InstanceType="p5.48xlarge")
    sandbox.launch()
    sandbox.pass_time(61)
    first, second = (node for node in sandbox.api.nodes.values())

    assert first["metadata"]["annotations"] == {"sandbox.quartermaster.dev/gpu-ready-seconds": annotation}
    assert first["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "0"
    assert second["metadata"]["annotations"] == {}
    assert "nvidia.com/gpu" not in second["status"]["allocatable"]


def test_a_region_may_boot_slower(make):
    """Its own time counts."""
    region = {
        "zones": {"us-east-1a": {"offers": {"m5.xlarge": {"price": "0.2", "capacity": 1}}}},
        "boot_seconds": 300,
    }
    sandbox = make(regions={"us-east-1": region})
    sandbox.launch("us-east-1", "subnet-us-east-1a")
    sandbox.pass_time(299)
    assert sandbox.api.nodes == {}
    sandbox.pass_time(2)
    assert next(iter(sandbox.api.nodes)).endswith(".ec2.internal")


@pytest.fixture
def tls(sandbox):
    """The API behind a certificate of its own; its address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    runner = web.AppRunner(sandbox.api.app())

    async def serve() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        return f"https://127.0.0.1:{runner.addresses[0][1]}"

    yield sandbox.host.run(serve())
    sandbox.host.run(asyncio.wait_for(runner.cleanup(), 5))


def authority() -> str:
    """The certificate as user data carry it."""
    text = CERTIFICATE.read_text()
    return base64.b64encode(text[text.index("-----BEGIN CERTIFICATE") :].encode()).decode()


@pytest.mark.parametrize(
    ("line", "joins"),
    [
        (f"ca={authority()}", True),
        ("insecure=true", True),
        ("", False),
        ("insecure=false", False),
        ("ca=no certificate", False),
        (f"ca={base64.b64encode(b'neither').decode()}", False),
    ],
)
def test_a_certificate_is_checked_against_what_the_user_data_say(sandbox, tls, line, joins):
    """As a kubelet would: with the right authority, or none where told so."""
    sandbox.launch(UserData=f"endpoint={tls}\ntoken=join-me\n{line}")
    sandbox.pass_time(75)

    assert len(sandbox.api.nodes) == joins


def test_user_data_are_read_by_line():
    """Unknown keys and lines are a boot script's business; spaces around keys and values do not count."""
    told = read_user_data(
        "#!/bin/sh\nendpoint = http://127.0.0.1:1/\ntoken=a=b\nKUBELET_ARGS=--x\nlabels=a=1,b/c=\n"
        "taints=k=v:NoExecute,only:NoSchedule\necho done"
    )

    assert (told.endpoint, told.token) == ("http://127.0.0.1:1", "a=b")
    assert told.labels == {"a": "1", "b/c": ""}
    assert told.taints == (("k", "v", "NoExecute"), ("only", "", "NoSchedule"))


@pytest.mark.parametrize(
    "line", ["labels=a", "labels==b", "taints=a=b", "taints=a=b:Never", "taints=:NoSchedule"]
)
def test_user_data_that_a_kubelet_would_not_start_with(line):
    """Labels and taints that are none."""
    with pytest.raises(CannotJoin):
        read_user_data(f"endpoint=http://127.0.0.1:1\n{line}")
