"""The Node that a machine registers: what its kubelet says of it, and the labels of the cloud controller."""

from __future__ import annotations

from typing import Any

from sandbox.cloud.machine import Machine
from sandbox.cloud.spec import NEVER
from sandbox.cloud.user_data import UserData

GPU = "nvidia.com/gpu"
GPU_READY = "sandbox.quartermaster.dev/gpu-ready-seconds"
KUBELET_VERSION = "v1.36.3"
_EPHEMERAL_STORAGE = ("20Gi", "17Gi")


def node_of(machine: Machine, told: UserData, gpu_ready_seconds: float | None) -> dict[str, Any]:
    """The Node. GPUs that come late are announced as capacity alone, with an annotation that says when."""
    kind = machine.kind
    capacity = {
        "cpu": str(kind.vcpus),
        "memory": f"{kind.memory_mib}Mi",
        "pods": str(kind.pods),
        "ephemeral-storage": _EPHEMERAL_STORAGE[0],
    }
    allocatable = {
        "cpu": kind.allocatable_cpu,
        "memory": kind.allocatable_memory,
        "pods": str(kind.pods),
        "ephemeral-storage": _EPHEMERAL_STORAGE[1],
    }
    annotations = {}
    if kind.gpus and kind.gpu_maker == "NVIDIA":
        capacity[GPU] = allocatable[GPU] = str(kind.gpus)
        if gpu_ready_seconds is not None:
            allocatable[GPU] = "0"
            annotations[GPU_READY] = "never" if gpu_ready_seconds == NEVER else f"{gpu_ready_seconds:g}"
    metadata = {"name": machine.node_name, "labels": _labels(machine, told), "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {
            "providerID": f"aws:///{machine.zone}/{machine.id}",
            "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in told.taints],
        },
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": machine.node_name},
            ],
            "nodeInfo": _node_info(machine),
        },
    }


def _labels(machine: Machine, told: UserData) -> dict[str, str]:
    return {
        **told.labels,
        "kubernetes.io/hostname": machine.node_name,
        "kubernetes.io/arch": machine.kind.arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.kind.name,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
    }


def _node_info(machine: Machine) -> dict[str, str]:
    return {
        "architecture": machine.kind.arch,
        "bootID": machine.id,
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine.id,
        "operatingSystem": "linux",
        "osImage": "Amazon Linux 2023",
        "systemUUID": machine.id,
    }
