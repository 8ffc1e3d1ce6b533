"""What the launcher needs from the outside, and what asks it to launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleet.budget import HoldAnswer, HoldKind, HoldRequest, Scope
from fleet.errors import QuartermasterError
from fleet.model import Person
from fleet.ports import Budget, Notifier, Objects
from fleet.values import Money
from launcher.kinds.role_group import KubeWorkloads
from launcher.manifests import Rendered
from launcher.runs import Run
from launcher.spec import Experiment


@dataclass(frozen=True, slots=True)
class LauncherPorts:
    """The launcher's doors to the outside. `objects` is by cluster."""

    objects: Mapping[str, Objects]
    budget: Budget
    notifier: Notifier
    workloads: KubeWorkloads
    undone: Callable[[str, datetime], None] = lambda _run, _now: None
    """told which run's launch was undone; may be told again"""


@dataclass(frozen=True, slots=True)
class Order:
    """Somebody asks for a launch. The same `request` is the same run, however often it arrives."""

    request: str
    experiment: Experiment
    person: Person
    cluster: str
    namespace: str = ""
    """"" = the settings' namespace"""
    channel: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run and what it consists of, before anything exists."""

    run: Run
    rendered: Rendered


class LaunchRefused(QuartermasterError):
    """The launch (or scale) does not happen; the sentence says why."""


def refusal(answer: HoldAnswer) -> str:
    """Why a hold was refused, in one sentence: which cap, how much is short, who can raise it."""
    if answer.reason:
        return answer.reason
    if not answer.misfits:
        return "The money for it cannot be set aside."
    first = answer.misfits[0]
    who = f" {', '.join(first.raised_by)} can raise it." if first.raised_by else ""
    return f"The cap {first.cap} of {first.scope} ({first.limit}) has {first.left} left, {first.short} too little.{who}"


def hold_to_json(hold: HoldRequest) -> dict[str, Any]:
    """A hold request as plain values, for a decision's payload."""
    plain = asdict(hold)
    return plain | {
        "kind": hold.kind.value,
        "amount": hold.amount.micros,
        "burn": hold.burn.micros,
        "draws_on": list(hold.draws_on),
        "payload": dict(hold.payload),
    }


def hold_from_json(plain: Mapping[str, Any]) -> HoldRequest:
    """The hold request that `hold_to_json` wrote."""
    return HoldRequest(
        id=plain["id"],
        kind=HoldKind(plain["kind"]),
        scope=Scope(**plain["scope"]),
        amount=Money(plain["amount"]),
        burn=Money(plain["burn"]),
        reason=plain["reason"],
        draws_on=tuple(plain["draws_on"]),
        payload=plain["payload"],
    )
