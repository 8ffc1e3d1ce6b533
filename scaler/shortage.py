"""Why pods get no machine, in words, with what would fix it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleet.model import Offer, Pod
from fleet.values import Resources
from scaler.capacity import Memory
from scaler.fit import Space, misfit
from scaler.limits import Allowance
from scaler.settings import ScalerSettings
from scaler.values import Group, size_words
from scaler.zones import constrained

View = tuple[Offer, Space]
_TOLD = 3


def explain(
    pod: Pod,
    views: Sequence[View],
    memory: Memory,
    allowance: Allowance,
    when: tuple[ScalerSettings, datetime],
) -> tuple[str, bool]:
    """(reason, whether anything on sale fits at all) for a pod that the plan left over."""
    policy, now = when
    if not views:
        return "no pool of this cluster sells machines", False
    allowed = [
        (offer, space) for offer, space in views if not misfit(pod.placement, space.labels, space.taints)
    ]
    if not allowed:
        first = misfit(pod.placement, views[0][1].labels, views[0][1].taints)
        return f"nothing on sale is like that: {first}", False
    large = [offer for offer, space in allowed if pod.requests.fits_in(space.free)]
    if not large:
        return _too_large(pod, allowed), False
    modest = [
        offer for offer in large if offer.allocatable.gpus <= max(1, pod.requests.gpus) * policy.gpu_waste
    ]
    if pod.requests.gpus and not modest:
        smallest = min(large, key=lambda offer: (offer.allocatable.gpus, offer.key))
        return (
            f"the smallest machine that fits is {smallest.instance_type} with {smallest.allocatable.gpus} GPUs "
            f"for {pod.requests.gpus}: more than gpu_waste ({policy.gpu_waste}) allows"
        ), False
    return _for_now(pod, large, memory, allowance, now), True


def _for_now(pod: Pod, offers: Sequence[Offer], memory: Memory, allowance: Allowance, now: datetime) -> str:
    limits = {allowance.why(offer, Group.of(pod.labels)) for offer in offers}
    if "" not in limits:
        return "; ".join(sorted(limits)[:_TOLD])
    refusals = {offer.key: memory.unavailable(offer, now) for offer in offers}
    if all(refusals.values()):
        told = list(dict.fromkeys(refusals.values()))
        more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
        return f"nothing that fits is to be had now: {'; '.join(told[:_TOLD])}{more}"
    if constrained(pod):
        return "its zone constraints leave no zone in which something is to be had now"
    return "what fits is limited or not to be had now: " + "; ".join(
        sorted({reason for reason in (*limits, *refusals.values()) if reason})[:_TOLD]
    )


def _too_large(pod: Pod, allowed: Sequence[View]) -> str:
    """Name the nearest machine: the one that misses least."""
    offer, space = min(allowed, key=lambda view: (_missing(pod.requests, view[1].free), view[0].key))
    return (
        f"it asks for {size_words(pod.requests)}, and the nearest machine on sale, {offer.instance_type}, "
        f"leaves {size_words(space.free)} for pods"
    )


def _missing(wanted: Resources, free: Resources) -> float:
    pairs = (
        (wanted.millicores, free.millicores),
        (wanted.memory, free.memory),
        (wanted.gpus, free.gpus),
    )
    return (
        max((need / have if have > 0 else float("inf")) for need, have in pairs if need > 0)
        if any(need for need, _ in pairs)
        else 0.0
    )
