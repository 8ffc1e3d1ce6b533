"""Sockets only to this machine; tests that need a real service run where it is there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pytest_socket import socket_allow_hosts

ROOT = Path(__file__).resolve().parents[1]
SERVICES: dict[str, tuple[Path | str, ...]] = {
    "control-plane": (ROOT / ".services/bin/controlplane", ROOT / ".services/bin/kwok"),
    "prometheus": ("prometheus",),
    "chromium": ("chromium", "chromedriver"),
}


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
