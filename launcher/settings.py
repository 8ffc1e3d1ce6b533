"""The launcher's section of the settings."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from config.fields import Dollars, Duration, Strict
from fleet.values import Money


class LauncherSettings(Strict):
    """Where experiments are found, where they run, and what they may take unless they say otherwise."""

    experiments: Path = Path("experiments")
    """folder of experiment files, relative to the settings file"""
    namespace: str = "research"
    """where runs are created; one of the cluster's governed namespaces"""
    default_cap: Dollars = Money.usd("2000")
    """limits.max_cost of an experiment that sets none"""
    default_hours: float = Field(default=24.0, gt=0)
    """limits.max_hours of an experiment that sets none"""
    priority_classes: dict[str, str] = Field(default_factory=dict)
    """priority → PriorityClass of the cluster; a priority that is not listed uses the cluster's default"""
    drain: Duration = timedelta(seconds=30)
    """grace of replicas without a checkpoint"""
