"""What dcgm-exporter and kube-state-metrics of one cluster would tell Prometheus.

Made when asked for, from the kubelets' record of devices and from the phases that pods and Jobs went
through. GPU utilisation is what a pod's annotation says, the same all the time; a pod that says nothing
has no series (unknown, not zero), a device that nobody holds reads 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.kube.amounts import amount
from sandbox.kube.fitting import container_requests
from sandbox.kube.gpu_devices import Device, GpuUse, NodeDevices
from sandbox.kube.job_rules import is_suspended
from sandbox.kube.kubelet import Kubelets
from sandbox.kube.pod_status import read_stamp
from sandbox.kube.store import Store
from sandbox.series import SCRAPE_SECONDS, Hints, Labels, Series, Span

Object = dict[str, Any]
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_JOB_COUNTS = ("active", "succeeded", "failed")


class DcgmExporter:
    """DCGM_FI_DEV_GPU_UTIL of all nodes of a cluster. `renamed` is the exporter since May 2026 (hostname)."""

    def __init__(self, cluster: str, kubelets: Kubelets, *, renamed: bool = False) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._known = 0
        self._by_pod: dict[str, list[GpuUse]] = {}
        self._by_device: dict[str, list[GpuUse]] = {}
        self.renamed = renamed

    def names(self) -> Iterable[str]:
        """One metric."""
        return ("DCGM_FI_DEV_GPU_UTIL",)

    def series(self, name: str, after: float, until: float, hints: Hints) -> Iterator[Series]:
        """Held devices with their pods, free ones without."""
        if name != "DCGM_FI_DEV_GPU_UTIL":
            return
        self._catch_up()
        for pod in sorted(hints.get("pod", self._by_pod)):
            for use in self._by_pod.get(pod, ()):
                if use.utilisation is not None and _touches(use.since.timestamp(), _end(use), after, until):
                    yield self._held(use, use.utilisation)
        if "" in hints.get("pod", {""}):
            for node in self._kubelets.node_devices:
                yield from self._idle(node, after, until)

    def _catch_up(self) -> None:
        """Take over the uses that came since the last question."""
        for use in self._kubelets.gpu_uses[self._known :]:
            self._by_pod.setdefault(use.pod, []).append(use)
            self._by_device.setdefault(use.device.uuid, []).append(use)
        self._known = len(self._kubelets.gpu_uses)

    def _held(self, use: GpuUse, utilisation: float) -> Series:
        labels = {
            **self._labels(use.device),
            "namespace": use.namespace,
            "pod": use.pod,
            "container": use.container,
        }
        return Series(labels, ((use.since.timestamp(), _end(use), utilisation),))

    def _idle(self, node: NodeDevices, after: float, until: float) -> Iterator[Series]:
        gone = node.until.timestamp() if node.until else math.inf
        for index in range(node.count):
            device = node.device(index)
            free: list[Span] = []
            start = node.since.timestamp()
            for use in self._by_device.get(device.uuid, ()):
                if use.since.timestamp() > start:
                    free.append((start, use.since.timestamp(), 0.0))
                start = _end(use)
            if start < gone:
                free.append((start, gone, 0.0))
            spans = tuple(span for span in free if _touches(span[0], span[1], after, until))
            if spans:
                yield Series(self._labels(device), spans)

    def _labels(self, device: Device) -> Labels:
        return {
            "gpu": str(device.index),
            "UUID": device.uuid,
            "device": f"nvidia{device.index}",
            "modelName": device.model,
            "hostname" if self.renamed else "Hostname": device.node,
            "instance": f"{device.node}:9400",
            "job": "dcgm-exporter",
            "cluster": self._cluster,
        }


@dataclass(eq=False, slots=True)
class _Record:
    """An object's states: (from, state), and when it went."""

    labels: Labels
    obj: Object
    states: list[tuple[float, Any]] = field(default_factory=list)
    gone: float = math.inf

    def note(self, at: float, state: Any) -> None:
        if not self.states or self.states[-1][1] != state:
            self.states.append((at, state))

    def spans(self, value: Callable[[Any], float | None]) -> tuple[Span, ...]:
        """Spans of what a state is worth; None leaves a gap."""
        found: list[Span] = []
        for number, (start, state) in enumerate(self.states):
            end = self.states[number + 1][0] if number + 1 < len(self.states) else self.gone
            worth = value(state)
            if worth is None or end <= start:
                continue
            if found and found[-1][1:] == (start, worth):
                found[-1] = (found[-1][0], end, worth)
            else:
                found.append((start, end, worth))
        return tuple(found)


class KubeStateMetrics:
    """Pod phases, requests and owners, Job counts: the basics of kube-state-metrics."""

    def __init__(self, cluster: str, store: Store) -> None:
        self._cluster = cluster
        self._store = store
        self._pods: dict[str, _Record] = {}
        self._jobs: dict[str, _Record] = {}
        self._by_name: dict[str, list[_Record]] = {}
        self._makers: dict[str, Callable[[Hints], Iterator[Series]]] = {
            "kube_pod_status_phase": self._pod_phases,
            "kube_pod_info": self._pod_info,
            "kube_pod_container_resource_requests": self._requests,
            "kube_job_spec_completions": lambda hints: self._of_jobs("completions", hints),
            "kube_job_spec_parallelism": lambda hints: self._of_jobs("parallelism", hints),
            "kube_job_status_start_time": lambda hints: self._of_jobs("start_time", hints),
            "kube_job_status_suspended": lambda hints: self._of_jobs("suspended", hints),
            **{f"kube_job_status_{kind}": self._job_count(kind) for kind in _JOB_COUNTS},
        }
        for resource in ("pods", "jobs.batch"):
            for obj in store.list(resource):
                self._see("ADDED", resource, obj, None)
        store.subscribe(self._see)

    def names(self) -> Iterable[str]:
        """What it has."""
        return tuple(self._makers)

    def series(self, name: str, after: float, until: float, hints: Hints) -> Iterator[Series]:
        """Series of one metric."""
        maker = self._makers.get(name)
        for series in maker(hints) if maker else ():
            if any(_touches(start, end, after, until) for start, end, _ in series.spans):
                yield series

    def _see(self, event: str, resource: str, obj: Object, _old: Object | None) -> None:
        if resource not in ("pods", "jobs.batch"):
            return
        records = self._pods if resource == "pods" else self._jobs
        metadata = obj["metadata"]
        now = self._store.world.now.timestamp()
        record = records.get(metadata["uid"])
        if record is None:
            name = "pod" if resource == "pods" else "job_name"
            labels = {"namespace": metadata["namespace"], name: metadata["name"], "cluster": self._cluster}
            if resource == "pods":
                labels["uid"] = metadata["uid"]
            record = records[metadata["uid"]] = _Record(labels, obj)
            if resource == "pods":
                self._by_name.setdefault(metadata["name"], []).append(record)
        record.obj = obj
        if event == "DELETED":
            record.gone = now
        elif resource == "pods":
            record.note(now, obj.get("status", {}).get("phase") or "Pending")
        else:
            record.note(now, _job_state(obj))

    def _asked_pods(self, hints: Hints) -> Iterator[_Record]:
        if "pod" not in hints:
            yield from self._pods.values()
            return
        for name in sorted(hints["pod"]):
            yield from self._by_name.get(name, ())

    def _pod_phases(self, hints: Hints) -> Iterator[Series]:
        for record in self._asked_pods(hints):
            for phase in _PHASES:
                spans = record.spans(functools.partial(_is_state, phase))
                yield Series({**record.labels, "phase": phase}, spans)

    def _pod_info(self, hints: Hints) -> Iterator[Series]:
        for record in self._asked_pods(hints):
            owners = record.obj["metadata"].get("ownerReferences") or [{}]
            labels = {
                **record.labels,
                "node": record.obj["spec"].get("nodeName", ""),
                "created_by_kind": owners[0].get("kind", ""),
                "created_by_name": owners[0].get("name", ""),
            }
            yield Series(labels, record.spans(lambda _state: 1.0))

    def _requests(self, hints: Hints) -> Iterator[Series]:
        """As with the real one, completed pods keep theirs."""
        for record in self._asked_pods(hints):
            spans = record.spans(lambda _state: 1.0)
            for container in record.obj["spec"]["containers"]:
                for name, quantity in container_requests(container).items():
                    value = quantity / 1000 if name == "cpu" else float(quantity)
                    labels = {
                        **record.labels,
                        "container": container["name"],
                        "node": record.obj["spec"].get("nodeName", ""),
                        "resource": name.replace(".", "_").replace("/", "_").replace("-", "_"),
                        "unit": {"cpu": "core", "memory": "byte"}.get(name, "integer"),
                    }
                    yield Series(labels, tuple((start, end, value) for start, end, _ in spans))

    def _job_count(self, kind: str) -> Callable[[Hints], Iterator[Series]]:
        return lambda hints: self._of_jobs(kind, hints)

    def _of_jobs(self, kind: str, hints: Hints) -> Iterator[Series]:
        names = hints.get("job_name")
        for record in self._jobs.values():
            if names is not None and record.labels["job_name"] not in names:
                continue
            yield Series(record.labels, record.spans(lambda state: state.get(kind)))


def _job_state(job: Object) -> dict[str, float]:
    spec, status = job["spec"], job.get("status") or {}
    state = {kind: float(status.get(kind, 0)) for kind in _JOB_COUNTS}
    state["suspended"] = float(is_suspended(job))
    for kind in ("completions", "parallelism"):
        if spec.get(kind) is not None:
            state[kind] = float(amount(kind, spec[kind]))
    if status.get("startTime"):
        state["start_time"] = read_stamp(status["startTime"]).timestamp()
    return state


def _is_state(wanted: str, state: str) -> float:
    return float(state == wanted)


def _end(use: GpuUse) -> float:
    return use.until.timestamp() if use.until else math.inf


def _touches(start: float, end: float, after: float, until: float) -> bool:
    """Whether a span can hold a scrape of the interval (one scrape before it may still be the last)."""
    return start <= until and end > after - SCRAPE_SECONDS
