"""A machine's way into its cluster, and the cloud controller manager's part of it.

The user data name an endpoint and a token (one `key=value` a line: endpoint, token, ca, insecure, labels,
taints). With the right image, subnet and profile the machine boots and registers its Node there, whichever
API that is. With anything wrong it bills and never joins. When the machine ends, its Node is removed.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from sandbox.cloud.region import Machine, Region
from sandbox.cloud.spec import CloudSpec
from sandbox.world import World

RETRY_SECONDS = 10.0
REMOVE_SECONDS = 5.0
TIMEOUT = aiohttp.ClientTimeout(total=20)
GPU_READY = "sandbox.quartermaster.dev/gpu-ready-seconds"


@dataclass(frozen=True)
class UserData:
    """What a machine was told."""

    endpoint: str = ""
    token: str = ""
    ca: str = ""
    insecure: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()


def read_user_data(text: str) -> UserData:
    """User data from their lines; unknown lines are ignored, as a boot script's would be."""
    lines = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
    labels = dict(pair.split("=", 1) for pair in lines.get("labels", "").split(",") if "=" in pair)
    taints = []
    for each in filter(None, lines.get("taints", "").split(",")):
        pair, _, effect = each.rpartition(":")
        key, _, value = pair.partition("=")
        taints.append((key, value, effect))
    return UserData(
        lines.get("endpoint", "").rstrip("/"),
        lines.get("token", ""),
        lines.get("ca", ""),
        lines.get("insecure", "") == "true",
        labels,
        tuple(taints),
    )


class Joining:
    """Boots machines and keeps their Nodes true."""

    def __init__(self, world: World, spec: CloudSpec, regions: Mapping[str, Region]) -> None:
        self._world = world
        self._spec = spec
        self._regions = regions
        self._joined: dict[str, UserData] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.boot_seconds: dict[str, float] = {}
        """region → seconds, where it differs"""

    @property
    def joined(self) -> frozenset[str]:
        """Ids of machines whose Node was accepted."""
        return frozenset(self._joined)

    def launched(self, machine: Machine) -> None:
        """It boots from now."""
        boot = self.boot_seconds.get(machine.region, self._spec.boot_seconds)
        self._world.after(boot, lambda: self._start(self._join(machine)))

    def ended(self, machine: Machine) -> None:
        """Its Node goes within seconds."""
        self._world.after(REMOVE_SECONDS, lambda: self._start(self._remove(machine)))

    def _start(self, work: Any) -> None:
        # The world stands still from this very event on, not only from the task's first step.
        standing = self._world.working()
        standing.__enter__()
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(finished: asyncio.Task[None]) -> None:
            self._tasks.discard(finished)
            standing.__exit__(None, None, None)

        task.add_done_callback(done)

    def able(self, machine: Machine) -> bool:
        """Whether image, subnet and profile let it reach a cluster."""
        region = self._regions[machine.region].spec
        return (
            region.images.get(machine.image, False)
            and region.subnets[machine.subnet].joins
            and self._spec.profiles.get(machine.profile, False)
        )

    async def _join(self, machine: Machine) -> None:
        told = read_user_data(machine.user_data)
        if not machine.live or not self.able(machine) or not told.endpoint:
            return
        status = await self._call("POST", told, "/api/v1/nodes", node_of(machine, told, self._spec))
        if status in (200, 201, 409):
            self._joined[machine.id] = told
            if machine.ended is not None:
                self.ended(machine)
        elif status == 0 or status >= 500 or status == 429:
            self._world.after(RETRY_SECONDS, lambda: self._start(self._join(machine)))

    async def _remove(self, machine: Machine) -> None:
        told = self._joined.get(machine.id)
        if told is None:
            return
        status = await self._call("DELETE", told, f"/api/v1/nodes/{machine.node_name}", None)
        if status in (200, 202, 404):
            self._joined.pop(machine.id, None)
        else:
            self._world.after(RETRY_SECONDS, lambda: self._start(self._remove(machine)))

    @staticmethod
    async def _call(method: str, told: UserData, path: str, body: Mapping[str, Any] | None) -> int:
        headers = {"Authorization": f"Bearer {told.token}"}
        try:
            async with (
                aiohttp.ClientSession(timeout=TIMEOUT, headers=headers) as session,
                session.request(method, told.endpoint + path, json=body, ssl=_tls(told)) as response,
            ):
                await response.read()
                return response.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0


def _tls(told: UserData) -> ssl.SSLContext | bool:
    if not told.endpoint.startswith("https:"):
        return True
    if told.insecure or not told.ca:
        context = ssl.create_default_context()
        if told.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
    return ssl.create_default_context(cadata=base64.b64decode(told.ca).decode())


def node_of(machine: Machine, told: UserData, spec: CloudSpec) -> dict[str, Any]:
    """The Node as the kubelet registers it, with the labels that the cloud controller sets."""
    kind = machine.kind
    allocatable = {"cpu": kind.allocatable_cpu, "memory": kind.allocatable_memory, "pods": str(kind.pods)}
    capacity = {"cpu": str(kind.vcpus), "memory": f"{kind.memory_mib}Mi", "pods": str(kind.pods)}
    annotations = {}
    if kind.gpus:
        capacity["nvidia.com/gpu"] = allocatable["nvidia.com/gpu"] = str(kind.gpus)
        if spec.gpu_ready_seconds is not None:
            allocatable["nvidia.com/gpu"] = "0"
            annotations[GPU_READY] = str(int(spec.gpu_ready_seconds))
    labels = {
        **told.labels,
        "kubernetes.io/hostname": machine.node_name,
        "kubernetes.io/arch": kind.arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind.name,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.node_name, "labels": labels, "annotations": annotations},
        "spec": {
            "providerID": f"aws:///{machine.zone}/{machine.id}",
            "taints": [{"key": k, "value": v, "effect": e} for k, v, e in told.taints],
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


def _node_info(machine: Machine) -> dict[str, str]:
    return {
        "architecture": machine.kind.arch,
        "bootID": machine.id,
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.3",
        "machineID": machine.id,
        "operatingSystem": "linux",
        "osImage": "Amazon Linux 2023",
        "systemUUID": machine.id,
    }
