"""What a simulated pod is told to do, by its annotations; and what its node is told about its GPUs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.kube.amounts import amount
from sandbox.kube.job_rules import INDEX

Object = dict[str, Any]
PREFIX = "sandbox.quartermaster.dev/"
GPU = "nvidia.com/gpu"
SIGTERM_EXIT, SIGKILL_EXIT = 143, 137


@dataclass(frozen=True, slots=True)
class Script:
    """A pod's part. Seconds of world time."""

    run_seconds: float | None = None
    """None: until told"""
    exit_code: int = 0
    start_seconds: float | None = None
    """pulling and starting; None: the kubelets' usual time"""
    init_seconds: float = 0.0
    """each init container"""
    gpu_utilisation: float | None = None
    """0..100; None: DCGM has no word on it"""
    ignores_sigterm: bool = False
    sigterm_seconds: float | None = None
    """from SIGTERM to exit; None: the kubelets' usual time"""
    sigterm_exit_code: int = SIGTERM_EXIT


def read_script(pod: Object) -> Script:
    """The annotations of a pod; what cannot be read is as if it were not there."""
    told = {
        key[len(PREFIX) :]: value
        for key, value in (pod["metadata"].get("annotations") or {}).items()
        if key.startswith(PREFIX)
    }
    if not told:
        return Script()
    return Script(
        run_seconds=_run_seconds(told.get("run-seconds", ""), pod),
        exit_code=int(_number(told, "exit-code", 0) or 0),
        start_seconds=_number(told, "start-seconds", None),
        init_seconds=_number(told, "init-seconds", 0.0) or 0.0,
        gpu_utilisation=_number(told, "gpu-utilisation", None),
        ignores_sigterm=told.get("ignore-sigterm") == "true",
        sigterm_seconds=_number(told, "sigterm-seconds", None),
        sigterm_exit_code=int(_number(told, "sigterm-exit-code", SIGTERM_EXIT) or 0),
    )


def _number(told: Mapping[str, str], name: str, default: float | None) -> float | None:
    try:
        return float(told[name])
    except (KeyError, ValueError):
        return default


def _run_seconds(text: str, pod: Object) -> float | None:
    """`3600`, or `1800-3600`: then each index of a Job has its own duration, whatever else happens.

    The draw depends on the names only, so that the same work takes the same time in a world with and
    without somebody else's.
    """
    first, dash, last = text.partition("-")
    try:
        if not dash:
            return float(first)
        low, high = float(first), float(last)
    except ValueError:
        return None
    metadata = pod["metadata"]
    owner = next((ref["name"] for ref in metadata.get("ownerReferences") or ()), metadata["name"])
    index = (metadata.get("labels") or {}).get(INDEX, metadata["name"])
    return random.Random(f"{metadata['namespace']}/{owner}/{index}").uniform(low, high)


def gpus_of_container(container: Object) -> int:
    """Whole devices that a container asks for."""
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}).get(GPU) or (resources.get("requests") or {}).get(GPU) or 0
    return amount(GPU, asked)
