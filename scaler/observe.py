"""Keeping the book of our machines true: what the provider lists, what joined, what is left over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from fleet.errors import OutsideError
from fleet.model import L_CLUSTER, L_HOLD, L_POOL, ClusterSnapshot, Instance, Offer
from fleet.values import Money, Resources
from scaler.ports import ScalerPorts
from scaler.settings import ScalerSettings
from scaler.shrink import nodes_of
from scaler.store import ScalerStore
from scaler.values import Group, Machine, node_labels

log = structlog.get_logger(__name__)
LISTED_WITHIN = timedelta(minutes=10)
"""A provider lists a new machine within seconds; one that it does not know after this long is gone."""
ENDED_WITHIN = timedelta(minutes=10)
"""Asked to end and still alive after this long: ask again."""


class MachineWatch:
    """Looks at the providers, as often as it is worth a call."""

    def __init__(self, store: ScalerStore, settings: ScalerSettings, outside: ScalerPorts) -> None:
        self._store = store
        self._settings = settings
        self._out = outside
        self._last: datetime | None = None
        self._complete = False

    def look(self, offers: Callable[[], Sequence[Offer]], now: datetime) -> None:
        """Ask the providers where it is due: note what has ended, adopt what we do not know.

        `offers` is asked only where there is something to adopt.
        """
        if not self._due(now):
            return
        self._last = now
        complete = True
        for provider, machines in self._out.machines.items():
            try:
                listed = machines.describe()
            except OutsideError as error:
                # Nothing may be concluded from a list that is not there.
                log.warning("machines not listed", provider=provider, error=str(error))
                complete = False
                continue
            self._compare(provider, listed, now)
            self._adopt(listed, offers)
        self._complete = self._complete or complete

    @property
    def complete(self) -> bool:
        """Every provider has been listed since the start: no machine of ours is unknown."""
        return self._complete

    def _due(self, now: datetime) -> bool:
        if self._last is None:
            return True
        live = self._store.live()
        if not live and self._complete:
            return False
        moving = not self._complete or any(
            machine.ending is not None or machine.joined is None for machine in live
        )
        return now - self._last >= (self._settings.tick if moving else self._settings.describe_every)

    def _compare(self, provider: str, listed: Sequence[Instance], now: datetime) -> None:
        by_id = {instance.id: instance for instance in listed}
        changed: list[Machine] = []
        for machine in self._store.live():
            if machine.provider != provider:
                continue
            instance = by_id.get(machine.id)
            if instance is None and now - machine.launched > LISTED_WITHIN:
                changed.append(replace(machine, ended=now))
            elif instance is not None and not instance.live:
                changed.append(replace(machine, ended=instance.ended or now))
            elif machine.ending is not None and now - machine.ending > ENDED_WITHIN:
                changed.append(replace(machine, ending=None))
        with self._store.transaction():
            self._store.put(changed)
            for hold in sorted({machine.hold for machine in changed if machine.ended is not None}):
                if hold and self._store.hold_is_over(hold):
                    self._out.budget.release(hold, now, "its machines have ended")

    def _adopt(self, listed: Sequence[Instance], offers: Callable[[], Sequence[Offer]]) -> None:
        ours = {view.name for view in self._out.views}
        unknown = [
            instance
            for instance in listed
            if instance.live
            and instance.tags.get(L_CLUSTER) in ours
            and instance.tags.get(L_POOL)
            and not self._store.known(instance.id)
        ]
        if unknown:
            sold = offers()
            self._store.put(_adopted(instance, sold) for instance in unknown)


def _adopted(instance: Instance, offers: Sequence[Offer]) -> Machine:
    """A machine with our tags that the database does not know: it was lost, or bought before a restore."""
    log.warning("machine adopted", machine=instance.id, region=instance.region)
    group = Group.of(instance.tags)
    wanted = (instance.zone, instance.instance_type, instance.capacity_type, instance.tags[L_POOL])
    offer = next(
        (o for o in offers if (o.zone, o.instance_type, o.capacity_type, o.pool) == wanted),
        None,
    )
    key = f"{instance.provider}/{instance.region}/{instance.zone}/{instance.instance_type}/{instance.capacity_type}"
    return Machine(
        id=instance.id,
        provider=instance.provider,
        region=instance.region,
        zone=instance.zone,
        instance_type=instance.instance_type,
        capacity_type=instance.capacity_type,
        offer_key=key,
        pool=instance.tags[L_POOL],
        cluster=instance.tags[L_CLUSTER],
        group=group,
        hold=instance.tags.get(L_HOLD, ""),
        allocatable=offer.allocatable if offer else Resources(),
        labels=node_labels(offer, group) if offer else group.tags(),
        hourly=offer.price.hourly if offer else Money.zero(),
        launched=instance.launched,
    )


def joined(snapshot: ClusterSnapshot, machines: tuple[Machine, ...], now: datetime) -> tuple[Machine, ...]:
    """Machines whose node is ready for the first time."""
    waiting = tuple(machine for machine in machines if machine.joined is None)
    if not waiting:
        return ()
    nodes = nodes_of(snapshot, waiting)
    return tuple(
        replace(machine, joined=now)
        for machine in waiting
        if (node := nodes.get(machine.id)) is not None and node.ready
    )
