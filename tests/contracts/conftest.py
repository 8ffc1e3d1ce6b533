"""Implementations that the contracts of the ports run over.

`kube_endpoint` yields (name, connection) for every Kubernetes API there is: the sandbox's, and a real
control plane where its binaries are built. To add one, add a context manager to `ENDPOINTS`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fleet.kube.connection import Connection, connect
from fleet.kube.objects import KubeObjects
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from tests.builders import T0
from tests.controlplane.harness import ControlPlane

_numbers = itertools.count(1)


@contextmanager
def real_control_plane(_folder: Path, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """The session's etcd, API server, scheduler, controllers and kwok, as administrator, over checked TLS."""
    plane: ControlPlane = request.getfixturevalue("control_plane")
    yield connect(plane.kubeconfig("admin"), None, False, "control-plane")


@contextmanager
def sandbox_cluster(folder: Path, _request: pytest.FixtureRequest) -> Iterator[Connection]:
    """The sandbox's cluster with its controllers, in a world that runs as fast as ours."""
    host = Host()
    try:
        world = host.run(_made_world())
        cluster = Cluster(world, host, "home", controllers=("scheduler", "jobs", "garbage"))
        host.spawn(world.run)
        file = folder / "kubeconfig"
        file.write_text(json.dumps(cluster.kubeconfig()))
        yield connect(file, None, False, "sandbox")
    finally:
        host.close()


async def _made_world() -> World:
    return World(T0, scale=1.0)


ENDPOINTS: dict[str, Callable[[Path, pytest.FixtureRequest], AbstractContextManager[Connection]]] = {
    "sandbox": sandbox_cluster,
    "control-plane": real_control_plane,
}
SERVICES = {"control-plane": "control-plane"}
"""endpoints that need a service which `make services` brings"""


def _parameters() -> list[object]:
    marks = {name: [pytest.mark.service(SERVICES[name])] if name in SERVICES else [] for name in ENDPOINTS}
    return [pytest.param(name, marks=marks[name], id=name) for name in ENDPOINTS]


@pytest.fixture(scope="session", params=_parameters())
def kube_endpoint(request, tmp_path_factory) -> Iterator[tuple[str, Connection]]:
    """A Kubernetes API: its name and a connection of its administrator."""
    name = request.param
    with ENDPOINTS[name](tmp_path_factory.mktemp(name), request) as connection:
        yield name, connection


@pytest.fixture
def connection(kube_endpoint) -> Connection:
    """The connection alone."""
    found: Connection = kube_endpoint[1]
    return found


@pytest.fixture
def objects(connection) -> KubeObjects:
    """The Objects port on that API."""
    return KubeObjects(connection)


@pytest.fixture
def namespace(objects) -> str:
    """A governed namespace of this test alone."""
    name = f"contract-{next(_numbers)}"
    labels = {"quartermaster.dev/governed": "true"}
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return name
