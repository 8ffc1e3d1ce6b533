"""The stepped world: moves only when all are idle, jumps between events, and lets the earliest go first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from fleet.clock import FollowingClock
from sandbox.hosting import Host
from sandbox.world import World

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)


@pytest.fixture
def host():
    """A sandbox thread."""
    running = Host()
    yield running
    running.close()


def test_a_following_clock_jumps_to_the_next_moment(host):
    """Two hours of world time pass without waiting, and events on the way are run in order."""
    world = World(START)
    seen: list[str] = []
    host.call(lambda: world.after(60, lambda: seen.append("minute")))
    host.call(lambda: world.after(30, lambda: seen.append("half")))
    host.call(lambda: world.expect("serve"))
    address = host.serve(world.app())
    host.spawn(world.run)
    clock = FollowingClock(address, "serve", dict, lambda versions: True)

    assert clock.now() == START
    assert clock.wait_until(START + timedelta(hours=2), lambda: False) == START + timedelta(hours=2)
    assert seen == ["half", "minute"]


def test_an_envelope_on_the_way_holds_the_world(host):
    """A participant that was sent something is woken before time moves on."""
    world = World(START)
    address = host.serve(world.app())
    host.call(lambda: world.expect("serve"))
    host.spawn(world.run)

    def send():
        world.sent("serve")
        world.after(0, lambda: None)
        world.acknowledged("serve")

    host.call(lambda: world.after(10, send))
    handled = 0
    clock = FollowingClock(address, "serve", lambda: {"inbound": handled}, lambda versions: True)

    assert clock.wait_until(START + timedelta(hours=1), lambda: False) == START + timedelta(seconds=10)
    handled = 1
    assert clock.wait_until(START + timedelta(hours=1), lambda: False) == START + timedelta(hours=1)


def test_a_nudge_ends_a_wait_and_is_not_lost_before_one(host):
    """Somebody asks at the terminal while the world stands still: the wait ends at once, world time stays."""
    world = World(START)
    address = host.serve(world.app())
    host.call(lambda: world.expect("serve"))
    host.call(lambda: world.expect("stage"))
    host.spawn(world.run)
    clock = FollowingClock(address, "serve", dict, lambda versions: True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(clock.wait_until, START + timedelta(hours=1), lambda: False)
        deadline = time.monotonic() + 10
        while not waiting.done() and time.monotonic() < deadline:
            clock.nudge()

    assert waiting.result() == START
    host.call(lambda: world.nudge("serve"))
    assert clock.wait_until(START + timedelta(hours=1), lambda: False) == START
