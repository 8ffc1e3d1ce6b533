"""One real control plane a test session; tests use namespaces of their own."""

from __future__ import annotations

import itertools

import pytest

from tests.controlplane.harness import ControlPlane

_counter = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """A running control plane; only tests marked service("control-plane") may ask for it."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        yield plane.start()
    finally:
        plane.stop()


@pytest.fixture
def namespace(control_plane):
    """A fresh governed namespace."""
    name = f"test-{next(_counter)}"
    control_plane.request(
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"name": name, "labels": {"quartermaster.dev/governed": "true"}}},
    )
    return name
