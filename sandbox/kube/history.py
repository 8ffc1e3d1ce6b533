"""The bounded window of changes that watches resume from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Object = dict[str, Any]


class Event:
    """One change. Its JSON is made once, whoever watches."""

    __slots__ = ("_encoded", "new", "old", "resource", "type", "version")

    def __init__(self, version: int, type_: str, resource: str, new: Object, old: Object | None) -> None:
        self.version = version
        self.type = type_
        self.resource = resource
        self.new = new
        self.old = old
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.new)
        return self._encoded


class History:
    """Events by resource, oldest first, at most `window` each."""

    def __init__(self, resources: Iterable[str], window: int) -> None:
        self._window = window
        self._events: dict[str, list[Event]] = {resource: [] for resource in resources}
        self._first: dict[str, int] = dict.fromkeys(self._events, 0)
        """every event after this version is here"""
        self.compacted = 0
        """nothing before this version can be resumed from, whatever the resource"""

    def add(self, event: Event) -> None:
        """Remember a change; the oldest half is dropped when there are twice too many."""
        events = self._events[event.resource]
        events.append(event)
        if len(events) >= 2 * self._window:
            dropped = len(events) - self._window
            self._first[event.resource] = events[dropped - 1].version
            del events[:dropped]

    def reaches(self, resource: str, version: int) -> bool:
        """Whether all changes after the version are still known."""
        return version >= max(self.compacted, self._first[resource])

    def since(self, resource: str, version: int) -> Iterator[Event]:
        """Changes after the version, oldest first."""
        events = self._events[resource]
        start = bisect_right(events, version, key=lambda event: event.version)
        return iter(events[start:])

    def compact(self, version: int) -> None:
        """Forget everything up to and including the version."""
        self.compacted = version
        for events in self._events.values():
            kept = bisect_right(events, version, key=lambda event: event.version)
            del events[:kept]
