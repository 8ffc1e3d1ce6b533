"""SIGKILL at every request that changes something: nothing is bought, paused or said twice, nothing is lost.

How the coverage is counted: a first play, without a kill, notes every changing request that reaches the three
servers (Kubernetes, EC2, Slack), in order. Each of them is a point to be killed at twice: `before` anything is done
about it, and `after` it was carried out (its reply never arrives; a reply that arrives and is not acted on leaves
the same behind). What EC2 or Slack refuses changes nothing, and has no `after`. The points are dealt out to a few plays, every fourth request to the same one, so that all are
killed at exactly once without a play a point. A point counts as hit only where the process died at that very
request: the same words, for the same time at that moment of the world, which an earlier kill of the same play may
have moved by a tick. The test fails for each that was not.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from rehearsal.format import load_scenario
from tests.scenarios.killing import AFTER, BEFORE, Played, Point, play_killed

pytestmark = pytest.mark.timeout(900)
"""all plays together, on two cores that others use as well"""
STORY = Path(__file__).with_name("overflow-pause-and-kill.yaml")
STRIDE = 4
"""requests between two kills of one play"""
PROCESSES = 2
TICK_OF_BURN = 400_000
"""micro-dollars: a new process looks at once and from then on at its own minutes, so that a pause may come up to one
tick (a minute at $24.00/h) sooner or later than without the kill"""
VARYING = re.compile(r"\$[\d,.]+|\d\d:\d\d|\d+ (s|m|%)")
"""amounts and times, which follow from when a pause came"""


def _play(folder: Path, points: tuple[Point, ...]) -> Played:
    return play_killed(load_scenario(STORY)[0], folder, points)


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, list[Played]]:
    """The play without a kill, and those that together are killed at every point."""
    folder = tmp_path_factory.mktemp("kills")
    calm = _play(folder / "calm", ())
    dealt = [points_of(calm, moment)[first::STRIDE] for first in range(STRIDE) for moment in (BEFORE, AFTER)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        folders = [folder / f"play-{number}" for number in range(len(dealt))]
        killed = list(pool.map(_play, folders, dealt))
    return calm, killed


def points_of(calm: Played, moment: str) -> tuple[Point, ...]:
    """All points of one kind, in order."""
    requests = calm.seen if moment == BEFORE else calm.done
    return tuple(Point(request, moment) for request in requests)


def test_every_changing_request_is_killed_at_before_and_after(plays):
    """Counted, not hand-picked: as many kills as requests times two, each at its own."""
    calm, killed = plays
    hit = [point for played in killed for point in played.hit]
    wanted = points_of(calm, BEFORE) + points_of(calm, AFTER)
    refused = [request.what for request in calm.seen if request not in calm.done]

    assert 30 <= len(calm.seen) <= 70
    assert refused == ["RunInstances us-west-2"]  # the second time: by then it is known to be full
    assert set(wanted) - set(hit) == set()
    assert len(hit) == len(wanted) == 2 * len(calm.seen) - 1
    assert [played.starts for played in killed] == [len(played.hit) + 1 for played in killed]


def test_the_ledger_is_exact_and_nothing_is_bought_twice(plays):
    """All expectations and invariants of the story hold: pods + idle = node price, a purchase an attempt, one pause."""
    calm, killed = plays

    assert [played.failed for played in [calm, *killed]] == [()] * (len(killed) + 1)


def test_it_ends_as_it_would_have_ended(plays):
    """The same objects, machines, decisions and messages, each said once; the same money, within a tick's burn."""
    calm, killed = plays
    for played in killed:
        assert shape(played.facts) == shape(calm.facts), played.hit
        assert played.spent.keys() == calm.spent.keys()
        assert {
            name: abs(played.spent[name] - calm.spent[name]) <= TICK_OF_BURN for name in calm.spent
        } == dict.fromkeys(calm.spent, True), played.hit


def test_what_one_person_sees_is_said_at_most_twice(plays):
    """An ephemeral cannot be found again: the same ones as without kills, once or twice."""
    calm, killed = plays
    for played in killed:
        assert shape(sorted(set(played.whispers))) == shape(sorted(calm.whispers)), played.hit
        assert max(played.whispers.values()) <= 2, played.whispers


def test_it_stops_cleanly_afterwards(plays):
    """SIGTERM ends each of the processes with exit code 0, also where it was killed while it ended."""
    calm, killed = plays

    assert {played.exit_code for played in [calm, *killed]} == {0}


def shape(value: Any) -> Any:
    """Without amounts and times."""
    if isinstance(value, str):
        return VARYING.sub("#", value)
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shape(each) for each in value]
    return value
