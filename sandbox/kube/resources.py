"""The resources that the stand-in serves: names, scopes and what its strategies need to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object. `key` is the plural with its group (`jobs.batch`), as in messages and rules."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    has_status: bool = False
    """it has a status subresource"""
    counts_generation: bool = False
    """metadata.generation grows with the spec"""
    short: tuple[str, ...] = ()
    singular: str = ""
    create_unconditionally: bool = False
    """a PUT of a name that is not there creates it"""
    unconditional_update: bool = True
    """a PUT without resourceVersion is accepted"""

    @property
    def key(self) -> str:
        """Plural and group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """`v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """The path under which the group version is served."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


RESOURCES: tuple[Resource, ...] = (
    Resource("namespaces", "Namespace", namespaced=False, has_status=True, short=("ns",)),
    Resource("nodes", "Node", namespaced=False, has_status=True, short=("no",)),
    Resource("pods", "Pod", has_status=True, counts_generation=True, short=("po",)),
    Resource("services", "Service", has_status=True, short=("svc",)),
    Resource("configmaps", "ConfigMap", short=("cm",)),
    Resource("secrets", "Secret"),
    Resource("events", "Event", short=("ev",), create_unconditionally=True),
    Resource("serviceaccounts", "ServiceAccount", short=("sa",)),
    Resource("persistentvolumeclaims", "PersistentVolumeClaim", has_status=True, short=("pvc",)),
    Resource("jobs", "Job", "batch", has_status=True, counts_generation=True),
    Resource("cronjobs", "CronJob", "batch", has_status=True, counts_generation=True, short=("cj",)),
    Resource("deployments", "Deployment", "apps", has_status=True, counts_generation=True, short=("deploy",)),
    Resource("statefulsets", "StatefulSet", "apps", has_status=True, counts_generation=True, short=("sts",)),
    Resource("daemonsets", "DaemonSet", "apps", has_status=True, counts_generation=True, short=("ds",)),
    Resource("replicasets", "ReplicaSet", "apps", has_status=True, counts_generation=True, short=("rs",)),
    Resource(
        "leases",
        "Lease",
        "coordination.k8s.io",
        create_unconditionally=True,
        unconditional_update=False,
    ),
    Resource(
        "priorityclasses",
        "PriorityClass",
        "scheduling.k8s.io",
        namespaced=False,
        counts_generation=True,
        short=("pc",),
        singular="priorityclass",
    ),
    Resource(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "policy",
        has_status=True,
        counts_generation=True,
        short=("pdb",),
    ),
)

BY_KEY: dict[str, Resource] = {resource.key: resource for resource in RESOURCES}
"""`jobs.batch` → Resource."""
BY_KIND: dict[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource for resource in RESOURCES
}
"""(apiVersion, kind) → Resource."""
