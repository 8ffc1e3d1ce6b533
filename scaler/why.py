"""Why pods of a run are pending, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleet.model import L_RUN
from fleet.values import format_duration
from scaler.values import Machine, Plan


def explain(plan: Plan, machines: Sequence[Machine], run: str, now: datetime) -> tuple[str, ...]:
    """One sentence for everything that pending pods of the run wait for; () where none is pending."""
    by_id = {machine.id: machine for machine in machines}
    told = []
    for placed in plan.placed:
        count = sum(pod.labels.get(L_RUN, "") == run for pod in placed.pods)
        machine = by_id.get(placed.space)
        if count and machine is not None:
            told.append(
                f"{_pods(count)} for {machine.instance_type} {machine.id} in {machine.region}, "
                f"bought {format_duration(now - machine.launched)} ago, to join."
            )
        elif count:
            told.append(f"{_pods(count)} for node {placed.space}, which has room.")
    for purchase in plan.purchases:
        if purchase.group.run == run:
            told.append(
                f"{_pods(len(purchase.pods))} for {purchase.reason.partition(' for ')[0]}, just bought."
            )
    for unplaced in plan.unplaced:
        if unplaced.group.run == run:
            told.append(f"{_pods(len(unplaced.pods), '')}: {unplaced.reason}.")
    return tuple(_grouped(told))


def _pods(count: int, waits: str = " waits") -> str:
    if count == 1:
        return f"1 pod{waits}"
    return f"{count} pods{waits.removesuffix('s')}"


def _grouped(told: Sequence[str], most: int = 8) -> list[str]:
    if len(told) <= most:
        return list(told)
    return [*told[:most], f"And {len(told) - most} more reasons like these."]
