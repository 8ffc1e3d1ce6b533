"""Caps as people see them, changes of caps, and whether an amount would fit."""

from __future__ import annotations

from bot.messages.model import Context, Message, Table, Text
from bot.operations.caps import CapChanged, Standing, WouldFit
from bot.words import clock_time, count, duration, hourly, listed, name, percent


def standing(found: Standing) -> Message:
    """`caps`."""
    if not found.caps:
        return Message("There are no caps. Set one with: caps set NAME LIMIT --scope team:NAME.")
    rows = tuple(
        (
            status.cap.name,
            status.cap.subject,
            f"{status.allowed}/{status.cap.window.value}",
            str(status.spent),
            percent(status.spent, status.allowed),
            str(status.held),
            str(status.left),
            hourly(status.burn),
            duration(status.time_to_cap, "–"),
            status.state,
        )
        for status in found.caps
    )
    columns = ("CAP", "FOR", "LIMIT", "SPENT", "", "HELD", "LEFT", "$/h", "REACHED IN", "STATE")
    fullest = max(found.caps, key=lambda status: status.spent.fraction_of(status.allowed))
    text = (
        f"{count(len(found.caps), 'cap')}; the fullest is {fullest.cap.name} with {fullest.spent} of {fullest.allowed} "
        f"({percent(fullest.spent, fullest.allowed)}) spent."
    )
    ends = sorted({s.window_end for s in found.caps if s.window_end})
    until = f" The next window ends {clock_time(ends[0])}." if ends else ""
    return Message(text, (Table(columns, rows, frozenset(range(2, 9))), Context(text + until)))


def changed(change: CapChanged) -> Message:
    """A cap was set, changed or removed: said where its team reads."""
    who = name(change.actor_name)
    if change.after is None:
        return Message(f"{who} removed the cap {change.name} of {change.about} (it was {change.before}).")
    was = f" (it was {change.before})" if change.before is not None else ""
    return Message(
        f"{who} set the cap {change.name} of {change.about} to {change.after} a {change.window}{was}.".replace(
            " a total", " in total"
        )
    )


def would_fit(found: WouldFit) -> Message:
    """`caps check`."""
    whose = f"{name(found.person_name)}{f' of {found.team}' if found.team else ''}"
    if found.answer.granted:
        return Message(f"{found.amount} of work by {whose} would fit every cap now.")
    if not found.answer.misfits:
        return Message(f"{found.amount} of work by {whose} would not start now. {found.answer.reason}")
    rows = tuple(
        (m.cap, m.scope, str(m.limit), str(m.left), str(m.short), listed(m.raised_by, 3))
        for m in found.answer.misfits
    )
    first = found.answer.misfits[0]
    text = (
        f"{found.amount} of work by {whose} would not fit: the cap {first.cap} of {first.scope} has {first.left} "
        f"left of {first.limit}."
    )
    table = Table(("CAP", "FOR", "LIMIT", "LEFT", "SHORT", "RAISED BY"), rows, frozenset({2, 3, 4}))
    return Message(text, (Text(text), table))
