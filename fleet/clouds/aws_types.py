"""What an EC2 instance type is to a scheduler: pure functions over DescribeInstanceTypes' answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.values import Resources

MIB = 2**20
DEFAULT_PODS = 110
"""the kubelet's own maximum, where the type says nothing about its network"""
_VM_OVERHEAD = (925, 1000)
"""7.5 % of a machine's memory never reaches the guest's kernel (Karpenter's default)"""
_ARM_RESERVED_MIB = 64
"""64 MiB of an arm64 guest go to its contiguous memory allocator"""
_EVICTION_MIB = 100
_GPU_OVERLAY: Mapping[str, tuple[int, str]] = {"p5.4xlarge": (1, "H100"), "g6f": (1, "L4"), "gr6f": (1, "L4")}
"""Types (or their families) that the API lists with 0 GPUs at times, although a node of them has some."""
_FAMILIES = (
    (r"u-?\d", "High Memory"),
    (r"dl", "DL"),
    (r"trn", "Trn"),
    (r"inf", "Inf"),
    (r"hpc", "HPC"),
    (r"mac", "Mac"),
    (r"(g|vt)", "G and VT"),
    (r"p", "P"),
    (r"f", "F"),
    (r"x", "X"),
)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type, as far as fit and quota need it."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int
    gpu_name: str
    arch: str
    """`amd64` or `arm64`, as the label kubernetes.io/arch says it"""
    allocatable: Resources

    @property
    def family(self) -> str:
        """Quota group, e.g. `Standard`, `P`, `G and VT`."""
        return quota_family(self.name)


def instance_type(described: Mapping[str, Any]) -> InstanceType:
    """From one entry of DescribeInstanceTypes."""
    name = str(described["InstanceType"])
    vcpus = int(described.get("VCpuInfo", {}).get("DefaultVCpus", 0))
    memory = int(described.get("MemoryInfo", {}).get("SizeInMiB", 0))
    machine = described.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    arch = "arm64" if "arm64" in machine else "amd64"
    gpus, gpu_name = _gpus(name, described.get("GpuInfo") or {})
    pods = _max_pods(described.get("NetworkInfo") or {})
    usable = memory - (_ARM_RESERVED_MIB if arch == "arm64" else 0)
    return InstanceType(
        name, vcpus, memory, gpus, gpu_name, arch, allocatable(vcpus, usable, gpus=gpus, pods=pods)
    )


def allocatable(vcpus: int, memory_mib: int, *, gpus: int, pods: int) -> Resources:
    """What a node of this size offers to pods, in whole millicores and bytes, rounded down.

    The kubelet reserves 6 % of the first core, 1 % of the second, 0.5 % of the third and fourth and
    0.25 % of the others, and 255 MiB + 11 MiB a pod; 100 MiB are kept from pods by eviction.
    """
    reserved = sum(_reserved_tenths(core) for core in range(min(vcpus, 4))) + 25 * max(0, vcpus - 4)
    reserved_mib = 255 + 11 * pods + _EVICTION_MIB
    memory = memory_mib * MIB * _VM_OVERHEAD[0] // _VM_OVERHEAD[1] - reserved_mib * MIB
    return Resources(vcpus * 1000 - math.ceil(reserved / 10), max(0, memory // MIB * MIB), gpus, pods)


def _reserved_tenths(core: int) -> int:
    """Tenths of a millicore reserved of the core with this index (0..3)."""
    return (600, 100, 50, 50)[core]


def _max_pods(network: Mapping[str, Any]) -> int:
    """Addresses for pods: a first one a network interface is the node's own; two pods use the host's."""
    cards = network.get("NetworkCards") or []
    default: Mapping[str, Any] = next(
        (c for c in cards if c.get("NetworkCardIndex") == network.get("DefaultNetworkCardIndex", 0)), {}
    )
    interfaces = int(default.get("MaximumNetworkInterfaces") or network.get("MaximumNetworkInterfaces") or 0)
    addresses = int(network.get("Ipv4AddressesPerInterface") or 0)
    return interfaces * (addresses - 1) + 2 if interfaces and addresses else DEFAULT_PODS


def _gpus(name: str, info: Mapping[str, Any]) -> tuple[int, str]:
    """NVIDIA GPUs of a node: other makers' are another resource to Kubernetes, and count as none here."""
    described = [g for g in info.get("Gpus") or () if g.get("Manufacturer", "NVIDIA").upper() == "NVIDIA"]
    count = sum(int(g.get("Count") or g.get("LogicalGpuCount") or 0) for g in described)
    if count:
        return count, str(described[0].get("Name", ""))
    overlay = _GPU_OVERLAY.get(name) or _GPU_OVERLAY.get(name.partition(".")[0])
    return overlay or (0, "")


def quota_family(name: str) -> str:
    """The group whose vCPUs share one quota: `Standard` for A, C, D, H, I, M, R, T and Z."""
    letters = name.partition(".")[0]
    return next((family for pattern, family in _FAMILIES if re.match(pattern, letters)), "Standard")
