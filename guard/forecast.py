"""Cost to completion, from the Jobs' own progress. Advice: a forecast never pauses anything.

`startTime` is never used: a resume resets it. From three completions on, what a completion has cost says
what the rest will cost; before that a range from the declared trials and hours; without either, the burn alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from fleet.model import Job
from fleet.values import Money, format_duration
from guard.events import ForecastFigures

ENOUGH = 3
"""completions from which on the rest is extrapolated"""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run's progress. `completions` None: it declares no end (a work queue, a server)."""

    completions: int | None
    succeeded: int
    active: int
    spent: Money
    burn: Money
    parallelism: int = 0
    hours: Fraction | None = None
    """declared at launch: the whole run ends after this"""


def progress_of(jobs: Iterable[Job], spent: Money, burn: Money, hours: Fraction | None) -> Progress:
    """The sum over a run's Jobs; those without completions do not count where others have some."""
    ending = []
    endless = False
    for job in jobs:
        if job.completions is None:
            endless = endless or not job.done
        else:
            ending.append(job)
    if not ending:
        return Progress(None if endless else 0, 0, 0, spent, burn, hours=hours)
    return Progress(
        completions=sum(job.completions or 0 for job in ending),
        succeeded=sum(job.succeeded for job in ending),
        active=sum(job.active for job in ending),
        spent=spent,
        burn=burn,
        parallelism=sum(job.parallelism for job in ending),
        hours=hours,
    )


def completion(progress: Progress) -> ForecastFigures:
    """What the run will have cost when it is complete, as a range with its basis in words."""
    spent, burn = progress.spent, progress.burn
    if progress.completions is None:
        return ForecastFigures(spent, None, f"no end is declared; it costs {burn}/h")
    left = max(0, progress.completions - progress.succeeded)
    if left == 0:
        return ForecastFigures(spent, spent, f"all {progress.completions} are completed")
    if progress.succeeded >= ENOUGH:
        return _from_completions(progress, left)
    if progress.hours is not None and progress.active > 0 and burn:
        return _from_declared(progress, left, progress.hours)
    return ForecastFigures(
        spent,
        None,
        f"{progress.succeeded} of {progress.completions} completed, too few to tell; it costs {burn}/h",
    )


def _from_completions(progress: Progress, left: int) -> ForecastFigures:
    """High: work in flight counts for nothing yet. Low: it is half done."""
    completions = progress.succeeded + left
    spent = progress.spent.micros
    high = spent + left * spent // progress.succeeded
    running = min(progress.active, left)
    low = max(spent, completions * spent * 2 // (2 * progress.succeeded + running))
    each = Money(spent // progress.succeeded)
    return ForecastFigures(
        Money(low),
        Money(high),
        f"{progress.succeeded} of {completions} completed at {each} each, {running} running",
    )


def _from_declared(progress: Progress, left: int, hours: Fraction) -> ForecastFigures:
    """Low: no trial has been cheaper than what the running ones have cost so far. High: up to the end declared."""
    completions = progress.succeeded + left
    started = progress.succeeded + min(progress.active, left)
    each = Fraction(progress.burn.micros, progress.active)
    at_once = min(left, max(progress.active, progress.parallelism))
    low = max(progress.spent.micros, completions * progress.spent.micros // started)
    high = max(low, progress.spent.micros + int(each * at_once * hours))
    return ForecastFigures(
        Money(low),
        Money(high),
        f"{completions} declared trials, {progress.succeeded} completed; at most {_hours(hours)} of "
        f"{at_once} at once at {Money(int(each))}/h each",
    )


def _hours(value: Fraction) -> str:
    return format_duration(timedelta(seconds=int(value * 3600)))


def waves(progress: Progress) -> int:
    """How many times the parallelism still has to be filled."""
    left = max(0, (progress.completions or 0) - progress.succeeded)
    return -(-left // max(1, progress.parallelism))
