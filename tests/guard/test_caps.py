"""Windows with daylight saving, which caps apply, and what does not fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadInput
from fleet.ports import Scope
from fleet.values import Money
from guard.caps import (
    Cap,
    ScopeKind,
    Standing,
    Window,
    applicable,
    checked,
    midnights,
    misfits,
    window_at,
)

LA, NY = "America/Los_Angeles", "America/New_York"


def at(text: str) -> datetime:
    """A UTC time."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def edges(window: Window, zone: str, moment: datetime) -> tuple[datetime, datetime]:
    """The window as two times; `total` has none."""
    start, end = window_at(window, zone, moment)
    assert start is not None
    assert end is not None
    return start, end


def cap(name: str = "c", kind: str = "team", value: str = "vision", limit: str = "1000", **more) -> Cap:
    """A cap."""
    return Cap(name=name, scope_kind=ScopeKind(kind), scope_value=value, limit=Money.usd(limit), **more)


@pytest.mark.parametrize(
    ("window", "zone", "moment", "hours"),
    [
        (Window.DAY, NY, "2026-03-08T12:00", 23),
        (Window.DAY, NY, "2026-11-01T12:00", 25),
        (Window.DAY, NY, "2026-11-02T12:00", 24),
        (Window.MONTH, LA, "2026-03-15T00:00", 743),
        (Window.MONTH, LA, "2026-11-15T00:00", 721),
        (Window.MONTH, "UTC", "2028-02-10T00:00", 29 * 24),
        (Window.WEEK, NY, "2026-03-08T12:00", 7 * 24 - 1),
        (Window.MONTH, "UTC", "2026-12-31T23:59", 31 * 24),
    ],
)
def test_windows_have_the_hours_of_their_zone(window, zone, moment, hours):
    """8 March 2026 in New York has 23 hours, November in Los Angeles 721 (facts §6.1)."""
    start, end = edges(window, zone, at(moment))
    assert end - start == timedelta(hours=hours)
    assert start <= at(moment) < end


def test_window_edges_are_half_open():
    """Midnight in Los Angeles belongs to the new day; a microsecond earlier to the old one."""
    edge = at("2026-11-07T08:00")
    before = edges(Window.DAY, LA, edge - timedelta(microseconds=1))
    assert before[1] == edge == window_at(Window.DAY, LA, edge)[0]


def test_week_starts_on_monday():
    """Sunday evening is still the old week."""
    start, end = window_at(Window.WEEK, "UTC", at("2026-11-08T23:00"))
    assert (start, end) == (at("2026-11-02T00:00"), at("2026-11-09T00:00"))


def test_total_has_no_window():
    """`total` never rolls over."""
    assert window_at(Window.TOTAL, "UTC", at("2026-11-08T23:00")) == (None, None)


def test_midnight_that_does_not_exist_is_the_moment_of_the_jump():
    """In Beirut on 29 March 2026 the clock goes from 24:00 straight to 01:00."""
    start, end = edges(Window.DAY, "Asia/Beirut", at("2026-03-29T12:00"))
    assert start == at("2026-03-28T22:00")
    assert end - start == timedelta(hours=23)


@given(
    st.integers(0, 6 * 365 * 24 * 3600).map(lambda s: at("2024-01-01T00:00") + timedelta(seconds=s)),
    st.sampled_from([LA, NY, "UTC", "Asia/Beirut", "Australia/Lord_Howe"]),
)
def test_windows_adjoin(moment, zone):
    """Wherever a window ends, the next one starts, and every moment lies in exactly its own."""
    for window in (Window.DAY, Window.WEEK, Window.MONTH):
        start, end = edges(window, zone, moment)
        assert start <= moment < end
        assert window_at(window, zone, end)[0] == end
        assert window_at(window, zone, end - timedelta(microseconds=1))[0] == start


def test_midnights_since_a_long_silence_are_all_found():
    """Three days down: three boundaries, each at local midnight."""
    found = midnights(NY, at("2026-10-31T12:00"), at("2026-11-03T05:00"))
    assert found == (at("2026-11-01T04:00"), at("2026-11-02T05:00"), at("2026-11-03T05:00"))


def test_caps_that_apply_come_broadest_first():
    """A launch is judged against the fleet before its own run; what names nobody matches no narrower cap."""
    caps = [
        cap("run", "run", "abcde"),
        cap("team", "team", "vision"),
        cap("other", "team", "games"),
        cap("fleet", "fleet", ""),
        cap("region", "region", "us-west-2"),
        cap("nobody", "person", ""),
    ]
    scope = Scope(region="us-west-2", team="vision", run="abcde")
    assert [c.name for c in applicable(caps, scope)] == ["fleet", "region", "team", "run"]


def test_worked_example_of_what_is_left():
    """Cap 1,000, spent 700, reserved 200: 150 is refused (50 short), 100 is accepted (facts §6.3)."""
    standing = Standing(cap(), Money.usd(1000), Money.usd(700), Money.usd(200))
    (misfit,) = misfits((standing,), Money.usd(150))
    assert (misfit.left, misfit.short) == (Money.usd(100), Money.usd(50))
    assert misfits((standing,), Money.usd(100)) == ()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (cap(zone="Mars/Olympus"), "not an IANA time zone"),
        (cap(dimension="gpu-hours"), "is not known"),
        (cap(limit="-1"), "below zero"),
        (cap("f", "fleet", "x"), "takes no value"),
        (cap("t", "team", ""), "needs a value"),
        (cap(""), "needs a name"),
    ],
)
def test_senseless_caps_are_refused_in_one_sentence(bad, words):
    """What is wrong and with which cap."""
    with pytest.raises(BadInput, match=words):
        checked(bad)
