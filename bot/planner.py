"""Launch cards ask the scaler: what would these pods need now, and at worst. Prices are the resolver's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction

from bot.operations.fitting import Fit, NodeLine
from fleet.errors import Unavailable
from fleet.model import L_ROLE, CapacityType, ClusterSnapshot, Node, Offer, Pod
from fleet.ports import ClusterView
from fleet.prices import PriceBook
from fleet.values import Money, Resources
from scaler.loop import Scaler
from scaler.preview import preview, worst_case
from scaler.settings import ScalerSettings
from scaler.values import Machine, Placed, Plan, Purchase


class ScalerPlanner:
    """`bot.operations.house.Planner` over the scaler."""

    def __init__(
        self,
        scaler: Scaler,
        settings: ScalerSettings,
        views: Mapping[str, ClusterView],
        prices: PriceBook,
        problems: Callable[[], tuple[str, ...]],
    ) -> None:
        self._scaler = scaler
        self._settings = settings
        self._views = views
        self._prices = prices
        self._problems = problems

    def fit(self, cluster: str, pods: Sequence[Pod], now: datetime) -> Fit:
        """The machines that these pods would need now. Raises Unavailable before the first full list."""
        snapshot = self._views[cluster].snapshot(now)
        if not snapshot.synced:
            raise Unavailable(f"Cluster {cluster} has not been read completely yet; try again in a moment.")
        situation = self._scaler.situation(snapshot)
        offers = self._scaler.offers(cluster, now)
        known = self._scaler.known(situation)
        plan = preview(situation, pods, offers, known, self._settings, now)
        alone = worst_case(situation, pods, offers, self._settings, now)
        shares = _shares(plan.placed, snapshot, situation.machines, self._prices, now)
        hourly = plan.hourly + Money.total(shares.values())
        regions = [region.name for pool in situation.pools for region in pool.regions]
        return Fit(
            nodes=tuple(_line(purchase) for purchase in plan.purchases),
            existing=sum(len(placed.pods) for placed in plan.placed),
            unplaced=tuple((len(entry.pods), self._because(entry.reason)) for entry in plan.unplaced),
            hourly=hourly,
            worst_hourly=max(hourly, _worst(alone, offers, shares)),
            regions=tuple(dict.fromkeys(regions)),
            estimated=any(purchase.offer.price.estimated for purchase in plan.purchases),
        )

    def _because(self, reason: str) -> str:
        """A catalog that could not be read sells nothing: that is the reason behind the reason."""
        problems = self._problems()
        return f"{reason} ({problems[0]})." if problems else f"{reason.rstrip('.')}."

    def pending_reasons(self, run: str, now: datetime) -> tuple[str, ...]:
        """What the run's pending pods wait for, as of the scaler's last tick."""
        return self._scaler.pending_reasons(run, now)


def _line(purchase: Purchase) -> NodeLine:
    offer = purchase.offer
    return NodeLine(
        count=purchase.count,
        instance_type=offer.instance_type,
        region=offer.region,
        zone=offer.zone,
        capacity_type=offer.capacity_type.value,
        hourly=purchase.hourly,
        roles=tuple(dict.fromkeys(pod.labels.get(L_ROLE, "") for pod in purchase.pods)),
    )


def _worst(alone: Plan, offers: Sequence[Offer], shares: Mapping[str, Money]) -> Money:
    """Everything bought anew, each machine at its dearest region's on-demand price; what cannot be bought
    anywhere costs its share of what is there."""
    dearest: dict[str, Money] = {}
    for offer in offers:
        if offer.capacity_type is not CapacityType.FIXED:
            known = dearest.get(offer.instance_type, Money(0))
            dearest[offer.instance_type] = max(known, offer.price.hourly)
    bought = Money.total(
        dearest.get(p.offer.instance_type, p.offer.price.hourly) * p.count for p in alone.purchases
    )
    nowhere = {pod.uid for entry in alone.unplaced for pod in entry.pods}
    return bought + Money.total(share for uid, share in shares.items() if uid in nowhere)


def _shares(
    placed: Sequence[Placed],
    snapshot: ClusterSnapshot,
    machines: Sequence[Machine],
    prices: PriceBook,
    now: datetime,
) -> dict[str, Money]:
    """Pod → its share of the price of the machine that it would go to: by the dimension it takes most of."""
    booting = {machine.id: machine for machine in machines}
    found: dict[str, Money] = {}
    for entry in placed:
        node, machine = snapshot.nodes.get(entry.space), booting.get(entry.space)
        rate, room = _rate(node, machine, prices, now)
        for pod in entry.pods:
            found[pod.uid] = rate.times(min(_largest_part(pod.requests, room), Fraction(1)))
    return found


def _rate(
    node: Node | None, machine: Machine | None, prices: PriceBook, now: datetime
) -> tuple[Money, Resources]:
    if machine is not None:
        return machine.hourly, machine.allocatable
    if node is not None:
        return prices.node_price(node, None, now).hourly, node.allocatable
    return Money(0), Resources()


def _largest_part(asked: Resources, room: Resources) -> Fraction:
    pairs = ((asked.millicores, room.millicores), (asked.memory, room.memory), (asked.gpus, room.gpus))
    return max((Fraction(part, whole) for part, whole in pairs if whole), default=Fraction(0))
