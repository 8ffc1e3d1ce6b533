"""A cluster without its HTTP side: store and controllers in a stepped world that the test moves by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox.kube.garbage import GarbageCollector
from sandbox.kube.jobs import JobController
from sandbox.kube.kubelet import Kubelets
from sandbox.kube.node_lifecycle import NodeLifecycle
from sandbox.kube.scheduler import Scheduler
from sandbox.kube.store import Store
from sandbox.world import World

PREFIX = "sandbox.quartermaster.dev/"
INDEX = "batch.kubernetes.io/job-completion-index"
Object = dict[str, Any]


@dataclass
class Bench:
    """Everything in one place, with short ways to make and find things."""

    world: World
    store: Store
    scheduler: Scheduler
    jobs: JobController
    kubelets: Kubelets

    def run(self, seconds: float) -> None:
        """Let world time pass."""
        self.world.run_until(self.world.now + timedelta(seconds=seconds))

    def node(self, name: str, *, cpu: str = "4", memory: str = "16Gi", gpus: int = 0, **more: Any) -> Object:
        """A Node that is ready at once unless `ready=False`."""
        capacity = {"cpu": cpu, "memory": memory, "pods": str(more.get("pods", 110))}
        if gpus:
            capacity["nvidia.com/gpu"] = str(gpus)
        labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
        status: Object = {"capacity": capacity, "allocatable": capacity}
        if more.get("ready", True):
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        spec = {"taints": more["taints"]} if more.get("taints") else {}
        if more.get("unschedulable"):
            spec["unschedulable"] = True
        metadata = {"name": name, "labels": labels, "annotations": more.get("annotations", {})}
        return self.store.create("nodes", {"metadata": metadata, "spec": spec, "status": status})

    def pod(
        self, name: str, *, cpu: str = "1", gpus: int = 0, told: Object | None = None, **spec: Any
    ) -> Object:
        """A pod of namespace research; `told` are sandbox annotations, `labels` its labels."""
        metadata = {
            "name": name,
            "namespace": "research",
            "labels": spec.pop("labels", {}),
            "annotations": {PREFIX + key: value for key, value in (told or {}).items()},
            "finalizers": spec.pop("finalizers", []),
        }
        return self.store.create("pods", {"metadata": metadata, "spec": pod_spec(cpu, gpus, **spec)})

    def job(
        self, name: str, *, told: Object | None = None, cpu: str = "1", gpus: int = 0, **spec: Any
    ) -> Object:
        """An Indexed Job of namespace research."""
        template_spec = pod_spec(cpu, gpus, **spec.pop("pod", {}))
        annotations = {PREFIX + key: value for key, value in (told or {}).items()}
        labels = {"batch.kubernetes.io/job-name": name}
        template = {"metadata": {"annotations": annotations, "labels": labels}, "spec": template_spec}
        whole = {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            **spec,
            "template": template,
        }
        whole = {key: value for key, value in whole.items() if value is not None}
        return self.store.create(
            "jobs.batch", {"metadata": {"name": name, "namespace": "research"}, "spec": whole}
        )

    def edit_job(self, name: str, **spec: Any) -> None:
        """Change a Job's spec, as a patch would."""
        job = self.store.must_get("jobs.batch", "research", name)
        self.store.update("jobs.batch", {**job, "spec": {**job["spec"], **spec}})

    def get(self, name: str) -> Object:
        """The pod of that name."""
        return self.store.must_get("pods", "research", name)

    def pods(self) -> list[Object]:
        """All pods of namespace research."""
        return self.store.list("pods", "research")

    def status(self, job: str) -> Object:
        """A Job's status."""
        found: Object = self.store.must_get("jobs.batch", "research", job)["status"]
        return found

    def running_indexes(self) -> list[int]:
        """Completion indexes of the running pods."""
        running = [pod for pod in self.pods() if pod["status"].get("phase") == "Running"]
        return sorted(int(pod["metadata"]["annotations"][INDEX]) for pod in running)

    def end_index(self, index: int, exit_code: int) -> None:
        """The running pod of an index exits."""
        for pod in self.pods():
            running = pod["status"].get("phase") == "Running"
            if running and pod["metadata"]["annotations"][INDEX] == str(index):
                assert self.kubelets.finish("research", pod["metadata"]["name"], exit_code)
                return
        raise AssertionError(f"no running pod of index {index}")

    def true_conditions(self, job: str) -> dict[str, str]:
        """Conditions that are True, with their reasons."""
        entries = self.status(job).get("conditions", [])
        return {entry["type"]: entry["reason"] for entry in entries if entry["status"] == "True"}

    def nodes_of(self, prefix: str = "") -> dict[str, str]:
        """Pod → node ("" = pending), of the pods whose name starts so."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.pods()
            if pod["metadata"]["name"].startswith(prefix)
        }

    def why(self, pod: str) -> str:
        """The PodScheduled condition's message."""
        for entry in self.get(pod).get("status", {}).get("conditions", []):
            if entry["type"] == "PodScheduled":
                return str(entry.get("message", ""))
        return ""


def pod_spec(cpu: str = "1", gpus: int = 0, **more: Any) -> Object:
    """A pod's spec with one container, never restarted."""
    resources: Object = {"requests": {"cpu": cpu}}
    if gpus:
        resources = {
            "requests": {"cpu": cpu, "nvidia.com/gpu": str(gpus)},
            "limits": {"nvidia.com/gpu": str(gpus)},
        }
    container = {"name": "main", "image": "lab/train:1", "resources": resources}
    return {"restartPolicy": "Never", "containers": [container], **more}


def make_bench() -> Bench:
    """A cluster at Friday, five in the afternoon."""
    world = World(datetime(2026, 11, 6, 17, 0, tzinfo=UTC), seed=7)
    store = Store(world, "home")
    store.create("namespaces", {"metadata": {"name": "research"}})
    scheduler, jobs = Scheduler(world, store), JobController(world, store)
    NodeLifecycle(world, store)
    GarbageCollector(world, store)
    return Bench(world, store, scheduler, jobs, Kubelets(world, store))
