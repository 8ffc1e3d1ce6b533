"""The fleet as values: what is seen in clusters and clouds at one moment, flat and frozen.

Pods and jobs are flat structs on purpose: 100,000 of them must fit in memory and compare cheaply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from fleet.values import Money, Resources

LABEL = "quartermaster.dev"
"""Prefix of our labels, annotations and cloud tags."""
L_EXPERIMENT = f"{LABEL}/experiment"
L_RUN = f"{LABEL}/run"
L_ROLE = f"{LABEL}/role"
L_TRIAL = f"{LABEL}/trial"
L_OWNER = f"{LABEL}/owner"
L_TEAM = f"{LABEL}/team"
L_PRIORITY = f"{LABEL}/priority"
L_GOVERNED = f"{LABEL}/governed"
L_POOL = f"{LABEL}/pool"
L_CLUSTER = f"{LABEL}/cluster"
L_HOLD = f"{LABEL}/hold"
L_FLEET = f"{LABEL}/fleet"
A_PAUSED = f"{LABEL}/paused-state"
"""Annotation on a paused object: what to restore, as JSON."""
L_ZONE = "topology.kubernetes.io/zone"
L_REGION = "topology.kubernetes.io/region"
L_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
L_CAPACITY_TYPE = f"{LABEL}/capacity-type"
GPU_RESOURCE = "nvidia.com/gpu"


class CapacityType(StrEnum):
    """How an offer is paid for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    FIXED = "fixed"
    """on-premises: it exists, and cannot be bought"""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; `key` "" with operator Exists tolerates all; `effect` "" any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """One matchExpressions entry: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """A topologySpreadConstraint."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    selector: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """A required pod affinity (or anti-affinity) term."""

    topology_key: str
    selector: tuple[Expression, ...]
    anti: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod may run. `node_affinity` is an OR of ANDs of expressions; empty means anywhere."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[Spread, ...] = ()
    pod_affinity: tuple[PodAffinity, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object (`ownerReferences` with controller: true)."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Ref:
    """An object in a cluster: enough to read, patch or delete it."""

    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as seen. Identity is `uid`: names are reused. Times are aware UTC, None = not yet."""

    cluster: str
    namespace: str
    name: str
    uid: str
    requests: Resources
    """effective: max(each init container + sidecars before it, sidecars + main containers) + overhead"""
    phase: str = "Pending"
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    placement: Placement = Placement()
    owner: Owner | None = None
    priority: int = 0
    created: datetime | None = None
    scheduled: datetime | None = None
    """when PodScheduled turned True: it occupies its node from here"""
    started: datetime | None = None
    finished: datetime | None = None
    """end of the last container; only in phases Succeeded and Failed"""
    deleting: datetime | None = None
    grace_seconds: int = 30
    unschedulable: bool = False
    """PodScheduled=False with reason Unschedulable (not SchedulingGated)"""
    message: str = ""
    """the scheduler's or kubelet's words, for people"""
    restarts: int = 0
    daemon: bool = False

    @property
    def active(self) -> bool:
        """It occupies (or will occupy) resources: not Succeeded, not Failed."""
        return self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    """A node as seen."""

    cluster: str
    name: str
    uid: str
    allocatable: Resources
    provider_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    created: datetime | None = None

    @property
    def instance_id(self) -> str:
        """`i-…` of `aws:///us-east-1a/i-…`; empty where there is none."""
        return self.provider_id.rsplit("/", 1)[-1] if self.provider_id else ""


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job as seen. `conditions` are the types whose status is True."""

    cluster: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    suspended: bool = False
    parallelism: int = 1
    completions: int | None = None
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    conditions: frozenset[str] = frozenset()
    reason: str = ""
    """reason of the Failed condition, e.g. BackoffLimitExceeded"""
    pod_requests: Resources = Resources()
    placement: Placement = Placement()
    owner: Owner | None = None
    created: datetime | None = None
    finished: datetime | None = None
    version: str = ""

    @property
    def done(self) -> bool:
        """Complete or Failed."""
        return bool(self.conditions & {"Complete", "Failed"})

    @property
    def ref(self) -> Ref:
        """How to reach it."""
        return Ref(self.cluster, "batch/v1", "Job", self.namespace, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One cluster at one moment. `synced` False: nothing may be decided from what is missing."""

    cluster: str
    observed_at: datetime
    synced: bool
    pods: Mapping[str, Pod] = field(default_factory=dict)
    """by uid"""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """by name"""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """by uid"""
    governed: frozenset[str] = frozenset()
    """namespaces in which we may act: listed in the settings and labelled as such"""
    stale_since: datetime | None = None
    """set while the API does not answer; the data are the last good ones"""


@dataclass(frozen=True, slots=True)
class Price:
    """A rate per hour with where it comes from. An unknown price is an upper bound, `estimated`."""

    hourly: Money
    source: str
    """on-demand list, spot history, configured rate, upper bound …"""
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that can be bought: provider × region × zone × instance type × capacity type."""

    provider: str
    region: str
    zone: str
    instance_type: str
    capacity_type: CapacityType
    price: Price
    allocatable: Resources
    """what a joined node offers to pods, before DaemonSets"""
    vcpus: int = 0
    family: str = ""
    """quota family, e.g. Standard, P, G"""
    gpu_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """labels a node of it carries: zone, region, instance type, capacity type, arch, pool's own"""
    pool: str = ""

    @property
    def key(self) -> str:
        """Stable identity, e.g. `aws/us-west-2/us-west-2a/p5.48xlarge/on-demand`."""
        return f"{self.provider}/{self.region}/{self.zone}/{self.instance_type}/{self.capacity_type}"


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine at a provider. `state` is pending, running, shutting-down, terminated, stopped."""

    provider: str
    region: str
    zone: str
    id: str
    instance_type: str
    capacity_type: CapacityType
    state: str
    launched: datetime
    ended: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Billed: pending and running are; EC2 bills until shutting-down."""
        return self.state in ("pending", "running")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody the settings know. `id` is the stable key (Slack user id where there is one)."""

    id: str
    name: str
    team: str = ""
    roles: frozenset[str] = frozenset()
    """researcher, lead, operator, admin"""
    approval_limit: Money = Money(0)
    known: bool = True
    """False: anybody else; may read"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person or the guard decided, recorded before it is carried out."""

    id: str
    kind: str
    key: str
    """idempotency: one decision a key"""
    actor: str
    subject: str
    reasons: tuple[str, ...]
    payload: Mapping[str, Any]
    decided_at: datetime
    state: str = "decided"
    """decided → acted → verified → announced; or failed"""
    result: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    """failures in a row"""
    failing_since: datetime | None = None
    next_try: datetime | None = None
    """not before, while the outside fails it"""
