"""Random sequences of changes: a list, single reads and a replica fed by watches never disagree."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.kube.deletes import Deleter, read_options
from sandbox.kube.errors import ApiError
from sandbox.kube.reads import Reader
from sandbox.kube.resources import BY_KEY
from sandbox.kube.routes import ApiRequest
from sandbox.kube.selectors import parse_labels
from sandbox.kube.store import Store
from sandbox.kube.watches import Filter, WatchHub
from sandbox.kube.writes import Writer
from sandbox.world import World

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
MERGE = "application/merge-patch+json"
PODS = BY_KEY["pods"]
NAMES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["team", "run"]), st.sampled_from(["x", "y"]), max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, LABELS),
    st.tuples(st.just("create"), NAMES, LABELS),
    st.tuples(st.just("label"), NAMES, st.dictionaries(st.just("team"), st.sampled_from(["x", "y", None]))),
    st.tuples(st.just("status"), NAMES, st.sampled_from(["Running", "Succeeded", "Failed"])),
    st.tuples(st.just("bind"), NAMES, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("finalizer"), NAMES, st.booleans()),
    st.tuples(st.just("delete"), NAMES, st.sampled_from([None, 0, 5])),
    st.tuples(st.just("resume"), st.just(""), st.just(None)),
    st.tuples(st.just("compact"), st.just(""), st.just(None)),
)
BEGINNING = [("create", "a", {"team": "x"}), ("create", "b", {"team": "y", "run": "x"})]
"""so that most of what follows finds something to change"""
SEQUENCES = st.lists(STEPS, min_size=5, max_size=40)


class Replica:
    """A client's cache: list once, then watch; relists when its version is gone."""

    def __init__(self, hub, reader, selector):
        self.hub, self.reader, self.selector = hub, reader, selector
        self.objects = {}
        self.version = 0
        self.watcher: Any = None
        self.relist()

    def relist(self):
        """Start again from a list."""
        query = {"labelSelector": self.selector}
        found = json.loads(self.reader.list(ask("list", query=query)))
        self.objects = {item["metadata"]["name"]: item for item in found["items"]}
        self.version = int(found["metadata"]["resourceVersion"])
        self.resume()

    def resume(self):
        """A new watch from the last version seen."""
        if self.watcher is not None:
            self.hub.stop(self.watcher)
        chosen = Filter(PODS, "research", parse_labels(self.selector))
        try:
            self.watcher = self.hub.start(chosen, self.version, bookmarks=True, initial=False)
        except ApiError as error:
            if error.code != 410:
                raise
            self.relist()

    async def follow(self):
        """Take in everything that has come."""
        for raw in (await self.watcher.take(0)).splitlines():
            event = json.loads(raw)
            obj = event["object"]
            version = int(obj["metadata"]["resourceVersion"])
            assert version > self.version
            self.version = version
            if event["type"] == "BOOKMARK":
                continue
            name = obj["metadata"]["name"]
            del obj["kind"], obj["apiVersion"]
            if event["type"] == "DELETED":
                del self.objects[name]
            else:
                assert (event["type"] == "ADDED") is (name not in self.objects)
                self.objects[name] = obj


def ask(verb, name="", subresource="", query=None):
    """A request for pods of the namespace research."""
    return ApiRequest("admin", verb, verb, PODS, "research", name, subresource, query or {}, "tests")


def carry_out(step, writer, deleter):
    """One step of a sequence through the API's own code."""
    action, name, value = step
    if action == "create":
        spec = {"containers": [{"name": "c", "image": "x"}]}
        writer.create(ask("create"), {"metadata": {"name": name, "labels": value}, "spec": spec})
    elif action == "label":
        body = {"metadata": {"labels": value}}
        writer.patch(ask("patch", name), json.dumps(body).encode(), MERGE)
    elif action == "finalizer":
        body = {"metadata": {"finalizers": ["a.io/x"] if value else None}}
        writer.patch(ask("patch", name), json.dumps(body).encode(), MERGE)
    elif action == "status":
        body = {"status": {"phase": value}}
        writer.patch(ask("patch", name, "status"), json.dumps(body).encode(), MERGE)
    elif action == "bind":
        deleter.bind(ask("create", name, "binding"), {"target": {"name": value}})
    elif action == "delete":
        asked = ask("delete", name)
        deleter.delete(asked, read_options(asked, {"gracePeriodSeconds": value}))


async def play(steps):
    """Run a sequence; after every step all views agree."""
    store = Store(World(START), "home")
    store.create("namespaces", {"metadata": {"name": "research"}})
    hub, writer, deleter, reader = WatchHub(store), Writer(store), Deleter(store), Reader(store)
    replicas = [Replica(hub, reader, selector) for selector in ("", "team=x", "run,team!=y")]
    for step in steps:
        if step[0] == "resume":
            for replica in replicas:
                replica.resume()
        elif step[0] == "compact":
            store.compact()
        else:
            try:
                carry_out(step, writer, deleter)
            except ApiError as error:
                if error.code not in (404, 409, 422):
                    raise
        hub.send_bookmarks()
        for replica in replicas:
            await replica.follow()
            check(replica, reader, store)


def check(replica, reader, store):
    """The replica, the list and single reads show the same objects at the present version."""
    query = {"labelSelector": replica.selector}
    listed = json.loads(reader.list(ask("list", query=query)))["items"]
    assert [replica.objects[name] for name in sorted(replica.objects)] == listed
    assert replica.version == store.version
    for item in listed:
        single = json.loads(reader.get(ask("get", item["metadata"]["name"])))
        assert {key: single[key] for key in item} == item


@settings(max_examples=150, deadline=None)
@given(SEQUENCES)
def test_watches_lists_and_reads_agree_after_every_step(steps):
    """With and without selectors, across resumed watches and compactions."""
    asyncio.run(play(BEGINNING + steps))


@settings(max_examples=100, deadline=None)
@given(SEQUENCES, st.integers(0, 60))
def test_the_past_is_rebuilt_exactly(steps, back):
    """What `as_of` gives is what a list gave at that version."""
    store = Store(World(START), "home")
    store.create("namespaces", {"metadata": {"name": "research"}})
    writer, deleter = Writer(store), Deleter(store)
    seen = {store.version: store.list("pods")}
    for step in BEGINNING + steps:
        try:
            carry_out(step, writer, deleter)
        except ApiError:
            continue
        seen[store.version] = store.list("pods")
    version = sorted(seen)[-1 - back % len(seen)]

    assert store.as_of("pods", version) == seen[version]
