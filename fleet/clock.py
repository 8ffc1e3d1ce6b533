"""Clocks: the real one, and one that follows a sandbox's world over HTTP.

Where a world is stepped, it moves only when all its participants are idle: `FollowingClock.wait_until`
says "idle until then, and this is what I have seen", and the world answers when it got there or when
there is something to do (see `sandbox/world.py`). Against real systems `RealClock` is used.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3

from fleet.errors import Unavailable
from fleet.values import rfc3339, utc


class RealClock:
    """The machine's clock. `wait_until` wakes early on `nudge`."""

    def __init__(self) -> None:
        self._nudged = threading.Event()

    def now(self) -> datetime:
        """Aware UTC now."""
        return datetime.now(UTC)  # noqa: TID251 - this adapter is where real time comes in

    def wait_until(self, moment: datetime, wake: Callable[[], bool]) -> datetime:
        """Sleep until the moment, `nudge`, or `wake()` (looked at each second)."""
        while not wake():
            left = (moment - self.now()).total_seconds()
            if left <= 0 or self._nudged.wait(min(left, 1.0)):
                break
        self._nudged.clear()
        return self.now()

    def nudge(self) -> None:
        """End a wait early."""
        self._nudged.set()


class FollowingClock:
    """Follows a sandbox's world: `now` is the world's, waiting tells the world that we are idle.

    `progress()` reports what this process has worked off, so that the world does not move past it:
    `{"inbound": <chat envelopes fully handled>, "versions": {<api address>: <resourceVersion seen>}}`.
    `settled(versions)` says whether our caches have reached those versions. Where the world says that its followers'
    clocks are wrong (a clock that jumped), `now` is wrong by that much, and only waiting allows for it.
    """

    def __init__(
        self,
        address: str,
        participant: str,
        progress: Callable[[], Mapping[str, Any]],
        settled: Callable[[Mapping[str, int]], bool],
    ) -> None:
        self._address = address.rstrip("/")
        self._participant = participant
        self._progress = progress
        self._settled = settled
        self._http = urllib3.PoolManager(maxsize=4, retries=False)
        self._nudged = threading.Event()
        self._waiting = False
        self._base: tuple[datetime, float, float] = (datetime.min.replace(tzinfo=UTC), 0.0, 0.0)
        self._ahead = timedelta(0)
        self._read()

    def now(self) -> datetime:
        """The world's time; between answers it runs on at the world's scale (0 where it is stepped)."""
        moment, scale, read_at = self._base
        if not scale:
            return moment
        return moment + timedelta(seconds=(time.monotonic() - read_at) * scale)

    def wait_until(self, moment: datetime, wake: Callable[[], bool]) -> datetime:
        """Idle until the world reaches the moment, or until something needs us."""
        if self._base[1]:
            return self._wait_scaled(moment, wake)
        self._waiting = True  # before looking: a nudge from here on goes to the world as well
        try:
            if wake() or self._nudged.is_set():
                self._nudged.clear()
                return self._read()
            until = rfc3339(moment - self._ahead)
            body = {"participant": self._participant, "until": until, **self._progress()}
            answer = self._call("POST", "/world/wait", body)
        finally:
            self._waiting = False
        versions = {str(k): int(v) for k, v in answer.get("versions", {}).items()}
        deadline = time.monotonic() + 30
        while not self._settled(versions):
            if time.monotonic() > deadline:
                raise Unavailable(f"The watches did not reach {versions} within 30 s.")
            time.sleep(0.001)
        self._nudged.clear()
        return self.now()

    def nudge(self) -> None:
        """End a wait, this one or the next: there is something to do that the world knows nothing of."""
        self._nudged.set()
        if self._waiting and not self._base[1]:
            self._call("POST", "/world/nudge", {"participant": self._participant})

    def seen(self) -> None:
        """As `nudge`, for a cause that the world has seen itself (an envelope): costs no call."""
        self._nudged.set()

    def _wait_scaled(self, moment: datetime, wake: Callable[[], bool]) -> datetime:
        while not wake():
            left = (moment - self.now()).total_seconds() / self._base[1]
            if left <= 0 or self._nudged.wait(min(left, 1.0)):
                break
        self._nudged.clear()
        return self._read()

    def _read(self) -> datetime:
        self._call("GET", "/world/time", None)
        return self.now()

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        payload = None if body is None else json.dumps(body).encode()
        try:
            response = self._http.request(
                method,
                self._address + path,
                body=payload,
                headers={"Content-Type": "application/json"},
                timeout=urllib3.Timeout(connect=5, read=None if body else 30),
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"The sandbox's world at {self._address} does not answer: {error}.") from error
        answer: dict[str, Any] = json.loads(response.data)
        self._ahead = timedelta(microseconds=int(answer.get("ahead_us", 0)))
        self._base = (utc(answer["now"]) + self._ahead, float(answer["scale"]), time.monotonic())
        return answer
