"""The watch cache against an API that does everything a real one does to a watcher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fleet.kube import reflector
from fleet.kube.watch import WatchCache
from tests.builders import T0
from tests.fleet.kube.scripted import (
    PATHS,
    ScriptedApi,
    bookmark,
    connection,
    event,
    fails,
    page,
    raw_pod,
    says,
    serving,
    status,
)

PODS = PATHS[0]


@pytest.fixture
def api() -> ScriptedApi:
    """An empty cluster."""
    return ScriptedApi()


@pytest.fixture
def start(api: ScriptedApi, tmp_path: Path) -> Iterator[Callable[..., WatchCache]]:
    """Starts a cache over the scripted API."""
    caches: list[WatchCache] = []
    with serving(api) as address:

        def begin(*governed: str, page: int = 500) -> WatchCache:
            caches.append(WatchCache(connection(address, tmp_path), "home", governed, page=page))
            return caches[-1]

        yield begin
        for cache in caches:
            cache.close()


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def names(cache: WatchCache) -> list[str]:
    """Names of the pods seen."""
    return sorted(pod.name for pod in cache.snapshot(T0).pods.values())


def test_pages_of_a_list_are_put_together(api, start):
    """A list longer than a page is read to its end with the continue token, and the watch starts at its version."""
    api.lists[PODS] += [page([raw_pod("a", 3)], 9, "t1"), page([raw_pod("b", 4)], 9, "t2"), page([], 9)]
    cache = start(page=1)
    assert cache.wait_synced(5)
    assert names(cache) == ["a", "b"]
    assert [q.get("continue") for q in api.queries(PODS, watch=False)] == [None, "t1", "t2"]
    assert {q["limit"] for q in api.queries(PODS, watch=False)} == {"1"}
    assert api.queries(PODS, watch=True)[0]["resourceVersion"] == "9"


def test_a_page_that_expired_starts_the_list_over(api, start):
    """410 in the middle of a list throws the half list away and lists again."""
    api.lists[PODS] += [
        page([raw_pod("old", 3)], 9, "t1"),
        fails(410, "Expired"),
        page([raw_pod("new", 12)], 12),
    ]
    cache = start()
    assert cache.wait_synced(5)
    assert names(cache) == ["new"]


def test_events_change_the_copy(api, start):
    """Added, modified and deleted objects appear, change and go, whatever the chunks look like."""
    whole = (
        event("ADDED", raw_pod("a", 2))
        + event("ADDED", raw_pod("b", 3))
        + event("MODIFIED", raw_pod("a", 4, x="y"))
        + event("DELETED", raw_pod("b", 5))
    )
    api.watches[PODS].append(says(*(whole[i : i + 37] for i in range(0, len(whole), 37))))
    cache = start()
    until(lambda: names(cache) == ["a"] and cache.snapshot(T0).pods["uid-a"].labels == {"x": "y"})


def test_a_bookmark_moves_the_version_and_nothing_else(api, start):
    """Bookmarks of all kinds advance `version` without a new generation or a new snapshot content."""
    for path in PATHS:
        api.watches[path].append(says(bookmark(40)))
    cache = start()
    until(lambda: cache.version == 40)
    assert cache.generation == 0
    assert cache.reached(40)
    assert not cache.reached(41)


def test_the_version_is_that_of_the_kind_that_lags(api, start):
    """`version` never runs ahead of a kind whose events are still to come."""
    for path in PATHS[1:]:
        api.watches[path].append(says(bookmark(50)))
    api.watches[PODS].append(says(bookmark(20)))
    cache = start()
    until(lambda: cache.version == 20)
    assert cache.version == 20


def test_a_dropped_connection_resumes_at_the_last_version(api, start):
    """Half an event at a drop is thrown away; the next watch asks from the last whole one and nothing is listed again."""
    half = event("ADDED", raw_pod("b", 8))[:40]
    api.watches[PODS] += [
        says(event("ADDED", raw_pod("a", 7)), half, then="drop"),
        says(event("ADDED", raw_pod("b", 8))),
    ]
    cache = start()
    until(lambda: names(cache) == ["a", "b"])
    assert [q["resourceVersion"] for q in api.queries(PODS, watch=True)] == ["1", "7"]
    assert len(api.queries(PODS, watch=False)) == 1


def test_a_clean_end_resumes_after_the_bookmark(api, start):
    """A watch that the server ends in peace is taken up at the bookmark it last sent, and was never stale."""
    api.watches[PODS] += [says(bookmark(30), then="end"), says(event("ADDED", raw_pod("a", 31)))]
    cache = start()
    assert cache.wait_synced(5)
    stale = set()

    def arrived() -> bool:
        stale.add(cache.snapshot(T0).stale_since)
        return names(cache) == ["a"]

    until(arrived)
    assert [q["resourceVersion"] for q in api.queries(PODS, watch=True)] == ["1", "30"]
    assert stale == {None}


@pytest.mark.parametrize(
    "refusal",
    [
        fails(410, "Expired"),
        says(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})),
    ],
    ids=["status", "event"],
)
def test_410_lists_again_and_forgets_what_went_meanwhile(api, start, refusal):
    """Too old a version, as an answer or as an event, leads to a new list that also removes what is gone."""
    api.lists[PODS] += [page([raw_pod("gone", 3)], 5), page([raw_pod("new", 90)], 99)]
    api.watches[PODS].append(refusal)
    cache = start()
    until(lambda: names(cache) == ["new"])
    until(lambda: len(api.queries(PODS, watch=True)) == 2)
    assert api.queries(PODS, watch=True)[1]["resourceVersion"] == "99"


def test_last_good_data_stay_while_cut_off(api, start):
    """While the API answers 503 the pods stay, `stale_since` is the first look that saw it, and then it clears."""
    api.lists[PODS].append(page([raw_pod("a", 3)], 5))
    api.watches[PODS] += [says(then="drop"), *[fails(503, "ServiceUnavailable")] * 4]
    cache = start()
    until(lambda: cache.snapshot(T0).synced and cache.snapshot(T0).stale_since is not None)
    later = cache.snapshot(T0 + timedelta(minutes=1))
    assert [pod.name for pod in later.pods.values()] == ["a"]
    if later.stale_since is not None:
        assert later.stale_since == T0
    until(lambda: cache.snapshot(T0).stale_since is None)
    assert cache.reached(1)


def test_reached_none_asks_whether_it_is_cut_off(api, start):
    """A stepped world that took the API down waits until every watch has noticed."""
    for path in PATHS:
        api.watches[path] += [says(then="drop"), *[fails(503, "ServiceUnavailable")] * 50]
    cache = start()
    until(lambda: cache.snapshot(T0).synced and cache.reached(None))
    assert not cache.reached(1)
    assert cache.problems


def test_a_missing_permission_is_named(api, start):
    """Without the right to list pods nothing is synced, and the problem says which verb on what is missing."""
    message = 'pods is forbidden: User "qm" cannot list resource "pods" in API group "" at the cluster scope'

    async def forbidden(_):
        return status(403, "Forbidden", message)

    api.lists[PODS] += [forbidden] * 50
    cache = start()
    until(lambda: any("may not list pods" in problem for problem in cache.problems))
    assert not cache.snapshot(T0).synced
    assert not cache.wait_synced(0.01)


def test_throttled_watches_wait_as_told(api, start):
    """A 429 with Retry-After is obeyed before the next try."""

    async def busy(_):
        return web.json_response(
            {"code": 429, "reason": "TooManyRequests"}, status=429, headers={"Retry-After": "1"}
        )

    api.watches[PODS].append(busy)
    began = time.monotonic()
    cache = start()
    until(lambda: len(api.queries(PODS, watch=True)) >= 2)
    assert time.monotonic() - began >= 0.9
    until(lambda: cache.snapshot(T0).stale_since is None)


def test_an_unreadable_object_does_not_lose_the_others(api, start):
    """A pod with a quantity that no API server accepts is skipped; the list goes on."""
    broken = raw_pod("broken", 2)
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1K"
    api.lists[PODS].append(page([broken, raw_pod("fine", 3)], 5))
    cache = start()
    assert cache.wait_synced(5)
    assert names(cache) == ["fine"]


def test_governed_is_listed_and_labelled(api, start):
    """A namespace counts where the settings list it and its label says true; taking the label off ends that."""

    def namespace(name: str, version: int, label: str) -> dict[str, Any]:
        return {
            "metadata": {
                "name": name,
                "resourceVersion": str(version),
                "labels": {"quartermaster.dev/governed": label},
            }
        }

    api.lists["/api/v1/namespaces"].append(
        page(
            [namespace("research", 1, "true"), namespace("other", 1, "true"), namespace("off", 1, "false")], 5
        )
    )
    cache = start("research", "off", "absent")
    assert cache.wait_synced(5)
    assert cache.snapshot(T0).governed == {"research"}

    api.watches["/api/v1/namespaces"].append(says(event("MODIFIED", namespace("research", 6, "no"))))
    second = start("research")
    until(lambda: second.generation > 0 and second.snapshot(T0).governed == frozenset())


def test_an_unchanged_snapshot_is_shared(api, start):
    """Without a change two snapshots share their maps; a change gives new ones and leaves the old as they were."""
    api.lists[PODS].append(page([raw_pod("a", 3)], 5))
    api.watches[PODS].append(says(b"", event("ADDED", raw_pod("b", 6))))
    cache = start()
    assert cache.wait_synced(5)
    until(lambda: len(cache.snapshot(T0).pods) == 2)
    first, second = cache.snapshot(T0), cache.snapshot(T0 + timedelta(seconds=1))
    assert first.pods is second.pods
    assert second.observed_at == T0 + timedelta(seconds=1)


def test_close_ends_the_threads(api, start):
    """`close` ends the watches at once although the server keeps them open."""
    cache = start()
    assert cache.wait_synced(5)
    began = time.monotonic()
    cache.close()
    assert time.monotonic() - began < 1.5
    assert all(not r._thread.is_alive() for r in cache._reflectors)


def test_lines_of_any_cut():
    """Lines come out whole for every way to cut the stream, and an unfinished last one is dropped."""
    text = b'{"a":1}\n\n{"b":2}\nhalf'
    for size in range(1, len(text) + 1):
        chunks = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(reflector.lines(chunks)) == [b'{"a":1}', b'{"b":2}']
