"""From a purchase to a node: what is bought joins as the offer promised, and leaves when it is ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_catalog import AwsCatalog
from fleet.clouds.aws_machines import AwsMachines, Join
from fleet.kube.connection import connect
from fleet.kube.watch import WatchCache
from fleet.model import Node, Taint
from fleet.prices import PriceBook
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from tests.builders import T0
from tests.contracts.clouds import SPEC, WorldClock, pools
from tests.contracts.test_machines import request as purchase


@dataclass
class Place:
    """A cluster, a cloud that its machines come from, and the ports on both; 600 times as fast as we."""

    cluster: Cluster
    machines: AwsMachines
    catalog: AwsCatalog
    view: WatchCache
    clock: WorldClock

    def nodes(self) -> dict[str, Node]:
        """Nodes by the machine they are."""
        return {node.instance_id: node for node in self.view.snapshot(self.clock.now()).nodes.values()}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes a place whose machines join with a token (by default a good one)."""
    host = Host()
    views: list[WatchCache] = []

    async def world() -> World:
        return World(T0, scale=600.0)

    def make(token: str = "") -> Place:
        there = host.run(world())
        cluster = Cluster(there, host, "home")
        cloud = host.call(Cloud, there, SPEC)
        host.spawn(there.run)
        chosen = tuple(replace(pool, taints=(Taint("dedicated", "yes", "NoSchedule"),)) for pool in pools())
        clients = AwsClients(cloud.serve(host), access_key="AKIASANDBOX", secret_key="any")
        clock = WorldClock(there)
        joins = {"home": Join(cluster.address, token or cluster.join_token)}
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(cluster.kubeconfig()))
        view = WatchCache(connect(file, None, False, "home"), "home", [])
        views.append(view)
        assert view.wait_synced(10)
        machines = AwsMachines(chosen, clients, joins, clock, lambda: "uid-home")
        return Place(cluster, machines, AwsCatalog(chosen, clients), view, clock)

    yield make
    for view in views:
        view.close()
    host.close()


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What the condition gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def test_a_machine_joins_as_offered_and_leaves(made):
    """Its node has the offer's size and labels, our tags and taints, and its machine's price; it goes with the machine."""
    place = made()
    offer = next(
        o
        for o in place.catalog.offers(place.clock.now())
        if (o.pool, o.zone, o.instance_type) == ("steady", "us-west-2a", "p5.48xlarge")
    )
    (bought,) = place.machines.launch(purchase(1, instance_type="p5.48xlarge")).instances
    node = until(lambda: (found := place.nodes().get(bought.id)) and found.ready and found)
    assert node.provider_id == f"aws:///us-west-2a/{bought.id}"
    assert node.labels["quartermaster.dev/run"] == "abc12"
    until(lambda: offer.labels.items() <= place.nodes()[bought.id].labels.items())
    assert Taint("dedicated", "yes", "NoSchedule") in node.taints
    seen = until(lambda: (n := place.nodes()[bought.id]).allocatable.gpus == 8 and n).allocatable
    assert (seen.millicores, seen.gpus) == (offer.allocatable.millicores, offer.allocatable.gpus)
    assert abs(seen.memory - offer.allocatable.memory) <= 4 * 2**20
    book = PriceBook(pools(), [place.catalog])
    now = place.clock.now()
    assert (
        book.node_price(place.nodes()[bought.id], None, now)
        == book.instance_price(bought, now)
        == offer.price
    )
    place.machines.terminate("us-west-2", [bought.id])
    until(lambda: bought.id not in place.nodes())


def test_a_machine_with_a_wrong_token_bills_and_never_joins(made):
    """Ghost capacity: it runs, it costs, and there is no node of it."""
    place = made(token="wrong")
    place.machines.launch(purchase(1))
    deadline = place.clock.now() + timedelta(minutes=5)
    until(lambda: place.clock.now() >= deadline)
    assert place.nodes() == {}
    assert [one.state for one in place.machines.describe()] == ["running"]
