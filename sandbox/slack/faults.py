"""Faults a scenario can switch on in the Web API."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Faults:
    """Counts are per method name, or `*` for every method that changes something, and are used up."""

    down: bool = False
    """HTTP 503 for everything"""
    slow_seconds: float = 0.0
    """real seconds before each answer"""
    retry_after: int = 1
    """the Retry-After of planted 429s, in real seconds"""
    throttled: dict[str, int] = field(default_factory=dict)
    lost_replies: dict[str, int] = field(default_factory=dict)
    """the call is carried out, and the connection ends without an answer"""
    failing: dict[str, int] = field(default_factory=dict)
    """HTTP 500, not carried out"""

    def take(self, counts: dict[str, int], method: str, *, mutating: bool) -> bool:
        """Whether this call is hit; uses up one."""
        for key in (method, "*") if mutating else (method,):
            if counts.get(key, 0) > 0:
                counts[key] -= 1
                return True
        return False
