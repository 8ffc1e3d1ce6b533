"""Clocks: the machine's, and one that follows a sandbox's world."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, timedelta

import pytest

from fleet.clock import FollowingClock, RealClock
from fleet.errors import Unavailable
from sandbox.hosting import Host
from sandbox.world import World
from tests.builders import T0


def test_real_time_is_aware_and_moves():
    """Now is UTC, and a wait ends at its moment."""
    clock = RealClock()
    before = clock.now()
    assert before.tzinfo is UTC
    assert clock.wait_until(before + timedelta(milliseconds=5), lambda: False) >= before + timedelta(
        milliseconds=5
    )


def test_real_waits_end_early():
    """A nudge from another thread, or something to do, ends a wait at once."""
    clock = RealClock()
    far = clock.now() + timedelta(hours=1)
    began = time.monotonic()
    threading.Timer(0.01, clock.nudge).start()
    clock.wait_until(far, lambda: False)
    clock.wait_until(far, lambda: True)
    assert time.monotonic() - began < 1
    clock.nudge()
    clock.wait_until(far, lambda: False)
    assert time.monotonic() - began < 1


@pytest.fixture
def host() -> Iterator[Host]:
    """A loop for the world."""
    made = Host()
    yield made
    made.close()


def world(host: Host, scale: float = 0.0) -> tuple[World, str]:
    """A world that is running, and its address."""

    async def make() -> World:
        made = World(T0, scale=scale)
        if not scale:
            made.expect("product")
        return made

    made = host.run(make())
    host.spawn(made.run)
    return made, host.serve(made.app())


def follow(address: str, settled=lambda versions: True) -> FollowingClock:
    """A clock of the product."""
    return FollowingClock(address, "product", lambda: {"inbound": 0}, settled)


def test_a_stepped_world_stands_still_until_asked(host):
    """Time is the world's; it moves by exactly what was waited for."""
    _, address = world(host)
    clock = follow(address)
    assert clock.now() == T0
    time.sleep(0.01)
    assert clock.now() == T0
    assert clock.wait_until(T0 + timedelta(hours=3), lambda: False) == T0 + timedelta(hours=3)
    assert clock.now() == T0 + timedelta(hours=3)


def test_events_of_the_world_happen_on_the_way(host):
    """What the world had planned before the moment has happened when the wait ends."""
    made, address = world(host)
    clock = follow(address)
    fired: list[str] = []
    host.call(made.after, 60.0, lambda: fired.append("minute"))
    host.call(made.after, 7200.0, lambda: fired.append("two hours"))
    clock.wait_until(T0 + timedelta(hours=1), lambda: False)
    assert fired == ["minute"]


def test_something_to_do_needs_no_time(host):
    """With work waiting, or after a nudge, the world does not move."""
    _, address = world(host)
    clock = follow(address)
    assert clock.wait_until(T0 + timedelta(hours=1), lambda: True) == T0
    clock.nudge()
    assert clock.wait_until(T0 + timedelta(hours=1), lambda: False) == T0
    assert clock.wait_until(T0 + timedelta(hours=1), lambda: False) == T0 + timedelta(hours=1)


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(minutes=-10)])
def test_a_clock_that_jumped_is_wrong_by_that_much_and_waits_for_its_own_time(host, ahead):
    """The process reads the wrong time, the world's own goes on as it did, and what was planned in it happens."""
    made, address = world(host)
    clock = follow(address)
    host.call(setattr, made, "ahead", ahead)
    host.call(made.nudge, "product")
    assert clock.wait_until(T0, lambda: False) == T0 + ahead
    assert clock.wait_until(T0 + ahead + timedelta(hours=1), lambda: False) == T0 + ahead + timedelta(hours=1)
    assert made.now == T0 + timedelta(hours=1)
    host.call(setattr, made, "ahead", timedelta(0))
    host.call(made.nudge, "product")
    assert clock.wait_until(T0 + timedelta(hours=9), lambda: False) == T0 + timedelta(hours=1)


def test_a_wait_ends_when_the_caches_have_caught_up(host):
    """The versions that the world names are waited for, so that decisions see what has happened."""
    made, address = world(host)
    asked: list[dict[str, int]] = []

    def settled(versions: dict[str, int]) -> bool:
        asked.append(versions)
        return len(asked) >= 3

    def add() -> None:
        made.version_sources["http://api"] = lambda: 42
        made.version_sources["http://down"] = lambda: None

    host.call(add)
    follow(address, settled).wait_until(T0 + timedelta(seconds=1), lambda: False)
    assert asked == [{"http://api": 42}] * 3


def test_a_scaled_world_runs_by_itself(host):
    """At 3,600 times an hour passes in a second, also between answers."""
    _, address = world(host, scale=3600.0)
    clock = follow(address)
    began, first = time.monotonic(), clock.now()
    after = clock.wait_until(first + timedelta(minutes=3), lambda: False)
    assert after >= first + timedelta(minutes=3)
    assert time.monotonic() - began < 1.0
    assert clock.now() >= after


def test_a_world_that_is_gone_is_unavailable():
    """Nobody at the address is a typed error with the address."""
    with pytest.raises(Unavailable, match=r"world at http://127\.0\.0\.1:1 does not answer"):
        follow("http://127.0.0.1:1/")
