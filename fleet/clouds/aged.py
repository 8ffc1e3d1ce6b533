"""Something fetched from outside that ages in world time, and outlives failures to fetch it again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from fleet.errors import OutsideError

T = TypeVar("T")
RETRY = timedelta(minutes=1)


class Aged(Generic[T]):
    """A value with its age. A failed fetch keeps the old value, and is tried again after a minute."""

    def __init__(self, life: timedelta) -> None:
        self._life = life
        self._next: datetime | None = None
        self.value: T | None = None
        self.fetched: datetime | None = None
        self.problem = ""
        """why the value could not be renewed, in words; "" = it is fresh"""

    def due(self, now: datetime) -> bool:
        """Whether it should be fetched (again)."""
        return self._next is None or now >= self._next

    def renew(self, now: datetime, fetch: Callable[[T | None], T]) -> bool:
        """Fetch it now (given the old value); True where that worked. Only typed errors are survived."""
        try:
            self.value = fetch(self.value)
        except OutsideError as error:
            self.problem = str(error)
            self._next = now + RETRY
            return False
        self.fetched, self.problem = now, ""
        self._next = now + self._life
        return True
