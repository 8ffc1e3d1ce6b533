"""In a stepped world the caches have seen everything whenever time has moved, whatever happens to the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.clock import FollowingClock
from fleet.kube.connection import connect
from fleet.kube.watch import WatchCache
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from tests.builders import T0


@dataclass
class Stage:
    """A stepped world with one cluster, the product's clock and its view."""

    world: World
    cluster: Cluster
    host: Host
    clock: FollowingClock
    view: WatchCache

    def at(self, minute: int, action: Any, *args: Any) -> None:
        """Do something in the world at a minute."""
        self.host.call(lambda: self.world.at(T0 + timedelta(minutes=minute), lambda: action(*args)))

    def go(self, minute: int) -> None:
        """Wait for a minute, as the product does."""
        self.clock.wait_until(T0 + timedelta(minutes=minute), lambda: False)

    def names(self) -> set[str]:
        """Pods as the product sees them now."""
        return {pod.name for pod in self.view.snapshot(self.clock.now()).pods.values()}

    def create(self, name: str) -> None:
        """A pod that waits."""
        self.cluster.store.create(
            "pods",
            {
                "metadata": {"name": name, "namespace": "research"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        )


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """The whole of it, at five."""
    host = Host()

    async def made() -> World:
        world = World(T0)
        world.expect("product")
        return world

    world = host.run(made())
    cluster = Cluster(world, host, "home", controllers=())
    cluster.add_namespace("research")
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(cluster.kubeconfig()))
    view = WatchCache(connect(file, None, False, "home"), "home", ["research"])
    assert view.wait_synced(10)
    host.spawn(world.run)
    clock = FollowingClock(
        host.serve(world.app()), "product", dict, lambda versions: view.reached(versions.get(view.address))
    )
    yield Stage(world, cluster, host, clock, view)
    view.close()
    host.close()


def test_every_change_is_seen_when_its_time_has_come(stage):
    """A pod a minute for an hour: after each wait exactly those are seen that were made."""
    for minute in range(1, 61):
        stage.at(minute, stage.create, f"p{minute}")
    for minute in range(1, 61):
        stage.go(minute)
        assert stage.names() == {f"p{number}" for number in range(1, minute + 1)}


def test_broken_watches_lose_nothing(stage):
    """Connections that break while pods are made are taken up again before time goes on."""
    for minute in range(1, 21):
        stage.at(minute, stage.create, f"p{minute}")
        stage.at(minute, stage.cluster.api.drop_watches)
        stage.at(minute, stage.create, f"q{minute}")
    for minute in range(1, 21):
        stage.go(minute)
        assert len(stage.names()) == 2 * minute


def test_a_forgotten_history_is_listed_again(stage):
    """After the API has forgotten what the watches stand at, the copy is whole again, without what went."""
    stage.at(1, stage.create, "gone")
    stage.go(1)
    stage.at(2, lambda: stage.cluster.api.compact(expire_open=True))
    stage.at(2, stage.create, "new")
    stage.at(2, lambda: stage.cluster.store.delete("pods", "research", "gone", grace_seconds=0))
    stage.go(2)
    assert stage.names() == {"new"}


@pytest.mark.parametrize("fault", ["down", "unavailable"])
def test_an_api_that_is_down_is_known_to_be(stage, fault):
    """While it is down the last data stand, stale since the first look; when it is back they are fresh at once.

    Whether it closes every connection, or refuses new requests and keeps the watches that are open.
    """

    def down(value: bool) -> None:
        setattr(stage.cluster.api if fault == "down" else stage.cluster.api.faults, fault, value)

    stage.at(1, stage.create, "before")
    stage.at(2, down, True)
    stage.at(3, stage.create, "during")
    stage.at(10, down, False)
    stage.go(1)
    assert stage.view.snapshot(stage.clock.now()).stale_since is None
    stage.go(2)
    for minute in (2, 3, 9):
        stage.go(minute)
        snapshot = stage.view.snapshot(stage.clock.now())
        assert snapshot.stale_since == T0 + timedelta(minutes=2)
        assert stage.names() == {"before"}
    stage.go(10)
    assert stage.view.snapshot(stage.clock.now()).stale_since is None
    assert stage.names() == {"before", "during"}
