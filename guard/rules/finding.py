"""What a rule returns: a finding. Rules look and say; `guard.escalate` decides what is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleet.values import Money
from guard.caps import Standing


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that spends under a cap and can be paused."""

    run: str
    burn: Money
    started: datetime
    idle: bool = False
    """its GPUs were measured idle; never from a missing measurement"""


@dataclass(frozen=True, slots=True)
class CapView:
    """A cap at a tick, with everything that rules and escalation look at."""

    standing: Standing
    burn: Money
    """of everything under the cap"""
    draining: Money
    """of runs under it that are being stopped: it lasts for a drain, not for ever"""
    drain: timedelta
    """from the decision to pause to the end of the cost: the machines' and the pods' grace"""
    candidates: tuple[Candidate, ...]
    window_left: timedelta | None = None
    """until the cap's window rolls over; None for `total`"""
    lapse: tuple[timedelta, Money] | None = None
    """until an approval expires, and what is allowed from then on"""
    fired: frozenset[str] = frozenset()
    armed: bool = False
    deadline: datetime | None = None
    stuck: tuple[str, ...] = ()
    """runs whose pause under this cap has not become true within its drain"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's finding. `values` are its numbers, for audits."""

    rule: str
    key: str
    """what it is about: a cap, a run, a machine"""
    sentence: str
    values: Mapping[str, str] = field(default_factory=dict)
