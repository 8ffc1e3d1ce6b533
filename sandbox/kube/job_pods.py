"""The pods of one Job as its controller counts them, kept up to date pod by pod; and how one is made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sandbox.kube.job_rules import (
    FAILURES,
    FINALIZER,
    IGNORED_FAILURES,
    INDEX,
    failures_of_index,
    ignored_failures_of_index,
    index_of,
    is_indexed,
    judge_failure,
)
from sandbox.kube.pod_status import condition, is_ready, is_terminal

Object = dict[str, Any]
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_BASE = 58
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class _Mark:
    """How a pod was counted, so that it can be taken out again."""

    active: bool
    ready: bool
    terminating: bool
    index: int | None


@dataclass(eq=False, slots=True)
class JobPods:
    """A Job's pods. Ended pods without the tracking finalizer are accounted for and not kept."""

    active: dict[str, Object] = field(default_factory=dict)
    terminating: dict[str, Object] = field(default_factory=dict)
    unaccounted: dict[str, Object] = field(default_factory=dict)
    """ended or on their way out, and still carrying the finalizer"""
    ready: int = 0
    active_indexes: Counter[int] = field(default_factory=Counter)
    terminating_indexes: Counter[int] = field(default_factory=Counter)
    tracked: dict[str, Object] = field(default_factory=dict)
    """everything that carries the finalizer"""
    _marks: dict[str, _Mark] = field(default_factory=dict)
    _repeated: int = 0
    """active pods beyond the first of their index, and those without an index"""
    _highest: int = -1
    """no active pod has a higher index"""

    def see(self, pod: Object) -> None:
        """The pod as it now is."""
        name = pod["metadata"]["name"]
        self.forget(name)
        deleting = bool(pod["metadata"].get("deletionTimestamp"))
        ended = is_terminal(pod)
        active = not ended and not deleting
        mark = _Mark(active, active and is_ready(pod), deleting and not ended, index_of(pod))
        self._marks[name] = mark
        if active:
            self.active[name] = pod
            self.ready += mark.ready
            self._repeated += mark.index is None or self.active_indexes[mark.index] > 0
            self._highest = max(self._highest, -1 if mark.index is None else mark.index)
        elif mark.terminating:
            self.terminating[name] = pod
        if mark.index is not None:
            self.active_indexes[mark.index] += active
            self.terminating_indexes[mark.index] += mark.terminating
        if has_finalizer(pod):
            self.tracked[name] = pod
            if not active:
                self.unaccounted[name] = pod

    def forget(self, name: str) -> None:
        """The pod is gone."""
        mark = self._marks.pop(name, None)
        if mark is None:
            return
        self.ready -= mark.ready
        for table in (self.active, self.terminating, self.unaccounted, self.tracked):
            table.pop(name, None)
        if mark.index is not None:
            self.active_indexes[mark.index] -= mark.active
            self.terminating_indexes[mark.index] -= mark.terminating
        if mark.active:
            self._repeated -= mark.index is None or self.active_indexes[mark.index] > 0

    def removable(self, job: Object, at_least: int) -> list[Object]:
        """Active pods to delete: repeated or invalid indexes first, then the least advanced ones."""
        invalid = is_indexed(job) and (self._repeated or self._highest >= job["spec"]["completions"])
        if not at_least and not invalid:
            return []
        pods = sorted(self.active.values(), key=lambda pod: pod["metadata"]["name"])
        removed: list[Object] = []
        if invalid:
            removed, pods = _split_repeated(pods, job["spec"]["completions"])
            self._highest = max((index_of(pod) or 0 for pod in pods), default=-1)
        missing = at_least - len(removed)
        if missing > 0:
            removed += sorted(pods, key=_progress)[:missing]
        return removed


def _split_repeated(pods: list[Object], completions: int) -> tuple[list[Object], list[Object]]:
    by_index: dict[int | None, list[Object]] = {}
    for pod in pods:
        by_index.setdefault(index_of(pod), []).append(pod)
    removed, left = [], []
    for index in sorted(by_index, key=lambda index: -1 if index is None else index):
        same = sorted(by_index[index], key=_progress)
        if index is None or index >= completions:
            removed += same
        else:
            removed += same[:-1]
            left.append(same[-1])
    return removed, left


def _progress(pod: Object) -> tuple[bool, int, bool, tuple[int, ...], int, tuple[int, ...], int]:
    """controller.ActivePods' order: unbound, pending, not ready, young ones come first."""
    status = pod.get("status") or {}
    ready = is_ready(pod)
    since = (condition(pod, "Ready") or {}).get("lastTransitionTime", "") if ready else ""
    restarts = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
    index = index_of(pod)
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(status.get("phase") or "Pending", 0),
        ready,
        _newest_first(since),
        -restarts,
        _newest_first(pod["metadata"].get("creationTimestamp", "")),
        -1 if index is None else -index,
    )


def _newest_first(stamp: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in stamp)


def has_finalizer(pod: Object) -> bool:
    """The Job controller has not accounted for it yet."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def without_finalizer(pod: Object) -> Object:
    """The pod, accounted for."""
    metadata = dict(pod["metadata"])
    kept = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
    metadata.pop("finalizers", None)
    if kept:
        metadata["finalizers"] = kept
    return {**pod, "metadata": metadata}


class PodMaker:
    """Makes the pods of one Job out of its template."""

    def __init__(self, job: Object) -> None:
        template = job["spec"]["template"]
        self._job = job
        self._metadata = dict(template.get("metadata") or {})
        self._spec = dict(template["spec"])
        if is_indexed(job):
            for group in ("initContainers", "containers"):
                if self._spec.get(group):
                    self._spec[group] = [_with_index_variable(entry) for entry in self._spec[group]]
        kept = [f for f in self._metadata.get("finalizers") or () if f != FINALIZER]
        self._metadata |= {
            "namespace": job["metadata"]["namespace"],
            "finalizers": [*kept, FINALIZER],
            "ownerReferences": [_controller_reference(job)],
        }

    def make(self, index: int | None, replaces: Object | None = None) -> Object:
        """A pod of an index (None: NonIndexed); `replaces` is the failed pod whose counts it takes on."""
        name = self._job["metadata"]["name"]
        metadata, spec = dict(self._metadata), self._spec
        metadata["generateName"] = _generate_name(name, index)
        if index is not None:
            annotations = {**(metadata.get("annotations") or {}), INDEX: str(index)}
            if self._job["spec"].get("backoffLimitPerIndex") is not None:
                annotations |= self._failure_counts(replaces)
            metadata["annotations"] = annotations
            metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
            spec = {**spec, "hostname": f"{name}-{index}"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _failure_counts(self, replaces: Object | None) -> dict[str, str]:
        if replaces is None:
            return {FAILURES: "0"}
        counted, ignored = failures_of_index(replaces), ignored_failures_of_index(replaces)
        if judge_failure(self._job["spec"].get("podFailurePolicy"), replaces).counts:
            counted += 1
        else:
            ignored += 1
        return {FAILURES: str(counted)} | ({IGNORED_FAILURES: str(ignored)} if ignored else {})


def _generate_name(job: str, index: int | None) -> str:
    if index is None:
        return f"{job}-"
    suffix = f"-{index}-"
    return job[: _LONGEST_BASE - len(suffix)] + suffix


def _controller_reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _with_index_variable(container: Object) -> Object:
    env = container.get("env") or []
    if any(entry["name"] == _INDEX_VARIABLE for entry in env):
        return container
    path = f"metadata.labels['{INDEX}']"
    variable = {"name": _INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
    return {**container, "env": [*env, variable]}
