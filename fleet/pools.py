"""Pools: what a cluster may add nodes from. Values; the settings build them, adapters and planner read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.model import CapacityType, Taint
from fleet.values import Money


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone of a region and the subnet that machines there are launched into."""

    name: str
    subnet: str


@dataclass(frozen=True, slots=True)
class Region:
    """One region of a pool, as its provider names it."""

    name: str
    zones: tuple[Zone, ...]
    image: str
    security_groups: tuple[str, ...] = ()
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Where nodes of one cluster may come from. The order of `regions` is the order of preference."""

    name: str
    cluster: str
    provider: str
    """`aws` or `onprem`"""
    regions: tuple[Region, ...] = ()
    instance_types: tuple[str, ...] = ()
    capacity_types: tuple[CapacityType, ...] = (CapacityType.ON_DEMAND,)
    max_nodes: int | None = None
    instance_profile: str = ""
    user_data: str = ""
    """template: {endpoint} {token} {ca} {labels} {taints} are filled in at launch"""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    """on-premises: the labels of the nodes that belong to this pool"""
    hourly: Money | None = None
    """on-premises: configured rate a node"""
