"""What the Metrics port promises, over every Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from fleet.metrics import PrometheusMetrics
from fleet.ports import Sample
from sandbox.hosting import Host
from sandbox.prometheus import Prometheus
from sandbox.series import Series
from sandbox.world import World
from tests.builders import T0

UTIL = "DCGM_FI_DEV_GPU_UTIL"
NOW = T0 + timedelta(hours=1)


@dataclass
class Exporter:
    """An exporter of what a test wrote down."""

    kept: dict[str, list[Series]] = field(default_factory=dict)

    def add(
        self, pod: str, *steps: tuple[int, float], gpu: str = "0", name: str = UTIL, until: int | None = None
    ) -> None:
        """A GPU of a pod; steps are (minute after T0, value from then on)."""
        ends = [minute for minute, _ in steps[1:]] + [until]
        spans = tuple(
            (
                (T0 + timedelta(minutes=start)).timestamp(),
                math.inf if end is None else (T0 + timedelta(minutes=end)).timestamp(),
                value,
            )
            for (start, value), end in zip(steps, ends, strict=True)
        )
        labels = {"namespace": "research", "pod": pod, "gpu": gpu, "UUID": f"{pod}-{gpu}", "hostname": "n"}
        self.kept.setdefault(name, []).append(Series(labels, spans))

    def names(self) -> Iterable[str]:
        """The metrics it has."""
        return self.kept

    def series(
        self, name: str, after: float, until: float, hints: Mapping[str, frozenset[str]]
    ) -> Iterable[Series]:
        """All of a metric."""
        return self.kept.get(name, ())


@pytest.fixture(params=["sandbox"])
def served(request) -> Iterator[tuple[Exporter, PrometheusMetrics, Prometheus]]:
    """A Prometheus at six o'clock, what it scrapes, and the port over it."""
    host, exporter = Host(), Exporter()

    async def made() -> Prometheus:
        return Prometheus(World(NOW), [exporter])

    prometheus = host.run(made())
    yield exporter, PrometheusMetrics(host.serve(prometheus.app())), prometheus
    host.close()


def about(percent: float) -> Any:
    """A value within one of this."""
    close: Any = pytest.approx(percent, abs=1)
    return Sample(close)


def ask(metrics: PrometheusMetrics, *pods: str, minutes: int = 10, at=NOW) -> Sample:
    """Utilisation over some minutes."""
    return metrics.gpu_utilisation(
        "home", [("research", pod) for pod in pods], at, timedelta(minutes=minutes)
    )


def test_the_mean_over_the_window(served):
    """Only the window counts, and all GPUs of the pods alike."""
    exporter, metrics, _ = served
    exporter.add("a", (0, 100), (50, 40))
    exporter.add("a", (0, 80), gpu="1")
    exporter.add("b", (0, 0))
    assert ask(metrics, "a") == about(60)
    assert ask(metrics, "a", "b") == about(40)
    assert ask(metrics, "b") == Sample(0.0)
    earlier = ask(metrics, "a", at=T0 + timedelta(minutes=40))
    assert earlier == about(90)


def test_gone_and_never_there_are_absent(served):
    """A pod whose GPUs are no longer scraped, or never were, is unknown."""
    exporter, metrics, _ = served
    exporter.add("a", (0, 50), until=20)
    assert ask(metrics, "a").absent
    assert ask(metrics, "b").absent
    assert not ask(metrics, "a", at=T0 + timedelta(minutes=20)).absent


def test_a_missing_metric_is_absent_and_mig_stands_in(served):
    """Without GPU_UTIL the engine's share is used; without both nothing is known."""
    exporter, metrics, _ = served
    exporter.add("a", (0, 0.25), name="DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert ask(metrics, "a") == about(25)


def test_a_server_that_is_down_or_partial_is_an_error(served):
    """Neither is a value, neither is absence."""
    exporter, metrics, prometheus = served
    exporter.add("a", (0, 50))
    prometheus.warnings.append("a store did not answer")
    assert "did not answer" in ask(metrics, "a").error
    prometheus.warnings.clear()
    prometheus.down = True
    found = ask(metrics, "a")
    assert (found.value, found.absent) == (None, False)


def test_one_number(served):
    """Instant queries: a scalar, a vector of one, nothing, and syntax that is none."""
    exporter, metrics, _ = served
    exporter.add("a", (0, 50))
    assert metrics.query(UTIL, NOW) == Sample(50.0)
    assert metrics.query("absent_metric", NOW).absent
    assert metrics.query("sum(", NOW).error
