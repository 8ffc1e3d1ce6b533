"""The loop: one thread that decides. Commands, then what is due, then what was decided, then what is to be said.

Chat's threads only write to the inbox, the control socket's only wait, watch threads only fill caches. So the
same world gives the same decisions.
"""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from bot.control import REFUSED
from bot.desk import Desk
from bot.frontdesk import FrontDesk
from bot.health import Meters, Vitals
from bot.inbox import Inbox
from bot.reign import Reign, Standing
from fleet.journal import Journal
from fleet.ports import Clock
from fleet.values import is_due

log = structlog.get_logger(__name__)
RETRY_OPEN = timedelta(seconds=5)
"""how soon a decision that is not verified yet is looked at again"""


class Interrupted(BaseException):
    """A signal came while the loop waited. Not an Exception: nothing on the way may swallow it."""


class Delivery(Protocol):
    """The outbox, or the log where there is no Slack."""

    def flush(self, now: datetime) -> int:
        """Send what is due."""
        ...

    def next_due(self) -> datetime | None:
        """When to flush again."""
        ...

    def waiting(self) -> int:
        """Messages not delivered yet."""
        ...


@dataclass
class Task:
    """Something that happens every so often. `buys`: only while the Lease is surely ours."""

    name: str
    every: timedelta
    run: Callable[[datetime], object]
    buys: bool = False
    due: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether it should run now."""
        return is_due(self.due, now, self.every)

    def ran(self, now: datetime) -> None:
        """Keep the cadence; after a long gap, or a clock that was set back, start afresh."""
        following = (self.due or now) + self.every
        self.due = following if now < following <= now + self.every else now + self.every


@dataclass
class Service:
    """Everything that the loop turns. Built by `bot.wire`."""

    clock: Clock
    reign: Reign
    inbox: Inbox
    desk: Desk
    front: FrontDesk
    journal: Journal
    delivery: Delivery
    tasks: Sequence[Task]
    """in the order in which they run when several are due"""
    vitals: Vitals
    meters: Meters
    open_doors: Callable[[], None]
    """called once, when the Lease is ours: from then on people can ask"""
    note_vitals: Callable[[datetime], None]
    renew_every: timedelta
    handled: int = 0
    """inbound envelopes fully handled, their answers sent"""
    _stopping: bool = False
    _waiting: bool = False
    _renew_at: datetime | None = None
    _opened: bool = False

    def __post_init__(self) -> None:
        self.journal.boundary = partial(self._bounded, "decision")

    def run(self) -> int:
        """Until told to stop (0) or until another process holds the Lease (1)."""
        now = self.clock.now()
        try:
            while not self._told_to_stop():
                self.vitals.begin()
                self.step(now)
                self.vitals.end()
                if self.reign.standing is Standing.LOST:
                    log.error(
                        "another process holds the lease; this one stops writing", holder=self.reign.holder
                    )
                    return 1
                now = self._wait(now)
        except Interrupted:
            log.debug("woken by a signal")
        self.reign.release()
        log.info("stopped")
        return 0

    def stop(self) -> None:
        """Finish the step in hand, then end. From another thread."""
        self._stopping = True
        self.clock.nudge()

    def on_signal(self, *_: object) -> None:
        """The same for a signal, which comes in the deciding thread itself, at any point of it.

        It must touch no lock that this thread may hold, so it sets a flag, and leaves a wait by raising.
        """
        self._stopping = True
        if self._waiting:
            raise Interrupted

    def _told_to_stop(self) -> bool:
        return self._stopping

    def _wait(self, now: datetime) -> datetime:
        self._waiting = True
        try:
            return now if self._stopping else self.clock.wait_until(self.next_due(now), self.has_work)
        finally:
            self._waiting = False

    def step(self, now: datetime) -> None:
        """Everything that there is to do now."""
        if is_due(self._renew_at, now, self.renew_every):
            self._renew_at = now + self.renew_every
            self.reign.renew(now)
        if not self.reign.writes:
            return
        if not self._opened:
            self._opened = True
            self.open_doors()
        accepted = self.inbox.accepted
        self._bounded("commands", lambda: self._handle_inbound(now))
        self._answer_terminals(now)
        for task in self.tasks:
            if task.is_due(now):
                if self.reign.buys or not task.buys:
                    self._bounded(task.name, partial(task.run, now))
                task.ran(now)
        self._bounded("journal", lambda: self.journal.advance(now))
        self._bounded("outbox", lambda: self.delivery.flush(now))
        self.handled = accepted
        self._bounded("vitals", lambda: self.note_vitals(now))

    def _handle_inbound(self, now: datetime) -> None:
        for inbound in self.inbox.pending():
            fault = self._bounded("command", partial(self.desk.handle, inbound, now))
            if fault:
                self._bounded("command", partial(self.desk.broken, inbound, fault, now))

    def _answer_terminals(self, now: datetime) -> None:
        while (question := self.front.next()) is not None:
            flush = partial(self.delivery.flush, now)
            fault = self._bounded("terminal", partial(self.front.answer, question, now, flush))
            if fault:
                question.reply(
                    REFUSED, f"This failed by a fault in Quartermaster (error {fault}); it was logged."
                )

    def has_work(self) -> bool:
        """Whether waiting should end."""
        asked = self._opened and (self.inbox.accepted != self.handled or self.front.waiting())
        return self._stopping or asked

    def next_due(self, now: datetime) -> datetime:
        """When something is to be done even if nobody asks."""
        moments = [self._renew_at or now]
        if self._opened:
            moments += [task.due for task in self.tasks if task.due is not None]
            due = self.delivery.next_due()
            moments += [due] if due is not None else []
            moments += [now + RETRY_OPEN] if self.journal.unfinished() else []
        return max(min(moments), now)

    def _bounded(self, part: str, work: Callable[[], object]) -> str:
        """The one boundary: what goes wrong in one part must not stop the others, least of all the guard.

        Returns the id under which the fault was logged; "" where there was none.
        """
        started = time.monotonic()
        error_id = ""
        try:
            work()
        except Exception as error:
            error_id = uuid.uuid4().hex[:8]
            log.exception("fault", part=part, error_id=error_id, error=str(error))
            self.meters.faults.labels(part).inc()
        self.meters.ticks.labels(part).inc()
        self.meters.seconds.labels(part).inc(time.monotonic() - started)
        return error_id


def obey_signals(service: Service) -> None:
    """SIGTERM and SIGINT end the loop after the step in hand."""
    signal.signal(signal.SIGTERM, service.on_signal)
    signal.signal(signal.SIGINT, service.on_signal)
