"""Every story in this folder, told by the production process: whatever a story expects must come true.

A bug report becomes a file here. The stories are played by two workers at a time, so that the suite takes
half as long where two cores are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from rehearsal.format import load_scenario
from rehearsal.outcome import Outcome
from rehearsal.runner import play

STORIES = sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))
AT_ONCE = 2

Told = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Outcome of a story. All that were selected are played in the background from the first question on."""
    folder = tmp_path_factory.mktemp("stories")
    module = request.node
    wanted = [
        str(item.callspec.params["story"])
        for item in request.session.items
        if item.parent is module and isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]

    def tell(story: str) -> Outcome:
        scenario, _ = load_scenario(Path(__file__).parent / f"{story}.yaml")
        return play(scenario, folder / story)

    with ThreadPoolExecutor(AT_ONCE) as workers:
        futures: dict[str, Future[Outcome]] = {story: workers.submit(tell, story) for story in wanted}
        yield lambda story: futures[story].result()
        for future in futures.values():
            future.cancel()


@pytest.mark.parametrize("story", STORIES)
def test_what_the_story_expects_comes_true(story, told):
    """Every expectation at its time, and every invariant at the end."""
    assert [f"{check.name}: {check.detail}" for check in told(story).checks if not check.held] == []
