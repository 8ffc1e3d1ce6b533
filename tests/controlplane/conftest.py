"""Namespaces on the session's control plane, one for every test."""

from __future__ import annotations

import itertools

import pytest

from tests.controlplane.sides import Real

_counter = itertools.count(1)


@pytest.fixture
def namespace(control_plane):
    """A fresh governed namespace, on a cluster where nothing of another test runs or waits."""
    Real(control_plane, "default").clean_all()
    name = f"test-{next(_counter)}"
    control_plane.request(
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"name": name, "labels": {"quartermaster.dev/governed": "true"}}},
    )
    return name
