"""Notes: approvals, launches, scaling, and what the guard noticed."""

from __future__ import annotations

from datetime import datetime

from bot.messages.model import Context, Message, Text
from bot.messages.stops import actor, run
from bot.words import clock_time, count, duration, hourly, listed, name
from fleet.ports import Directory
from guard.events import ApprovalGranted, ApprovalLapsed, GhostMachine, GuardGap, NoOwner, UnknownPrice
from launcher.events import LaunchFailed, LaunchStarted, RunFinished, Scaled, ScaleFailed


def approval_granted(event: ApprovalGranted, directory: Directory) -> Message:
    """A cap was raised for a bounded time."""
    figures = event.figures
    are = "is" if len(event.resumed) == 1 else "are"
    back = f" {listed(event.resumed)} {are} being resumed." if event.resumed else ""
    text = (
        f"{actor(event.approver, directory)} approved {event.amount} more for {figures.cap} until "
        f"{clock_time(event.expires)}; it is {figures.limit} now, {figures.spent} of it spent.{back}"
    )
    return Message(text)


def approval_lapsed(event: ApprovalLapsed, directory: Directory) -> Message:
    """An approval ended."""
    figures = event.figures
    who = actor(event.approver, directory)
    return Message(
        f"The {event.amount} that {who} approved for {figures.cap} has lapsed; its limit is {figures.limit} again, "
        f"{figures.spent} is spent."
    )


def launched(event: LaunchStarted) -> Message:
    """Every object exists and is released."""
    roles = listed((f"{number:,} {role}" for role, number in event.roles), limit=6)
    return Message(f"{name(event.experiment)} ({event.run}) is launched on {event.cluster}: {roles}.")


def launch_failed(event: LaunchFailed) -> Message:
    """Nothing was left behind, or it is deleted later."""
    left = "nothing of it was left behind" if event.cleaned else "it is deleted when the cluster answers"
    text = f"{name(event.experiment)} ({event.run}) was not launched, and {left}: {event.reason}"
    return Message(text, (Text(text, mention=event.owner),))


def scaled(event: Scaled, directory: Directory) -> Message:
    """A role has another size."""
    note = f" {event.warning}" if event.warning else ""
    return Message(
        f"{actor(event.actor, directory)} scaled {name(event.role)} of {name(event.experiment)} ({event.run}) from "
        f"{event.before:,} to {event.after:,}.{note}"
    )


def scale_failed(event: ScaleFailed, directory: Directory) -> Message:
    """A role has not got another size."""
    text = (
        f"{name(event.role)} of {name(event.experiment)} ({event.run}) was not scaled to {event.after:,} as "
        f"{actor(event.actor, directory)} asked; ask for it again when the cause is gone. {event.reason}"
    )
    return Message(text, (Text(text, mention=event.owner),))


def finished(event: RunFinished) -> Message:
    """The run has ended by itself."""
    why = f": {event.reason}" if event.reason else ""
    word = {"done": "is done", "failed": "has failed", "gone": "is gone"}.get(event.outcome, event.outcome)
    text = f"{name(event.experiment)} ({event.run}) {word}{why}."
    return Message(text, (Text(text, mention=event.owner),))


def unknown_price(event: UnknownPrice) -> Message:
    """Metered at an upper bound."""
    return Message(
        f"No price is known for {event.machine} ({event.instance_type} in {event.region or 'no region'}); it is metered "
        f"at {hourly(event.hourly)}, an upper bound ({event.source})."
    )


def ghost_machine(event: GhostMachine, now: datetime) -> Message:
    """Bills and has not joined."""
    about = f" for {run(event.about)}" if event.about.run else ""
    return Message(
        f"{event.machine} ({event.instance_type} in {event.region}) was bought{about} {duration(now - event.launched)} ago "
        f"and has not joined any cluster; it has cost {event.spent} so far."
    )


def no_owner(event: NoOwner) -> Message:
    """Work that names nobody."""
    pods = count(event.pods, "pod runs", "pods run")
    return Message(
        f"{pods} in {event.cluster}/{event.namespace} without an owner (for example {name(event.example)}); what they "
        "cost counts as the fleet's."
    )


def guard_gap(event: GuardGap) -> Message:
    """The guard did not look for a while."""
    text = (
        f"The guard did not look from {clock_time(event.since)} to {clock_time(event.until)}: {event.detail}"
    )
    return Message(
        text, (Text(text), Context("What ran meanwhile is metered from the observations before and after."))
    )
