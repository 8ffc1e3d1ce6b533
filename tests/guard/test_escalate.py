"""Escalation as tables: what a cap calls for at each stand of spend and burn."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.values import Money
from guard.caps import Cap, ScopeKind, Standing
from guard.escalate import Arm, Disarm, Kill, Pause, Tell, decide, victims
from guard.rules import burn
from guard.rules.budget import threshold_key
from guard.rules.finding import Candidate, CapView
from guard.settings import GuardSettings
from tests.builders import T0

SETTINGS = GuardSettings()  # tick 1 m, countdown 15 m, drain 5 m
MINUTE = timedelta(minutes=1)


def runner(run: str = "a", burn_: str = "60", age: int = 1, idle: bool = False) -> Candidate:
    """A run that has been going for so many hours."""
    return Candidate(run, Money.usd(burn_), T0 - timedelta(hours=age), idle)


def view(
    spent: str, *runs: Candidate, held: str = "0", kind: str = "run", draining: str = "0", **more
) -> CapView:
    """A cap of $1,000 at which these runs burn; a dollar a minute is 60 $/h."""
    kill = more.pop("kill", False)
    allowed = Money.usd(more.pop("allowed", "1000"))
    cap = Cap(name="c", scope_kind=ScopeKind(kind), scope_value="x", limit=allowed, kill=kill)
    total = Money.total(run.burn for run in runs) + Money.usd(draining)
    return CapView(
        standing=Standing(cap, allowed, Money.usd(spent), Money.usd(held)),
        burn=total,
        draining=Money.usd(draining),
        drain=SETTINGS.drain,
        candidates=runs,
        **more,
    )


def kinds(found: CapView) -> list[str]:
    """The names of the actions."""
    return [type(action).__name__ for action in decide(found, SETTINGS, T0)]


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        ("499.99", []),
        ("500", ["Tell"]),
        ("979", ["Tell", "Arm"]),  # 1000 - 21 minutes × $1
        ("978.9", ["Tell"]),
        ("993.9", ["Tell", "Arm"]),
        ("994", ["Tell", "Pause"]),  # 1000 - (tick + drain)
        ("1000", ["Tell", "Pause"]),
        ("1200", ["Tell", "Pause"]),
    ],
)
def test_ladder_of_a_dollar_a_minute(spent, expected):
    """Told at 50, armed 21 minutes before the cap, paused 6 minutes before it, so that 100 % is standstill."""
    assert kinds(view(spent, runner())) == expected


def test_jumped_thresholds_are_one_message_with_the_highest():
    """From 0 to 85 % in one tick: one Tell, 80, both recorded."""
    (told,) = decide(view("850", runner(burn_="1")), SETTINGS, T0)
    assert isinstance(told, Tell)
    assert (told.threshold, told.passed, told.silent) == ("80", ("50", "80"), False)


def test_a_threshold_fires_once():
    """What has fired is not told again; a raised limit is another limit."""
    fired = frozenset({threshold_key("50", Money.usd(1000))})
    assert kinds(view("550", runner(burn_="1"), fired=fired)) == []
    assert kinds(view("1100", runner(burn_="1"), fired=fired, allowed="2000")) == ["Tell"]


def test_thresholds_under_a_countdown_are_only_recorded():
    """The armed card says more than a percentage."""
    told, armed = decide(view("985", runner()), SETTINGS, T0)
    assert isinstance(told, Tell)
    assert told.silent
    assert isinstance(armed, Arm)


def test_committed_alerts_on_shared_caps_alone():
    """A run's own cap is committed in full by its own launch."""
    assert kinds(view("10", runner(burn_="1"), held="900", kind="team")) == ["Tell"]
    assert kinds(view("10", runner(burn_="1"), held="900", kind="run")) == []


def test_deadline_is_where_the_pause_must_start():
    """$979 of $1,000 at $1 a minute: 15 minutes from now; at $3 a minute with $950: 10 m 40 s."""
    (armed,) = [a for a in decide(view("979", runner()), SETTINGS, T0) if isinstance(a, Arm)]
    assert armed.deadline == T0 + 15 * MINUTE
    (armed,) = [a for a in decide(view("950", runner(burn_="180")), SETTINGS, T0) if isinstance(a, Arm)]
    assert armed.deadline == T0 + timedelta(minutes=10, seconds=40)


def test_a_machine_costs_its_first_minute_however_soon_it_ends():
    """Tick and drain of seconds: the pause still starts a minute's burn before the cap; holds are that long as well."""
    quick = GuardSettings(
        tick=timedelta(seconds=1), countdown=timedelta(seconds=3), drain=timedelta(seconds=3)
    )
    late, early = (replace(view(spent, runner()), drain=quick.drain) for spent in ("999", "998.90"))
    fading = replace(view("998.99", runner(burn_="0.6"), draining="60"), drain=quick.drain)

    assert [type(action) for action in decide(late, quick, T0)] == [Tell, Pause]
    assert [type(action) for action in decide(early, quick, T0)] == [Tell]
    assert [type(action) for action in decide(fading, quick, T0)] == [Tell, Pause]
    assert quick.span == MINUTE


def test_countdown_shrinks_as_the_burn_grows():
    """Twice the burn: the deadline moves from 15 minutes to (21 - 12) / 2 minutes from now."""
    grown = view("979", runner(burn_="120"), armed=True, deadline=T0 + 15 * MINUTE)
    (armed,) = [a for a in decide(grown, SETTINGS, T0) if isinstance(a, Arm)]
    assert armed.deadline == T0 + timedelta(minutes=4, seconds=30)


def test_countdown_does_not_dither():
    """A change within a tick keeps the deadline that people were told."""
    told = T0 + 15 * MINUTE + timedelta(seconds=40)
    (armed,) = [
        a
        for a in decide(view("979", runner(), armed=True, deadline=told), SETTINGS, T0)
        if isinstance(a, Arm)
    ]
    assert armed.deadline == told


def test_countdown_ends_only_with_room_to_spare():
    """Hysteresis: at 979 → 975 it stays armed; below 95 % of the cap it is cancelled."""
    assert kinds(view("975", runner(burn_="60"), armed=True, fired=_all())) == []
    assert kinds(view("900", runner(burn_="60"), armed=True, fired=_all())) == ["Disarm"]
    assert kinds(view("990", armed=True, fired=_all())) == ["Disarm"]


def _all() -> frozenset[str]:
    return frozenset(threshold_key(t, Money.usd(1000)) for t in ("50", "80", "committed 90"))


def test_window_that_rolls_over_first_needs_no_pause():
    """$995 of a daily $1,000, $1 a minute, midnight in 4 minutes: it ends at 999; in 6 minutes it would not."""
    assert kinds(view("995", runner(), window_left=4 * MINUTE, fired=_all())) == []
    assert kinds(view("995", runner(), window_left=6 * MINUTE, fired=_all())) == ["Pause"]


@pytest.mark.parametrize(
    ("runs", "order"),
    [
        ([runner("big", "60"), runner("idle", "5", idle=True)], ("idle", "big")),
        ([runner("small", "10"), runner("big", "60")], ("big", "small")),
        ([runner("old", "30", age=9), runner("new", "30", age=1)], ("new", "old")),
    ],
)
def test_victims_are_idle_then_dear_then_new(runs, order):
    """The cap is reached, so all go, in this order."""
    assert victims(view("1000", *runs, kind="team"), SETTINGS) == order


def test_no_more_victims_than_needed():
    """$960 spent, runs at $3, $1 and $0.10 a minute: without the dearest, $1.10 a minute fits for 21 minutes
    beside what the dearest still costs while it drains (5 × 3)."""
    runs = (runner("dear", "180"), runner("mid", "60"), runner("small", "6"))
    assert victims(view("960", *runs, kind="team"), SETTINGS) == ("dear",)


def test_what_drains_already_is_not_paused_again():
    """A run that is being stopped costs for a drain more, not for ever: the small one may go on."""
    found = view("960", runner("small", "6"), draining="180", kind="team", fired=_all())
    assert kinds(found) == []


def test_belt_asks_where_a_shared_cap_would_pause_many():
    """Four runs of one team: the countdown asks and blocks; a run's own cap never needs a belt."""
    runs = [runner(name, "15") for name in "abcd"]
    (armed,) = [a for a in decide(view("993", *runs, kind="team"), SETTINGS, T0) if isinstance(a, Arm)]
    assert (armed.belt, len(armed.victims)) == (True, 4)
    (own,) = [a for a in decide(view("993", *runs, kind="experiment"), SETTINGS, T0) if isinstance(a, Arm)]
    assert not own.belt


def test_belt_that_nobody_answered_pauses():
    """At the deadline it is a pause like any other."""
    runs = [runner(name, "15") for name in "abcd"]
    (paused,) = [
        a for a in decide(view("995", *runs, kind="team", armed=True), SETTINGS, T0) if isinstance(a, Pause)
    ]
    assert paused.victims == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("spent", "kill", "stuck", "expected"),
    [
        ("1100", True, ("a",), ["Kill"]),
        ("1099", True, ("a",), []),
        ("1100", False, ("a",), []),
        ("1100", True, (), []),
    ],
)
def test_kill_needs_a_failed_pause_and_leave_and_110_percent(spent, kill, stuck, expected):
    """All three; otherwise people are told."""
    assert kinds(view(spent, kill=kill, stuck=stuck, fired=_all())) == expected


def test_cap_of_zero_pauses_whatever_runs():
    """0 means zero."""
    assert kinds(view("0", runner(burn_="0"), allowed="0")) == ["Pause"]


def test_reasons_are_sentences_with_numbers():
    """Every decision says why."""
    actions = decide(view("994", runner()), SETTINGS, T0)
    (paused,) = [a for a in actions if isinstance(a, Pause)]
    assert "$994.00 of $1,000.00" in paused.reasons[0]
    assert not any(isinstance(a, Disarm | Kill) for a in actions)


def test_projection_without_burn_lasts():
    """Nothing burns: nothing is armed, however close."""
    assert not burn.project(view("999"), SETTINGS).arm
