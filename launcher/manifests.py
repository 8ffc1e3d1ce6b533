"""An experiment and a run's identity → Kubernetes objects. Pure: the same input gives the same bytes.

Every role is an Indexed Job, created suspended: a suspended Job has no pods, so nothing is bought before
the hold is granted and everything is there. One headless Service gives every replica a stable name, and
one immutable ConfigMap holds a sweep's trials.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleet.errors import BadInput
from fleet.model import Pod
from fleet.ports import Manifest
from fleet.values import Money
from launcher.names import (
    A_LAUNCHED_BY,
    A_LIMITS,
    A_OWNER_NAME,
    A_SPEC_HASH,
    RunIdentity,
    group_name,
    job_name,
    labels,
    trials_name,
)
from launcher.planning import effective_requests, planned_pods
from launcher.settings import LauncherSettings
from launcher.spec import Experiment, Role
from launcher.sweep import expand, scripts
from launcher.template import pod_template

GIVE_UP_CODES = [64, 65, 78]
"""sysexits for wrong usage, wrong data, wrong configuration: trying again would not help."""
SPARE_HOURS = 24
"""The Job's own deadline counts waiting for capacity and restarts at a resume, so it is only a backstop."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a launch creates, in order, and what is needed to plan and to price it."""

    objects: tuple[Manifest, ...]
    pods: tuple[Pod, ...]
    """as many as would run at once"""
    hours: timedelta
    """the declared end, or the policy's"""
    max_cost: Money
    warnings: tuple[str, ...]
    spec_hash: str


def render(experiment: Experiment, identity: RunIdentity, settings: LauncherSettings) -> Rendered:
    """Everything a run consists of, Jobs suspended and in the order in which they are released.

    Raises BadInput: a sweep without trials, limits that no replica fits under, overrides that break the run.
    """
    digest = spec_hash(experiment)
    objects: list[Manifest] = [_service(experiment, identity)]
    pods: list[Pod] = []
    if experiment.sweep is not None:
        objects.append(_trials(experiment, identity))
    warnings = _warnings(experiment, settings)
    for name in release_order(experiment):
        role = experiment.resolved()[name]
        template = pod_template(experiment, identity, name, settings)
        completions, parallelism = _size(experiment, role, template)
        if parallelism < min(completions, _asked(experiment, role)):
            warnings.append(f"limits.max_cores or max_gpus allows {parallelism} trials at once.")
        job = job_name(experiment.name, identity.run, name)
        body = _job_spec(experiment, role, settings) | {
            "completions": completions,
            "parallelism": parallelism,
            "template": template,
        }
        objects.append(_job(experiment, identity, name, body, digest))
        pods += planned_pods(identity.cluster, identity.namespace, job, template, parallelism)
    _check_limits(experiment, pods)
    return Rendered(
        tuple(objects),
        tuple(pods),
        timedelta(hours=experiment.limits.max_hours or settings.default_hours),
        experiment.limits.max_cost or settings.default_cap,
        tuple(warnings),
        digest,
    )


def spec_hash(experiment: Experiment) -> str:
    """Same spec, same hash: tells a retry from a change."""
    return hashlib.sha256(spec_json(experiment).encode()).hexdigest()[:16]


def spec_json(experiment: Experiment) -> str:
    """The spec as canonical JSON, readable by `Experiment.model_validate_json`."""
    return json.dumps(
        experiment.model_dump(mode="json", exclude_unset=True), sort_keys=False, separators=(",", ":")
    )


def release_order(experiment: Experiment) -> list[str]:
    """Roles that serve others first: those that do not decide about success, then the others, as written."""
    names = list(experiment.resolved())
    if not experiment.success:
        return names
    return [n for n in names if n not in experiment.success] + [n for n in names if n in experiment.success]


def _service(experiment: Experiment, identity: RunIdentity) -> Manifest:
    ports = {n: p for role in experiment.resolved().values() for n, p in role.ports.items()}
    spec: dict[str, Any] = {
        "clusterIP": "None",
        # A name that is asked for before its pod is ready must resolve, or the miss is cached.
        "publishNotReadyAddresses": True,
        "selector": {"app.kubernetes.io/instance": group_name(experiment.name, identity.run)},
    }
    if ports:
        spec["ports"] = [{"name": n, "port": p, "targetPort": p} for n, p in sorted(ports.items())]
    metadata = _metadata(experiment, identity, group_name(experiment.name, identity.run))
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _trials(experiment: Experiment, identity: RunIdentity) -> Manifest:
    assert experiment.sweep is not None
    (role,) = experiment.resolved().values()
    if role.command is None:
        raise BadInput("A sweep needs a command.", hint='Write it like [python, train.py, "--lr={lr}"].')
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(experiment, identity, trials_name(experiment.name, identity.run)),
        "immutable": True,
        "data": scripts(role.command, expand(experiment.sweep)),
    }


def _metadata(experiment: Experiment, identity: RunIdentity, name: str, role: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": labels(experiment.name, identity, experiment.priority, role),
    }


def _job(
    experiment: Experiment, identity: RunIdentity, role: str, spec: dict[str, Any], digest: str
) -> Manifest:
    metadata = _metadata(experiment, identity, job_name(experiment.name, identity.run, role), role)
    limits = experiment.limits.model_dump(mode="json", exclude_none=True)
    metadata["annotations"] = {
        A_SPEC_HASH: digest,
        A_LIMITS: json.dumps(limits, sort_keys=True),
        A_LAUNCHED_BY: identity.owner or "unknown",
        A_OWNER_NAME: identity.owner_name or identity.owner or "unknown",
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _job_spec(experiment: Experiment, role: Role, settings: LauncherSettings) -> dict[str, Any]:
    hours = experiment.limits.max_hours or settings.default_hours
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "suspend": True,
        "backoffLimitPerIndex": role.retries,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": GIVE_UP_CODES}},
            ]
        },
        "activeDeadlineSeconds": int((hours + SPARE_HOURS) * 3600),
        "ttlSecondsAfterFinished": int(experiment.keep.total_seconds()),
    }
    if experiment.sweep is not None and experiment.sweep.max_failed is not None:
        spec["maxFailedIndexes"] = experiment.sweep.max_failed
    return spec


def _asked(experiment: Experiment, role: Role) -> int:
    return experiment.sweep.max_parallel if experiment.sweep is not None else role.replicas


def _size(experiment: Experiment, role: Role, template: Manifest) -> tuple[int, int]:
    """Completions and how many of them run at once."""
    if experiment.sweep is None:
        return role.replicas, role.replicas
    trials = len(expand(experiment.sweep))
    allowed = min(trials, experiment.sweep.max_parallel, limited(experiment, template["spec"]))
    if allowed < 1:
        raise BadInput("limits.max_cores or max_gpus is below what one trial needs.", hint="Raise it.")
    return trials, allowed


def limited(experiment: Experiment, pod_spec: Manifest) -> int:
    """How many replicas of this pod the experiment's max_cores and max_gpus allow at once."""
    each, limits = effective_requests(pod_spec), experiment.limits
    allowed = 10**9
    if limits.max_cores is not None and each.millicores:
        allowed = limits.max_cores * 1000 // each.millicores
    if limits.max_gpus is not None and each.gpus:
        allowed = min(allowed, limits.max_gpus // each.gpus)
    return allowed


def _check_limits(experiment: Experiment, pods: list[Pod]) -> None:
    limits = experiment.limits
    cores = -(-sum(pod.requests.millicores for pod in pods) // 1000)
    gpus = sum(pod.requests.gpus for pod in pods)
    for name, need, limit in (("max_cores", cores, limits.max_cores), ("max_gpus", gpus, limits.max_gpus)):
        if limit is not None and need > limit:
            raise BadInput(
                f"The roles need {need} {name[4:]} together, and limits.{name} is {limit}.",
                hint="Raise it, or ask for less.",
            )


def _warnings(experiment: Experiment, settings: LauncherSettings) -> list[str]:
    hours = experiment.limits.max_hours or settings.default_hours
    found = []
    if experiment.checkpoint is None and hours > 2:
        risky = [name for name, role in experiment.resolved().items() if role.spot != "never"]
        if risky:
            found.append(
                f"{', '.join(risky)} may run on spot machines and has no checkpoint: declare one, or spot: never."
            )
    if experiment.limits.max_cost is None:
        found.append(f"limits.max_cost is not set: {settings.default_cap} applies.")
    return found
