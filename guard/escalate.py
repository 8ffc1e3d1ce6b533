"""From findings and history to what is done: tell, arm, pause, kill. Pure; every action carries its reasons.

Once per cap, window and threshold; what was jumped in one tick is one message with the highest. The
countdown is armed while there is still time for it, tick and drain before the cap is reached, and is
shortened as the burn grows, so that at 100 % the pause has been verified. Order of the paused: idle first,
then the highest burn, then the newest, until what still burns fits. Only runs under the cap are looked
at, so a team's cap never hits another team's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from guard.rules import budget, burn
from guard.rules.budget import threshold_key
from guard.rules.finding import Candidate, CapView, Finding
from guard.settings import GuardSettings

KILL_AT = 110
"""percent of a cap at which a pause that failed may become a kill"""


@dataclass(frozen=True, slots=True)
class Tell:
    """Thresholds were passed. `silent`: a countdown or a pause says more; they are only recorded."""

    threshold: str
    passed: tuple[str, ...]
    silent: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """Start the countdown, or move its deadline."""

    deadline: datetime
    victims: tuple[str, ...]
    belt: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disarm:
    """There is room again, or nothing left to pause."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause these runs now."""

    victims: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kill:
    """Their pause failed, the cap is overrun, and it says that killing is allowed."""

    victims: tuple[str, ...]
    reasons: tuple[str, ...]


Action = Tell | Arm | Disarm | Pause | Kill


def decide(view: CapView, settings: GuardSettings, now: datetime) -> tuple[Action, ...]:
    """Everything that this cap calls for at this tick, in the order in which it is done."""
    stopping = _stopping(view, settings, now)
    louder = view.armed or any(isinstance(action, Arm | Pause) for action in stopping)
    told = _thresholds(budget.check(view.standing, settings), view, silent=louder)
    return (*told, *stopping, *_kills(view))


def _thresholds(found: tuple[Finding, ...], view: CapView, *, silent: bool) -> tuple[Tell, ...]:
    allowed = view.standing.allowed
    fresh = [
        finding for finding in found if threshold_key(finding.values["threshold"], allowed) not in view.fired
    ]
    if not fresh:
        return ()
    passed = tuple(finding.values["threshold"] for finding in fresh)
    return (Tell(passed[-1], passed, silent, tuple(finding.sentence for finding in fresh)),)


def _stopping(view: CapView, settings: GuardSettings, now: datetime) -> tuple[Action, ...]:
    if not view.candidates:
        return (Disarm("nothing is left to pause"),) if view.armed else ()
    found = burn.project(view, settings)
    reasons = tuple(finding.sentence for finding in burn.check(view, settings))
    if not found.left:
        return (Pause(victims(view, settings), reasons),)
    if found.arm:
        chosen = victims(_unanswered(view, found.left), settings)
        belt = view.standing.cap.shared and len(chosen) > settings.blast_belt
        return (Arm(_deadline(view, found.left, settings, now), chosen, belt, reasons),)
    if view.armed and not burn.project(view, settings, percent=100 - settings.clear_below).arm:
        return (Disarm("there is room again"),)
    return ()


def _deadline(view: CapView, left: timedelta, settings: GuardSettings, now: datetime) -> datetime:
    """At the present burn; an armed countdown moves only by more than a tick, so that people can rely on it."""
    fresh = now + timedelta(seconds=int(left.total_seconds()))
    if view.deadline is not None and abs(fresh - view.deadline) <= settings.tick:
        return view.deadline
    return fresh


def victims(view: CapView, settings: GuardSettings) -> tuple[str, ...]:
    """Who is paused, in order: as few as make what still burns fit, countdown included."""
    chosen: list[str] = []
    rest = view
    for candidate in sorted(view.candidates, key=_weight):
        chosen.append(candidate.run)
        rest = replace(rest, draining=rest.draining + candidate.burn)
        if not burn.project(rest, settings).arm:
            break
    return tuple(chosen)


def _unanswered(view: CapView, left: timedelta) -> CapView:
    """The same when the countdown has run out: who fits now beside the others may not fit any more then."""
    standing = replace(view.standing, spent=view.standing.spent + view.burn.over(left))
    rest = None if view.window_left is None else max(timedelta(0), view.window_left - left)
    lapse = None if view.lapse is None else (max(timedelta(0), view.lapse[0] - left), view.lapse[1])
    return replace(view, standing=standing, window_left=rest, lapse=lapse)


def _weight(candidate: Candidate) -> tuple[bool, int, float, str]:
    return (
        not candidate.idle,
        -candidate.burn.micros,
        -candidate.started.timestamp(),
        candidate.run,
    )


def _kills(view: CapView) -> tuple[Action, ...]:
    standing = view.standing
    if not (standing.cap.kill and view.stuck):
        return ()
    if standing.spent.micros * 100 < standing.allowed.micros * KILL_AT:
        return ()
    reason = f"{standing.spent} of {standing.allowed} are spent under {standing.cap.name} and the pause has failed."
    return (Kill(view.stuck, (reason,)),)
