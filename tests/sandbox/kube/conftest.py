"""Fixtures of the Kubernetes stand-in's tests."""

from __future__ import annotations

import pytest

from tests.sandbox.kube.bench import Bench, make_bench


@pytest.fixture
def bench() -> Bench:
    """Store and controllers in a stepped world that the test moves by hand."""
    return make_bench()
