"""List, then watch, for one kind of object, for as long as the process lives.

What an API server does to a watcher, and what is done about it:
a page of a list or a watch that is too old (410, as a status or as an event) → list again; a dropped or
silent connection, a 5xx, a 429 → wait with jitter, go on from the last version; a clean end → go on at
once; half an event at the end → thrown away, the server sends it again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec
import structlog

from fleet.errors import BadInput, Expired, OutsideError, Throttled, Unavailable
from fleet.kube import wire
from fleet.kube.connection import Connection, Stream

log = structlog.get_logger(__name__)
T = TypeVar("T")
Decode = Callable[[bytes | msgspec.Raw], tuple[str, T, str]]
"""bytes of an object → its key, its value, its resourceVersion"""

WATCH_SECONDS = 280
"""The server ends a watch after this long; each connection is a little different (client-go: 5 to 10 min)."""
SILENCE_SECONDS = 150.0
"""Bookmarks come every minute: a connection that says nothing for this long is dead."""
FIRST_BACKOFF, LAST_BACKOFF = 0.05, 4.0
_PAGE = msgspec.json.Decoder(wire.ListPage)
_EVENT = msgspec.json.Decoder(wire.WatchEvent)
_STATUS = msgspec.json.Decoder(wire.ErrorStatus)
_BOOKMARK = msgspec.json.Decoder(wire.BookmarkObject)


class Store(Generic[T]):
    """The objects of one kind as last seen, with the resourceVersion they stand at. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, T] = {}
        self._view: dict[str, T] | None = {}
        self._synced = threading.Event()
        self._standing = threading.Event()
        self._problem = "not connected yet"
        self.version = 0
        self.changes = 0
        """grows with every change of an object; a bookmark is none"""

    @property
    def problem(self) -> str:
        """Why the data may be old, in words; "" while the watch stands."""
        return self._problem

    @property
    def synced(self) -> bool:
        """True from the first full list on."""
        return self._synced.is_set()

    def wait_synced(self, seconds: float) -> bool:
        """Wait (real seconds) for the first full list and a standing watch."""
        deadline = time.monotonic() + seconds
        return self._synced.wait(seconds) and self._standing.wait(max(0.0, deadline - time.monotonic()))

    def view(self) -> dict[str, T]:
        """The objects by key; the same dict until something changes, never changed once given out."""
        with self._lock:
            if self._view is None:
                self._view = dict(self._objects)
            return self._view

    def replace(self, objects: dict[str, T], version: int) -> None:
        """A full list."""
        with self._lock:
            if objects != self._objects:
                self._objects, self._view = objects, None
                self.changes += 1
            self.version = version
        self._synced.set()

    def put(self, key: str, value: T, version: int) -> None:
        """An object was added or changed."""
        with self._lock:
            if self._objects.get(key) != value:
                self._objects[key], self._view = value, None
                self.changes += 1
            self.version = max(self.version, version)

    def drop(self, key: str, version: int) -> None:
        """An object is gone."""
        with self._lock:
            if self._objects.pop(key, None) is not None:
                self._view = None
                self.changes += 1
            self.version = max(self.version, version)

    def advance(self, version: int) -> None:
        """A bookmark: everything up to this version has been seen."""
        self.version = max(self.version, version)

    def cut_off(self, problem: str) -> None:
        """The API does not answer; the objects stay."""
        self._problem = problem
        self._standing.clear()

    def connected(self) -> None:
        """The watch stands (again)."""
        self._problem = ""
        self._standing.set()


class Reflector(Generic[T]):
    """Keeps one store true, in a thread of its own."""

    def __init__(
        self, connection: Connection, path: str, decode: Decode[T], store: Store[T], page: int = 500
    ) -> None:
        self._connection = connection
        self._path = path
        self._decode = decode
        self._store = store
        self._page = page
        self._random = random.Random(f"{connection.name}{path}")
        self._stop = threading.Event()
        self._stream: Stream | None = None
        self._resume = ""
        self._backoff = 0.0
        self._thread = threading.Thread(
            target=self._main, name=f"watch {connection.name} {path.rsplit('/', 1)[-1]}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch; the thread ends within the request it is in."""
        self._stop.set()
        self.reconnect()

    def reconnect(self) -> None:
        """End the present connection: whether the API answers shows when it is asked again."""
        stream = self._stream
        if stream is not None:
            stream.close()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(seconds)

    def _main(self) -> None:
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._store.cut_off("the watch has ended")

    def _round(self) -> None:
        try:
            if not self._resume:
                self._list()
            self._watch()
        except Expired as error:
            log.info("watch expired, listing again", cluster=self._connection.name, path=self._path)
            self._resume = ""
            self._pause(error)
        except OutsideError as error:
            if not self._stop.is_set():
                self._cut_off(error)
                self._pause(error)

    def _cut_off(self, error: OutsideError) -> None:
        if not self._store.problem or not self._store.synced:
            log.warning("watch cut off", cluster=self._connection.name, path=self._path, error=str(error))
        self._store.cut_off(str(error))

    def _pause(self, error: OutsideError) -> None:
        wait = self._backoff * (0.5 + self._random.random())
        if isinstance(error, Throttled) and error.retry_after:
            wait = max(wait, min(error.retry_after, 60.0))
        self._backoff = min(max(self._backoff * 2, FIRST_BACKOFF), LAST_BACKOFF)
        self._stop.wait(wait)

    def _list(self) -> None:
        objects: dict[str, T] = {}
        version, token = "", ""
        while True:
            query = {"limit": str(self._page)} | ({"continue": token} if token else {})
            data = self._connection.request("GET", self._path, query)
            try:
                page = _PAGE.decode(data)
            except msgspec.DecodeError as error:
                raise Unavailable(
                    f"{self._connection.name}: a list of {self._path} is broken: {error}"
                ) from error
            for key, value, _ in self._readable(page.items or ()):
                objects[key] = value
            version = version or page.metadata.resource_version
            token = page.metadata.continue_ or ""
            if not token:
                break
        self._store.replace(objects, int(version))
        self._resume = version

    def _readable(self, items: Iterable[msgspec.Raw]) -> Iterator[tuple[str, T, str]]:
        for item in items:
            try:
                yield self._decode(item)
            except (msgspec.DecodeError, BadInput) as error:
                log.error("object skipped", cluster=self._connection.name, path=self._path, error=str(error))

    def _watch(self) -> None:
        seconds = WATCH_SECONDS + int(40 * self._random.random())
        query = {
            "watch": "1",
            "resourceVersion": self._resume,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        began, events = time.monotonic(), 0
        with self._connection.stream(self._path, query, SILENCE_SECONDS) as stream:
            self._stream = stream
            if self._stop.is_set():
                return
            self._store.connected()
            try:
                for line in lines(stream.chunks()):
                    self._event(line)
                    self._backoff = 0.0
                    events += 1
            except Unavailable as error:
                if error.code != "ReadTimeoutError":
                    raise
                # Nothing was said for a long time; whether anybody is there shows when asked again.
            finally:
                self._stream = None
        if not events and time.monotonic() - began < 1.0:
            self._backoff = max(self._backoff, FIRST_BACKOFF)
            self._stop.wait(self._backoff)

    def _event(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                raise _error_event(_STATUS.decode(event.object), self._connection.name)
            if event.type == "BOOKMARK":
                self._resume = _BOOKMARK.decode(event.object).metadata.resource_version
                self._store.advance(int(self._resume))
                return
        except msgspec.DecodeError as error:
            raise Unavailable(f"{self._connection.name}: a watch event is broken: {error}") from error
        for key, value, version in self._readable((event.object,)):
            if event.type == "DELETED":
                self._store.drop(key, int(version))
            else:
                self._store.put(key, value, int(version))
            self._resume = version


def _error_event(status: wire.ErrorStatus, cluster: str) -> OutsideError:
    text = f"{cluster}: the watch was ended: {status.message or status.reason or status.code}"
    if status.code == 410 or status.reason in ("Expired", "Gone"):
        return Expired(text, code=status.reason or "410")
    if status.code == 429:
        return Throttled(text, code=status.reason or "429")
    return Unavailable(text, code=status.reason or str(status.code))


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines of a stream, however it was cut into chunks; an unfinished last line is dropped."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
