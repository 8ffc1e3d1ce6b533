"""What the guard is given from outside, in one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fleet.model import Instance, Node, Price
from fleet.ports import Billing, ClusterView, Directory, Machines, Metrics, Notifier, Workloads


class Prices(Protocol):
    """The one resolver of prices (`fleet.prices.PriceBook`); an unknown price is an upper bound, estimated."""

    def node_price(self, node: Node, instance: Instance | None, at: datetime) -> Price:
        """What this machine costs an hour at that moment."""
        ...


def alone(now: datetime) -> str:
    """What stands against buying where no Lease is shared with anybody: nothing."""
    del now
    return ""


@dataclass(frozen=True, slots=True)
class GuardPorts:
    """Everything outside that the guard sees and acts through. `metrics` and `billing` may be missing.

    `lease` says why nothing may be bought now; "" while this process surely is the one that decides.
    """

    views: Sequence[ClusterView]
    machines: Sequence[Machines]
    prices: Prices
    workloads: Workloads
    directory: Directory
    notifier: Notifier
    metrics: Metrics | None = None
    billing: Billing | None = None
    lease: Callable[[datetime], str] = alone
