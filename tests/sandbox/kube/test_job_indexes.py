"""Completion indexes as the Job controller writes and counts them."""

from __future__ import annotations

import pytest

from sandbox.kube import job_indexes


@pytest.mark.parametrize(
    ("indexes_", "text"),
    [([], ""), ([3], "3"), ([1, 2], "1,2"), ([1, 3, 4, 5, 7], "1,3-5,7"), ([0, 1, 2, 5, 6], "0-2,5,6")],
)
def test_intervals_are_written_as_the_controller_writes_them(indexes_: list[int], text: str) -> None:
    """Two neighbours with a comma, three or more with a dash; and back."""
    intervals = job_indexes.merge((), indexes_)
    assert job_indexes.render(intervals) == text
    assert job_indexes.parse(text, 100) == intervals
    assert [i for i in range(10) if job_indexes.has(intervals, i)] == indexes_


def test_intervals_beyond_the_completions_are_forgotten() -> None:
    """What was scaled away has not been done."""
    assert job_indexes.parse("1,3-8,12", 6) == ((1, 1), (3, 5))


def test_pending_indexes_are_the_first_free_ones() -> None:
    """Neither done nor taken."""
    assert job_indexes.pending(((0, 2), (5, 5)), {3, 8}, 4, 10) == [4, 6, 7, 9]
