"""What to buy, decided: `make_plan` is a pure function of what is seen, sold, allowed and remembered.

Order of policies, each line with its reason:
1. what exists or boots is filled first            nothing is bought twice
2. nothing is bought for blocked or tripped runs   money before machines; no endless loops
3. pools in order, regions in order                the order in the settings is the team's preference
4. within a region the cheapest for what it holds  price per fit, over types, zones and capacity types
5. GPU pods before CPU pods                        CPU pods may fill a GPU machine that is bought anyway
6. GPU machines for CPU pods only at the very end  where nothing else fits
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fleet.model import CapacityType, Offer, Pod
from scaler.capacity import Memory
from scaler.choose import Candidate, Need, choose
from scaler.demand import classes, pending
from scaler.fit import Space, misfit
from scaler.limits import Allowance
from scaler.settings import ScalerSettings
from scaler.shortage import explain
from scaler.spaces import Rooms
from scaler.values import (
    Group,
    Limits,
    Placed,
    Plan,
    PodClass,
    Purchase,
    Situation,
    Unplaced,
)
from scaler.zones import ZoneBook, constrained


def make_plan(  # the signature that the design gives it
    situation: Situation,
    offers: Sequence[Offer],
    limits: Limits,
    memory: Memory,
    policy: ScalerSettings,
    now: datetime,
) -> Plan:
    """The plan for every pending pod of a cluster."""
    return plan_pods(situation, pending(situation.snapshot), offers, (limits, memory), policy, now)


def plan_pods(
    situation: Situation,
    pods: Iterable[Pod],
    offers: Sequence[Offer],
    known: tuple[Limits, Memory],
    policy: ScalerSettings,
    now: datetime,
) -> Plan:
    """The plan for these pods, whether they exist already or not (launch cards)."""
    found = classes(pods)
    if not found:
        return Plan()
    return _Planner(situation, found, offers, known, (policy, now)).plan()


class _Planner:
    """One planning: state that only lives while a plan is made."""

    def __init__(
        self,
        situation: Situation,
        found: tuple[PodClass, ...],
        offers: Sequence[Offer],
        known: tuple[Limits, Memory],
        when: tuple[ScalerSettings, datetime],
    ) -> None:
        limits, self._memory = known
        self._policy, self._now = when
        self._situation = situation
        self._classes = found
        self._allowance = Allowance(limits)
        self._rooms = Rooms(situation, (cls.sample for cls in found))
        self._zones = ZoneBook(situation.snapshot, any(constrained(cls.sample) for cls in found))
        pools = {pool.name: place for place, pool in enumerate(situation.pools)}
        self._offers = tuple(
            offer for offer in offers if offer.pool in pools and offer.capacity_type is not CapacityType.FIXED
        )
        self._placed: dict[str, tuple[Space, list[Pod]]] = {}
        self._bought: dict[tuple[Group, str], tuple[Offer, int, list[Pod]]] = {}
        self._unplaced: list[Unplaced] = []

    def plan(self) -> Plan:
        """Fill what exists, then buy, group by group."""
        needs = [need for need in map(self._need, self._classes) if need is not None]
        spaces = self._rooms.existing()
        for need in needs:
            self._fill_existing(need, spaces)
        groups: dict[Group, list[Need]] = {}
        for need in needs:
            if need.left and self._may_buy(need):
                groups.setdefault(need.cls.group, []).append(need)
        for group, wanted in groups.items():
            self._buy(group, wanted)
        return Plan(
            tuple(self._purchase(group, entry) for (group, _), entry in self._bought.items()),
            tuple(Placed(name, tuple(pods), space.joined) for name, (space, pods) in self._placed.items()),
            tuple(self._unplaced),
        )

    def _need(self, cls: PodClass) -> Need | None:
        """The class as a need, without pods that a purchase without an answer may have served already."""
        situation = self._situation
        waiting = [pod for pod in cls.pods if pod.uid in situation.on_their_way]
        if waiting:
            told = situation.on_their_way[waiting[0].uid]
            self._unplaced.append(Unplaced(cls.group, tuple(waiting), told))
        rest = tuple(pod for pod in cls.pods if pod.uid not in situation.on_their_way)
        return Need(PodClass(cls.group, rest), len(rest)) if rest else None

    def _may_buy(self, need: Need) -> bool:
        """Nothing stands against buying for these pods; otherwise the reason is noted."""
        cls, situation = need.cls, self._situation
        reason = situation.blocked.get(cls.group.run, "") or situation.tripped.get(cls.key, "")
        if reason:
            self._unplaced.append(Unplaced(cls.group, cls.pods, reason))
        return not reason

    def _fill_existing(self, need: Need, spaces: Sequence[Space]) -> None:
        sample = need.cls.sample
        zones = (space.zone for space in spaces if not misfit(sample.placement, space.labels, space.taints))
        need.zones = self._zones.allowed(need.cls, need.left, zones) if constrained(sample) else None
        distrusted = {pod.uid for pod in need.cls.pods if pod.uid in self._situation.distrusted}
        for space in spaces:
            # The scheduler sees ready nodes, too: who it kept refusing gets no room there from us.
            held_back = len(distrusted) if space.joined else 0
            count = space.room(sample, min(need.wanted(space.zone), need.left - held_back))
            if count <= 0 or misfit(sample.placement, space.labels, space.taints):
                continue
            space.add(sample, count)
            pods = self._take(need, space.zone, count, distrusted if space.joined else set())
            self._placed.setdefault(space.name, (space, []))[1].extend(pods)

    def _take(self, need: Need, zone: str, count: int, last: set[str]) -> list[Pod]:
        """Take pods out of a need, those in `last` only when no others are left."""
        pods = list(need.cls.pods)
        if last:
            pods.sort(key=lambda pod: pod.uid in last)
        taken, rest = pods[:count], pods[count:]
        need.take(zone, count)
        self._zones.add(taken[0], zone, count)
        if rest:
            need.cls = PodClass(need.cls.group, tuple(rest))
        return taken

    def _buy(self, group: Group, needs: list[Need]) -> None:
        """Regions in order; whatever one has no room for goes on to the next."""
        gpu = [place for place, need in enumerate(needs) if need.cls.sample.requests.gpus]
        plain = [place for place in range(len(needs)) if place not in gpu]
        halted: dict[int, str] = {}
        for first, gpu_machines in ((gpu, True), (plain, False), (plain, True)):
            for bucket in self._buckets():
                wanted = [place for place in first if needs[place].left and place not in halted]
                if wanted:
                    self._buy_in(group, bucket, needs, (wanted, gpu_machines), halted)
        for place, need in enumerate(needs):
            if need.left:
                self._unplaced.append(self._shortage(need, halted.get(place, "")))

    def _buckets(self) -> list[tuple[Offer, ...]]:
        """Offers by pool and region, in the order of the settings."""
        order = [(pool.name, region.name) for pool in self._situation.pools for region in pool.regions]
        found: dict[tuple[str, str], list[Offer]] = {key: [] for key in order}
        for offer in self._offers:
            found.setdefault((offer.pool, offer.region), []).append(offer)
        return [tuple(bucket) for bucket in found.values() if bucket]

    def _buy_in(
        self,
        group: Group,
        bucket: tuple[Offer, ...],
        needs: list[Need],
        aim: tuple[list[int], bool],
        halted: dict[int, str],
    ) -> None:
        wanted, gpu_machines = aim
        candidates = self._candidates(group, bucket, needs, wanted, gpu_machines)
        if not candidates:
            return
        waiting = self._memory.waiting(bucket[0], self._now)
        if waiting:
            for place in {place for candidate in candidates for place in candidate.serves}:
                halted[place] = f"waits for {bucket[0].region}: {waiting}"
            return
        zones = tuple(candidate.offer.zone for candidate in candidates)
        for need in needs:
            need.zones = self._zones.allowed(need.cls, need.left, zones) if need.left else need.zones
        while True:
            open_now = [c for c in candidates if self._allowance.left(c.offer, group) > 0]
            choice = choose(open_now, needs, wanted)
            if choice is None:
                return
            offer = choice.candidate.offer
            count = min(choice.repeat, self._allowance.left(offer, group))
            self._allowance.take(offer, group, count)
            entry = self._bought.setdefault((group, offer.key), (offer, 0, []))
            pods = entry[2]
            for place, each in choice.pattern:
                pods.extend(self._take(needs[place], offer.zone, each * count, set()))
            self._bought[group, offer.key] = (offer, entry[1] + count, pods)

    def _candidates(
        self,
        group: Group,
        bucket: tuple[Offer, ...],
        needs: list[Need],
        wanted: list[int],
        gpu_machines: bool,
    ) -> list[Candidate]:
        found = []
        for offer in bucket:
            if bool(offer.allocatable.gpus) is not gpu_machines:
                continue
            if self._memory.unavailable(offer, self._now):
                continue
            space = self._rooms.of_offer(offer, group)
            serves = tuple(
                place
                for place, need in enumerate(needs)
                if need.left and not self._unfit(need.cls.sample, space, offer)
            )
            if any(place in wanted for place in serves):
                found.append(Candidate(offer, space, serves))
        return found

    def _unfit(self, pod: Pod, space: Space, offer: Offer) -> str:
        if pod.requests.gpus and offer.allocatable.gpus > pod.requests.gpus * self._policy.gpu_waste:
            return f"has {offer.allocatable.gpus} GPUs for a pod with {pod.requests.gpus}"
        if not pod.requests.fits_in(space.free):
            return "is too small"
        return misfit(pod.placement, space.labels, space.taints)

    def _purchase(self, group: Group, entry: tuple[Offer, int, list[Pod]]) -> Purchase:
        offer, count, pods = entry
        reason = f"{count} × {offer.instance_type} in {offer.zone} for {len(pods)} pods"
        return Purchase(offer, count, group, tuple(pods), reason)

    def _shortage(self, need: Need, halted: str) -> Unplaced:
        pods = need.cls.pods
        if halted:
            return Unplaced(need.cls.group, pods, halted)
        views = [(offer, self._rooms.of_offer(offer, need.cls.group)) for offer in self._offers]
        reason, sold = explain(
            need.cls.sample, views, self._memory, self._allowance, (self._policy, self._now)
        )
        return Unplaced(need.cls.group, pods, reason, sold)
