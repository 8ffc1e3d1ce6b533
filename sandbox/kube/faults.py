"""What can go wrong with one cluster's API, switched on and off by a scenario; and what it was asked to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Faults:
    """Faults of one API. All are off at first."""

    down: bool = False
    """every connection is closed unanswered"""
    unavailable: bool = False
    """every request is answered with 503"""
    throttle: int | None = None
    """every request but a watch is answered with 429 and this Retry-After (seconds)"""
    throttle_next: int = 0
    """so many requests are answered with 429 and Retry-After 1"""
    delay: float = 0.0
    """real seconds before every answer"""
    lose_replies: int = 0
    """so many changing requests are carried out and not answered: the connection closes"""
    refuse_expired_watches: bool = False
    """a watch from a version that is gone gets HTTP 410, not 200 and an ERROR event"""

    @property
    def answers(self) -> bool:
        """Whether anybody can learn the state now."""
        return not (self.down or self.unavailable)

    def throttled(self) -> int | None:
        """Retry-After for the request that came now; None = it is let through."""
        if self.throttle_next > 0:
            self.throttle_next -= 1
            return 1
        return self.throttle

    def loses_reply(self) -> bool:
        """Whether the reply to the change made now gets lost."""
        if self.lose_replies <= 0:
            return False
        self.lose_replies -= 1
        return True


@dataclass
class Mutation:
    """One request that may change something. `code` 0 = not answered (yet)."""

    number: int
    """1 for the first since the start"""
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    code: int = 0


Hook = Callable[[str, Mutation], bool | None]
"""(moment: "before" or "after", the request) → False closes the connection: before, nothing is done;
after, it is done and not answered"""


@dataclass
class Ledger:
    """Every changing request, in order."""

    mutations: list[Mutation] = field(default_factory=list)
    hook: Hook | None = None

    def allows(self, moment: str, mutation: Mutation) -> bool:
        """Ask the hook."""
        return self.hook is None or self.hook(moment, mutation) is not False
