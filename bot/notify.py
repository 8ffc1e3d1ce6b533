"""The Notifier: what guard, scaler and launcher tell becomes messages in the right thread, and edits of cards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from bot.cards import Cards
from bot.messages import alerts, digest, machines, notes, stops
from bot.messages.model import Header, Message, Text
from bot.words import clock_time
from fleet.db import Database
from fleet.ports import Chat, Directory
from fleet.values import Money
from guard import events as guard
from launcher import events as launcher
from launcher.runs import RunStore
from scaler import events as scaler

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Where:
    """A channel, and the key of the thread's root ("" = no thread)."""

    channel: str
    thread: str = ""


Wording = Callable[[Any, Directory, datetime], Message]
WORDING: dict[type, Wording] = {
    guard.BudgetAlert: alerts.budget_alert,
    guard.CountdownArmed: alerts.countdown,
    guard.CountdownCancelled: lambda e, _d, _n: alerts.countdown_over(e),
    guard.ForecastAdvice: lambda e, _d, n: alerts.forecast_advice(e, n),
    guard.PauseStarted: lambda e, d, _n: stops.pause_started(e, d),
    guard.PauseVerified: lambda e, d, _n: stops.pause_verified(e, d),
    guard.PauseStuck: lambda e, _d, n: stops.pause_stuck(e, n),
    guard.UnpausedByHand: lambda e, _d, n: stops.unpaused(e, n),
    guard.Resumed: lambda e, d, _n: stops.resumed(e, d),
    guard.Killed: lambda e, d, _n: stops.killed(e, d),
    guard.DecisionFailed: lambda e, _d, _n: stops.decision_failed(e),
    guard.ApprovalGranted: lambda e, d, _n: notes.approval_granted(e, d),
    guard.ApprovalLapsed: lambda e, d, _n: notes.approval_lapsed(e, d),
    guard.UnknownPrice: lambda e, _d, _n: notes.unknown_price(e),
    guard.GhostMachine: lambda e, _d, n: notes.ghost_machine(e, n),
    guard.NoOwner: lambda e, _d, _n: notes.no_owner(e),
    guard.GuardGap: lambda e, _d, _n: notes.guard_gap(e),
    guard.Digest: lambda e, _d, _n: digest.digest(e),
    guard.BillArrived: lambda e, _d, _n: digest.bill_arrived(e),
    launcher.LaunchStarted: lambda e, _d, _n: notes.launched(e),
    launcher.LaunchFailed: lambda e, _d, _n: notes.launch_failed(e),
    launcher.Scaled: lambda e, d, _n: notes.scaled(e, d),
    launcher.ScaleFailed: lambda e, d, _n: notes.scale_failed(e, d),
    launcher.RunFinished: lambda e, _d, _n: notes.finished(e),
    scaler.Overflowed: lambda e, _d, _n: machines.overflowed(e),
    scaler.PurchaseRefused: lambda e, _d, _n: machines.purchase_refused(e),
    scaler.ProviderRefused: lambda e, _d, _n: machines.provider_refused(e),
    scaler.QuotaReached: lambda e, _d, _n: machines.quota_reached(e),
    scaler.PodsUnplaced: lambda e, _d, _n: machines.unplaced(e),
    scaler.LaunchesWithoutProgress: lambda e, _d, _n: machines.without_progress(e),
    scaler.MachineFailed: lambda e, _d, _n: machines.machine_failed(e),
}
"""How each event is worded. `MachinesBought` is a running total and has a method of its own."""


class ChatNotifier:
    """The Notifier port over Chat. Everything it does for one event is one transaction."""

    def __init__(
        self,
        database: Database,
        chat: Chat,
        directory: Directory,
        runs: RunStore,
        channel_of: Callable[[str], str],
    ) -> None:
        self._db = database
        self._chat = chat
        self._directory = directory
        self._runs = runs
        self._channel_of = channel_of
        self._cards = Cards(database)

    def notify(self, event: Any, *, key: str, now: datetime) -> None:
        """Queue what the event means for people. The same key is told once; a card's key edits the card."""
        log.info("event", event_type=type(event).__name__, key=key, run=_run_of(event))
        with self._db.transaction():
            if isinstance(event, scaler.MachinesBought):
                self._bought(event, key, now)
                return
            message = WORDING[type(event)](event, self._directory, now)
            self._follow_up(event, message, now)
            if isinstance(event, guard.CountdownArmed):
                self._countdown(event, message, now)
            else:
                self._post(key, self._where(event), message, now)
                self._stand_for(event, key, message)

    def _where(self, event: Any) -> Where:
        run, team = _run_of(event), _team_of(event)
        found = self._runs.get(run) if run else None
        if found is not None and found.channel:
            return Where(found.channel, found.thread)
        return Where(self._channel_of(found.team if found is not None else team))

    def _post(self, key: str, where: Where, message: Message, now: datetime) -> None:
        if where.channel:
            self._chat.post(key=key, channel=where.channel, message=message, thread=where.thread, now=now)
        else:
            log.info("nowhere to tell", key=key, text=message.text)

    def _countdown(self, event: guard.CountdownArmed, message: Message, now: datetime) -> None:
        """One card a countdown, edited as it runs; in the thread of the only run it is about."""
        card = f"countdown:{event.request}"
        alone = event.victims[0] if len(event.victims) == 1 else event.about
        self._post(card, self._where(event if event.about.run else alone), message, now)
        self._cards.remember(f"countdown:{event.figures.cap}", card, message.text)
        self._cards.remember(f"request:{event.request}", card, message.text, _asks(event))
        for victim in event.victims if len(event.victims) > 1 else ():
            text = (
                f"{stops.run(victim)} is among what will be paused at {clock_time(event.deadline)} for the cap "
                f"{event.figures.cap}, unless more is approved."
            )
            note = Message(text, (Text(text, mention=victim.owner),))
            self._post(f"{card}:{victim.run}", self._where(victim), note, now)

    def _stand_for(self, event: Any, key: str, message: Message) -> None:
        request = getattr(event, "request", "")
        figures = getattr(event, "figures", None)
        if request and figures and isinstance(event, guard.BudgetAlert | guard.PauseVerified):
            self._cards.remember(f"request:{request}", key, message.text, _asks(event))

    def _follow_up(self, event: Any, message: Message, now: datetime) -> None:
        """Buttons never outlive their decision: the card that asked is edited to what became of it."""
        if isinstance(event, guard.ApprovalGranted):
            for subject, _card in self._cards.about_cap(event.figures.cap):
                self._close(subject, "Approved", message.text, now)
        elif isinstance(event, guard.CountdownCancelled):
            self._close(f"countdown:{event.figures.cap}", "Countdown called off", message.text, now)
        elif isinstance(event, guard.PauseVerified) and event.figures is not None:
            self._close(f"countdown:{event.figures.cap}", "Countdown over", message.text, now)
            for subject, card in self._cards.about_cap(event.figures.cap):
                if card.data["kind"] != guard.PauseVerified.__name__:
                    self._close(subject, "Overtaken by the pause", message.text, now)

    def _close(self, subject: str, title: str, decision: str, now: datetime) -> None:
        card = self._cards.find(subject)
        if card is None:
            return
        blocks = (Header(title), Text(card.sentence), Text(decision, strong=True))
        self._chat.update(key=card.key, message=Message(decision, blocks, card=True), now=now)
        self._cards.forget(subject)

    def _bought(self, event: scaler.MachinesBought, key: str, now: datetime) -> None:
        if not self._cards.first_time(key, now):
            return
        subject = f"bought:{event.run or event.team}"
        card = self._cards.find(subject)
        tally = {name: list(entry) for name, entry in card.data.items()} if card else {}
        place = f"{event.region}\t{event.instance_type}"
        number, micros = tally.get(place, [0, 0])
        tally[place] = [number + event.count, micros + event.hourly.micros]
        counted = {
            (name.split("\t")[0], name.split("\t")[1]): (int(entry[0]), Money(int(entry[1])))
            for name, entry in tally.items()
        }
        message = machines.bought(event.experiment, event.run, counted)
        self._cards.remember(subject, subject, message.text, tally)
        self._post(subject, self._where(event), message, now)


def _asks(event: Any) -> dict[str, str]:
    """What kind of card it is, and which cap it asks more for."""
    return {"cap": event.figures.cap, "kind": type(event).__name__}


def _run_of(event: Any) -> str:
    about = getattr(event, "about", event)
    return str(getattr(about, "run", ""))


def _team_of(event: Any) -> str:
    about = getattr(event, "about", event)
    team = str(getattr(about, "team", ""))
    figures = getattr(event, "figures", None)
    if not team and figures is not None and figures.scope.startswith("team "):
        return str(figures.scope.removeprefix("team "))
    return team
