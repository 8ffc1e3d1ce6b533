"""Burn against the cap: would the work still be stopped by 100 % if the countdown ran first, or must it stop now?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from fleet.values import Money
from guard.rules.finding import CapView, Finding
from guard.settings import BILLED_AT_LEAST, GuardSettings

_LONG = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Projection:
    """How the burn stands against a cap."""

    left: timedelta
    """until the pause must start, so that it is verified at 100 %; zero: now"""
    arm: bool
    """the countdown has to run"""


def project(view: CapView, settings: GuardSettings, *, percent: int = 100) -> Projection:
    """spent + draining × drain + burn × (tick + drain + time) against the cap (or a part of it).

    Neither is shorter than what is billed at least: a machine that ends in its first minute costs all of it.
    """
    running = max(Money(0), view.burn - view.draining)
    allowed = Money(view.standing.allowed.micros * percent // 100)
    if _rolls_over_first(view, running, allowed):
        return Projection(_LONG, arm=False)
    draining = view.draining.over(max(view.drain, BILLED_AT_LEAST))
    reserve = draining + running.over(max(settings.tick + view.drain, BILLED_AT_LEAST))
    room = allowed - view.standing.spent - reserve
    if room <= Money(0):
        return Projection(timedelta(0), arm=True)
    left = room.lasts(running)
    limits = [limit for limit in (left, _before_lapse(view, running, settings)) if limit is not None]
    if not limits:
        return Projection(_LONG, arm=False)
    return Projection(min(limits), arm=min(limits) <= settings.countdown)


def _before_lapse(view: CapView, running: Money, settings: GuardSettings) -> timedelta | None:
    """An approval expires: where too much will have been spent by then, the work has stopped when it does."""
    if view.lapse is None or not running:
        return None
    rest, allowed = view.lapse
    if view.standing.spent + running.over(rest) <= allowed:
        return None
    return max(timedelta(0), rest - settings.tick - view.drain)


def _rolls_over_first(view: CapView, running: Money, allowed: Money) -> bool:
    """The window ends before the cap could be reached: what is spent after that is the next window's."""
    rest = view.window_left
    if rest is None:
        return False
    spent = view.standing.spent
    return (
        spent < allowed and spent + view.draining.over(min(rest, view.drain)) + running.over(rest) < allowed
    )


def check(view: CapView, settings: GuardSettings) -> tuple[Finding, ...]:
    """A finding where the countdown has to run, or the pause has to start now."""
    if not view.candidates:
        return ()
    found = project(view, settings)
    if not found.arm:
        return ()
    standing = view.standing
    when = "now" if not found.left else f"within {found.left}"
    return (
        Finding(
            "burn",
            standing.cap.name,
            f"At {view.burn}/h the cap {standing.cap.name} needs a pause {when} ({standing.spent} of {standing.allowed}).",
            {"left_seconds": str(int(found.left.total_seconds()))},
        ),
    )
