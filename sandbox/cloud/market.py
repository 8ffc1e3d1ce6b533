"""What the world does to offers: capacity comes and goes, prices change, spot machines are taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from fractions import Fraction
from functools import partial

from sandbox.cloud.machine import BY_SPOT, Machine
from sandbox.cloud.region import PriceChange, Region
from sandbox.world import World

SPOT_NOTICE = timedelta(minutes=2)


class Market:
    """Changes to the offers of all regions; `on_end` is told of each machine that was taken back."""

    def __init__(
        self, world: World, regions: Mapping[str, Region], on_end: Callable[[Machine], None]
    ) -> None:
        self._world = world
        self._on_end = on_end
        for region in regions.values():
            for zone, offers in region.spec.zones.items():
                for kind, offer in offers.items():
                    for seconds, price in offer.spot_changes:
                        change = partial(self.set_price, region, zone, kind, price, spot=True)
                        world.after(seconds, change)

    @staticmethod
    def set_capacity(region: Region, zone: str, kind: str, count: int, *, spot: bool) -> None:
        """How many machines of a type the zone has in all; running ones stay."""
        offer = region.offer(zone, kind)
        if spot:
            offer.spot_capacity = count
        else:
            offer.capacity = count

    def set_price(self, region: Region, zone: str, kind: str, price: Fraction, *, spot: bool) -> None:
        """A price from now on. A spot price above what a machine may cost takes the machine back."""
        region.offer(zone, kind)
        if not spot:
            zones = [name for name, offers in region.spec.zones.items() if kind in offers]
            for name in zones:
                self._change(region, (name, kind, False), price)
            return
        self._change(region, (zone, kind, True), price)
        for machine in list(region.machines.values()):
            here = machine.spot and (machine.zone, machine.kind.name) == (zone, kind)
            if here and machine.max_price is not None and price > machine.max_price:
                self._take_back(region, machine, outbid=True)

    def _change(self, region: Region, key: tuple[str, str, bool], price: Fraction) -> None:
        changes = region.prices.setdefault(key, [])
        if changes and changes[-1].price == price:
            return
        changes.append(PriceChange(self._world.now, price))

    def interrupt(self, region: Region, machine: Machine) -> None:
        """Take a spot machine back, and its capacity with it; ValueError for one that is not spot."""
        if not machine.spot:
            raise ValueError(f"{machine.id} is not a spot machine.")
        self._take_back(region, machine, outbid=False)

    def _take_back(self, region: Region, machine: Machine, *, outbid: bool) -> None:
        if not machine.live or machine.marked is not None:
            return
        machine.marked, machine.outbid = self._world.now, outbid
        if not outbid:
            offer = region.offer(machine.zone, machine.kind.name)
            offer.spot_capacity = max(0, offer.spot_capacity - 1)

        def end() -> None:
            if region.end(machine, self._world.now, BY_SPOT):
                self._on_end(machine)

        self._world.after(SPOT_NOTICE.total_seconds(), end)
