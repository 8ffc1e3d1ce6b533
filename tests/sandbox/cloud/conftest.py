"""A cloud on a port of this machine, unmodified boto3 clients, and a world that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from aiohttp import web
from botocore.config import Config
from botocore.exceptions import ClientError

from sandbox.cloud.server import Cloud
from sandbox.cloud.user_data import UserData, read_user_data
from sandbox.hosting import Host
from sandbox.world import World

SESSION = boto3.Session()
"""one for all tests: it keeps the service models that it has read"""
START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
SPEC: dict[str, Any] = {
    "regions": {
        "us-west-2": {
            "zones": {
                "us-west-2a": {
                    "offers": {
                        "m5.xlarge": {"price": "0.192", "spot": "0.07", "capacity": 5, "spot_capacity": 2},
                        "p5.48xlarge": {"price": "55.04", "capacity": 3},
                    },
                    "subnets": {"subnet-a": {"addresses": 100}, "subnet-island": {"joins": False}},
                },
                "us-west-2b": {"offers": {"m5.xlarge": {"price": "0.192", "capacity": 1}}},
            },
            "quotas": {"P": 384},
        },
        "us-east-1": {"zones": {"us-east-1a": {"offers": {"m5.xlarge": {"price": "0.20", "capacity": 2}}}}},
        "eu-west-1": {"zones": {"eu-west-1a": {"offers": {"m5.xlarge": {"price": "0.21", "capacity": 0}}}}},
        "ap-northeast-1": {
            "zones": {"ap-northeast-1a": {"offers": {"m5.xlarge": {"price": "0.25", "capacity": 9}}}}
        },
    },
    "boot_seconds": 60,
    "bill": {"tags": ["quartermaster.dev/run"]},
    "no_capacity_status": 400,
}


class Clients:
    """boto3 clients of the cloud under test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._made: dict[tuple[str, str, str, int], Any] = {}

    def __call__(
        self, service: str, region: str = "us-west-2", *, key: str = "AKIASANDBOX", attempts: int = 1
    ):
        """A client that retries `attempts` - 1 times."""
        which = (service, region, key, attempts)
        if which not in self._made:
            self._made[which] = SESSION.client(
                service,
                region_name=region,
                endpoint_url=self.address,
                aws_access_key_id=key,
                aws_secret_access_key="secret",
                config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}),
            )
        return self._made[which]


class Api:
    """A tiny API server that takes Nodes from holders of its token."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.down = False
        self.tries = 0
        self.lose = 0
        """so many joins are carried out and not answered"""
        self.seconds = 0.0
        """real seconds that a join takes"""
        self.clock: World | None = None
        self.marks: list[float | str] = []
        """world time of each join since the start, where there is a clock"""

    def app(self) -> web.Application:
        """Create and delete nodes."""
        application = web.Application()
        application.router.add_post("/api/v1/nodes", self._create)
        application.router.add_delete("/api/v1/nodes/{name}", self._delete)
        return application

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.down:
            return web.Response(status=503)
        if request.headers.get("Authorization") != "Bearer join-me":
            return web.Response(status=401)
        return None

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.tries += 1
        if self.clock is not None:
            await asyncio.sleep(self.seconds)
            self.marks.append((self.clock.now - START).total_seconds())
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        name = body["metadata"]["name"]
        taken = name in self.nodes
        self.nodes[name] = body
        if self.lose and request.transport is not None:
            self.lose -= 1
            request.transport.abort()
        return web.json_response(body, status=409 if taken else 201)

    async def _delete(self, request: web.Request) -> web.Response:
        refusal = self._refusal(request)
        if refusal is None:
            self.nodes.pop(request.match_info["name"], None)
        return refusal or web.json_response({})


class Sandbox:
    """World, cloud and API together; `pass_time` moves the world."""

    def __init__(self, **spec: Any) -> None:
        self.host = Host()
        self.world = World(START, seed=3)
        self.cloud = Cloud(self.world, {**SPEC, **spec})
        self.api = Api()
        self.address = self.cloud.serve(self.host)
        self.api_address = self.host.serve(self.api.app())
        self.clients = Clients(self.address)
        self.host.call(lambda: self.world.expect("test"))
        self.host.spawn(self.world.run)

    def pass_time(self, seconds: float) -> None:
        """Let the world go on."""
        self.host.run(self.world.wait("test", self.world.now + timedelta(seconds=seconds)), timeout=30)

    def told(self) -> UserData:
        """What the machines of `launch` are told."""
        return read_user_data(self.cloud.machines()[-1].user_data)

    def launch(self, region: str = "us-west-2", subnet: str = "subnet-a", **more):
        """RunInstances with what a machine needs to join."""
        data = f"endpoint={self.api_address}\ntoken=join-me\nlabels=pool=aws,quartermaster.dev/run=r1\ntaints=gpu=yes:NoSchedule\n"
        request = {
            "ImageId": f"ami-{region}",
            "InstanceType": "m5.xlarge",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": subnet,
            "UserData": data,
            "IamInstanceProfile": {"Name": "node"},
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": [{"Key": "quartermaster.dev/run", "Value": "r1"}]}
            ],
        }
        return self.clients("ec2", region).run_instances(**(request | more))


@pytest.fixture
def make():
    """Sandboxes whose spec differs from the usual one in the given keys."""
    running: list[Sandbox] = []

    def made(**spec: Any) -> Sandbox:
        running.append(Sandbox(**spec))
        return running[-1]

    yield made
    for sandbox in running:
        sandbox.host.close()


@pytest.fixture
def sandbox(make):
    """A fresh sandbox."""
    return make()


@pytest.fixture
def refused():
    """The code, status and message with which AWS refuses a call."""

    def refusal(call: Callable[..., Any], **arguments: Any) -> tuple[str, int, str]:
        with pytest.raises(ClientError) as caught:
            call(**arguments)
        response: Any = caught.value.response
        status = response["ResponseMetadata"]["HTTPStatusCode"]
        return response["Error"]["Code"], status, response["Error"]["Message"]

    return refusal
