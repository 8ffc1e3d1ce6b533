"""The way to AWS: which keys are sent where, once, and in plain sight of nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_errors import translated
from fleet.errors import Refused, Unavailable
from sandbox.hosting import Host


class Counting:
    """Answers every call with a 503 and keeps its headers."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.address = ""

    async def serve(self, request: web.Request) -> web.Response:
        """Always busy."""
        self.headers.append(dict(request.headers))
        return web.Response(
            status=503,
            text="<Response><Errors><Error><Code>Unavailable</Code><Message>busy</Message></Error></Errors></Response>",
        )


@pytest.fixture
def server() -> Iterator[Counting]:
    """A server that never works."""
    host, made = Host(), Counting()
    application = web.Application()
    application.router.add_post("/", made.serve)
    made.address = host.serve(application)
    yield made
    host.close()


def call(clients: AwsClients, region: str = "us-west-2") -> Any:
    """One call."""
    with translated("here"):
        return clients.ec2(region).describe_instances()


def test_nothing_is_repeated_behind_our_back(server):
    """A 503 is one request: who recorded it decides about the next."""
    with pytest.raises(Unavailable):
        call(AwsClients(server.address, access_key="AK", secret_key="s"))
    assert len(server.headers) == 1


def test_given_keys_are_used_and_the_region_is_in_the_signature(server, monkeypatch):
    """Keys that are given win over the environment's; the environment's proxy never sees this machine."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for keys in ({"access_key": "GIVEN", "secret_key": "s"}, {}):
        with pytest.raises(Unavailable):
            call(AwsClients(server.address, **keys), "eu-west-1")
    first, second = (headers["Authorization"] for headers in server.headers)
    assert "Credential=GIVEN/" in first
    assert "Credential=FROMENV/" in second
    assert "/eu-west-1/ec2/aws4_request" in first


def test_clients_are_made_once():
    """The same service and region is the same client; another region is another."""
    clients = AwsClients("http://127.0.0.1:1", access_key="k", secret_key="s")
    assert clients.ec2("us-west-2") is clients.ec2("us-west-2")
    assert clients.ec2("us-west-2") is not clients.ec2("us-east-1")
    assert clients.pricing().meta.region_name == clients.cost_explorer().meta.region_name == "us-east-1"


def test_a_configuration_that_cannot_be_used_is_refused(monkeypatch):
    """A profile that does not exist, and a region that is none, are one sentence."""
    with pytest.raises(Refused, match="not a region"):
        AwsClients("http://127.0.0.1:1", access_key="k", secret_key="s").ec2("not a region")
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(Refused, match="no-such-profile"):
        AwsClients("http://127.0.0.1:1").ec2("us-west-2")


def test_nobody_at_the_address_is_unavailable():
    """A closed port is a typed error."""
    with pytest.raises(Unavailable, match="AWS does not answer"):
        call(AwsClients("http://127.0.0.1:1", access_key="k", secret_key="s"))
