"""Caps: what they are, what would fit, setting and removing them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.operations import rights
from bot.operations.house import House
from bot.operations.runs import find
from fleet.budget import HoldAnswer, HoldKind, HoldRequest, Scope
from fleet.errors import BadInput
from fleet.model import Person
from fleet.values import Money
from guard.caps import Cap, CapStatus, ScopeKind, Window


@dataclass(frozen=True, slots=True)
class Standing:
    """Every cap that was asked for."""

    caps: tuple[CapStatus, ...]


@dataclass(frozen=True, slots=True)
class CapChanged:
    """A cap was set, changed or removed."""

    name: str
    about: str
    """`team vision`"""
    before: Money | None
    after: Money | None
    window: str
    actor_name: str
    team: str
    """whose channel is told; "" = the fleet's"""


@dataclass(frozen=True, slots=True)
class WouldFit:
    """Whether an amount fits under every cap that applies to somebody."""

    amount: Money
    person_name: str
    team: str
    answer: HoldAnswer


@dataclass(frozen=True, slots=True)
class CapOrder:
    """What to set. `scope` is `fleet`, or `team:vision`, `person:U1`, `cluster:home`, `region:…`, `experiment:…`."""

    name: str
    scope: str
    limit: Money
    window: str = ""
    zone: str = ""


def standing(house: House, now: datetime, about: str = "") -> Standing:
    """All caps; or those whose name or scope has the word in it."""
    found = house.guard.caps(now)
    if not about:
        return Standing(found)
    named = tuple(s for s in found if about in (s.cap.name, s.cap.scope_value, s.cap.scope_kind.value))
    if not named:
        names = ", ".join(status.cap.name for status in found[:8]) or "none yet"
        raise BadInput(f"There is no cap for {about!r}.", hint=f"Caps: {names}.")
    return Standing(named)


def put(house: House, person: Person, order: CapOrder, now: datetime) -> CapChanged:
    """Set a cap, or change the limit of one. Raises NotAllowed, BadInput."""
    known = next((s.cap for s in house.guard.caps(now) if s.cap.name == order.name), None)
    kind, value = _scope(order.scope) if order.scope else _same_scope(known, order.name)
    _exists(house, kind, value)
    team = _team_of(house, kind, value)
    rights.sets_cap(person, kind.value, value, team)
    if known is not None:
        rights.sets_cap(
            person,
            known.scope_kind.value,
            known.scope_value,
            _team_of(house, known.scope_kind, known.scope_value),
        )
    _within_limit(person, order, known)
    cap = Cap(
        name=order.name,
        scope_kind=kind,
        scope_value=value,
        limit=order.limit,
        window=_window(order.window) if order.window else (known.window if known else Window.MONTH),
        zone=order.zone or (known.zone if known else "UTC"),
        kill=known.kill if known else False,
        raised_by=known.raised_by if known else ("lead", "admin"),
    )
    house.guard.set_cap(cap, person.id, now)
    return CapChanged(
        cap.name, cap.subject, known.limit if known else None, cap.limit, cap.window.value, person.name, team
    )


def remove(house: House, person: Person, name: str, now: datetime) -> CapChanged:
    """Remove a cap. Raises NotAllowed, BadInput."""
    known = next((s.cap for s in house.guard.caps(now) if s.cap.name == name), None)
    if known is None:
        standing(house, now, name)
        raise BadInput(f"There is no cap {name!r}.", hint="See `caps`.")
    team = _team_of(house, known.scope_kind, known.scope_value)
    rights.sets_cap(person, known.scope_kind.value, known.scope_value, team)
    house.guard.remove_cap(name, person.id, now)
    return CapChanged(name, known.subject, known.limit, None, known.window.value, person.name, team)


def would_fit(house: House, person: Person, amount: Money, now: datetime) -> WouldFit:
    """Whether work of the caller for this amount would fit now; nothing is held."""
    hold = HoldRequest(
        id=f"check-{person.id}-{amount.micros}",
        kind=HoldKind.LAUNCH,
        scope=Scope(house.home, "", person.team, person.id),
        amount=amount,
        burn=Money(0),
        reason="a question",
    )
    return WouldFit(amount, person.name, person.team, house.guard.budget.check(hold, now))


def _scope(text: str) -> tuple[ScopeKind, str]:
    kind, _, value = text.partition(":")
    kinds = {k.value: k for k in ScopeKind}
    if kind not in kinds or (kind == "fleet") == bool(value):
        raise BadInput(
            f"{text!r} is not a scope.",
            hint="Write fleet, team:NAME, person:ID, cluster:NAME, region:NAME, experiment:NAME or run:ID.",
        )
    return kinds[kind], value


def _exists(house: House, kind: ScopeKind, value: str) -> None:
    """A cap for whom nobody knows would never count anything: BadInput with what was meant."""
    known: Sequence[str] = ()
    if kind is ScopeKind.TEAM:
        known = sorted(house.channels)
    elif kind is ScopeKind.CLUSTER:
        known = sorted(house.views)
    elif kind is not ScopeKind.PERSON or house.directory.by_chat_id(value).known:
        return
    if value in known:
        return
    close = difflib.get_close_matches(value, known, n=1)
    listed = (
        f"There are: {', '.join(known[:8])}." if known else "It takes the id of somebody in the settings."
    )
    hint = f"Did you mean {kind.value}:{close[0]}?" if close else listed
    raise BadInput(f"There is no {kind.value} {value!r}.", hint=hint)


def _same_scope(known: Cap | None, name: str) -> tuple[ScopeKind, str]:
    if known is None:
        raise BadInput(f"There is no cap {name!r} yet.", hint="To make one, say for whom: --scope team:NAME.")
    return known.scope_kind, known.scope_value


def _window(text: str) -> Window:
    try:
        return Window(text)
    except ValueError:
        raise BadInput(f"{text!r} is not a window.", hint="It can be total, day, week or month.") from None


def _team_of(house: House, kind: ScopeKind, value: str) -> str:
    if kind is ScopeKind.TEAM:
        return value
    if kind is ScopeKind.PERSON:
        return house.directory.by_chat_id(value).team
    if kind is ScopeKind.EXPERIMENT:
        run = house.launcher.runs.latest(value)
        return run.team if run else ""
    return find(house, value).team if kind is ScopeKind.RUN else ""


def _within_limit(person: Person, order: CapOrder, known: Cap | None) -> None:
    more = order.limit - (known.limit if known else Money(0))
    if "admin" not in person.roles and more > person.approval_limit:
        raise rights.NotAllowed(
            f"That adds {more} to {order.name}, and you may add up to {person.approval_limit}. An admin can."
        )
