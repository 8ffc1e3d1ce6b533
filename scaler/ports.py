"""What the scaler needs from the outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from fleet.pools import Pool
from fleet.ports import Budget, Catalog, ClusterView, Machines, Notifier, Objects


def _no_limit(_run: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class ScalerPorts:
    """The scaler's doors to the outside. `objects` is by cluster, `catalogs` and `machines` by provider."""

    views: Sequence[ClusterView]
    objects: Mapping[str, Objects]
    catalogs: Mapping[str, Catalog]
    machines: Mapping[str, Machines]
    budget: Budget
    notifier: Notifier
    pools: Sequence[Pool]
    hold_span: timedelta = timedelta(minutes=21)
    """what a purchase is held for: tick + countdown + drain of the guard"""
    run_max_nodes: Callable[[str], int | None] = _no_limit
    """limits.max_nodes of a run"""
