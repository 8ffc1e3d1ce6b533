"""The scaler's values: whose pods, which machines, what is planned and why."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fleet.budget import Scope
from fleet.model import (
    L_EXPERIMENT,
    L_OWNER,
    L_RUN,
    L_TEAM,
    LABEL,
    CapacityType,
    ClusterSnapshot,
    Offer,
    Pod,
    Taint,
)
from fleet.pools import Pool
from fleet.ports import Quota
from fleet.values import Money, Resources

UNATTRIBUTED = "unattributed"
"""Team of pods that carry no owner."""
L_GPU = f"{LABEL}/gpu"
"""Label of a node with its GPU's name."""
L_KEEP = f"{LABEL}/do-not-disrupt"
"""Label `true` on a node: it is never ended by us."""


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """Whom machines are bought for. Purchases never mix groups, so that each is charged to one."""

    run: str = ""
    experiment: str = ""
    owner: str = ""
    team: str = UNATTRIBUTED

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Group:
        """The group that labels or tags name."""
        return cls(
            labels.get(L_RUN, ""),
            labels.get(L_EXPERIMENT, ""),
            labels.get(L_OWNER, ""),
            labels.get(L_TEAM, "") or UNATTRIBUTED,
        )

    def scope(self, cluster: str, region: str = "") -> Scope:
        """The caps that a purchase for this group is under."""
        return Scope(cluster, region, self.team, self.owner, self.experiment, self.run)

    def tags(self) -> dict[str, str]:
        """What its machines carry."""
        found = {L_RUN: self.run, L_EXPERIMENT: self.experiment, L_OWNER: self.owner, L_TEAM: self.team}
        return {key: value for key, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that are alike for every purpose of planning."""

    group: Group
    pods: tuple[Pod, ...]

    @property
    def sample(self) -> Pod:
        """Any of them."""
        return self.pods[0]

    @property
    def key(self) -> str:
        """Stable identity across ticks."""
        pod = self.sample
        text = repr((pod.cluster, pod.namespace, self.group.run, pod.requests, pod.placement))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of ours from the moment it was bought, whether the provider lists it yet or not."""

    id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    capacity_type: CapacityType
    offer_key: str
    pool: str
    cluster: str
    group: Group
    hold: str
    allocatable: Resources
    labels: Mapping[str, str]
    hourly: Money
    launched: datetime
    joined: datetime | None = None
    """when its node was first seen ready"""
    idle_since: datetime | None = None
    cordoned: datetime | None = None
    ending: datetime | None = None
    """we have asked the provider to end it"""
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What may still be added. A key that is missing has no limit."""

    pools: Mapping[str, int] = field(default_factory=dict)
    regions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pool, region) → nodes"""
    runs: Mapping[str, int] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """One cluster at one moment, with what the cluster itself does not show."""

    snapshot: ClusterSnapshot
    pools: tuple[Pool, ...] = ()
    """of this cluster, in order of preference"""
    machines: tuple[Machine, ...] = ()
    """ours, live, joined or not"""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """run ("" = no run) → why nothing is bought for it"""
    tripped: Mapping[str, str] = field(default_factory=dict)
    """key of a pod class → why nothing more is bought for it"""
    distrusted: frozenset[str] = frozenset()
    """pods that the scheduler keeps refusing although we see room: they get none of it"""
    on_their_way: Mapping[str, str] = field(default_factory=dict)
    """uid of a pod → why it waits: a purchase for it has no answer yet"""


@dataclass(frozen=True, slots=True)
class Purchase:
    """Machines to buy: one offer, one group."""

    offer: Offer
    count: int
    group: Group
    pods: tuple[Pod, ...]
    """that they are for"""
    reason: str

    @property
    def hourly(self) -> Money:
        """What they cost together."""
        return self.offer.price.hourly * self.count


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods that fit something which exists or boots already."""

    space: str
    """node name, or machine id while it has no node"""
    pods: tuple[Pod, ...]
    joined: bool


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Pods that get nothing now, and why. `sold` False: nothing on sale fits them at all."""

    group: Group
    pods: tuple[Pod, ...]
    reason: str
    sold: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What to buy, what fits already, what stays pending and why."""

    purchases: tuple[Purchase, ...] = ()
    placed: tuple[Placed, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()

    @property
    def hourly(self) -> Money:
        """What the purchases would cost."""
        return Money.total(purchase.hourly for purchase in self.purchases)

    @property
    def used(self) -> frozenset[str]:
        """Nodes and machines that pending pods are going to use."""
        return frozenset(placed.space for placed in self.placed)


def node_labels(offer: Offer, group: Group) -> dict[str, str]:
    """Labels that a node of this offer carries when it is bought for this group."""
    gpu = {L_GPU: offer.gpu_name} if offer.gpu_name else {}
    return {**offer.labels, **gpu, **group.tags()}


def offer_taints(offer: Offer, pools: tuple[Pool, ...]) -> tuple[Taint, ...]:
    """Taints that a node of this offer carries."""
    return next((pool.taints for pool in pools if pool.name == offer.pool), ())


def size_words(resources: Resources) -> str:
    """`4 cores, 16 GiB, 1 GPU` for people."""
    cores = f"{resources.millicores / 1000:g} cores"
    memory = f"{resources.memory / 2**30:.4g} GiB"
    gpus = f", {resources.gpus} {'GPU' if resources.gpus == 1 else 'GPUs'}" if resources.gpus else ""
    return f"{cores}, {memory}{gpus}"
