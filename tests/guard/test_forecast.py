"""Cost to completion from the Jobs' own progress."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fleet.values import Money
from guard.forecast import Progress, completion, progress_of, waves
from tests.builders import job

SWEEP = {"completions": 1000, "parallelism": 100}


def progress(succeeded: int, spent: str, active: int = 0, burn: str = "0", **more) -> Progress:
    """Of a sweep of 1,000 trials, 100 at once."""
    fields = {"completions": 1000, "parallelism": 100} | more
    return Progress(
        succeeded=succeeded, active=active, spent=Money.usd(spent), burn=Money.usd(burn), **fields
    )


def test_worked_case_of_a_thousand_completions():
    """250 done for $200: $600 more, $800 in total, 8 waves (facts §4); never the 3 h that startTime would say."""
    done = progress(250, "200")
    found = completion(done)
    assert (found.low, found.high) == (Money.usd(800), Money.usd(800))
    assert waves(done) == 8


def test_running_trials_make_it_a_range():
    """100 running: high counts them as nothing (800), low as half done: 1,000 × 200 / 300."""
    found = completion(progress(250, "200", active=100, burn="40"))
    assert (found.low, found.high) == (Money(666_666_666), Money.usd(800))
    assert "250 of 1000 completed" in found.basis


def test_before_three_completions_a_range_from_the_declared_trials():
    """100 running at $1/h each have cost $50: no trial will be cheaper, none runs longer than declared."""
    found = completion(progress(0, "50", active=100, burn="100", hours=Fraction(24)))
    assert (found.low, found.high) == (Money.usd(500), Money.usd(50 + 100 * 24))
    assert "1000 declared trials" in found.basis


@pytest.mark.parametrize("hours", [None, Fraction(24)])
def test_too_few_to_tell_without_a_burn(hours):
    """Nothing runs yet: no high end is invented."""
    found = completion(progress(2, "5", hours=hours))
    assert (found.low, found.high) == (Money.usd(5), None)


def test_endless_work_has_no_completion():
    """A work queue (no completions): only the burn is told."""
    found = completion(progress_of([job(completions=None)], Money.usd(7), Money.usd(3), None))
    assert (found.low, found.high) == (Money.usd(7), None)
    assert "no end is declared" in found.basis


def test_all_done_costs_what_it_has_cost():
    """Nothing more is coming."""
    found = completion(progress(1000, "900"))
    assert (found.low, found.high) == (Money.usd(900), Money.usd(900))


def test_progress_sums_the_jobs_that_end():
    """A parameter server without completions beside a sweep does not hide the sweep's progress."""
    jobs = [job(completions=10, succeeded=4, active=2, parallelism=3), job(completions=None, active=1)]
    found = progress_of(jobs, Money.usd(1), Money.usd(2), None)
    assert (found.completions, found.succeeded, found.active, found.parallelism) == (10, 4, 2, 3)
