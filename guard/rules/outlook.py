"""Forecast: at completion the work would cost more than its cap. Advice, never a reason to pause."""

from __future__ import annotations

from guard.caps import Standing
from guard.events import ForecastFigures
from guard.rules.finding import Finding


def check(standing: Standing, forecast: ForecastFigures, run: str) -> tuple[Finding, ...]:
    """A finding where even the low end of the forecast passes what is allowed."""
    if forecast.low <= standing.allowed:
        return ()
    high = f" to {forecast.high}" if forecast.high is not None and forecast.high != forecast.low else ""
    return (
        Finding(
            "forecast",
            run,
            f"At completion {run} will have cost {forecast.low}{high}, the cap {standing.cap.name} allows "
            f"{standing.allowed} ({forecast.basis}).",
            {"low": forecast.low.exact()},
        ),
    )
