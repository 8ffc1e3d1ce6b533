"""What a launch would need, before anything exists: nodes and dollars per hour for its card. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from fleet.model import Offer, Pod
from scaler.capacity import Memory
from scaler.plan import plan_pods
from scaler.settings import ScalerSettings
from scaler.values import Limits, Plan, Situation


def preview(
    situation: Situation,
    pods: Sequence[Pod],
    offers: Sequence[Offer],
    known: tuple[Limits, Memory],
    policy: ScalerSettings,
    now: datetime,
) -> Plan:
    """The plan for pods that do not exist yet, on top of what is there now."""
    return plan_pods(situation, pods, offers, known, policy, now)


def worst_case(
    situation: Situation,
    pods: Sequence[Pod],
    offers: Sequence[Offer],
    policy: ScalerSettings,
    now: datetime,
) -> Plan:
    """The plan if nothing that exists could be shared and nothing were sold out: what a hold is based on."""
    empty = Situation(replace(situation.snapshot, nodes={}), situation.pools)
    return plan_pods(empty, pods, offers, (Limits(), Memory()), policy, now)
