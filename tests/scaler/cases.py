"""Short ways to say a planning case: pods, offers, constraints, and what was bought."""

from collections import Counter
from typing import Any

from fleet.model import (
    L_CAPACITY_TYPE,
    L_ZONE,
    CapacityType,
    Expression,
    PodAffinity,
    Spread,
)
from fleet.pools import Pool, Region, Zone
from fleet.values import Money
from scaler.capacity import Memory
from scaler.plan import make_plan
from scaler.settings import ScalerSettings
from scaler.values import Group, Limits, Machine, Situation
from tests.builders import T0, offer, pod, resources, snapshot

POLICY = ScalerSettings()


ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")


POOL = Pool(
    "aws",
    "home",
    "aws",
    (
        Region("us-west-2", tuple(Zone(zone, "s") for zone in ZONES), "ami"),
        Region("us-east-1", (Zone("us-east-1a", "s"),), "ami"),
    ),
)


def sold(instance_type="m5.xlarge", cpu="4", memory="16Gi", gpus=0, price="0.2", **more):
    """An offer with round sizes and the labels of its zone and capacity type."""
    zone = more.pop("zone", "us-west-2a")
    kind = more.get("capacity_type", CapacityType.ON_DEMAND)
    labels = {L_ZONE: zone, L_CAPACITY_TYPE: kind.value, "node.kubernetes.io/instance-type": instance_type}
    fields = {"zone": zone, "region": zone[:-1], "labels": labels | more.pop("labels", {})} | more
    return offer(instance_type, price=price, allocatable=resources(cpu, memory, gpus, pods=110), **fields)


def waiting(name, cpu="1", memory="1Gi", **more):
    """A pod that the scheduler found no place for."""
    return pod(name, cpu=cpu, memory=memory, unschedulable=True, **more)


NO_LIMITS, BLANK = Limits(), Memory()


def plan(things, offers, *, limits=NO_LIMITS, memory=BLANK, pools=(POOL,), now=T0, **situation):
    """The plan for pods and nodes of a snapshot."""
    seen = Situation(snapshot(*things), pools, **situation)
    return make_plan(seen, offers, limits, memory, POLICY, now)


def bought(result):
    """How many of which type, by zone."""
    return Counter({(p.offer.instance_type, p.offer.zone): p.count for p in result.purchases})


def types(result):
    """How many of which type."""
    found: Counter[str] = Counter()
    for purchase in result.purchases:
        found[purchase.offer.instance_type] += purchase.count
    return found


def spread(key, skew=1, app="a"):
    """A DoNotSchedule spread over pods of an app."""
    return Spread(key, skew, "DoNotSchedule", (Expression("app", "In", (app,)),))


def anti(key, app="a"):
    """Required anti-affinity against pods of an app."""
    return PodAffinity(key, (Expression("app", "In", (app,)),), anti=True)


def apps(count, placement, cpu="1", app="a"):
    """Pods of an app with a placement."""
    return [waiting(f"{app}{n}", cpu, labels={"app": app}, placement=placement) for n in range(count)]


def machine(**more):
    """A machine of ours that boots."""
    fields: dict[str, Any] = {
        "id": "i-1",
        "provider": "aws",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "instance_type": "m5.xlarge",
        "capacity_type": CapacityType.ON_DEMAND,
        "offer_key": "k",
        "pool": "aws",
        "cluster": "home",
        "group": Group("r1"),
        "hold": "h",
        "allocatable": resources("4", "16Gi", pods=110),
        "labels": {},
        "hourly": Money.usd("0.2"),
        "launched": T0,
    }
    return Machine(**(fields | more))
