"""The bounded window of changes that watches resume from, and old lists are rebuilt from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]

_ENCODED = 2_000
"""how many events of a resource keep their JSON"""


class Event:
    """One change. Its JSON is made once, whoever watches."""

    __slots__ = ("_encoded", "_line", "new", "old", "resource", "type", "version")

    def __init__(self, version: int, type_: str, resource: str, new: Object, old: Object | None) -> None:
        self.version = version
        self.type = type_
        self.resource = resource
        self.new = new
        self.old = old
        self._encoded: bytes | None = None
        self._line: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.new)
        return self._encoded

    @property
    def line(self) -> bytes:
        """The event as one line of a watch."""
        if self._line is None:
            self._line = b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.encoded)
        return self._line

    def forget_encoding(self) -> None:
        """Give back the memory; it is made again where somebody resumes from this far back."""
        self._encoded = self._line = None


class History:
    """Events by resource, oldest first, at least `window` each before any is forgotten."""

    def __init__(self, resources: Iterable[str], window: int) -> None:
        self._window = window
        self._events: dict[str, list[Event]] = {resource: [] for resource in resources}
        self._first: dict[str, int] = dict.fromkeys(self._events, 0)
        """every event after this version is here"""
        self._compacted = 0
        self.listeners: list[Callable[[Event], None]] = []
        """called with every event as it happens, before the store's subscribers"""

    def add(self, event: Event) -> None:
        """Remember a change; the older half is dropped when there are twice too many."""
        events = self._events[event.resource]
        events.append(event)
        if len(events) > _ENCODED:
            events[-_ENCODED - 1].forget_encoding()
        if len(events) >= 2 * self._window:
            dropped = len(events) - self._window
            self._first[event.resource] = events[dropped - 1].version
            del events[:dropped]
        for listener in self.listeners:
            listener(event)

    def oldest(self, resource: str) -> int:
        """The oldest version that can be resumed from."""
        return max(self._compacted, self._first[resource])

    def reaches(self, resource: str, version: int) -> bool:
        """Whether all changes after the version are still known."""
        return version >= self.oldest(resource)

    def reaches_all(self, version: int) -> bool:
        """Whether no history after the version was compacted away, whatever the resource."""
        return version >= self._compacted

    def since(self, resource: str, version: int) -> list[Event]:
        """Changes after the version, oldest first."""
        events = self._events[resource]
        return events[bisect_right(events, version, key=lambda event: event.version) :]

    def as_of(self, resource: str, version: int, present: Mapping[Key, Object]) -> dict[Key, Object]:
        """The objects as they were at a version that `reaches`, by undoing what came after."""
        found = dict(present)
        for event in reversed(self.since(resource, version)):
            metadata = event.new["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            if event.old is None:
                del found[key]
            else:
                found[key] = event.old
        return found

    def compact(self, version: int) -> None:
        """Forget everything up to and including the version."""
        self._compacted = version
        for events in self._events.values():
            del events[: bisect_right(events, version, key=lambda event: event.version)]
