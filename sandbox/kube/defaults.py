"""What the API server fills in on create and update, and what its admission adds on create.

Sources: k8s.io/kubernetes/pkg/apis/{core,batch}/v1/defaults.go, pkg/registry/*/strategy.go. Functions
never change what they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.kube.admission import admit_pod
from sandbox.kube.pod_defaults import default_pod, default_pod_template, quality_of_service, with_requests

Object = dict[str, Any]
Getter = Callable[[str], list[Object]]
"""All objects of a resource."""

_NODE_INFO = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)
_UNLIMITED = 2**31 - 1


def missing(obj: Object, **values: Any) -> Object:
    """The object with the values whose keys are absent or null in it."""
    return {**obj, **{key: value for key, value in values.items() if obj.get(key) is None}}


def prepare(resource: str, obj: Object, get: Getter) -> Object:
    """The object as the server would store it on create; its uid is known. `get` lists PriorityClasses."""
    obj = fill(resource, obj)
    if resource == "pods":
        return admit_pod(obj, get("priorityclasses.scheduling.k8s.io"))
    if resource == "jobs.batch":
        return _generate_selector(obj)
    return obj


def fill(resource: str, obj: Object) -> Object:
    """Defaults alone, as they are filled in on every write; repeatable."""
    default = _BY_RESOURCE.get(resource)
    return default(obj) if default else obj


def _namespace(obj: Object) -> Object:
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **obj,
        "metadata": {**metadata, "labels": labels},
        "spec": missing(obj.get("spec") or {}, finalizers=["kubernetes"]),
        "status": missing(obj.get("status") or {}, phase="Active"),
    }


def _node(obj: Object) -> Object:
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status = {**status, "allocatable": status["capacity"]}
    status = missing(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = {**_NODE_INFO, **(status.get("nodeInfo") or {})}
    return {**obj, "spec": obj.get("spec") or {}, "status": status}


def _event(obj: Object) -> Object:
    return missing(obj, reportingComponent="", reportingInstance="")


def _pod(obj: Object) -> Object:
    spec = missing(with_requests(default_pod(obj.get("spec") or {})), enableServiceLinks=True)
    status = missing(obj.get("status") or {}, phase="Pending", qosClass=quality_of_service(spec))
    return {**obj, "spec": spec, "status": status}


def _job(obj: Object) -> Object:
    spec = dict(obj.get("spec") or {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec["template"] = default_pod_template(spec.get("template") or {})
    by_index = spec.get("backoffLimitPerIndex") is not None
    policy = spec.get("podFailurePolicy")
    spec = missing(
        spec,
        parallelism=1,
        backoffLimit=_UNLIMITED if by_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if policy else "TerminatingOrFailed",
        manualSelector=False,
    )
    if policy:
        rules = [_failure_rule(rule) for rule in policy.get("rules") or ()]
        spec["podFailurePolicy"] = {**policy, "rules": rules}
    metadata = obj["metadata"]
    template_labels = (spec["template"].get("metadata") or {}).get("labels")
    if not metadata.get("labels") and template_labels:
        metadata = {**metadata, "labels": template_labels}
    return {**obj, "metadata": metadata, "spec": spec, "status": obj.get("status") or {}}


def _failure_rule(rule: Object) -> Object:
    conditions = rule.get("onPodConditions")
    if not conditions:
        return rule
    return {**rule, "onPodConditions": [missing(condition, status="True") for condition in conditions]}


def _generate_selector(obj: Object) -> Object:
    """The Job's own selector and labels (registry/batch/job/strategy.go generateSelector)."""
    metadata, spec = obj["metadata"], obj["spec"]
    if spec.get("manualSelector"):
        return obj
    uid, name = metadata["uid"], metadata["name"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec["template"]
    template_metadata = template.get("metadata") or {}
    was = template_metadata.get("labels")
    labels = {**(was or {}), **own}
    selector = spec.get("selector") or {}
    matched = {
        **(selector.get("matchLabels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
    }
    if not metadata.get("labels") or metadata["labels"] is was:
        # The real defaulting shares one map between a Job without labels and its template; so both get them.
        metadata = {**metadata, "labels": labels}
    spec = {
        **spec,
        "selector": {**selector, "matchLabels": matched},
        "template": {**template, "metadata": {**template_metadata, "labels": labels}},
    }
    return {**obj, "metadata": metadata, "spec": spec}


def _service(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    if spec.get("type", "ClusterIP") == "ExternalName":
        return {**obj, "spec": spec, "status": obj.get("status") or {"loadBalancer": {}}}
    address = spec.get("clusterIP") or _address(obj["metadata"].get("uid", "0"))
    headless = address == "None" and not spec.get("selector")
    spec = missing(
        spec,
        type="ClusterIP",
        sessionAffinity="None",
        internalTrafficPolicy="Cluster",
        ipFamilies=["IPv4", "IPv6"] if headless else ["IPv4"],
        ipFamilyPolicy="RequireDualStack" if headless else "SingleStack",
    )
    spec = {**spec, "clusterIP": address, "clusterIPs": [address]}
    if spec.get("ports"):
        spec["ports"] = [missing(port, protocol="TCP", targetPort=port.get("port")) for port in spec["ports"]]
    return {**obj, "spec": spec, "status": obj.get("status") or {"loadBalancer": {}}}


def _address(uid: str) -> str:
    """An address of the service network; from the uid, so that it needs no state."""
    number = int(uid.replace("-", "")[:8], 16)
    return f"10.{96 + number % 16}.{number // 16 % 256}.{1 + number // 4096 % 254}"


def _priority_class(obj: Object) -> Object:
    return missing(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _claim(obj: Object) -> Object:
    spec = missing(obj.get("spec") or {}, volumeMode="Filesystem")
    return {**obj, "spec": spec, "status": missing(obj.get("status") or {}, phase="Pending")}


def _secret(obj: Object) -> Object:
    return missing(obj, type="Opaque")


def _deployment(obj: Object) -> Object:
    spec = missing(
        obj.get("spec") or {},
        replicas=1,
        revisionHistoryLimit=10,
        progressDeadlineSeconds=600,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    )
    spec["template"] = default_pod_template(spec.get("template") or {})
    return {**obj, "spec": spec, "status": obj.get("status") or {}}


def _scaled(obj: Object) -> Object:
    spec = missing(obj.get("spec") or {}, replicas=1)
    spec["template"] = default_pod_template(spec.get("template") or {})
    return {**obj, "spec": spec, "status": obj.get("status") or {}}


def _daemon_set(obj: Object) -> Object:
    spec = dict(obj.get("spec") or {})
    spec["template"] = default_pod_template(spec.get("template") or {})
    return {**obj, "spec": spec, "status": obj.get("status") or {}}


def _cron_job(obj: Object) -> Object:
    spec = missing(
        obj.get("spec") or {},
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    return {**obj, "spec": spec, "status": obj.get("status") or {}}


def _budget(obj: Object) -> Object:
    zeros = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
    return {**obj, "status": missing(obj.get("status") or {}, **zeros)}


_BY_RESOURCE: dict[str, Callable[[Object], Object]] = {
    "namespaces": _namespace,
    "nodes": _node,
    "events": _event,
    "pods": _pod,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "secrets": _secret,
    "persistentvolumeclaims": _claim,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "deployments.apps": _deployment,
    "statefulsets.apps": _scaled,
    "replicasets.apps": _scaled,
    "daemonsets.apps": _daemon_set,
    "poddisruptionbudgets.policy": _budget,
}
