"""The world's time: one heap of events that every stand-in shares.

Scale 0 is *stepped*: time moves only when every participant (the product, the scenario's runner) is
idle, and then jumps to the next event, so the same seed gives the same run. Any other scale runs the
world that many times faster than real time, whoever is busy. Transport time (acks, timeouts, pings)
is always real and never comes from here.

Everything in the sandbox runs on one asyncio loop, so nothing here takes a lock.

Wire: `GET /world/time` → `{now, scale, versions}`; `POST /world/wait` `{participant, until, inbound,
versions}` → the same plus `{woken}` when the world got there, or earlier when the participant has
something to do; `POST /world/nudge` `{participant}` ends its wait; `POST /world/scale` `{scale}`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from aiohttp import web

_YIELD_EVERY = 200


@dataclass(order=True)
class Timer:
    """A scheduled event; `cancel()` makes it a no-op."""

    when: datetime
    order: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Forget the callback; the heap drops the entry when its time comes."""
        self.callback = None


@dataclass
class Participant:
    """Somebody the stepped world waits for. Lower `priority` wakes first at the same moment."""

    name: str
    priority: int = 100
    until: datetime | None = None
    """set while it is idle"""
    delivered: int = 0
    """inbound chat envelopes that were sent to it and acknowledged, or are on the way"""
    waiting: asyncio.Future[bool] | None = None
    nudged: bool = False
    """it was nudged while it did not wait: its next wait returns at once"""
    on_the_way: int = 0
    """sent and not acknowledged yet: it cannot have seen them"""

    @property
    def idle(self) -> bool:
        """In a wait, with nothing on the way to it."""
        return self.waiting is not None and not self.waiting.done() and self.on_the_way == 0


class World:
    """Time, chance and the events of one sandbox."""

    def __init__(self, start: datetime, *, scale: float = 0.0, seed: int = 0) -> None:
        if start.tzinfo is None:
            raise ValueError("The world starts at an aware time.")
        self.random = random.Random(seed)
        self._now = start.astimezone(UTC)
        self._scale = scale
        self._base = (self._now, time.monotonic())
        self._heap: list[Timer] = []
        self._order = itertools.count()
        self._participants: dict[str, Participant] = {}
        self._changed = asyncio.Event()
        self.version_sources: dict[str, Callable[[], int | None]] = {}
        """API address → its current resourceVersion, None while it is down"""
        self.ahead = timedelta(0)
        """what the clocks of those who follow this world over HTTP stand ahead of it; negative: behind"""
        self._working = 0
        self.before_wake: list[Callable[[], None]] = []
        """called before a participant is woken: the API servers send bookmarks here"""

    @property
    def now(self) -> datetime:
        """Aware UTC."""
        if self._scale:
            base, read_at = self._base
            return base + timedelta(seconds=(time.monotonic() - read_at) * self._scale)
        return self._now

    @property
    def scale(self) -> float:
        """0 = stepped."""
        return self._scale

    def at(self, when: datetime, callback: Callable[[], None]) -> Timer:
        """Run the callback when the world reaches `when` (not before now)."""
        timer = Timer(max(when, self.now), next(self._order), callback)
        heapq.heappush(self._heap, timer)
        self._changed.set()
        return timer

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run the callback `seconds` of world time from now."""
        return self.at(self.now + timedelta(seconds=seconds), callback)

    def expect(self, name: str, *, priority: int = 100) -> Participant:
        """From here on the stepped world waits for this participant."""
        participant = self._participants.setdefault(name, Participant(name, priority))
        participant.priority = priority
        return participant

    def forget(self, name: str) -> None:
        """The participant is gone (killed, closed): do not wait for it any more."""
        participant = self._participants.pop(name, None)
        if participant and participant.waiting and not participant.waiting.done():
            participant.waiting.set_result(True)
        self._changed.set()

    def sent(self, name: str) -> None:
        """An envelope goes out to the participant: the world stands still until it is handled."""
        participant = self._participants.get(name)
        if participant is not None:
            participant.on_the_way += 1

    def acknowledged(self, name: str, *, handled: bool = True) -> None:
        """The participant has the envelope (or, with `handled` False, never will): let it work."""
        participant = self._participants.get(name)
        if participant is None:
            return
        participant.on_the_way = max(0, participant.on_the_way - 1)
        if handled:
            participant.delivered += 1
            self._wake(participant, woken=True)
        self._changed.set()

    def set_scale(self, scale: float) -> None:
        """Change between stepped (0) and scaled time, from the present moment on."""
        self._now = self.now
        self._base = (self._now, time.monotonic())
        self._scale = scale
        self._changed.set()

    def nudge(self, name: str) -> None:
        """End a participant's wait early: it has something to do that the world knows nothing of."""
        participant = self._participants.get(name)
        if participant is None:
            return
        participant.nudged = participant.waiting is None
        self._wake(participant, woken=True)

    async def wait(self, name: str, until: datetime, inbound: int | None = None) -> bool:
        """Idle until the world reaches `until`; True where woken early because there is work."""
        participant = self.expect(name, priority=self.expect_priority(name))
        if participant.nudged or (inbound is not None and inbound < participant.delivered):
            participant.nudged = False
            return True
        participant.until = until
        participant.waiting = asyncio.get_running_loop().create_future()
        self._changed.set()
        try:
            return await participant.waiting
        finally:
            participant.waiting = None
            participant.until = None

    def expect_priority(self, name: str) -> int:
        """The priority a participant was expected with; 100 for a new one."""
        known = self._participants.get(name)
        return known.priority if known else 100

    @contextmanager
    def working(self) -> Iterator[None]:
        """The stepped world stands still inside: for stand-ins that wait for real I/O (a machine's join)."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._changed.set()

    def versions(self) -> dict[str, int]:
        """resourceVersion of every API that answers, by address."""
        found = {address: source() for address, source in self.version_sources.items()}
        return {address: version for address, version in found.items() if version is not None}

    async def run(self) -> None:
        """Move time until cancelled; one task runs this."""
        while True:
            self._changed.clear()
            delay = await (self._run_scaled() if self._scale else self._run_stepped())
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the change.
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._changed.wait()

    async def _run_scaled(self) -> float:
        while self._heap and self._heap[0].when <= self.now:
            self._fire(heapq.heappop(self._heap))
        now = self.now
        waits = [p for p in self._participants.values() if p.waiting and p.until and p.until <= now]
        for participant in waits:
            self._wake(participant, woken=False)
        moments = [timer.when for timer in self._heap[:1]]
        moments += [p.until for p in self._participants.values() if p.waiting and p.until]
        left = min(((moment - now).total_seconds() / self._scale for moment in moments), default=60.0)
        return min(max(left, 0.001), 60.0)

    async def _run_stepped(self) -> float:
        fired = 0
        while self._all_idle():
            if not self._step():
                break
            fired += 1
            if fired % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return 3600.0

    def _all_idle(self) -> bool:
        return (
            not self._working
            and bool(self._participants)
            and all(p.idle for p in self._participants.values())
        )

    def _step(self) -> bool:
        """Run the next event, or wake the next participant; False where there is nothing to do."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        due = min(self._participants.values(), key=lambda p: (p.until or self._now, p.priority))
        until = due.until or self._now
        if self._heap and self._heap[0].when <= until:
            timer = heapq.heappop(self._heap)
            self._now = max(self._now, timer.when)
            self._fire(timer)
            return True
        self._now = max(self._now, until)
        self._wake(due, woken=False)
        return False

    def run_until(self, moment: datetime) -> None:
        """Run a stepped world's events up to the moment, at once and without any participant."""
        while self._heap and self._heap[0].when <= moment:
            timer = heapq.heappop(self._heap)
            self._now = max(self._now, timer.when)
            self._fire(timer)
        self._now = max(self._now, moment)

    def _fire(self, timer: Timer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()

    def _wake(self, participant: Participant, *, woken: bool) -> None:
        if participant.waiting is None or participant.waiting.done():
            return
        for hook in self.before_wake:
            hook()
        participant.waiting.set_result(woken)

    def app(self) -> web.Application:
        """The HTTP side of the clock."""
        application = web.Application()
        application.router.add_get("/world/time", self._get_time)
        application.router.add_post("/world/wait", self._post_wait)
        application.router.add_post("/world/scale", self._post_scale)
        application.router.add_post("/world/nudge", self._post_nudge)
        return application

    def _answer(self, **more: object) -> web.Response:
        now = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ahead = self.ahead // timedelta(microseconds=1)
        return web.json_response(
            {"now": now, "ahead_us": ahead, "scale": self._scale, "versions": self.versions(), **more}
        )

    async def _get_time(self, _request: web.Request) -> web.Response:
        return self._answer()

    async def _post_wait(self, request: web.Request) -> web.Response:
        body = await request.json()
        until = datetime.fromisoformat(body["until"].replace("Z", "+00:00"))
        woken = await self.wait(body["participant"], until, body.get("inbound"))
        return self._answer(woken=woken)

    async def _post_nudge(self, request: web.Request) -> web.Response:
        self.nudge((await request.json())["participant"])
        return self._answer()

    async def _post_scale(self, request: web.Request) -> web.Response:
        self.set_scale(float((await request.json())["scale"]))
        return self._answer()
