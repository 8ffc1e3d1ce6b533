"""The pod statuses that a kubelet reports: waiting, running, ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.kube.pod_status import set_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


def waiting(pod: Object, now: str, place: Place, reason: str = "ContainerCreating") -> Object:
    """Accepted by the kubelet; its images are being pulled, or it waits to be started again."""
    status = {
        **(pod.get("status") or {}),
        "phase": "Pending",
        "startTime": (pod.get("status") or {}).get("startTime", now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "containerStatuses": [
            _container(entry, {"waiting": {"reason": reason}}, ready=False)
            for entry in pod["spec"]["containers"]
        ],
    }
    for kind, value in (("Initialized", "True"), ("Ready", "False"), ("ContainersReady", "False")):
        status = _told(status, kind, value, now, pod)
    return status


def running(pod: Object, now: str, place: Place, restarts: int = 0, last: Object | None = None) -> Object:
    """All containers run and are ready."""
    spec, before = pod["spec"], pod.get("status") or {}
    state = {"running": {"startedAt": now}}
    status = {
        **before,
        "phase": "Running",
        "startTime": before.get("startTime", now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "podIP": place.pod_ip,
        "podIPs": [{"ip": place.pod_ip}],
        "containerStatuses": [
            _container(entry, state, ready=True, restarts=restarts, last=last) for entry in spec["containers"]
        ],
    }
    inits = spec.get("initContainers")
    if inits:
        done = _terminated(0, now, now)
        status["initContainerStatuses"] = [
            _container(entry, state if is_sidecar(entry) else done, ready=True) for entry in inits
        ]
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        status = set_condition(status, kind, "True", now=now)
    return status


def crashed(pod: Object, now: str, exit_code: int, restarts: int) -> Object:
    """The containers ended and will be started again after the back-off."""
    before = pod["status"]
    last = _terminated(exit_code, _started_at(before) or now, now)
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    status = {
        **before,
        "containerStatuses": [
            _container(entry, back_off, ready=False, restarts=restarts, last=last)
            for entry in pod["spec"]["containers"]
        ],
    }
    for kind in ("Ready", "ContainersReady"):
        status = _told(status, kind, "False", now, pod)
    return status


def ended(pod: Object, now: str, exit_code: int, reason: str = "") -> Object:
    """All containers ended; phase Succeeded for exit code 0. `reason` is the container's (OOMKilled, …)."""
    before = pod.get("status") or {}
    succeeded = exit_code == 0
    started = _started_at(before)
    state = _terminated(exit_code, started or now, now, reason)
    restarts = max((c.get("restartCount", 0) for c in before.get("containerStatuses") or ()), default=0)
    status = {
        **before,
        "phase": "Succeeded" if succeeded else "Failed",
        "startTime": before.get("startTime", now),
        "containerStatuses": [
            _container(entry, state, ready=False, restarts=restarts) for entry in pod["spec"]["containers"]
        ],
    }
    inits = pod["spec"].get("initContainers")
    if inits and started:
        known = {entry["name"]: entry for entry in before.get("initContainerStatuses") or ()}
        status["initContainerStatuses"] = [
            _container(entry, _terminated(0, started, now), ready=False)
            if is_sidecar(entry) or entry["name"] not in known
            else known[entry["name"]]
            for entry in inits
        ]
    why = "PodCompleted" if succeeded else "PodFailed"
    status = set_condition(status, "PodReadyToStartContainers", "False", now=now)
    status = set_condition(status, "Initialized", "True", now=now, **({"reason": why} if succeeded else {}))
    status = set_condition(status, "Ready", "False", now=now, reason=why)
    return set_condition(status, "ContainersReady", "False", now=now, reason=why)


def is_sidecar(container: Object) -> bool:
    """An init container that keeps running."""
    return bool(container.get("restartPolicy") == "Always")


def _told(status: Object, kind: str, value: str, now: str, pod: Object) -> Object:
    if value == "True":
        return set_condition(status, kind, value, now=now)
    names = " ".join(entry["name"] for entry in pod["spec"]["containers"])
    message = f"containers with unready status: [{names}]"
    return set_condition(status, kind, value, now=now, reason="ContainersNotReady", message=message)


def _started_at(status: Object) -> str:
    for entry in status.get("containerStatuses") or ():
        running_ = (entry.get("state") or {}).get("running")
        if running_:
            return str(running_["startedAt"])
    return ""


def _terminated(exit_code: int, started: str, now: str, reason: str = "") -> Object:
    why = reason or ("Completed" if exit_code == 0 else "Error")
    return {"terminated": {"exitCode": exit_code, "reason": why, "startedAt": started, "finishedAt": now}}


def _container(
    container: Object, state: Object, *, ready: bool, restarts: int = 0, last: Object | None = None
) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
