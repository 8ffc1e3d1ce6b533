"""Watches: one line of JSON a change, made once for all who watch.

A watcher has a buffer that its connection's task empties in one write, so that a burst of thousands of
changes costs a handful of writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.kube.errors import expired
from sandbox.kube.history import Event
from sandbox.kube.resources import BY_KEY, Resource
from sandbox.kube.selectors import FieldTerms, Requirements, matches_fields, matches_labels
from sandbox.kube.store import Store

Object = dict[str, Any]

_BUFFER_LIMIT = 200_000
"""lines; a watcher that is further behind is cut off, as the real server does"""
_BOOKMARK_DELAY = 0.05
"""real seconds after a change until those who did not see it are told the new version"""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list or watch selects."""

    resource: Resource
    namespace: str | None = None
    labels: Requirements = ()
    fields: FieldTerms = ()

    @property
    def selects(self) -> bool:
        """Whether objects can come into and drop out of the selection by a change."""
        return bool(self.labels or self.fields)

    def matches(self, obj: Object) -> bool:
        """Whether the object is selected."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return matches_labels(self.labels, obj) and matches_fields(self.fields, obj)


def line(event_type: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (event_type.encode(), encoded)


class Watcher:
    """One open watch. `take` waits for lines; `end` finishes it, `abort` breaks its connection."""

    def __init__(self, chosen: Filter, *, bookmarks: bool, version: int) -> None:
        self.filter = chosen
        self.bookmarks = bookmarks
        self.version = version
        """the last version that it was told"""
        self.on_abort: Callable[[], None] | None = None
        self.ended = False
        self._lines: list[bytes] = []
        self._news = asyncio.Event()

    def send(self, data: bytes, version: int) -> None:
        """Queue a line."""
        if self.ended:
            return
        self._lines.append(data)
        self.version = max(self.version, version)
        self._news.set()
        if len(self._lines) > _BUFFER_LIMIT:
            self.abort()

    def send_error(self, status: Object) -> None:
        """Queue an ERROR event and finish."""
        self.send(line("ERROR", msgspec.json.encode(status)), self.version)
        self.end()

    def end(self) -> None:
        """Finish cleanly after what is queued."""
        self.ended = True
        self._news.set()

    def abort(self) -> None:
        """Break the connection now."""
        self.end()
        self._lines.clear()
        if self.on_abort is not None:
            self.on_abort()

    async def take(self, timeout: float) -> bytes:
        """What is queued, waiting for it up to `timeout` real seconds; b"" where nothing came."""
        if not self._lines and not self.ended:
            try:
                await asyncio.wait_for(self._news.wait(), timeout)
            except TimeoutError:
                return b""
        self._news.clear()
        lines, self._lines = self._lines, []
        return b"".join(lines)


class WatchHub:
    """All open watches of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: dict[str, set[Watcher]] = {key: set() for key in BY_KEY}
        self._open = 0
        self._bookmark_due = False
        store.history.listeners.append(self._changed)

    @property
    def open(self) -> int:
        """How many watches are open."""
        return self._open

    def start(self, chosen: Filter, version: int | None, *, bookmarks: bool, initial: bool) -> Watcher:
        """Open a watch from a version on; None = from the present, with every object as ADDED first.

        `initial` marks the end of those first objects with a bookmark. ApiError 410 where the version
        is too old.
        """
        key = chosen.resource.key
        watcher = Watcher(chosen, bookmarks=bookmarks, version=version or 0)
        if version is None:
            self._send_all(watcher, initial)
        else:
            if not self._store.history.reaches(key, version):
                oldest = self._store.history.oldest(key)
                raise expired(f"too old resource version: {version} ({oldest})")
            for event in self._store.history.since(key, version):
                self._offer(watcher, event)
        self._watchers[key].add(watcher)
        self._open += 1
        self._changed(None)
        return watcher

    def stop(self, watcher: Watcher) -> None:
        """The watch is over."""
        watchers = self._watchers[watcher.filter.resource.key]
        if watcher in watchers:
            watchers.discard(watcher)
            self._open -= 1

    def send_bookmarks(self) -> None:
        """Tell every watcher that takes bookmarks the present version, unless it knows it."""
        self._bookmark_due = False
        version = self._store.version
        for watcher in self._all():
            if watcher.bookmarks and watcher.version < version:
                watcher.send(_bookmark(watcher.filter.resource, version), version)

    def drop(self) -> int:
        """Break all connections; returns how many."""
        watchers = self._all()
        for watcher in watchers:
            watcher.abort()
        return len(watchers)

    def expire(self) -> None:
        """End all watches with an ERROR event 410."""
        version = self._store.version
        for watcher in self._all():
            watcher.send_error(
                expired(f"The resourceVersion for the provided watch is too old ({version}).").status()
            )

    def close(self) -> None:
        """End all watches cleanly."""
        for watcher in self._all():
            watcher.end()

    def _all(self) -> list[Watcher]:
        return [watcher for watchers in self._watchers.values() for watcher in watchers]

    def _send_all(self, watcher: Watcher, initial: bool) -> None:
        chosen, version = watcher.filter, self._store.version
        for obj in self._store.list(chosen.resource.key, chosen.namespace):
            if chosen.matches(obj):
                own = int(obj["metadata"]["resourceVersion"])
                watcher.send(line("ADDED", msgspec.json.encode(obj)), own)
        if initial:
            mark = _bookmark(chosen.resource, version, {"k8s.io/initial-events-end": "true"})
            watcher.send(mark, version)
        watcher.version = version if initial else watcher.version

    def _changed(self, event: Event | None) -> None:
        if event is not None:
            for watcher in self._watchers[event.resource]:
                self._offer(watcher, event)
        if self._open and not self._bookmark_due:
            # Changes that a watcher does not see move the version too; one timer a burst is enough.
            self._bookmark_due = True
            asyncio.get_running_loop().call_later(_BOOKMARK_DELAY, self.send_bookmarks)

    def _offer(self, watcher: Watcher, event: Event) -> None:
        chosen = watcher.filter
        if chosen.namespace and event.new["metadata"].get("namespace") != chosen.namespace:
            return
        if not chosen.selects or event.old is None:
            if chosen.matches(event.new):
                watcher.send(event.line, event.version)
            return
        was, now = chosen.matches(event.old), chosen.matches(event.new)
        if event.type == "DELETED":
            if was:
                watcher.send(event.line, event.version)
        elif was and now:
            watcher.send(event.line, event.version)
        elif now:
            watcher.send(line("ADDED", event.encoded), event.version)
        elif was:
            watcher.send(line("DELETED", _as_it_was(event)), event.version)


def _as_it_was(event: Event) -> bytes:
    """The old object at the new version: what leaves a selection is shown as it last was in it."""
    old = event.old or event.new
    metadata = {**old["metadata"], "resourceVersion": str(event.version)}
    return msgspec.json.encode({**old, "metadata": metadata})


def _bookmark(resource: Resource, version: int, annotations: Object | None = None) -> bytes:
    metadata: Object = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return line("BOOKMARK", msgspec.json.encode(obj))
