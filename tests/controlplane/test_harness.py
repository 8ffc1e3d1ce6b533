"""The control plane of the tests is a real one: Jobs become pods, pods are bound, run and finish."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytestmark = pytest.mark.service("control-plane")

NODE = {
    "metadata": {"name": "harness-node"},
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
    },
}


def job(name: str) -> dict[str, Any]:
    """An Indexed Job of two pods that run for one second."""
    return {
        "metadata": {"name": name},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": {"sandbox.quartermaster.dev/run-seconds": "1"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }


def test_a_job_runs_to_its_end(control_plane, namespace):
    """Job controller, scheduler and kwok work together; the node is ready."""
    control_plane.request("POST", "/api/v1/nodes", NODE)
    control_plane.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job("twice"))
    deadline = time.monotonic() + 60
    status: dict[str, Any] = {}
    while time.monotonic() < deadline and status.get("succeeded") != 2:
        status = control_plane.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/twice")["status"]
        time.sleep(0.1)

    control_plane.request("DELETE", "/api/v1/nodes/harness-node")
    assert status["succeeded"] == 2
    assert status["completedIndexes"] == "0,1"
