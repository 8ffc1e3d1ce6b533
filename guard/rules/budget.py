"""Budget thresholds: how much of a cap is spent (50, 80 %) or committed (90 %). Tells people; refuses nothing.

Committed counts for shared caps alone: a run's own cap is committed in full by its own launch, by design.
"""

from __future__ import annotations

from fleet.values import Money
from guard.caps import Standing
from guard.rules.finding import Finding
from guard.settings import GuardSettings

COMMITTED = "committed"


def check(standing: Standing, settings: GuardSettings) -> tuple[Finding, ...]:
    """Every threshold that is reached now, in ascending weight: committed first, then percent spent."""
    name, allowed = standing.cap.name, standing.allowed
    if allowed.micros <= 0:
        return ()
    found = []
    part = standing.committed.micros * 100
    if standing.cap.shared and part >= allowed.micros * settings.alert_at_committed:
        level = f"{COMMITTED} {settings.alert_at_committed}"
        sentence = f"{standing.committed} of {allowed} are spent or set aside under {name}."
        found.append(Finding("budget", name, sentence, {"threshold": level}))
    for percent in settings.thresholds:
        if standing.spent.micros * 100 >= allowed.micros * percent:
            sentence = f"{standing.spent} of {allowed} are spent under {name} ({percent} %)."
            found.append(Finding("budget", name, sentence, {"threshold": str(percent)}))
    return tuple(found)


def threshold_key(threshold: str, allowed: Money) -> str:
    """What is recorded as fired: a raised cap is a new limit, whose thresholds can be passed anew."""
    return f"{threshold}@{allowed.micros}"
