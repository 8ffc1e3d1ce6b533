"""A launcher whose outside is in memory."""

from typing import Any

from fleet.budget import HoldKind, HoldRequest, Scope, launch_hold_id
from fleet.db import Database
from fleet.journal import MIGRATIONS as JOURNAL
from fleet.journal import Journal
from fleet.model import Person
from fleet.values import Money
from launcher.kinds.role_group import KubeWorkloads
from launcher.launch import Launcher
from launcher.load import parse_experiment
from launcher.ports import LauncherPorts, Order
from launcher.runs import MIGRATIONS, RunStore
from launcher.settings import LauncherSettings
from tests.builders import T0
from tests.launcher.fakes import FakeBudget, FakeNotifier, FakeObjects

SPEC = """
name: dota
image: acme/a3c:1
success: [worker]
roles:
  worker: {replicas: 4, min_replicas: 2, resources: {cpu: 2, memory: 4Gi}}
  ps: {replicas: 1, spot: never}
limits: {max_cost: 200, max_hours: 2, max_cores: 20}
"""
ADA = Person("U1", "Ada", "vision")


class House:
    """A launcher with in-memory ports; `restart` is what a killed process leaves and finds."""

    def __init__(self):
        self.database = Database(":memory:", [JOURNAL, MIGRATIONS])
        self.objects, self.budget, self.notifier = FakeObjects(), FakeBudget(), FakeNotifier()
        self.restart()

    def restart(self):
        self.journal = Journal(self.database)
        objects: Any = {"home": self.objects}
        workloads = KubeWorkloads(objects, lambda _: ("research",), RunStore(self.database))
        ports = LauncherPorts(objects, self.budget, self.notifier, workloads)
        self.launcher = Launcher(
            database=self.database, journal=self.journal, settings=LauncherSettings(), outside=ports
        )

    def propose(self, text=SPEC, request="r1"):
        order = Order(request, parse_experiment(text, "e.yaml"), ADA, "home", channel="C1")
        return self.launcher.propose(order, T0).run

    def start(self, run):
        hold = HoldRequest(
            launch_hold_id(run.id), HoldKind.LAUNCH, Scope(run=run.id), Money.usd(50), Money.usd(2), "launch"
        )
        return self.launcher.start(run.id, hold=hold, actor="U1", now=T0)

    def state(self, run):
        found = self.launcher.runs.get(run.id)
        return found.state if found else None
