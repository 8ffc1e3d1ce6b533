"""Plan and buy until every pod has its place or nothing is left to try, all in one tick.

A typed error teaches the memory, and the next plan goes on elsewhere at once. The loop ends because every
turn removes an offer, blocks a group, or buys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from fleet.budget import HoldAnswer, HoldRequest
from fleet.errors import NoCapacity, QuotaExceeded
from fleet.model import Offer
from fleet.ports import Quota
from scaler.capacity import Breaker, Memory, is_config_problem
from scaler.demand import classes
from scaler.events import MachinesBought, Overflowed, ProviderRefused, PurchaseRefused, QuotaReached
from scaler.plan import make_plan
from scaler.ports import ScalerPorts
from scaler.purchase import Outcome, affordable, carry_out, hold_request, request_from_json, shrunk
from scaler.settings import ScalerSettings
from scaler.store import ScalerStore
from scaler.values import Group, Limits, Machine, Plan, Purchase, Situation

log = structlog.get_logger(__name__)
MAX_TURNS = 500


@dataclass(frozen=True, slots=True)
class Market:
    """What is sold, and to how many: offers, quotas, and the runs that want something."""

    offers: tuple[Offer, ...] = ()
    quotas: tuple[Quota, ...] = ()
    runs: frozenset[str] = frozenset()


@dataclass
class Turns:
    """What is learnt while a tick buys for one cluster."""

    situation: Situation
    blocked: dict[str, str] = field(default_factory=dict)
    on_their_way: dict[str, str] = field(default_factory=dict)
    bought: list[Machine] = field(default_factory=list)
    again: bool = False


class Buyer:
    """Carries plans out and keeps what providers said."""

    def __init__(self, store: ScalerStore, settings: ScalerSettings, outside: ScalerPorts) -> None:
        self._store = store
        self._settings = settings
        self._out = outside
        self.memory: Memory = store.memory()
        self.breaker: Breaker = store.breaker()

    def provide(self, situation: Situation, market: Market, now: datetime) -> tuple[Plan, Turns]:
        """Buy what the pending pods need; returns the last plan and what happened."""
        turns = Turns(situation, dict(situation.blocked), dict(situation.on_their_way))
        plan = Plan()
        for _ in range(MAX_TURNS):
            turns.again = False
            current = replace(
                situation,
                machines=self._machines(situation.snapshot.cluster),
                blocked=turns.blocked,
                on_their_way=turns.on_their_way,
            )
            limits = self.limits(current, market)
            plan = make_plan(current, market.offers, limits, self.memory, self._settings, now)
            for purchase in _in_batches(plan.purchases, self._settings.batch):
                self._buy(purchase, turns, now)
            if not turns.again:
                break
        self._store.save_memory(self.memory.fresh(now, self._settings))
        if turns.bought:
            self._store.save_breaker(self.breaker)
        return plan, turns

    def recover(self, hold: HoldRequest, now: datetime, sold: Callable[[], Iterable[Offer]]) -> Outcome:
        """Repeat a purchase whose outcome is not recorded; what it teaches about the offer is learnt all the same."""
        outcome = self._carry_out(hold, now)
        if outcome.error is not None and not outcome.unanswered:
            request = request_from_json(hold.payload["request"])
            offer = next((each for each in sold() if each.key == request.offer_key), None)
            if offer is not None:
                self._learn(outcome.error, offer, Group.of(request.tags), now)
        return outcome

    def failed_machine(self, machine: Machine, reason: str, now: datetime) -> None:
        """Leave the offer of a machine alone that never became useful."""
        self.memory = self.memory.note_failed_machine(machine.offer_key, now, self._settings, reason)
        self._store.save_memory(self.memory)

    def see(self, pending: frozenset[str]) -> None:
        """Pods that are pending now: progress resets the breaker."""
        seen = self.breaker.seen(pending)
        if seen is not self.breaker:
            self.breaker = seen
            self._store.save_breaker(seen)

    def _machines(self, cluster: str) -> tuple[Machine, ...]:
        return tuple(machine for machine in self._store.live() if machine.cluster == cluster)

    def limits(self, situation: Situation, market: Market) -> Limits:
        """What may still be bought, from the pools, the machines that live and the providers' quotas."""
        live = self._store.live()
        pools = {
            pool.name: pool.max_nodes - sum(machine.pool == pool.name for machine in live)
            for pool in situation.pools
            if pool.max_nodes is not None
        }
        regions = {
            (pool.name, region.name): region.max_nodes
            - sum(machine.pool == pool.name and machine.region == region.name for machine in live)
            for pool in situation.pools
            for region in pool.regions
            if region.max_nodes is not None
        }
        most = {run: self._out.run_max_nodes(run) for run in sorted(market.runs) if run}
        runs = {
            run: limit - sum(machine.group.run == run for machine in live)
            for run, limit in most.items()
            if limit is not None
        }
        return Limits(pools, regions, runs, market.quotas)

    def _buy(self, purchase: Purchase, turns: Turns, now: datetime) -> None:
        offer = purchase.offer
        learnt_meanwhile = self.memory.unavailable(offer, now) or self.memory.waiting(offer, now)
        hold = None
        if purchase.group.run not in turns.blocked and not learnt_meanwhile:
            hold = self._held(purchase, turns, now)
        if hold is None:
            turns.again = True
            return
        outcome = self._carry_out(hold, now)
        if outcome.unanswered:
            for uid in hold.payload["pods"]:
                turns.on_their_way[uid] = f"a purchase in {offer.region} has no answer yet"
            turns.again = True
            return
        if outcome.machines:
            self._note_bought(purchase, outcome.machines, turns)
        if outcome.error is not None:
            turns.again = True
            self._learn(outcome.error, offer, purchase.group, now)

    def _held(self, purchase: Purchase, turns: Turns, now: datetime) -> HoldRequest | None:
        """The granted hold, for fewer machines where the cap allows no more; None blocks the group."""
        request, answer = self._ask(purchase, turns, now)
        if answer.granted:
            return request
        refused = answer
        count = affordable(purchase, answer, self._out)
        if 0 < count < purchase.count:
            request, answer = self._ask(shrunk(purchase, count), turns, now)
        reason = refused.reason or f"the cap {refused.misfits[0].cap} has {refused.misfits[0].left} left"
        # Whatever was granted, no more fits: the rest of the group waits for another tick.
        turns.blocked[purchase.group.run] = reason
        turns.again = True
        event = PurchaseRefused(*_whose(purchase.group), reason)
        key = f"purchase-refused:{purchase.group.run}:{now:%Y-%m-%dT%H}"
        self._out.notifier.notify(event, key=key, now=now)
        return request if answer.granted else None

    def _ask(self, purchase: Purchase, turns: Turns, now: datetime) -> tuple[HoldRequest, HoldAnswer]:
        cluster = turns.situation.snapshot.cluster
        request = hold_request(purchase, cluster, self._out, self._store.next_attempt())
        return request, self._out.budget.hold(request, now)

    def _carry_out(self, hold: HoldRequest, now: datetime) -> Outcome:
        def record(machines: tuple[Machine, ...]) -> None:
            self._store.put(machines)
            first = machines[0]
            hourly = first.hourly * len(machines)
            event = MachinesBought(
                *_whose(first.group), first.cluster, first.region, first.instance_type, len(machines), hourly
            )
            self._out.notifier.notify(event, key=f"bought:{hold.id}", now=now)

        return carry_out(hold, self._out, record, now)

    def _note_bought(self, purchase: Purchase, machines: tuple[Machine, ...], turns: Turns) -> None:
        turns.bought.extend(machines)
        self.memory = self.memory.note_success(purchase.offer)
        served = purchase.pods[: -(-len(purchase.pods) * len(machines) // purchase.count)]
        by_class = {cls.key: [pod.uid for pod in cls.pods] for cls in classes(served)}
        self.breaker = self.breaker.bought(by_class)

    def _learn(self, error: Exception, offer: Offer, group: Group, now: datetime) -> None:
        log.info("offer failed", offer=offer.key, run=group.run, error=str(error))
        self.memory = self.memory.note(error, offer, now, self._settings)
        self._store.save_memory(self.memory)
        notify = self._out.notifier.notify
        if isinstance(error, NoCapacity | QuotaExceeded):
            event = Overflowed(*_whose(group), offer.region, str(error))
            notify(event, key=f"overflow:{group.run}:{offer.region}", now=now)
        if isinstance(error, QuotaExceeded):
            quota = QuotaReached(offer.provider, offer.region, offer.family, str(error))
            notify(quota, key=f"quota:{offer.provider}:{offer.region}:{offer.family}:{now:%Y-%m-%d}", now=now)
        if is_config_problem(error):
            refused = ProviderRefused(offer.provider, offer.pool, str(error))
            notify(refused, key=f"refused:{offer.provider}:{offer.pool}:{now:%Y-%m-%dT%H}", now=now)


def _whose(group: Group) -> tuple[str, str, str, str]:
    return group.run, group.experiment, group.owner, group.team


def _in_batches(purchases: Sequence[Purchase], most: int) -> Iterator[Purchase]:
    """A call buys at most `most` machines, so that one answer never decides about a thousand."""
    for purchase in purchases:
        if purchase.count <= most:
            yield purchase
            continue
        each = -(-len(purchase.pods) * most // purchase.count)
        for start in range(0, purchase.count, most):
            count = min(most, purchase.count - start)
            first = start // most * each
            yield replace(purchase, count=count, pods=purchase.pods[first : first + each])
