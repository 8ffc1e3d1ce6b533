"""Observing: what clusters, providers and prices say now, against what the meter knows → observations.

Only changes become observations. Pods and nodes are compared by identity first, so a look at an unchanged
cluster costs next to nothing. A cluster whose first full list is missing is skipped: nothing is decided
from what is missing. While an API is silent its last good data stay, so its machines go on costing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from fleet.model import (
    L_CAPACITY_TYPE,
    L_EXPERIMENT,
    L_HOLD,
    L_INSTANCE_TYPE,
    L_OWNER,
    L_REGION,
    L_RUN,
    L_TEAM,
    L_ZONE,
    CapacityType,
    ClusterSnapshot,
    Instance,
    Node,
    Pod,
    Price,
)
from fleet.values import Resources
from guard.meter import Meter, Observation, Who
from guard.moments import micros

UNLISTED = timedelta(minutes=10)
"""a machine without a node that no list has shown for this long has ended; one list without it proves nothing"""
PriceOf = Callable[[Node, Instance | None, datetime], Price]


def who(labels: Mapping[str, str]) -> Who:
    """Whom labels or tags name."""
    return Who(
        labels.get(L_TEAM, ""), labels.get(L_OWNER, ""), labels.get(L_EXPERIMENT, ""), labels.get(L_RUN, "")
    )


def machine_key(node: Node) -> str:
    """A machine's identity: its provider's id, or the node's uid where no provider names it."""
    return node.instance_id or node.uid


def stand_in(instance: Instance) -> Node:
    """The node that an instance would be, for asking its price before it has joined."""
    return Node(
        cluster="",
        name=instance.id,
        uid="",
        allocatable=Resources(),
        provider_id=f"{instance.provider}:///{instance.zone}/{instance.id}",
        labels={
            L_INSTANCE_TYPE: instance.instance_type,
            L_REGION: instance.region,
            L_ZONE: instance.zone,
            L_CAPACITY_TYPE: instance.capacity_type.value,
            **instance.tags,
        },
    )


class Observer:
    """Turns snapshots into observations; remembers only what it may forget (after a restart it compares anew)."""

    def __init__(self, meter: Callable[[], Meter], price_of: PriceOf, ended: Mapping[str, int]) -> None:
        self._meter = meter
        self._price_of = price_of
        self._ended = dict(ended)
        """machines whose end was recorded, and when: providers go on listing them for a while"""
        self._joining: dict[tuple[str, str], tuple[str, int]] = {}
        """nodes that this look has found: (machine, since when)"""
        self._missing: dict[str, datetime] = {}
        """machines that no list shows any more, since when"""
        self._instances: dict[str, Instance] = {}
        self._seen_pods: dict[str, dict[str, Pod]] = {}
        self._seen_nodes: dict[str, dict[str, Node]] = {}
        self._latest: dict[str, tuple[Node, Instance | None]] = {}
        """what each machine was last priced by"""
        self._due = 0

    def forget(self) -> None:
        """Compare everything anew (the ledger went back to what the database holds)."""
        self._seen_pods.clear()
        self._seen_nodes.clear()

    def machines_wanted(self, snapshots: Iterable[ClusterSnapshot]) -> bool:
        """Whether providers must be asked now: a node came or went, or a machine has not joined yet."""
        meter = self._meter()
        if any(machine.billed and not machine.node for machine in meter.machines.values()):
            return True
        for snapshot in snapshots:
            if not snapshot.synced:
                continue
            known = self._seen_nodes.get(snapshot.cluster, {})
            if known.keys() != snapshot.nodes.keys():
                return True
        return False

    def instances(self, found: Iterable[Instance], now: datetime) -> Iterator[Observation]:
        """What the providers list: machines that began, and those that ended, joined or not."""
        seen = micros(now)
        meter = self._meter()
        listed = {instance.id: instance for instance in found}
        for key, instance in sorted(listed.items()):
            if key in self._ended and not (
                instance.live and micros(instance.launched) >= self._ended[key] and key not in meter.machines
            ):
                continue
            known = meter.machines.get(key)
            self._latest.setdefault(key, (stand_in(instance), instance))
            if instance != self._instances.get(key) or known is None or not known.billed:
                if known is None or not known.billed:
                    yield self._machine(key, stand_in(instance), instance, now)
                if not instance.live:
                    at = seen if instance.ended is None else min(micros(instance.ended), seen)
                    self._ended[key] = at
                    yield Observation("ended", key, at, seen, {"state": instance.state})
        missing = sorted(self._instances.keys() - listed.keys())
        self._missing = {key: self._missing.get(key, now) for key in missing}
        for key in missing:
            if key not in meter.machines or key in self._ended:
                continue
            if meter.machines[key].node or now - self._missing[key] < UNLISTED:
                listed[key] = self._instances[key]  # a list without it proves nothing yet: it goes on costing
                continue
            self._ended[key] = seen
            yield Observation("ended", key, seen, seen, {"state": "no longer listed"})
        self._instances = listed

    def nodes(self, snapshot: ClusterSnapshot, now: datetime) -> Iterator[Observation]:
        """Nodes that joined, changed or are gone."""
        seen = micros(now)
        known = self._seen_nodes.setdefault(snapshot.cluster, {})
        self._joining.clear()
        for name, node in snapshot.nodes.items():
            if known.get(name) is node:
                continue
            if node != known.get(name):
                yield from self._node(node, now)
            known[name] = node
        for name in [name for name in known if name not in snapshot.nodes]:
            del known[name]
        meter = self._meter()
        for (cluster, name), key in list(meter.nodes.items()):
            if cluster == snapshot.cluster and name not in snapshot.nodes:
                yield Observation("left", key, seen, seen, {})

    def _node(self, node: Node, now: datetime) -> Iterator[Observation]:
        key, seen = machine_key(node), micros(now)
        if key in self._ended:
            return
        meter = self._meter()
        known = meter.machines.get(key)
        instance = self._instances.get(key)
        self._latest[key] = (node, instance)
        if known is None and instance is None:
            yield self._machine(key, node, None, now)
        facts = node.allocatable
        size = (facts.millicores, facts.memory, facts.gpus)
        joined = known is not None and bool(known.node)
        if joined and known is not None and known.allocatable == size and known.node == node.name:
            return
        at = seen if joined or node.created is None else min(micros(node.created), seen)
        self._joining[node.cluster, node.name] = (key, at)
        before = meter.nodes.get((node.cluster, node.name))
        if before not in (None, key):
            yield Observation("left", str(before), at, seen, {})  # another machine took its name
        yield Observation(
            "joined",
            key,
            at,
            seen,
            {
                "cluster": node.cluster,
                "node": node.name,
                "millicores": facts.millicores,
                "memory": facts.memory,
                "gpus": facts.gpus,
            },
        )

    def _machine(self, key: str, node: Node, instance: Instance | None, now: datetime) -> Observation:
        price = self._price_of(node, instance, now)
        self._latest[key] = (node, instance)
        seen = micros(now)
        began = instance.launched if instance else node.created
        tags = instance.tags if instance else node.labels
        provider = instance.provider if instance else node.provider_id.partition(":")[0] or "onprem"
        region = instance.region if instance else node.labels.get(L_REGION, "")
        zone = instance.zone if instance else node.labels.get(L_ZONE, "")
        kind = instance.instance_type if instance else node.labels.get(L_INSTANCE_TYPE, "")
        fixed = CapacityType.FIXED.value if provider == "onprem" else CapacityType.ON_DEMAND.value
        capacity = instance.capacity_type.value if instance else node.labels.get(L_CAPACITY_TYPE, fixed)
        return Observation(
            "machine",
            key,
            seen if began is None else min(micros(began), seen),
            seen,
            {
                "provider": provider,
                "region": region,
                "zone": zone,
                "instance_type": kind,
                "capacity": capacity,
                "hourly": price.hourly.micros,
                "source": price.source,
                "estimated": price.estimated,
                "hold": tags.get(L_HOLD, ""),
                "billed": instance is not None,
                "cluster": node.cluster,
                "who": list(who(tags)),
            },
        )

    def pods(self, snapshot: ClusterSnapshot, now: datetime) -> Iterator[Observation]:
        """Pods that were bound, changed, ended or are gone; call it after `nodes` of the same snapshot."""
        seen = micros(now)
        known = self._seen_pods.setdefault(snapshot.cluster, {})
        meter = self._meter()
        for uid, pod in snapshot.pods.items():
            if known.get(uid) is pod:
                continue
            if not pod.node:
                known[uid] = pod
                continue
            place = (pod.cluster, pod.node)
            joining = self._joining.get(place)
            key = joining[0] if joining else meter.nodes.get(place)
            if key is None:
                continue  # its node is not known yet: looked at again next time
            known[uid] = pod
            yield from self._pod(key, pod, seen, joining[1] if joining else 0)
        for uid, key in list(meter.pods.items()):
            if uid not in snapshot.pods and meter.machines[key].pods[uid].cluster == snapshot.cluster:
                at = _vanished(known.get(uid), seen)
                yield Observation("unbound", uid, at, seen, {"known": at != seen})
        for uid in known.keys() - snapshot.pods.keys():
            del known[uid]

    def _pod(self, key: str, pod: Pod, seen: int, joined: int) -> Iterator[Observation]:
        machine = self._meter().machines.get(key)
        metered = machine.pods.get(pod.uid) if machine else None
        since = max(joined, machine.since) if machine else joined
        facts = {
            "millicores": pod.requests.millicores,
            "memory": pod.requests.memory,
            "gpus": pod.requests.gpus,
            "who": list(who(pod.labels)),
            "daemon": pod.daemon,
            "cluster": pod.cluster,
            "namespace": pod.namespace,
            "name": pod.name,
        }
        ended = None
        if not pod.active:
            last = pod.finished or pod.deleting
            ended = seen if last is None else min(micros(last), seen)
        if metered is None:
            bound = pod.scheduled or pod.started or pod.created
            at = seen if bound is None else min(max(micros(bound), joined), seen)
            if ended is not None and ended <= max(at, since):
                return  # it had ended before anything of it could be metered, or was metered already
            yield Observation("bound", pod.uid, at, seen, {"machine": key, **facts})
        elif ended is None and list(facts.values()) != [*metered[:3], list(metered.who), *metered[4:]]:
            yield Observation("bound", pod.uid, seen, seen, {"machine": key, **facts})
        if ended is not None:
            yield Observation("unbound", pod.uid, ended, seen, {"known": True})

    def prices(self, now: datetime, every: timedelta) -> Iterator[Observation]:
        """Known machines whose price has changed, looked at each `every`."""
        seen = micros(now)
        if seen < self._due:
            return
        self._due = seen + every // timedelta(microseconds=1)
        meter = self._meter()
        for key in sorted(self._latest.keys() - meter.machines.keys()):
            del self._latest[key]
        for key, machine in sorted(meter.machines.items()):
            known = self._latest.get(key)
            if known is None:
                continue
            price = self._price_of(*known, now)
            new = (price.hourly.micros, price.source, price.estimated)
            if new != (machine.hourly, machine.source, machine.estimated):
                facts = {"hourly": new[0], "source": new[1], "estimated": new[2]}
                yield Observation("price", key, seen, seen, facts)


def _vanished(last: Pod | None, seen: int) -> int:
    """When a pod that is gone ended: its announced end where that has passed, else now."""
    if last is None or last.deleting is None:
        return seen
    return min(micros(last.deleting), seen)
