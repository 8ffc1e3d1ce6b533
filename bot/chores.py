"""What the loop does every so often, in the order in which it does it when several are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from bot.health import Meters, Vitals
from bot.inbox import Inbox
from bot.messages.launch import decided
from bot.operations.house import House
from bot.operations.launch import expire, thread_key
from bot.reign import Reign, Standing
from bot.serve import Delivery, Task
from fleet.db import Database
from fleet.model import ClusterSnapshot
from fleet.ports import Chat, ClusterView
from fleet.values import MICROS

SWEEPS_PER_CARD = 12
"""how often a launch card's age is looked at during its life"""
KEEP_INBOX = timedelta(days=7)


class Ticking(Protocol):
    """Guard and scaler."""

    def tick(self, now: datetime) -> object:
        """Look, decide and act once."""
        ...


def tasks(
    house: House, ticking: Mapping[str, tuple[Ticking, timedelta]], chat: Chat, inbox: Inbox, backup: Task
) -> list[Task]:
    """The guard looks before the scaler buys; what has ended is noticed after both; housekeeping is last."""
    guard, guard_every = ticking["guard"]
    scaler, scaler_every = ticking["scaler"]
    views = tuple(house.views.values())
    return [
        Task("guard", guard_every, guard.tick),
        Task("scaler", scaler_every, scaler.tick, buys=True),
        Task("launcher", scaler_every, lambda now: house.launcher.tick(_snapshots(views, now), now)),
        Task("cards", house.card_expires / SWEEPS_PER_CARD, lambda now: expire_cards(house, chat, now)),
        Task("inbox", timedelta(hours=6), lambda now: inbox.forget_before(now - KEEP_INBOX)),
        backup,
    ]


def _snapshots(views: Sequence[ClusterView], now: datetime) -> list[ClusterSnapshot]:
    return [view.snapshot(now) for view in views]


def expire_cards(house: House, chat: Chat, now: datetime) -> None:
    """Launch cards that nobody clicked lose their buttons without a click."""
    for outcome in expire(house, house.card_expires, now):
        chat.update(key=thread_key(outcome.request), message=decided(outcome), now=now)


def backup_task(database: Database, folder: Path, every: timedelta) -> Task:
    """An online copy beside the database, replaced as a whole; the first one after one interval."""

    def backup(_now: datetime) -> None:
        fresh = folder / "backup.new.db"
        fresh.unlink(missing_ok=True)
        database.backup(fresh)
        fresh.replace(folder / "backup.db")

    return Task("backup", every, backup)


def vitals_writer(
    house: House,
    state: tuple[Reign, Vitals, Meters],
    delivery: Delivery,
    inbox: Inbox,
) -> Callable[[datetime], None]:
    """What /readyz and /metrics say, written after each step."""
    reign, vitals, meters = state

    def write(now: datetime) -> None:
        snapshots = {name: view.snapshot(now) for name, view in house.views.items()}
        held = reign.standing is Standing.HELD
        vitals.ready = {"lease": held} | {f"cluster {name}": s.synced for name, s in snapshots.items()}
        silent = [name for name, s in snapshots.items() if s.stale_since is not None]
        vitals.notes = {
            "lease holder": reign.holder,
            "clusters that do not answer": ", ".join(silent),
        }
        meters.lease.set(held)
        meters.inbox.set(len(inbox.pending()))
        meters.outbox.set(delivery.waiting())
        meters.decisions.set(len(house.journal.unfinished()))
        for status in house.guard.caps(now):
            meters.cap_spent.labels(status.cap.name).set(status.spent.micros / MICROS)
            meters.cap_limit.labels(status.cap.name).set(status.allowed.micros / MICROS)
            meters.cap_burn.labels(status.cap.name).set(status.burn.micros / MICROS)

    return write
