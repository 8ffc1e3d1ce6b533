"""What the scaler tells: machines bought, overflow, what cannot be bought or does not fit."""

from __future__ import annotations

from collections.abc import Mapping

from bot.messages.model import Header, Message, Table, Text
from bot.words import count, hourly, name
from fleet.values import Money
from scaler.events import (
    LaunchesWithoutProgress,
    MachineFailed,
    Overflowed,
    PodsUnplaced,
    ProviderRefused,
    PurchaseRefused,
    QuotaReached,
)


def bought(experiment: str, run: str, tally: Mapping[tuple[str, str], tuple[int, Money]]) -> Message:
    """Everything bought for a run so far, by region and type: one card, edited in place."""
    machines = sum(number for number, _ in tally.values())
    total = Money.total(rate for _, rate in tally.values())
    about = f"{name(experiment)} ({run})" if run else "pods of no run"
    regions = count(len({region for region, _ in tally}), "region")
    text = f"{count(machines, 'machine')} bought for {about} so far in {regions}, {hourly(total)} together."
    rows = tuple(
        (region, instance_type, f"{number:,}", hourly(rate))
        for (region, instance_type), (number, rate) in sorted(tally.items())
    )
    table = Table(("REGION", "TYPE", "N", "$/h"), rows, frozenset({2, 3}))
    return Message(text, (Header("Machines bought"), Text(text), table), card=True)


def overflowed(event: Overflowed) -> Message:
    """The preferred place had nothing."""
    return Message(
        f"{_about(event.experiment, event.run)} overflows: {event.from_region} has no room ({_bare(event.reason)})."
    )


def purchase_refused(event: PurchaseRefused) -> Message:
    """The budget did not allow it."""
    text = f"No machine is bought for {_about(event.experiment, event.run)}: {event.reason}"
    return Message(text, (Text(text, mention=event.owner),))


def provider_refused(event: ProviderRefused) -> Message:
    """Nothing is bought there until somebody looks."""
    return Message(
        f"{event.provider} refused to sell for pool {event.pool}: {_bare(event.reason)}. Nothing is bought there until "
        "its credentials or configuration are put right."
    )


def quota_reached(event: QuotaReached) -> Message:
    """A whole family in a region."""
    return Message(
        f"The {event.family} quota of {event.provider} in {event.region} is used up: {_bare(event.reason)}. Ask the "
        "provider for more if it should grow there."
    )


def unplaced(event: PodsUnplaced) -> Message:
    """Pods that fit no machine on sale."""
    text = f"{count(event.count, 'pod')} of {_about(event.experiment, event.run)} fit no machine on sale: {event.reason}"
    return Message(text, (Text(text, mention=event.owner),))


def without_progress(event: LaunchesWithoutProgress) -> Message:
    """Bought again and again, and still pending."""
    text = (
        f"Machines were bought {event.launches} times for pods of {_about(event.experiment, event.run)} and they still "
        "do not start, so nothing more is bought for them. See why."
    )
    return Message(text, (Text(text, mention=event.owner),))


def machine_failed(event: MachineFailed) -> Message:
    """Paid for, and not useful in time."""
    about = f" for {event.run}" if event.run else ""
    return Message(
        f"{event.machine} ({event.instance_type} in {event.region}), bought{about}, did not become useful and was ended: "
        f"{_bare(event.reason)}."
    )


def _about(experiment: str, run: str) -> str:
    return f"{name(experiment)} ({run})" if run else "pods of no run"


def _bare(reason: str) -> str:
    return reason.strip().rstrip(".")
