"""Ghost machines: ours, billed, and not joined for longer than a boot takes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from guard.meter import Machine
from guard.moments import micros, span
from guard.rules.finding import Finding


def check(machines: Iterable[Machine], now: datetime, after: timedelta) -> tuple[Finding, ...]:
    """One finding a machine that bills and has no node."""
    limit = micros(now) - span(after)
    return tuple(
        Finding(
            "ghost",
            machine.key,
            f"{machine.key} ({machine.instance_type} in {machine.region}) bills and has not joined.",
            {"region": machine.region, "instance_type": machine.instance_type},
        )
        for machine in machines
        if machine.billed and not machine.node and machine.since <= limit
    )
