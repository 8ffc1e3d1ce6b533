"""The scaler over the real adapters: a cluster's API, EC2 and the launcher's own Jobs, in a world that runs fast."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest

from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_catalog import AwsCatalog
from fleet.clouds.aws_machines import AwsMachines, Join
from fleet.db import Database
from fleet.journal import MIGRATIONS as JOURNAL
from fleet.journal import Journal
from fleet.kube.connection import connect
from fleet.kube.objects import KubeObjects
from fleet.kube.watch import WatchCache
from fleet.model import Person
from fleet.pools import Pool, Region, Zone
from launcher.kinds.role_group import KubeWorkloads
from launcher.launch import Launcher
from launcher.load import parse_experiment
from launcher.ports import LauncherPorts, Order
from launcher.runs import MIGRATIONS as RUNS
from launcher.runs import RunState, RunStore
from launcher.settings import LauncherSettings
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from scaler.events import Overflowed
from scaler.loop import Scaler
from scaler.ports import ScalerPorts
from scaler.settings import ScalerSettings
from scaler.store import MIGRATIONS as SCALER
from tests.builders import T0
from tests.scaler.fakes import FakeBudget, FakeNotifier

SCALE = 200.0
"""the world runs this many times faster than we do"""
CLOUD = {
    "regions": {
        "us-west-2": {
            "zones": {
                "us-west-2a": {
                    "offers": {"m5.xlarge": {"price": "0.192", "capacity": 2}},
                }
            }
        },
        "us-east-1": {
            "zones": {
                "us-east-1a": {
                    "offers": {"m5.xlarge": {"price": "0.20", "capacity": 9}},
                }
            }
        },
    },
    "boot_seconds": 30,
}
POOL = Pool(
    name="aws",
    cluster="home",
    provider="aws",
    regions=(
        Region("us-west-2", (Zone("us-west-2a", "subnet-us-west-2a"),), "ami-us-west-2"),
        Region("us-east-1", (Zone("us-east-1a", "subnet-us-east-1a"),), "ami-us-east-1"),
    ),
    instance_types=("m5.xlarge",),
    instance_profile="node",
    user_data="endpoint={endpoint}\ntoken={token}\nlabels={labels}\ntaints={taints}\n",
)
SPEC = """
name: train
image: acme/train:1
command: train
resources: {cpu: 3, memory: 4Gi}
replicas: 5
limits: {max_cost: 50, max_hours: 4}
overrides: {metadata: {annotations: {sandbox.quartermaster.dev/run-seconds: "120"}}}
"""


class WorldClock:
    """The sandbox's time, asked in its own thread."""

    def __init__(self, host, world):
        self._host, self._world = host, world

    def now(self):
        return self._host.call(lambda: self._world.now)

    def wait_until(self, moment, wake):
        return self.now()

    def nudge(self):
        """Nobody waits."""


class House:
    """Everything real but the budget and the chat."""

    def __init__(self, folder, host):
        async def made():
            return World(T0, scale=SCALE)

        world = host.run(made())
        self.clock = WorldClock(host, world)
        cluster = Cluster(world, host, "home")
        cluster.add_namespace("research", {"quartermaster.dev/governed": "true"})
        self.cloud = Cloud(world, CLOUD)
        clients = AwsClients(self.cloud.serve(host), access_key="AKIASANDBOX", secret_key="secret")
        host.spawn(world.run)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(cluster.kubeconfig()))
        connection = connect(kubeconfig, None, False, "home")
        objects = {"home": KubeObjects(connection)}
        self.view = WatchCache(connection, "home", ["research"])
        database = Database(":memory:", [JOURNAL, RUNS, SCALER])
        self.journal = Journal(database)
        self.notifier, self.budget = FakeNotifier(), FakeBudget()
        joins = {"home": Join(cluster.address, cluster.join_token)}
        workloads = KubeWorkloads(objects, lambda _: ("research",), RunStore(database))
        self.launcher = Launcher(
            database=database,
            journal=self.journal,
            settings=LauncherSettings(),
            outside=LauncherPorts(objects, self.budget, self.notifier, workloads),
        )
        self.scaler = Scaler(
            database=database,
            journal=self.journal,
            settings=ScalerSettings(idle_after=timedelta(seconds=20)),
            outside=ScalerPorts(
                views=(self.view,),
                objects=objects,
                catalogs={"aws": AwsCatalog((POOL,), clients)},
                machines={"aws": AwsMachines((POOL,), clients, joins, self.clock, lambda: "uid-home")},
                budget=self.budget,
                notifier=self.notifier,
                pools=(POOL,),
            ),
        )

    def until(self, right, seconds=30.0):
        """Tick until it is so."""
        deadline = time.monotonic() + seconds
        while not right():
            assert time.monotonic() < deadline, (self.scaler.machines(), self.view.problems)
            now = self.clock.now()
            self.launcher.tick([self.view.snapshot(now)], now)
            self.scaler.tick(now)
            self.journal.advance(now)
            time.sleep(0.03)


@pytest.fixture
def house(tmp_path):
    """A whole world; ended afterwards."""
    host = Host()
    made = House(tmp_path, host)
    assert made.view.wait_synced(10)
    yield made
    made.view.close()
    host.close()


def test_an_experiment_overflows_into_the_second_region_completes_and_its_nodes_go(house):
    """Five replicas, two machines to be had here and the others there; done, and nothing bills any more."""
    order = Order("r1", parse_experiment(SPEC, "e.yaml"), Person("U1", "Ada", "vision"), "home")
    run = house.launcher.propose(order, T0).run
    assert house.launcher.start(run.id, hold=None, actor="U1", now=T0).state == "announced"
    house.until(lambda: len(house.scaler.machines()) == 5)
    by_region = sorted(machine.region for machine in house.scaler.machines())
    assert by_region == ["us-east-1"] * 3 + ["us-west-2"] * 2
    house.until(lambda: house.launcher.runs.get(run.id).state is RunState.DONE)
    house.until(lambda: not house.scaler.machines())
    assert len(house.cloud.machines()) == 5, "no machine was bought twice"
    assert not any(machine.live for machine in house.cloud.machines())
    assert {event.from_region for event in house.notifier.of(Overflowed)} == {"us-west-2"}
    assert house.budget.open == {}
    assert len(house.budget.released) >= 2
