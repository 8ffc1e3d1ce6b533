"""Defaults of pod specs and containers (pkg/apis/core/v1/defaults.go), and the pod's quality of service."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE = 0o644


def default_pod_template(template: Object) -> Object:
    """A pod template with the defaults of its spec."""
    metadata = template.get("metadata") or {}
    return {**template, "metadata": metadata, "spec": default_pod(template.get("spec") or {})}


def default_pod(spec: Object) -> Object:
    """A pod spec with its defaults."""
    found = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        **{key: value for key, value in spec.items() if value is not None},
    }
    if found["terminationGracePeriodSeconds"] < 0:
        found["terminationGracePeriodSeconds"] = 1
    for name in ("containers", "initContainers"):
        if found.get(name):
            found[name] = [_container(container) for container in found[name]]
    if found.get("volumes"):
        found["volumes"] = [_volume(volume) for volume in found["volumes"]]
    return found


def _container(container: Object) -> Object:
    found = {
        "imagePullPolicy": _pull_policy(container.get("image") or ""),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **container,
        "resources": container.get("resources") or {},
    }
    if found.get("ports"):
        found["ports"] = [{"protocol": "TCP", **port} for port in found["ports"]]
    if found.get("env"):
        found["env"] = [_variable(variable) for variable in found["env"]]
    for probe in _PROBES:
        if found.get(probe):
            found[probe] = {**_PROBE, **found[probe]}
    return found


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def with_requests(spec: Object) -> Object:
    """A pod's requests default to its limits, resource by resource; a template's do not (SetDefaults_Pod)."""
    found = dict(spec)
    for group in ("containers", "initContainers"):
        if found.get(group):
            found[group] = [
                {**container, "resources": _requests(container["resources"])} for container in found[group]
            ]
    return found


def _requests(resources: Object) -> Object:
    limits = resources.get("limits")
    if not limits:
        return resources
    return {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def _variable(variable: Object) -> Object:
    source = variable.get("valueFrom") or {}
    reference = source.get("fieldRef")
    if not reference or reference.get("apiVersion"):
        return variable
    return {**variable, "valueFrom": {**source, "fieldRef": {"apiVersion": "v1", **reference}}}


def _volume(volume: Object) -> Object:
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            return {**volume, source: {"defaultMode": _FILE_MODE, **volume[source]}}
    if set(volume) <= {"name"}:
        return {**volume, "emptyDir": {}}
    return volume


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the CPU and memory of all containers."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    named, guaranteed = False, bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        asked = [name for name in ("cpu", "memory") if name in requests or name in limits]
        named = named or bool(asked)
        if len(asked) < 2 or any(
            name not in limits or requests.get(name, limits[name]) != limits[name] for name in asked
        ):
            guaranteed = False
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
