"""What somebody new is told: what to type next, who can, and only what that person may do."""

from __future__ import annotations

from tests.bot.conftest import Lab


def test_one_cap_is_not_called_caps(lab: Lab) -> None:
    """The count agrees with its noun."""
    assert lab.say("U1ADA", "/exp caps").startswith("1 cap; the fullest is vision-month")
