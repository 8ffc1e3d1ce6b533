"""GPUs of simulated nodes: which pod holds which device, from when to when (what DCGM would see)."""

from __future__ import annotations

import heapq
import uuid
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of one node."""

    node: str
    index: int
    uuid: str
    model: str


@dataclass(eq=False, slots=True)
class GpuUse:
    """A container held a device; `until` None = it still does."""

    device: Device
    namespace: str
    pod: str
    container: str
    utilisation: float | None
    """0..100; None = the exporter says nothing about it"""
    since: datetime
    until: datetime | None = None


@dataclass(eq=False, slots=True)
class NodeDevices:
    """The devices of a node, lowest index first."""

    node: str
    model: str
    since: datetime
    until: datetime | None = None
    count: int = 0
    free: list[int] = field(default_factory=list)

    def plug(self, count: int) -> None:
        """The device plugin announces devices."""
        for index in range(self.count, count):
            heapq.heappush(self.free, index)
        self.count = max(self.count, count)

    def device(self, index: int) -> Device:
        """The device with this index; its UUID depends on node and index only."""
        name = uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.node}/{index}")
        return Device(self.node, index, f"GPU-{name}", self.model)

    def take(self, count: int) -> list[Device]:
        """At most `count` free devices."""
        return [self.device(heapq.heappop(self.free)) for _ in range(min(count, len(self.free)))]

    def give_back(self, device: Device) -> None:
        """The container is gone."""
        heapq.heappush(self.free, device.index)
