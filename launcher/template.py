"""The pod template of a role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import BadInput
from fleet.model import GPU_RESOURCE, L_CAPACITY_TYPE, L_ROLE, L_RUN, L_ZONE, LABEL, CapacityType
from launcher.environment import escaped, own_variables, user_variables
from launcher.names import A_OWNER_NAME, RunIdentity, group_name, labels, trials_name
from launcher.settings import LauncherSettings
from launcher.spec import Command, Experiment, Needs, Role, Sidecar, merged

GPU_NAME_LABEL = f"{LABEL}/gpu"
"""Label of a node with its GPU's name; `resources.gpu_type` selects by it."""
TRIAL_PATH = "/quartermaster/trial.sh"
TRIALS_VOLUME = "quartermaster-trials"
SHM_VOLUME = "quartermaster-shm"


def pod_template(
    experiment: Experiment, identity: RunIdentity, role_name: str, settings: LauncherSettings
) -> dict[str, Any]:
    """`spec.template` of the role's Job. Raises BadInput where `overrides` take what must stay ours."""
    role = experiment.resolved()[role_name]
    own = own_variables(experiment, identity, role_name)
    grace = experiment.checkpoint.grace if experiment.checkpoint else int(settings.drain.total_seconds())
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "subdomain": group_name(experiment.name, identity.run),
        "terminationGracePeriodSeconds": grace,
        "containers": [_container(experiment, role, role_name, own)],
        "volumes": _volumes(experiment, identity, role),
    }
    if role.sidecars:
        spec["initContainers"] = [_sidecar(name, sidecar, own) for name, sidecar in role.sidecars.items()]
    priority_class = settings.priority_classes.get(experiment.priority)
    if priority_class:
        spec["priorityClassName"] = priority_class
    spec |= _placement(identity, role, role_name)
    own_labels = labels(experiment.name, identity, experiment.priority, role_name)
    template = {
        "metadata": {"labels": own_labels | _tag_labels(experiment), "annotations": _annotations(identity)},
        "spec": spec,
    }
    return _overlaid(template, role.overrides, own_labels)


def _tag_labels(experiment: Experiment) -> dict[str, str]:
    return {f"tags.{LABEL}/{key}": value for key, value in experiment.tags.items()}


def _annotations(identity: RunIdentity) -> dict[str, str]:
    return {A_OWNER_NAME: identity.owner_name} if identity.owner_name else {}


def _container(
    experiment: Experiment, role: Role, role_name: str, own: list[dict[str, Any]]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": role_name,
        "image": role.image,
        "env": own + user_variables(role.env, role.secrets),
        "resources": _resources(role.resources),
        "volumeMounts": [{"name": SHM_VOLUME, "mountPath": "/dev/shm"}]
        + [{"name": f"volume-{place}", "mountPath": path} for place, path in enumerate(role.volumes)],
    }
    if experiment.sweep is not None:
        found["command"] = ["/bin/sh", TRIAL_PATH]
        mount = {
            "name": TRIALS_VOLUME,
            "mountPath": TRIAL_PATH,
            "subPathExpr": "$(QM_TRIAL).sh",
            "readOnly": True,
        }
        found["volumeMounts"].append(mount)
    elif role.command is not None:
        found["command"] = shell(role.command)
    if role.ports:
        found["ports"] = _ports(role.ports)
    return found


def shell(command: Command) -> list[str]:
    """Text runs in a shell that stops at the first error; a list is executed as it is."""
    if isinstance(command, str):
        return ["/bin/sh", "-ec", escaped(command)]
    return [escaped(part) for part in command]


def _sidecar(name: str, sidecar: Sidecar, own: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "env": own + user_variables(sidecar.env, {}),
        "resources": _resources(sidecar.resources),
    }
    if sidecar.command is not None:
        found["command"] = shell(sidecar.command)
    if sidecar.ports:
        found["ports"] = _ports(sidecar.ports)
    return found


def _ports(ports: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "containerPort": port} for name, port in ports.items()]


def _resources(needs: Needs) -> dict[str, Any]:
    # Memory is limited to what was asked for, CPU is not: a busy neighbour slows down, a leak ends at home.
    requests = {"cpu": needs.cpu, "memory": needs.memory}
    limits = {"memory": needs.memory}
    if needs.disk is not None:
        requests["ephemeral-storage"] = needs.disk
    if needs.gpu:
        requests[GPU_RESOURCE] = limits[GPU_RESOURCE] = str(needs.gpu)
    return {"requests": requests, "limits": limits}


def _volumes(experiment: Experiment, identity: RunIdentity, role: Role) -> list[dict[str, Any]]:
    shm: dict[str, Any] = {"medium": "Memory"}
    if role.resources.shm is not None:
        shm["sizeLimit"] = role.resources.shm
    found: list[dict[str, Any]] = [{"name": SHM_VOLUME, "emptyDir": shm}]
    for place, source in enumerate(role.volumes.values()):
        kind, _, rest = source.partition(":")
        body: dict[str, Any] = (
            {"persistentVolumeClaim": {"claimName": rest}}
            if kind == "pvc"
            else {"emptyDir": {"sizeLimit": rest}}
        )
        found.append({"name": f"volume-{place}"} | body)
    if experiment.sweep is not None:
        trials = {"name": trials_name(experiment.name, identity.run)}
        found.append({"name": TRIALS_VOLUME, "configMap": trials})
    return found


def _placement(identity: RunIdentity, role: Role, role_name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    node = _spot_affinity(role.spot)
    if node:
        affinity["nodeAffinity"] = node
    if role.placement.zone == "same":
        whole_run = {"matchLabels": {L_RUN: identity.run}}
        term = {"topologyKey": L_ZONE, "labelSelector": whole_run}
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        found["affinity"] = affinity
    if role.placement.spread:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {L_RUN: identity.run, L_ROLE: role_name}},
            }
        ]
    if role.resources.gpu_type is not None:
        found["nodeSelector"] = {GPU_NAME_LABEL: role.resources.gpu_type}
    if role.resources.gpu:
        found["tolerations"] = [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}]
    return found


def _spot_affinity(spot: str) -> dict[str, Any]:
    def on_spot(operator: str) -> dict[str, Any]:
        expression = {"key": L_CAPACITY_TYPE, "operator": operator, "values": [CapacityType.SPOT.value]}
        return {"matchExpressions": [expression]}

    if spot == "prefer":
        preferred = [{"weight": 50, "preference": on_spot("In")}]
        return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    terms = {"nodeSelectorTerms": [on_spot("In" if spot == "require" else "NotIn")]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _overlaid(
    template: dict[str, Any], overrides: Mapping[str, Any], own_labels: Mapping[str, str]
) -> dict[str, Any]:
    unknown = sorted(set(overrides) - {"metadata", "spec"})
    if unknown:
        raise BadInput(
            f"overrides has {unknown[0]!r}.", hint="It is laid over a pod template: metadata and spec."
        )
    whole = merged(template, overrides)
    if whole["spec"].get("restartPolicy") != "Never":
        raise BadInput("overrides changes restartPolicy.", hint="Replicas of a Job are restarted by the Job.")
    kept = whole.get("metadata", {}).get("labels", {})
    if any(kept.get(key) != value for key, value in own_labels.items()):
        raise BadInput(
            "overrides changes labels that Quartermaster finds the run by.", hint="Add other labels."
        )
    return whole
