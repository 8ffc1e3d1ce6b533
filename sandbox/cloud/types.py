"""What EC2's instance types are, from the shipped snapshot (facts of 2026-07-20)."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_QUOTA_GROUPS = (
    (r"u-?\d", "High Memory"),
    (r"dl", "DL"),
    (r"trn", "Trn"),
    (r"inf", "Inf"),
    (r"hpc", "HPC"),
    (r"mac", "Mac"),
    (r"g|vt", "G and VT"),
    (r"p", "P"),
    (r"f", "F"),
    (r"x", "X"),
)
"""Types of one group share a quota in vCPU; A, C, D, H, I, M, R, T and Z are `Standard`."""
_MAKERS = {"radeon": "AMD", "gaudi": "Habana"}
_MAX_PODS = 110
QUOTA_GROUPS = frozenset({"Standard", *(group for _, group in _QUOTA_GROUPS)})


@dataclass(frozen=True)
class TypeFacts:
    """One EC2 instance type. `arch` as Kubernetes writes it; GPU memory is that of one GPU."""

    name: str
    vcpus: int
    memory_mib: int
    arch: str
    gpu_name: str
    gpus: int
    gpu_memory_mib: int
    allocatable_cpu: str
    allocatable_memory: str
    pods: int

    @property
    def family(self) -> str:
        """Quota group, e.g. `Standard`, `P`, `G and VT`."""
        return quota_group(self.name)

    @property
    def gpu_maker(self) -> str:
        """NVIDIA, AMD …; "" without GPUs."""
        if not self.gpus:
            return ""
        return _MAKERS.get(self.gpu_name.partition("-")[0], "NVIDIA")


def quota_group(name: str) -> str:
    """The group whose vCPUs share one quota."""
    return next((group for pattern, group in _QUOTA_GROUPS if re.match(pattern, name)), "Standard")


@cache
def type_facts() -> dict[str, TypeFacts]:
    """Every type of the snapshot by name."""
    raw = json.loads(gzip.decompress((Path(__file__).parent / "types.json.gz").read_bytes()))
    found = {}
    for name, (vcpus, memory, arch, gpu, gpus, gpu_memory, cpu, usable, pods, _) in raw.items():
        found[name] = TypeFacts(
            name, vcpus, memory, arch, gpu or "", gpus, gpu_memory or 0, cpu, usable, int(pods or _MAX_PODS)
        )
    return found
