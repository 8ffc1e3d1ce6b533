"""The node side of a kubelet: it becomes ready, announces its GPUs (late, or never), and may be lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.kube.amounts import amount
from sandbox.kube.gpu_devices import Device, NodeDevices
from sandbox.kube.pod_status import condition, is_ready, set_condition, stamp
from sandbox.kube.store import Store
from sandbox.kube.workload import GPU, PREFIX
from sandbox.world import World

Object = dict[str, Any]
_MODEL_LABEL = "nvidia.com/gpu.product"
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_MAX_PODS = "110"
_HEARTBEAT_GRACE = 50.0
"""seconds without a heartbeat after which a node's state is Unknown (node-monitor-grace-period)"""


@dataclass(frozen=True, slots=True)
class Profile:
    """How quick the kubelets of a cluster are, in seconds of world time."""

    sync_seconds: float = 0.1
    """from a change in the API to the kubelet's answer"""
    start_seconds: float = 1.0
    """pulling and starting, where a pod does not say"""
    stop_seconds: float = 1.0
    """from SIGTERM to the end, where a pod does not say"""
    node_ready_seconds: float = 2.0
    """from the Node object to Ready, where the node does not say"""


class NodeAgent:
    """Keeps the nodes' own status; knows which of them work."""

    def __init__(self, world: World, store: Store, profile: Profile) -> None:
        self._world = world
        self._store = store
        self._profile = profile
        self._working: dict[str, str] = {}
        """node → its address"""
        self._stopped: set[str] = set()
        self._devices: dict[str, NodeDevices] = {}
        self.all_devices: list[NodeDevices] = []

    def works(self, node: str) -> bool:
        """A kubelet is at work there."""
        return node in self._working

    def address(self, node: str) -> str:
        """The node's InternalIP."""
        return self._working.get(node, "")

    def see(self, node: Object) -> bool:
        """A Node object came or changed; True where its kubelet is new."""
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        if name in self._working or uid in self._stopped:
            return False
        self._working[name] = (
            _internal_ip(node) or f"10.0.{len(self.all_devices) >> 8 & 255}.{len(self.all_devices) & 255}"
        )
        model = (node["metadata"].get("labels") or {}).get(_MODEL_LABEL, "NVIDIA GPU")
        self._devices[name] = NodeDevices(name, model, self._world.now)
        self.all_devices.append(self._devices[name])
        wait = self._seconds(node, "ready-seconds", self._profile.node_ready_seconds)
        if is_ready(node):
            self._become_ready(uid, name)
        elif wait is not None:
            self._world.after(wait, lambda: self._become_ready(uid, name))
        return True

    def stop(self, node: str) -> None:
        """No heartbeat from here on; the machine does not come back under the same Node object."""
        present = self._store.get("nodes", None, node)
        if present is not None and node in self._working:
            uid = present["metadata"]["uid"]
            self._stopped.add(uid)
            self._world.after(_HEARTBEAT_GRACE, lambda: self._lose(uid, node))
        self._working.pop(node, None)
        devices = self._devices.pop(node, None)
        if devices is not None:
            devices.until = self._world.now

    def _lose(self, uid: str, name: str) -> None:
        """The node controller misses the heartbeats."""
        node = self._store.get("nodes", None, name)
        if node is None or node["metadata"]["uid"] != uid:
            return
        status, now = node["status"], stamp(self._world.now)
        words = "Kubelet stopped posting node status."
        for kind in (*(entry[0] for entry in _PRESSURES), "Ready"):
            status = set_condition(
                status, kind, "Unknown", now=now, reason="NodeStatusUnknown", message=words
            )
        self._store.update("nodes", {**node, "status": status})

    def take(self, node: str, count: int) -> list[Device]:
        """Devices for a container."""
        return self._devices[node].take(count)

    def give_back(self, device: Device) -> None:
        """The container is gone; nothing happens where the node is gone too."""
        if device.node in self._devices:
            self._devices[device.node].give_back(device)

    def _seconds(self, node: Object, name: str, default: float) -> float | None:
        """An annotation of the node in seconds; None for `never`."""
        text = (node["metadata"].get("annotations") or {}).get(PREFIX + name, "")
        if text == "never":
            return None
        try:
            return float(text)
        except ValueError:
            return default

    def _present(self, uid: str, name: str) -> Object | None:
        node = self._store.get("nodes", None, name)
        if node is None or node["metadata"]["uid"] != uid or name not in self._working:
            return None
        return node

    def _become_ready(self, uid: str, name: str) -> None:
        node = self._present(uid, name)
        if node is None:
            return
        status = dict(node.get("status") or {})
        capacity = {"pods": _MAX_PODS, **(status.get("capacity") or {})}
        allocatable = {"pods": capacity["pods"], **(status.get("allocatable") or capacity)}
        late = self._seconds(node, "gpu-ready-seconds", 0.0)
        gpus = str(capacity.get(GPU, allocatable.get(GPU, "0")))
        if late is None or late > 0:
            for table in (capacity, allocatable):
                if GPU in table:
                    table[GPU] = "0"
            if late is not None:
                self._world.after(late, lambda: self._plug(uid, name, gpus))
        else:
            self._devices[name].plug(amount(GPU, gpus))
        status |= {"capacity": capacity, "allocatable": allocatable}
        self._store.update("nodes", {**node, "status": self._conditions(status, node)})

    def _conditions(self, status: Object, node: Object) -> Object:
        now = stamp(self._world.now)
        for kind, reason, message in _PRESSURES:
            if condition(node, kind) is None:
                status = set_condition(status, kind, "False", now=now, reason=reason, message=message)
        if not is_ready(node):
            words = "kubelet is posting ready status"
            status = set_condition(status, "Ready", "True", now=now, reason="KubeletReady", message=words)
        if not status.get("addresses"):
            name = node["metadata"]["name"]
            status["addresses"] = [
                {"type": "InternalIP", "address": self._working[name]},
                {"type": "Hostname", "address": name},
            ]
        return status

    def _plug(self, uid: str, name: str, gpus: str) -> None:
        """The device plugin registers its devices."""
        node = self._present(uid, name)
        if node is None:
            return
        self._devices[name].plug(amount(GPU, gpus))
        status = dict(node["status"])
        for table in ("capacity", "allocatable"):
            status[table] = {**status[table], GPU: gpus}
        self._store.update("nodes", {**node, "status": status})


def _internal_ip(node: Object) -> str:
    for entry in (node.get("status") or {}).get("addresses") or ():
        if entry["type"] == "InternalIP":
            return str(entry["address"])
    return ""
