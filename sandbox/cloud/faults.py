"""What goes wrong on purpose, and who is told of each changing call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloud.codec import AwsError, usual_status

DROP = "drop"
"""what a hook returns to end the connection there"""
Hook = Callable[[str, Mapping[str, Any]], Any]


@dataclass
class Faults:
    """State of all faults; set it on the sandbox's loop."""

    errors: dict[str, list[AwsError]] = field(default_factory=dict)
    """action → errors for its next calls"""
    lost_replies: int = 0
    """the next changing calls are carried out, and their connection closed without a reply"""
    slow_seconds: float = 0.0
    """real seconds that every call takes"""
    hooks: list[Hook] = field(default_factory=list)

    def fail_next(self, action: str, code: str, *, times: int = 1, status: int | None = None) -> None:
        """The next calls of an action answer an error, by default with the status that AWS sends with it."""
        error = AwsError(code, f"{code}, as asked for", usual_status(code) if status is None else status)
        self.errors.setdefault(action, []).extend([error] * times)

    def raise_next(self, action: str) -> None:
        """AwsError where the action's next call is to fail."""
        waiting = self.errors.get(action)
        if waiting:
            raise waiting.pop(0)

    def lose_reply(self) -> bool:
        """Whether the reply to a changing call that was carried out is lost."""
        if self.lost_replies <= 0:
            return False
        self.lost_replies -= 1
        return True

    async def tell(self, moment: str, info: Mapping[str, Any]) -> bool:
        """Tell all hooks; True where one of them wants the connection to end."""
        drop = False
        for hook in self.hooks:
            said = hook(moment, info)
            if isinstance(said, Awaitable):
                said = await said
            drop = drop or said == DROP
        return drop
