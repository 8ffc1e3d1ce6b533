"""Fixtures of the Kubernetes stand-in's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.kube.bench import Bench, make_bench
from tests.sandbox.kube.serving import Served, serve


@pytest.fixture
def bench() -> Bench:
    """Store and controllers in a stepped world that the test moves by hand."""
    return make_bench()


@pytest.fixture
def served() -> Iterator[Served]:
    """An API without controllers, over HTTP."""
    running = serve()
    yield running
    running.http.clear()
    running.host.close()


@pytest.fixture
def roomy(bench: Bench) -> Bench:
    """The same, with room for everything."""
    bench.node("n0", cpu="512", pods=2000)
    bench.run(1)
    return bench
