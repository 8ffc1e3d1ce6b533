"""Watches: every change once and in order, resumed from any version that is still known."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
import urllib3
from kubernetes import client
from kubernetes.watch.watch import Watch

from tests.sandbox.kube.serving import MAPS, MERGE, PODS, config_map, pod


def shown(events):
    """(type, name) of events, bookmarks left out."""
    return [(e["type"], e["object"]["metadata"].get("name")) for e in events if e["type"] != "BOOKMARK"]


def test_a_watch_from_a_version_brings_everything_after_it(served):
    """Created, changed and deleted, in order, with growing versions, and nothing from before."""
    served.ok("POST", MAPS, config_map("before"))
    start = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    served.ok("POST", MAPS, config_map("c"))
    served.ok("PATCH", MAPS + "/c", {"data": {"a": "1"}}, kind=MERGE)
    served.ok("DELETE", MAPS + "/c")

    events = served.recorded(f"{MAPS}?watch=1&resourceVersion={start}")
    assert shown(events) == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(start)
    assert events[-1]["object"]["data"] == {"a": "1"}
    assert events[0]["object"]["kind"] == "ConfigMap"


def test_a_watch_without_a_version_brings_what_is_there_first(served):
    """Every object as ADDED."""
    served.ok("POST", MAPS, config_map("a"))
    served.ok("POST", MAPS, config_map("b"))

    assert shown(served.recorded(MAPS + "?watch=1")) == [("ADDED", "a"), ("ADDED", "b")]


def test_initial_events_end_with_a_bookmark(served):
    """sendInitialEvents marks the end of what was there."""
    served.ok("POST", MAPS, config_map("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = served.recorded(f"{MAPS}?{query}")

    assert [e["type"] for e in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[1]["object"]["kind"] == "ConfigMap"


def test_events_come_while_the_watch_is_open(served):
    """Delivered as they happen, not when it ends."""
    lines = served.lines(MAPS + "?watch=1")
    served.ok("POST", MAPS, config_map("a"))

    assert next(lines)["object"]["metadata"]["name"] == "a"
    served.ok("PATCH", MAPS + "/a", {"data": {"x": "y"}}, kind=MERGE)
    assert next(lines)["object"]["data"] == {"x": "y"}
    lines.close()


def test_bookmarks_tell_the_version_of_changes_that_are_not_seen(served):
    """A watcher of one kind learns that another kind's change moved the version."""
    version = served.ok("GET", PODS)["metadata"]["resourceVersion"]
    lines = served.lines(f"{PODS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true")
    made = served.ok("POST", MAPS, config_map("a"))
    event = next(lines)

    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"] == {"resourceVersion": made["metadata"]["resourceVersion"]}
    assert event["object"]["kind"] == "Pod"
    lines.close()


def test_the_worlds_wake_up_call_sends_bookmarks(served):
    """Before a participant of a stepped world goes on, its caches can know the present version."""
    hook = served.world.before_wake
    version = served.ok("GET", PODS)["metadata"]["resourceVersion"]
    lines = served.lines(f"{PODS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true")
    served.do(lambda: served.store.create("configmaps", config_map("a")) and [each() for each in hook])

    assert next(lines)["object"]["metadata"]["resourceVersion"] == str(
        served.do(lambda: served.store.version)
    )
    lines.close()


def test_no_bookmarks_without_asking(served):
    """Who does not allow them gets none."""
    version = served.ok("GET", PODS)["metadata"]["resourceVersion"]
    served.ok("POST", MAPS, config_map("a"))

    assert served.recorded(f"{PODS}?watch=1&resourceVersion={version}") == []


def test_a_selection_is_entered_and_left(served):
    """An object that begins to match is ADDED, one that ceases to is DELETED as it last matched."""
    served.ok("POST", MAPS, config_map("a", labels={"team": "x"}, n="1"))
    version = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    for labels in ({"team": "y"}, {"other": "1"}, {"team": "x"}):
        served.ok("PATCH", MAPS + "/a", {"metadata": {"labels": labels}}, kind=MERGE)
    served.ok("DELETE", MAPS + "/a")
    query = f"watch=1&resourceVersion={version}&labelSelector=team%3Dx"
    events = served.recorded(f"{MAPS}?{query}")

    assert shown(events) == [("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]
    assert events[0]["object"]["metadata"]["labels"] == {"team": "x"}
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) > int(version)


def test_field_selectors_follow_pods_to_their_node(served):
    """spec.nodeName: a pod appears when it is bound."""
    version = served.ok("GET", PODS)["metadata"]["resourceVersion"]
    served.ok("POST", PODS, pod("a"))
    served.ok(
        "POST", PODS + "/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    )
    query = f"watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3Dn1"
    events = served.recorded(f"{PODS}?{query}")

    assert shown(events) == [("ADDED", "a")]
    assert events[0]["object"]["spec"]["nodeName"] == "n1"


def test_a_watch_of_one_namespace_sees_no_other(served):
    """And the one of all namespaces sees both."""
    version = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    served.ok("POST", MAPS, config_map("a"))
    served.ok("POST", "/api/v1/namespaces/default/configmaps", config_map("b"))
    query = f"watch=true&resourceVersion={version}"

    assert shown(served.recorded(f"{MAPS}?{query}")) == [("ADDED", "a")]
    assert shown(served.recorded(f"/api/v1/configmaps?{query}")) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_compacted_version_is_an_error_event(served):
    """HTTP 200 and one ERROR event with code 410, as the real server does it."""
    version = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    served.ok("POST", MAPS, config_map("a"))
    served.do(served.api.compact)
    code, event = served.call("GET", f"{MAPS}?watch=1&resourceVersion={version}")

    assert (code, event["type"]) == (200, "ERROR")
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert "too old resource version" in event["object"]["message"]


def test_a_compacted_version_can_be_an_http_410(served):
    """The other form, which clients have to know as well."""
    version = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    served.ok("POST", MAPS, config_map("a"))
    served.do(served.api.compact)
    served.api.faults.refuse_expired_watches = True
    code, status = served.call("GET", f"{MAPS}?watch=1&resourceVersion={version}")

    assert (code, status["reason"]) == (410, "Expired")


def test_open_watches_can_be_expired(served):
    """They get the ERROR event and end."""
    lines = served.lines(MAPS + "?watch=1")
    served.ok("POST", MAPS, config_map("a"))
    next(lines)
    served.do(lambda: served.api.compact(expire_open=True))

    assert [(e["type"], e["object"].get("code")) for e in lines] == [("ERROR", 410)]


def test_dropped_watches_break_off(served):
    """The connection ends without its last chunk, and no watch is left."""
    lines = served.lines(MAPS + "?watch=1")
    served.ok("POST", MAPS, config_map("a"))
    next(lines)

    assert served.do(served.api.drop_watches) == 1
    with pytest.raises(urllib3.exceptions.ProtocolError):
        next(lines)
    assert settles(lambda: served.api.hub.open == 0)


def settles(condition, seconds=5.0):
    """Whether a condition comes true soon (real time: the server's side of a closed connection)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def test_a_watch_ends_after_its_timeout_in_real_time(served):
    """Also where the world stands still."""
    began = time.monotonic()
    assert list(served.lines(MAPS + "?watch=1&timeoutSeconds=1")) == []

    assert 0.9 < time.monotonic() - began < 5
    assert settles(lambda: served.api.hub.open == 0)


def test_the_official_client_watches(served):
    """Typed objects through kubernetes.watch, resumed by itself."""
    core: Any = client.CoreV1Api(served.official())
    served.ok("POST", MAPS, config_map("a"))
    stream = Watch().stream(core.list_namespaced_config_map, "research", timeout_seconds=5)
    first = next(stream)
    served.ok("POST", MAPS, config_map("b"))
    second = next(stream)
    stream.close()

    assert [e["object"].metadata.name for e in (first, second)] == ["a", "b"]
    assert isinstance(second["object"], client.V1ConfigMap)


def test_a_burst_reaches_every_watcher_once(served):
    """Five watchers, a thousand changes: the same lines for all, none lost, none twice."""
    version = served.ok("GET", PODS)["metadata"]["resourceVersion"]
    path = f"{PODS}?watch=1&resourceVersion={version}"
    seen: list[list[str]] = [[] for _ in range(5)]

    def follow(into):
        for event in itertools.islice(served.lines(path), 1000):
            into.append(event["object"]["metadata"]["resourceVersion"])

    threads = [threading.Thread(target=follow, args=(each,)) for each in seen]
    for thread in threads:
        thread.start()
    served.do(lambda: [served.store.create("pods", namespaced(n)) for n in range(1000)])
    for thread in threads:
        thread.join(30)

    assert all(each == seen[0] and len(each) == 1000 for each in seen)
    assert len(set(seen[0])) == 1000


def namespaced(number):
    """A pod of the namespace research."""
    manifest = pod(f"p{number}")
    manifest["metadata"]["namespace"] = "research"
    return manifest


@pytest.mark.parametrize(
    ("query", "code", "sentence"),
    [
        ("resourceVersion=abc", 500, 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ("continue=x", 422, "resourceVersionMatch is forbidden when continue is provided"),
        ("resourceVersionMatch=Exact", 422, "is forbidden for watch unless sendInitialEvents is provided"),
        ("fieldSelector=spec.foo%3D1", 400, "field label not supported: spec.foo"),
    ],
)
def test_watches_that_are_refused(served, query, code, sentence):
    """Wrong parameters are answered before anything is streamed."""
    answered, status = served.call("GET", f"{PODS}?watch=1&{query}")

    assert answered == code
    assert sentence in status["message"]
