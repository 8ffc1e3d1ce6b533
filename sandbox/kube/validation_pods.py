"""What the API server refuses in pods and pod templates (pkg/apis/core/validation/validation.go)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sandbox.kube.errors import Cause
from sandbox.kube.names import label_key_problem, label_problem, label_value_problem, subdomain_problem
from sandbox.kube.quantities import parse

Object = dict[str, Any]
Causes = list[Cause]

_ENV_NAME = re.compile(r"[ -<>-~]+")
_ENV_SENTENCE = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_NEGATIVE = "must be greater than or equal to 0"
_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def supported(values: Iterable[str]) -> str:
    """The end of an Unsupported sentence."""
    return "supported values: " + ", ".join(f'"{value}"' for value in values)


def validate_pod(obj: Object) -> Causes:
    """Everything wrong with a pod's spec."""
    return validate_pod_spec(obj.get("spec") or {}, "spec")


def validate_pod_spec(spec: Object, at: str) -> Causes:
    """Everything wrong with a pod spec that stands at a field path."""
    volumes = [volume.get("name", "") for volume in spec.get("volumes") or ()]
    causes = _volumes(volumes, f"{at}.volumes")
    containers = spec.get("containers") or []
    if not containers:
        causes.append(Cause("required", f"{at}.containers"))
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            causes += _container(container, f"{at}.{group}[{index}]", names, volumes)
    policy = spec.get("restartPolicy")
    if policy not in _RESTART_POLICIES:
        causes.append(Cause("unsupported", f"{at}.restartPolicy", supported(_RESTART_POLICIES), policy))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        why = "must be between 1 and 2147483647, inclusive"
        causes.append(Cause("invalid", f"{at}.activeDeadlineSeconds", why, deadline))
    for name, rule in (("hostname", label_problem), ("subdomain", label_problem)):
        if spec.get(name) and (problem := rule(spec[name])):
            causes.append(Cause("invalid", f"{at}.{name}", problem, spec[name]))
    for name in ("nodeName", "priorityClassName", "serviceAccountName"):
        if spec.get(name) and (problem := subdomain_problem(spec[name])):
            causes.append(Cause("invalid", f"{at}.{name}", problem, spec[name]))
    return causes + _placement(spec, at)


def _volumes(names: list[str], at: str) -> Causes:
    causes: Causes = []
    for index, name in enumerate(names):
        if not name:
            causes.append(Cause("required", f"{at}[{index}].name"))
        elif problem := label_problem(name):
            causes.append(Cause("invalid", f"{at}[{index}].name", problem, name))
        elif name in names[:index]:
            causes.append(Cause("duplicate", f"{at}[{index}].name", "", name))
    return causes


def _container(container: Object, at: str, names: set[str], volumes: list[str]) -> Causes:
    causes: Causes = []
    name = container.get("name") or ""
    if not name:
        causes.append(Cause("required", f"{at}.name"))
    elif problem := label_problem(name):
        causes.append(Cause("invalid", f"{at}.name", problem, name))
    elif name in names:
        causes.append(Cause("duplicate", f"{at}.name", "", name))
    names.add(name)
    if not container.get("image"):
        causes.append(Cause("required", f"{at}.image"))
    causes += _ports(container, at) + _environment(container, at)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            causes.append(Cause("not found", f"{at}.volumeMounts[{index}].name", "", mount.get("name", "")))
    return causes + _resources(container.get("resources") or {}, f"{at}.resources")


def _ports(container: Object, at: str) -> Causes:
    causes: Causes = []
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort", 0)
        if not 1 <= number <= 65535:
            why = "must be between 1 and 65535, inclusive"
            causes.append(Cause("invalid", f"{at}.ports[{index}].containerPort", why, number))
    return causes


def _environment(container: Object, at: str) -> Causes:
    causes: Causes = []
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        if not name:
            causes.append(Cause("required", f"{at}.env[{index}].name"))
        elif not _ENV_NAME.fullmatch(name):
            causes.append(Cause("invalid", f"{at}.env[{index}].name", _ENV_SENTENCE, name))
        if variable.get("value") and variable.get("valueFrom"):
            why = "may not be specified when `value` is not empty"
            causes.append(Cause("invalid", f"{at}.env[{index}].valueFrom", why, ""))
    return causes


def _resources(resources: Object, at: str) -> Causes:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: Causes = []
    for group, listed in (("limits", limits), ("requests", requests)):
        for name, text in listed.items():
            field = f"{at}.{group}[{name}]"
            amount = parse(text)[0]
            if amount < 0:
                causes.append(Cause("invalid", field, NOT_NEGATIVE, text))
            elif "/" in name and amount.denominator != 1:
                causes.append(Cause("invalid", field, "must be an integer", text))
            elif "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                why = "must be a standard resource type or fully qualified"
                causes.append(Cause("invalid", field, why, name))
    return causes + _pairs(requests, limits, at)


def _pairs(requests: Object, limits: Object, at: str) -> Causes:
    causes: Causes = []
    for name, text in requests.items():
        limit = limits.get(name)
        if limit is None:
            if "/" in name:
                why = "Limit must be set for non overcommitable resources"
                causes.append(Cause("required", f"{at}.limits", why))
            continue
        asked, allowed = parse(text)[0], parse(limit)[0]
        if "/" in name and asked != allowed:
            causes.append(
                Cause("invalid", f"{at}.requests", f"must be equal to {name} limit of {limit}", text)
            )
        elif asked > allowed:
            why = f"must be less than or equal to {name} limit of {limit}"
            causes.append(Cause("invalid", f"{at}.requests", why, text))
    return causes


def _placement(spec: Object, at: str) -> Causes:
    causes: Causes = []
    for key, value in (spec.get("nodeSelector") or {}).items():
        if problem := label_key_problem(key):
            causes.append(Cause("invalid", f"{at}.nodeSelector", problem, key))
        if problem := label_value_problem(value):
            causes.append(Cause("invalid", f"{at}.nodeSelector", problem, value))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        field = f"{at}.tolerations[{index}]"
        operator, effect = toleration.get("operator", "Equal"), toleration.get("effect", "")
        if operator not in ("Equal", "Exists", ""):
            causes.append(Cause("unsupported", f"{field}.operator", supported(("Equal", "Exists")), operator))
        elif operator == "Exists" and toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            causes.append(Cause("invalid", f"{field}.operator", why, toleration["value"]))
        if effect not in ("", *_EFFECTS):
            causes.append(Cause("unsupported", f"{field}.effect", supported(_EFFECTS), effect))
    return causes


def validate_pod_update(new: Object, old: Object) -> Causes:
    """What of a pod's spec may not change any more."""
    if _fixed(new["spec"], old["spec"]) != _fixed(old["spec"], old["spec"]):
        return [Cause("forbidden", "spec", _MUTABLE)]
    kept = new["spec"].get("tolerations") or []
    if any(toleration not in kept for toleration in old["spec"].get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        return [Cause("forbidden", "spec.tolerations", why)]
    return []


def _fixed(spec: Object, old: Object) -> Object:
    """The spec without what may change; a pod with scheduling gates may still be placed elsewhere."""
    dropped = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if old.get("schedulingGates"):
        dropped |= {"nodeSelector", "affinity"}
    if old.get("terminationGracePeriodSeconds", 0) < 0:
        dropped.add("terminationGracePeriodSeconds")
    found = {key: value for key, value in spec.items() if key not in dropped}
    for group in ("containers", "initContainers"):
        if found.get(group):
            found[group] = [{**container, "image": ""} for container in found[group]]
    return found
