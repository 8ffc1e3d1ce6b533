"""A run as a whole: its Jobs (ours, or anybody's that carry our run label), Service and ConfigMap.

Everything is read from the API, never from a cache, and only in governed namespaces. "Paused" is said
when no pod of the run is left that has not finished.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from fleet.errors import NotFound, Refused, Unavailable
from fleet.model import L_GOVERNED, L_ROLE, L_RUN, Ref
from fleet.ports import Objects, WorkState, WorkStatus
from fleet.values import utc
from launcher.kinds import job as jobs
from launcher.kinds.job import JobState
from launcher.runs import RunState, RunStore

log = structlog.get_logger(__name__)
SERVERS = ("ps", "param-server", "server", "master", "chief")
"""Roles that others save their work to: they stop last."""
STUCK_AFTER = timedelta(seconds=30)
"""A pod that is still there this long after its grace is stuck: a finalizer, or a dead kubelet."""
MAX_LOGS = 20
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Group:
    """What of a run is in a cluster now."""

    jobs: tuple[JobState, ...]
    pods: tuple[Mapping[str, Any], ...]
    """that have not finished"""
    foreign: tuple[str, ...]
    """what runs them and cannot be paused: bare pods, other controllers"""


class KubeWorkloads:
    """The `Workloads` port over Kubernetes objects.

    `governed` tells a cluster's namespaces that are both listed in the settings and labelled, as of now;
    it raises Unavailable where that is not known.
    """

    def __init__(
        self, objects: Mapping[str, Objects], governed: Callable[[str], Collection[str]], runs: RunStore
    ) -> None:
        self._objects = objects
        self._governed = governed
        self._runs = runs

    def pause(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Suspend every Job of the run, servers last. Repeatable."""
        self._require(cluster, run)
        for job in self._read(cluster, run).jobs:
            jobs.pause(self._objects[cluster], job, now)
        return self.verify(cluster, run, now)

    def resume(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Undo our pause, servers first, where the Jobs are still as we left them. Repeatable."""
        self._require(cluster, run)
        for job in reversed(self._read(cluster, run).jobs):
            jobs.resume(self._objects[cluster], job)
        return self.verify(cluster, run, now)

    def kill(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Keep the last logs, then delete everything of the run. Repeatable."""
        self._require(cluster, run)
        objects, group = self._objects[cluster], self._read(cluster, run)
        self.keep_logs(cluster, run, now)
        for job in group.jobs:
            jobs.kill(objects, job)
        for pod in group.pods:
            if not jobs.controller_of(pod)[0]:
                objects.delete(_ref(cluster, "v1", "Pod", pod))
        self.delete_extras(cluster, run)
        record = self._runs.get(run)
        if record is not None and record.state.live:
            self._runs.move(run, RunState.KILLED, now, "killed")
        return self.verify(cluster, run, now)

    def verify(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Where the run stands, read from the API. Paused = nothing active, terminating or unfinished."""
        group = self._read(cluster, run)
        open_jobs = [job for job in group.jobs if not job.done]
        ending = [pod for pod in group.pods if pod["metadata"].get("deletionTimestamp")]
        active = max(sum(job.active for job in group.jobs), len(group.pods) - len(ending))
        terminating = max(sum(job.terminating for job in group.jobs), len(ending))
        quiet = not active and not terminating
        stopping = all(job.suspended for job in open_jobs) and not group.foreign
        if not group.jobs and quiet:
            state = self._absent(run)
        elif not open_jobs and not group.foreign:
            state = WorkState.DONE if quiet else WorkState.RUNNING
        elif stopping:
            state = WorkState.PAUSED if quiet else WorkState.PAUSING
        else:
            state = WorkState.RUNNING
        return WorkStatus(state, active, terminating, _detail(state, group, now))

    def _require(self, cluster: str, run: str) -> None:
        """Raises Refused where the run's namespace is not governed (any more)."""
        record = self._runs.get(run)
        if record is None or record.cluster != cluster or record.namespace in self._governed(cluster):
            return
        label = f"{L_GOVERNED}=true"
        raise Refused(
            f"Namespace {record.namespace} of cluster {cluster} is not listed or lacks the label {label}, so nothing "
            f"is changed there; type: kubectl label namespace {record.namespace} {label}"
        )

    def _absent(self, run: str) -> WorkState:
        record = self._runs.get(run)
        if record is None:
            return WorkState.GONE
        known = {RunState.KILLED: WorkState.KILLED, RunState.DONE: WorkState.DONE}
        return known.get(record.state, WorkState.GONE)

    def _read(self, cluster: str, run: str) -> Group:
        objects, selector = self._objects[cluster], f"{L_RUN}={run}"
        found: dict[tuple[str, str], JobState] = {}
        pods: list[Mapping[str, Any]] = []
        foreign: list[str] = []
        for namespace in sorted(self._governed(cluster)):
            for item in objects.list("batch/v1", "Job", namespace, selector):
                found[namespace, item["metadata"]["name"]] = jobs.read(cluster, item)
            for pod in objects.list("v1", "Pod", namespace, selector):
                if pod.get("status", {}).get("phase") in _FINISHED:
                    continue
                pods.append(pod)
                self._add_owner(cluster, pod, found, foreign)
        foreign += [f"{job.controller} of {job.ref.name}" for job in found.values() if not job.ours_to_change]
        ordered = sorted(found.values(), key=lambda job: (job.role in SERVERS, job.ref.name))
        return Group(tuple(ordered), tuple(pods), tuple(dict.fromkeys(foreign)))

    def _add_owner(
        self,
        cluster: str,
        pod: Mapping[str, Any],
        found: dict[tuple[str, str], JobState],
        foreign: list[str],
    ) -> None:
        """The Job behind a labelled pod, also where the Job itself (made with kubectl) has no label."""
        namespace = pod["metadata"]["namespace"]
        kind, name = jobs.controller_of(pod)
        if kind != "Job":
            foreign.append(f"{kind} {name}" if kind else f"pod {pod['metadata']['name']}")
        elif (namespace, name) not in found:
            try:
                item = self._objects[cluster].get(Ref(cluster, "batch/v1", "Job", namespace, name))
            except NotFound:
                return
            state = jobs.read(cluster, item)
            found[namespace, name] = state

    def keep_logs(self, cluster: str, run: str, now: datetime) -> None:
        """Keep the last lines of the run's pods, as many as is reasonable; what cannot be read is skipped."""
        group = self._read(cluster, run)
        running = [p for p in group.pods if p.get("status", {}).get("phase") == "Running"]
        for pod in sorted(running, key=lambda p: p["metadata"]["name"])[:MAX_LOGS]:
            name = pod["metadata"]["name"]
            role = (pod["metadata"].get("labels") or {}).get(L_ROLE, "")
            try:
                text = self._objects[cluster].logs(_ref(cluster, "v1", "Pod", pod), container=role)
            except (NotFound, Refused, Unavailable) as error:
                log.warning("last log lost", run=run, pod=name, error=str(error))
                continue
            self._runs.save_log(run, name, text, now)

    def delete_unfinished(self, cluster: str, run: str) -> tuple[str, ...]:
        """Delete the Jobs of the run that have not ended by themselves; returns their names."""
        group = self._read(cluster, run)
        ended = [job for job in group.jobs if not job.done]
        for job in ended:
            jobs.kill(self._objects[cluster], job)
        return tuple(job.ref.name for job in ended)

    def delete_extras(self, cluster: str, run: str) -> None:
        """Delete the run's Service and ConfigMap."""
        for namespace in sorted(self._governed(cluster)):
            for kind in ("Service", "ConfigMap"):
                for item in self._objects[cluster].list("v1", kind, namespace, f"{L_RUN}={run}"):
                    self._objects[cluster].delete(_ref(cluster, "v1", kind, item))


def _ref(cluster: str, api_version: str, kind: str, found: Mapping[str, Any]) -> Ref:
    metadata = found["metadata"]
    return Ref(cluster, api_version, kind, metadata["namespace"], metadata["name"], metadata.get("uid", ""))


def _detail(state: WorkState, group: Group, now: datetime) -> str:
    """In words: what holds a pause up."""
    if group.foreign and state is WorkState.RUNNING:
        return f"cannot be paused: {', '.join(group.foreign[:3])}"
    if state is not WorkState.PAUSING:
        return ""
    stuck: dict[str, int] = {}
    for pod in group.pods:
        deleted = pod["metadata"].get("deletionTimestamp")
        if deleted and now > utc(deleted) + STUCK_AFTER:
            node = pod.get("spec", {}).get("nodeName") or "no node"
            stuck[node] = stuck.get(node, 0) + 1
    if not stuck:
        return ""
    told = ", ".join(
        f"{count} {'pod' if count == 1 else 'pods'} stuck on {node}" for node, count in sorted(stuck.items())
    )
    return f"pausing ({told})"
