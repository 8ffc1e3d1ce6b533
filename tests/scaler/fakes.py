"""In-memory ports for the scaler's tests: a cluster that machines join, a provider with capacity, a budget."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fleet.budget import HoldAnswer, HoldKind, Misfit
from fleet.db import Database
from fleet.errors import NoCapacity, Unavailable
from fleet.journal import MIGRATIONS as JOURNAL
from fleet.journal import Journal
from fleet.model import L_EXPERIMENT, L_OWNER, L_RUN, L_TEAM, CapacityType, ClusterSnapshot, Instance, Node
from fleet.pools import Pool, Region, Zone
from fleet.ports import LaunchResult
from fleet.values import Money
from scaler.loop import Scaler
from scaler.ports import ScalerPorts
from scaler.settings import ScalerSettings
from scaler.store import MIGRATIONS
from tests.builders import T0, offer, pod

REGIONS = ("us-west-2", "us-east-1", "eu-west-1", "ap-south-1")


def aws_pool(*regions: str, **more) -> Pool:
    """Pool `aws` of cluster `home` over these regions (one zone each)."""
    found = tuple(
        Region(name, (Zone(f"{name}a", f"subnet-{name}"),), "ami", max_nodes=more.pop(f"max_{name}", None))
        for name in regions or REGIONS
    )
    return Pool("aws", "home", "aws", found, **more)


class FakeView:
    """A cluster whose snapshot tests change."""

    name = "home"

    def __init__(self):
        self.pods, self.nodes = {}, {}
        self.synced, self.stale_since = True, None

    def put(self, *things):
        """Add or replace pods and nodes."""
        for thing in things:
            where, key = (self.nodes, thing.name) if isinstance(thing, Node) else (self.pods, thing.uid)
            updated = {**where, key: thing}
            if isinstance(thing, Node):
                self.nodes = updated
            else:
                self.pods = updated

    def drop(self, pod):
        """A pod is gone."""
        self.pods = {uid: p for uid, p in self.pods.items() if uid != pod.uid}

    def snapshot(self, now):
        return ClusterSnapshot(
            cluster="home",
            observed_at=now,
            synced=self.synced,
            pods=self.pods,
            nodes=self.nodes,
            governed=frozenset({"research"}),
            stale_since=self.stale_since,
        )


class FakeNodes:
    """The Objects port as far as the scaler uses it: cordoning."""

    cluster = "home"

    def __init__(self, view):
        self.view, self.patched = view, []

    def merge_patch(self, ref, patch, *, dry_run=False):
        self.patched.append((ref.name, patch["spec"]["unschedulable"]))
        node = self.view.nodes[ref.name]
        self.view.put(replace(node, unschedulable=bool(patch["spec"]["unschedulable"])))
        return {}


class FakeCatalog:
    """Sells what it is given."""

    provider = "aws"

    def __init__(self, *offers):
        self.sold, self.calls = list(offers), 0

    def offers(self, now):
        self.calls += 1
        return tuple(self.sold)

    def quotas(self, now):
        return ()


def _short(request, count):
    return NoCapacity("only some", code="Partial") if count < request.count else None


class FakeMachines:
    """A provider: idempotent by token, with capacity by region, scripted errors and lost answers."""

    provider = "aws"

    def __init__(self):
        self.now = T0
        self.capacity: dict[str, int] = {}
        self.errors: dict[str, Exception] = {}
        """region → what every launch there raises"""
        self.lose_answers = 0
        self.instances: dict[str, Instance] = {}
        self.by_token: dict[str, tuple[Instance, ...]] = {}
        self.requests = []
        self.hidden: set[str] = set()
        self._ids = itertools.count(1)

    def launch(self, request):
        self.requests.append(request)
        if request.token in self.by_token:
            bought = self.by_token[request.token]
            return LaunchResult(bought, _short(request, len(bought)))
        if request.region in self.errors:
            raise self.errors[request.region]
        count = min(request.count, self.capacity.get(request.region, 10**6))
        if count < request.minimum:
            raise NoCapacity(f"{request.region} has none", code="InsufficientInstanceCapacity")
        if request.region in self.capacity:
            self.capacity[request.region] -= count
        bought = tuple(self._instance(request) for _ in range(count))
        self.by_token[request.token] = bought
        self.instances |= {instance.id: instance for instance in bought}
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the connection was lost")
        return LaunchResult(bought, _short(request, count))

    def _instance(self, request):
        return Instance(
            provider="aws",
            region=request.region,
            zone=request.zone,
            id=f"i-{next(self._ids):04d}",
            instance_type=request.instance_type,
            capacity_type=CapacityType.ON_DEMAND,
            state="running",
            launched=self.now,
            tags=request.tags,
        )

    def describe(self):
        return tuple(i for i in self.instances.values() if i.id not in self.hidden)

    def terminate(self, region, ids):
        for name in ids:
            self.instances[name] = replace(self.instances[name], state="terminated", ended=self.now)

    def interruptions(self):
        return ()

    def live(self, region=None):
        """Machines that bill."""
        return [i for i in self.instances.values() if i.live and region in (None, i.region)]


class FakeBudget:
    """Grants up to `left`; holds stay unsettled until they are settled or released."""

    def __init__(self):
        self.left: Money | None = None
        self.held, self.open, self.settled, self.released = {}, {}, {}, {}
        self.stopped: dict[str, str] = {}

    def hold(self, request, now):
        if request.id in self.held:
            return HoldAnswer(request.id, True)
        if self.left is not None and request.amount > self.left:
            short = request.amount - self.left
            misfit = Misfit("team", "team vision", self.left, Money(0), self.left, short, ("Ada",))
            return HoldAnswer(request.id, False, (misfit,), "It does not fit: the cap team has nothing left.")
        if self.left is not None:
            self.left = self.left - request.amount
        self.held[request.id] = self.open[request.id] = request
        return HoldAnswer(request.id, True)

    check = hold

    def settle(self, hold_id, now, *, burn=None, result=None):
        self.open.pop(hold_id, None)
        self.settled[hold_id] = (burn, result)

    def release(self, hold_id, now, reason):
        self.open.pop(hold_id, None)
        self.released[hold_id] = reason

    def unsettled(self, kind):
        return tuple(h for h in self.open.values() if h.kind is kind is HoldKind.PURCHASE)

    def blocked(self, scope, now):
        return self.stopped.get(scope.run, "")


class FakeNotifier:
    """Remembers events; the same key is told once."""

    def __init__(self):
        self.told = {}

    def notify(self, event, *, key, now):
        self.told.setdefault(key, event)

    def of(self, kind):
        """Events of a type."""
        return [event for event in self.told.values() if isinstance(event, kind)]


class House:
    """A scaler over the fakes, with its own time; `restart` keeps the database and the world."""

    def __init__(self, *offers, pools=None, **settings):
        self.now = T0
        self.database = Database(":memory:", [JOURNAL, MIGRATIONS])
        self.view, self.machines, self.budget = FakeView(), FakeMachines(), FakeBudget()
        self.nodes, self.notifier = FakeNodes(self.view), FakeNotifier()
        self.catalog = FakeCatalog(*(offers or (offer(region=region) for region in REGIONS)))
        self.pools = pools or (aws_pool(),)
        self.settings = ScalerSettings(**settings)
        self.run_max_nodes = {}
        self.restart()

    def restart(self):
        """A new process over the same database and world."""
        self.journal = Journal(self.database)
        view: Any = self.view
        nodes: Any = self.nodes
        ports = ScalerPorts(
            views=(view,),
            objects={"home": nodes},
            catalogs={"aws": self.catalog},
            machines={"aws": self.machines},
            budget=self.budget,
            notifier=self.notifier,
            pools=self.pools,
            run_max_nodes=self.run_max_nodes.get,
        )
        self.scaler = Scaler(
            database=self.database, journal=self.journal, settings=self.settings, outside=ports
        )

    def tick(self, **later):
        """Let time pass, then tick."""
        self.now += timedelta(**(later or {"seconds": 15}))
        self.machines.now = self.now
        self.journal.advance(self.now)
        return self.scaler.tick(self.now)

    def join(self, **changes):
        """Every machine that bills and is no node yet becomes a ready node."""
        for instance in self.machines.live():
            machine = next(m for m in self.scaler.machines() if m.id == instance.id)
            if not any(n.instance_id == instance.id for n in self.view.nodes.values()):
                self.view.put(
                    Node(
                        cluster="home",
                        name=f"node-{instance.id}",
                        uid=f"uid-{instance.id}",
                        allocatable=machine.allocatable,
                        provider_id=f"aws:///{instance.zone}/{instance.id}",
                        labels=machine.labels,
                        **({"created": self.now} | changes),
                    )
                )

    def bind(self, pod, node_name):
        """The scheduler binds a pod."""
        self.view.put(replace(pod, node=node_name, phase="Running", unschedulable=False))


LABELS = {L_RUN: "r1", L_EXPERIMENT: "dota", L_OWNER: "U1", L_TEAM: "vision"}


def waiting(count=1, **more):
    """Pods of run r1 that the scheduler found no place for."""
    fields: dict[str, Any] = {"cpu": "3", "unschedulable": True, "labels": LABELS} | more
    run = fields["labels"].get(L_RUN, "none")
    return [pod(f"{run}-{number}", **fields) for number in range(count)]
