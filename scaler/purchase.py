"""Buying: hold → launch → settle, where the hold's id is the ClientToken and its payload the exact request.

A crash (or a lost answer) between hold and settle leaves the hold unsettled; the very same request is then
repeated, which never buys twice. Another region or type is another attempt under another token.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from fleet.budget import HoldAnswer, HoldKind, HoldRequest, launch_hold_id
from fleet.errors import QuartermasterError, Unavailable
from fleet.model import L_CLUSTER, L_HOLD, L_POOL, CapacityType, Instance
from fleet.ports import LaunchRequest
from fleet.values import Money, Resources
from scaler.ports import ScalerPorts
from scaler.values import L_GPU, Group, Machine, Purchase, node_labels

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt: machines, an error, a refusal by the budget, or no answer yet."""

    machines: tuple[Machine, ...] = ()
    error: Exception | None = None
    refused: str = ""
    unanswered: bool = False


def hold_request(purchase: Purchase, cluster: str, ports: ScalerPorts, attempt: int) -> HoldRequest:
    """The hold for one attempt, with the launch request in its payload. Same arguments, same token."""
    offer, group = purchase.offer, purchase.group
    name = f"{cluster}/{group.run}/{group.team}/{offer.key}/{purchase.count}/{attempt}"
    token = f"p-{uuid.uuid5(uuid.NAMESPACE_URL, name).hex}"
    tags = {**group.tags(), L_POOL: offer.pool, L_CLUSTER: cluster, L_HOLD: token}
    if offer.gpu_name:
        tags[L_GPU] = offer.gpu_name
    request = LaunchRequest(
        token=token,
        offer_key=offer.key,
        provider=offer.provider,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        capacity_type=offer.capacity_type,
        count=purchase.count,
        pool=offer.pool,
        cluster=cluster,
        tags=tags,
    )
    size = offer.allocatable
    payload = {
        "request": request_to_json(request),
        "hourly": offer.price.hourly.micros,
        "allocatable": [size.millicores, size.memory, size.gpus, size.pods],
        "labels": node_labels(offer, group),
        "pods": [pod.uid for pod in purchase.pods],
    }
    return HoldRequest(
        id=token,
        kind=HoldKind.PURCHASE,
        scope=group.scope(cluster, offer.region),
        amount=purchase.hourly.over(ports.hold_span),
        burn=purchase.hourly,
        reason=purchase.reason,
        draws_on=(launch_hold_id(group.run),) if group.run else (),
        payload=payload,
    )


def affordable(purchase: Purchase, answer: HoldAnswer, ports: ScalerPorts) -> int:
    """How many of the machines would fit what is left under every cap that refused."""
    each = purchase.offer.price.hourly.over(ports.hold_span)
    if not answer.misfits or each.micros <= 0:
        return 0
    short = max(misfit.short for misfit in answer.misfits)
    return max(0, purchase.count - -(-short.micros // each.micros))


def carry_out(
    hold: HoldRequest, ports: ScalerPorts, record: Callable[[tuple[Machine, ...]], None], now: datetime
) -> Outcome:
    """Launch what a hold's payload says, record the machines, then settle; repeatable, and what recovery calls."""
    request = request_from_json(hold.payload["request"])
    machines = ports.machines.get(request.provider)
    if machines is None:
        ports.budget.release(hold.id, now, f"provider {request.provider} is not configured any more")
        return Outcome()
    try:
        result = machines.launch(request)
    except Unavailable as error:
        log.warning("purchase without an answer", hold=hold.id, error=str(error))
        return Outcome(error=error, unanswered=True)
    except QuartermasterError as error:
        ports.budget.release(hold.id, now, f"not bought: {error}")
        return Outcome(error=error)
    bought = tuple(_machine(instance, hold, request) for instance in result.instances)
    if not bought:
        ports.budget.release(hold.id, now, "nothing was bought")
        return Outcome(error=result.shortfall)
    hourly = Money(hold.payload["hourly"]) * len(bought)
    # Recorded before it is settled: a settled hold is not repeated, so nobody may have to ask what it bought.
    record(bought)
    ids = [machine.id for machine in bought]
    ports.budget.settle(hold.id, now, burn=hourly, result={"instances": ids})
    return Outcome(bought, result.shortfall)


def _machine(instance: Instance, hold: HoldRequest, request: LaunchRequest) -> Machine:
    return Machine(
        id=instance.id,
        provider=instance.provider,
        region=instance.region,
        zone=instance.zone or request.zone,
        instance_type=request.instance_type,
        capacity_type=request.capacity_type,
        offer_key=request.offer_key,
        pool=request.pool,
        cluster=request.cluster,
        group=Group.of(request.tags),
        hold=hold.id,
        allocatable=Resources(*hold.payload["allocatable"]),
        labels=hold.payload["labels"],
        hourly=Money(hold.payload["hourly"]),
        launched=instance.launched,
    )


def shrunk(purchase: Purchase, count: int) -> Purchase:
    """The same purchase with fewer machines."""
    pods = purchase.pods[: len(purchase.pods) * count // purchase.count]
    reason = f"{count} × {purchase.offer.instance_type} in {purchase.offer.zone}, as many as the cap allows"
    return replace(purchase, count=count, pods=pods, reason=reason)


def request_to_json(request: LaunchRequest) -> dict[str, Any]:
    """A launch request as plain values."""
    return {
        "token": request.token,
        "offer_key": request.offer_key,
        "provider": request.provider,
        "region": request.region,
        "zone": request.zone,
        "instance_type": request.instance_type,
        "capacity_type": request.capacity_type.value,
        "count": request.count,
        "pool": request.pool,
        "cluster": request.cluster,
        "tags": dict(request.tags),
        "max_price": request.max_price.micros if request.max_price is not None else None,
        "minimum": request.minimum,
    }


def request_from_json(plain: Mapping[str, Any]) -> LaunchRequest:
    """The launch request that `request_to_json` wrote."""
    price = plain["max_price"]
    changed = {
        "capacity_type": CapacityType(plain["capacity_type"]),
        "max_price": Money(price) if price is not None else None,
    }
    return LaunchRequest(**{**plain, **changed})
