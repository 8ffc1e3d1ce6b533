"""Sockets only to this machine; tests that need a real service run where it is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_socket import socket_allow_hosts

from tests.controlplane.harness import ControlPlane

ROOT = Path(__file__).resolve().parents[1]
SERVICES: dict[str, tuple[Path | str, ...]] = {
    "control-plane": (ROOT / ".services/bin/controlplane", ROOT / ".services/bin/kwok"),
    "prometheus": ("prometheus",),
    "chromium": ("chromium", "chromedriver"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long to look for differences between the sandbox and a real control plane."""
    parser.addoption("--examples", type=int, default=18, help="generated programs for tests/controlplane")


@pytest.fixture(scope="session")
def examples(request: pytest.FixtureRequest) -> int:
    """How many programs to generate."""
    count: int = request.config.getoption("--examples")
    return count


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The session's control plane; only tests marked service("control-plane") may ask for it."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        yield plane.start()
    finally:
        plane.stop()


def present(name: str) -> bool:
    """Whether every program of a service is there."""
    return all(
        Path(part).exists() if isinstance(part, Path) else shutil.which(part) for part in SERVICES[name]
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Loopback only; a missing service skips, or fails where everything is required."""
    socket_allow_hosts(["127.0.0.1", "localhost", "::1"], allow_unix_socket=True)
    for marker in item.iter_markers("service"):
        name = marker.args[0]
        if present(name):
            continue
        sentence = f"{name} is not here; run: make services"
        if os.environ.get("QM_REQUIRE_ALL") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
