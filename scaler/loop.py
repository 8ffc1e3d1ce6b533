"""The scaler's tick: observe → plan → hold → buy → verify, and let idle machines go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from fleet.budget import HoldKind
from fleet.db import Database
from fleet.errors import OutsideError
from fleet.journal import STOPS, Journal
from fleet.model import ClusterSnapshot, Offer, Pod, Ref
from fleet.pools import Pool
from fleet.ports import Quota
from scaler.buying import Buyer, Market
from scaler.capacity import Memory
from scaler.demand import pending
from scaler.ending import KIND, EndingHandler, decide_to_end
from scaler.events import LaunchesWithoutProgress, PodsUnplaced
from scaler.observe import MachineWatch, joined
from scaler.ports import ScalerPorts
from scaler.settings import ScalerSettings
from scaler.shrink import Occupied, Step, busy_nodes, decide, nodes_of, overdue
from scaler.store import ScalerStore
from scaler.values import Group, Limits, Machine, Plan, Situation
from scaler.why import explain

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TickReport:
    """What a tick did."""

    pending: int = 0
    bought: int = 0
    ended: int = 0
    plans: Mapping[str, Plan] | None = None
    """by cluster, where something was pending"""


@dataclass(frozen=True, slots=True)
class _Digest:
    """What a snapshot says, kept for as long as the view hands out the same one."""

    source: object
    governed: frozenset[str]
    pending: tuple[Pod, ...]
    busy: frozenset[str]


class Scaler:
    """Buys what pending pods need, and gives back what nobody uses."""

    def __init__(
        self, *, database: Database, journal: Journal, settings: ScalerSettings, outside: ScalerPorts
    ) -> None:
        self._settings = settings
        self._out = outside
        self._journal = journal
        self._store = ScalerStore(database)
        self._buyer = Buyer(self._store, settings, outside)
        self._watch = MachineWatch(self._store, settings, outside)
        self._digests: dict[str, _Digest] = {}
        self._plans: dict[str, Plan] = {}
        self._doubts: dict[str, datetime] = {}
        journal.register(KIND, EndingHandler(self._store, outside), STOPS)

    @property
    def memory(self) -> Memory:
        """Offers that are left alone now, and why."""
        return self._buyer.memory

    def machines(self) -> tuple[Machine, ...]:
        """Our machines that have not ended."""
        return self._store.live()

    def pending_reasons(self, run: str, now: datetime) -> tuple[str, ...]:
        """What pending pods of a run wait for, as of the last tick."""
        return tuple(
            sentence for plan in self._plans.values() for sentence in explain(plan, self.machines(), run, now)
        )

    def situation(self, snapshot: ClusterSnapshot) -> Situation:
        """A cluster with what it does not show itself; for previews."""
        return Situation(snapshot, self._pools(snapshot.cluster), self._of_cluster(snapshot.cluster))

    def known(self, situation: Situation) -> tuple[Limits, Memory]:
        """What limits and memory say now; for previews."""
        return self._buyer.limits(situation, Market()), self.memory

    def offers(self, cluster: str, now: datetime) -> tuple[Offer, ...]:
        """What this cluster's pools sell. A provider that does not answer sells nothing now."""
        return self._market(cluster, frozenset(), now).offers

    def tick(self, now: datetime) -> TickReport:
        """Look, decide and act once."""
        on_their_way = self._recover(now)
        snapshots = [view.snapshot(now) for view in self._out.views]
        digests = {snapshot.cluster: self._digest(snapshot) for snapshot in snapshots}
        wanted = sum(len(digest.pending) for digest in digests.values())
        if all(snapshot.synced and snapshot.stale_since is None for snapshot in snapshots):
            self._buyer.see(frozenset(pod.uid for digest in digests.values() for pod in digest.pending))
        if not wanted and not self._store.live() and self._watch.complete:
            self._plans.clear()
            return TickReport()
        self._watch.look(lambda: self._all_offers(now), now)
        bought = ended = 0
        for snapshot in snapshots:
            if not snapshot.synced or snapshot.stale_since is not None:
                continue
            bought += self._provide(snapshot, digests[snapshot.cluster], on_their_way, now)
            ended += self._shrink(snapshot, digests[snapshot.cluster], now)
        return TickReport(wanted, bought, ended, dict(self._plans))

    def _recover(self, now: datetime) -> dict[str, str]:
        """Repeat every purchase without a recorded outcome; returns pods whose purchase still has none."""
        waiting: dict[str, str] = {}
        for hold in self._out.budget.unsettled(HoldKind.PURCHASE):
            outcome = self._buyer.recover(hold, now, lambda: self._all_offers(now))
            if outcome.unanswered:
                region = hold.scope.region
                waiting |= dict.fromkeys(hold.payload["pods"], f"a purchase in {region} has no answer yet")
        return waiting

    def _digest(self, snapshot: ClusterSnapshot) -> _Digest:
        known = self._digests.get(snapshot.cluster)
        if known is not None and known.source is snapshot.pods and known.governed == snapshot.governed:
            return known
        found = _Digest(snapshot.pods, snapshot.governed, pending(snapshot), busy_nodes(snapshot))
        self._digests[snapshot.cluster] = found
        return found

    def _all_offers(self, now: datetime) -> tuple[Offer, ...]:
        return tuple(offer for view in self._out.views for offer in self.offers(view.name, now))

    def _pools(self, cluster: str) -> tuple[Pool, ...]:
        return tuple(pool for pool in self._out.pools if pool.cluster == cluster)

    def _of_cluster(self, cluster: str) -> tuple[Machine, ...]:
        return tuple(machine for machine in self._store.live() if machine.cluster == cluster)

    def _market(self, cluster: str, runs: frozenset[str], now: datetime) -> Market:
        pools = self._pools(cluster)
        names = {pool.name for pool in pools}
        offers: list[Offer] = []
        quotas: list[Quota] = []
        for provider in dict.fromkeys(pool.provider for pool in pools):
            catalog = self._out.catalogs.get(provider)
            try:
                if catalog is not None:
                    offers += [offer for offer in catalog.offers(now) if offer.pool in names]
                    quotas += catalog.quotas(now)
            except OutsideError as error:
                log.warning("nothing known to be sold", provider=provider, error=str(error))
        return Market(tuple(offers), tuple(quotas), runs)

    def _provide(
        self, snapshot: ClusterSnapshot, digest: _Digest, on_their_way: Mapping[str, str], now: datetime
    ) -> int:
        cluster = snapshot.cluster
        self._store.put(joined(snapshot, self._of_cluster(cluster), now))
        if not digest.pending:
            self._plans.pop(cluster, None)
            self._doubts.clear()
            return 0
        groups = {Group.of(pod.labels) for pod in digest.pending}
        blocked = {
            group.run: reason
            for group in sorted(groups)
            if (reason := self._out.budget.blocked(group.scope(cluster), now))
        }
        patience = self._settings.scheduler_patience
        situation = replace(
            self.situation(snapshot),
            blocked=blocked,
            tripped=self._buyer.breaker.tripped(self._settings),
            distrusted=frozenset(uid for uid, since in self._doubts.items() if now - since >= patience),
            on_their_way=on_their_way,
        )
        market = self._market(cluster, frozenset(group.run for group in groups), now)
        plan, turns = self._buyer.provide(situation, market, now)
        self._plans[cluster] = plan
        self._note_doubts(plan, digest.pending, now)
        self._tell(plan, now)
        return len(turns.bought)

    def _note_doubts(self, plan: Plan, waiting: tuple[Pod, ...], now: datetime) -> None:
        """Since when we believe that a pod has room on a ready node while the scheduler says no."""
        fitting = {pod.uid for placed in plan.placed if placed.joined for pod in placed.pods}
        still = {pod.uid for pod in waiting}
        kept = {uid: since for uid, since in self._doubts.items() if uid in still}
        self._doubts = kept | {uid: kept.get(uid, now) for uid in sorted(fitting)}

    def _tell(self, plan: Plan, now: datetime) -> None:
        tripped = self._buyer.breaker.tripped(self._settings)
        for unplaced in plan.unplaced:
            group, first = unplaced.group, unplaced.pods[0]
            whose = (group.run, group.experiment, group.owner, group.team)
            if not unplaced.sold:
                event = PodsUnplaced(*whose, len(unplaced.pods), unplaced.reason)
                key = f"unplaced:{first.cluster}/{first.namespace}/{first.name}"
                self._out.notifier.notify(event, key=key, now=now)
            elif unplaced.reason in tripped.values():
                launches = max(map(self._buyer.breaker.launches, tripped))
                key = f"tripped:{group.run}:{first.namespace}/{first.name}"
                self._out.notifier.notify(LaunchesWithoutProgress(*whose, launches), key=key, now=now)

    def _shrink(self, snapshot: ClusterSnapshot, digest: _Digest, now: datetime) -> int:
        machines = self._of_cluster(snapshot.cluster)
        if not machines:
            return 0
        ended = 0
        for late in overdue(snapshot, machines, digest.busy, self._settings, now):
            self._buyer.failed_machine(late.machine, late.reason, now)
            self._end((late.machine,), late.reason, True, now)
            ended += 1
        machines = self._of_cluster(snapshot.cluster)
        plan = self._plans.get(snapshot.cluster, Plan())
        occupied = Occupied(digest.busy, plan.used, self._stopped(snapshot, machines, digest.busy, now))
        steps = decide(snapshot, machines, occupied, self._settings, now)
        self._store.put(steps.changed)
        for step in steps.uncordon:
            self._cordon(snapshot.cluster, step, False, now)
        for step in steps.cordon:
            self._cordon(snapshot.cluster, step, True, now)
        by_region: dict[tuple[str, str], list[Machine]] = {}
        for step in steps.end:
            by_region.setdefault((step.machine.provider, step.machine.region), []).append(step.machine)
        for unneeded in steps.drop:
            by_region.setdefault((unneeded.provider, unneeded.region), []).append(unneeded)
        for leaving in by_region.values():
            self._end(tuple(leaving), "idle", False, now)
        return ended + len(steps.end) + len(steps.drop)

    def _stopped(
        self, snapshot: ClusterSnapshot, machines: tuple[Machine, ...], busy: frozenset[str], now: datetime
    ) -> frozenset[str]:
        """Runs with idle machines for which nothing may be bought: paused, killed, cap used up."""
        nodes = nodes_of(snapshot, machines)
        groups = {
            machine.group
            for machine in machines
            if machine.group.run and ((node := nodes.get(machine.id)) is None or node.name not in busy)
        }
        blocked = self._out.budget.blocked
        return frozenset(group.run for group in sorted(groups) if blocked(group.scope(snapshot.cluster), now))

    def _cordon(self, cluster: str, step: Step, on: bool, now: datetime) -> None:
        ref = Ref(cluster, "v1", "Node", "", step.node.name)
        try:
            self._out.objects[cluster].merge_patch(ref, {"spec": {"unschedulable": on or None}})
        except OutsideError as error:
            log.warning("node not cordoned" if on else "node not uncordoned", node=ref.name, error=str(error))
            return
        current = next((m for m in self._store.live() if m.id == step.machine.id), step.machine)
        self._store.put([replace(current, cordoned=now if on else None)])

    def _end(self, machines: tuple[Machine, ...], reason: str, failed: bool, now: datetime) -> None:
        with self._store.transaction():
            self._store.put(replace(machine, ending=now) for machine in machines)
            decision = decide_to_end(self._journal, machines, reason, failed, now)
        self._journal.carry_out(decision, now)
