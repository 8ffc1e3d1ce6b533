"""The values of the Budget port: whom a cost belongs to, what is set aside, and why something does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.values import Money


class HoldKind(StrEnum):
    """What money is set aside for."""

    LAUNCH = "launch"
    PURCHASE = "purchase"
    SCALE = "scale"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom a cost belongs to: every dimension that a cap can be about. Empty = not known."""

    cluster: str = ""
    region: str = ""
    team: str = ""
    person: str = ""
    experiment: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Ask to set `amount` aside under `scope`. `id` makes it idempotent: the same id is granted once.

    `draws_on`: hold ids (usually the run's launch hold) whose remainder is used first; only the rest
    is held anew. `burn` is the rate per hour that the hold would add, for caps in $/h.
    """

    id: str
    kind: HoldKind
    scope: Scope
    amount: Money
    burn: Money
    reason: str
    draws_on: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    """the exact request that recovery repeats"""


@dataclass(frozen=True, slots=True)
class Misfit:
    """One cap that does not fit, with what is left and who can raise it."""

    cap: str
    scope: str
    limit: Money
    committed: Money
    left: Money
    short: Money
    raised_by: tuple[str, ...]
    """people who can raise it, by name"""


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """Granted, or refused with every cap that does not fit, broadest first."""

    id: str
    granted: bool
    misfits: tuple[Misfit, ...] = ()
    reason: str = ""
    """a sentence for people where it is refused for another reason (blocked, guard not alive, …)"""


def launch_hold_id(run: str) -> str:
    """Id of the hold that a run's launch takes; purchases for its pods draw on it."""
    return f"launch-{run}"
