"""One synchronisation of a Job: from its spec, status and pods to what has to be done. Pure.

Follows syncJob of k8s.io/kubernetes/pkg/controller/job/job_controller.go (1.36). Differences: pods are
accounted for and their finalizers removed in one step, so status.uncountedTerminatedPods stays empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sandbox.kube import job_indexes
from sandbox.kube.job_indexes import Intervals
from sandbox.kube.job_pods import JobPods
from sandbox.kube.job_rules import (
    Backoff,
    counts_as_failed,
    failures_of_index,
    finished_at,
    ignored_failures_of_index,
    index_of,
    is_indexed,
    is_suspended,
    judge_failure,
    remaining_for_index,
    replaces_only_failed,
    success_message,
)
from sandbox.kube.pod_status import condition, in_phase, is_ready, read_stamp, stamp

Object = dict[str, Any]
PODS_PER_SYNC = 500
_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class End:
    """How a Job ends: an interim condition first, the terminal one when no pod is left."""

    interim: str
    reason: str
    message: str

    @property
    def terminal(self) -> str:
        """Complete or Failed."""
        return "Complete" if self.interim == "SuccessCriteriaMet" else "Failed"


@dataclass(eq=False, slots=True)
class Outcome:
    """What one synchronisation found and wants."""

    end: End | None = None
    delete: list[Object] = field(default_factory=list)
    """active pods that have to go"""
    release: bool = False
    """their finalizers go first: nobody counts them"""
    create: list[tuple[int | None, Object | None]] = field(default_factory=list)
    """(index, the failed pod it replaces)"""
    account: list[Object] = field(default_factory=list)
    """pods whose finalizers are removed, because the status now holds them"""
    status: Object = field(default_factory=dict)
    finished: bool = False
    events: list[tuple[str, str]] = field(default_factory=list)
    """(reason, message)"""
    backoff: Backoff = Backoff()
    again: timedelta | None = None


class Sync:
    """The state of one synchronisation; `run` returns what to do."""

    def __init__(self, job: Object, pods: JobPods, backoff: Backoff, now: datetime) -> None:
        self.job = job
        self.spec = job["spec"]
        self.pods = pods
        self.now = now
        self.indexed = is_indexed(job)
        self.completions: int | None = self.spec.get("completions")
        self.succeeded: int
        self.failed: int
        self.only_failed = replaces_only_failed(job)
        self.per_index: int | None = self.spec.get("backoffLimitPerIndex")
        self.limit: int = self.spec.get("backoffLimit", 6 if self.per_index is None else 2**31 - 1)
        self.policy = self.spec.get("podFailurePolicy")
        self.out = Outcome(status=dict(job.get("status") or {}))
        known = self.out.status
        self.conditions = [dict(entry) for entry in known.get("conditions") or ()]
        ended = [pod for _, pod in sorted(pods.unaccounted.items()) if self._is_valid(pod)]
        self.succeeded_pods = [pod for pod in ended if in_phase(pod, "Succeeded")]
        self.failed_pods = [pod for pod in ended if counts_as_failed(pod, self.only_failed)]
        self.counted_failures = [p for p in self.failed_pods if judge_failure(self.policy, p).counts]
        self.out.backoff = backoff.after(self.succeeded_pods, self.failed_pods)
        self.succeeded = known.get("succeeded", 0) + len(self.succeeded_pods)
        self.failed = known.get("failed", 0) + len(self.counted_failures)
        self.done: Intervals = ()
        self.failed_indexes: Intervals | None = None
        self.replaced: dict[int, Object] = {}
        if self.indexed:
            self._read_indexes()

    def run(self) -> Outcome:
        """Evaluate ends, manage pods, account for ended ones, write the status."""
        out = self.out
        if not is_suspended(self.job) and not out.status.get("startTime"):
            out.status["startTime"] = stamp(self.now)
        out.end = self._known_end() or self._failure() or self._policy_success()
        if out.end is not None:
            out.delete = sorted(self.pods.active.values(), key=lambda pod: pod["metadata"]["name"])
        else:
            self._manage()
        self._account()
        self._write()
        return out

    # Reading

    def _is_valid(self, pod: Object) -> bool:
        if not self.indexed:
            return True
        index = index_of(pod)
        return index is not None and index < self.spec["completions"]

    def _read_indexes(self) -> None:
        completions = self.spec["completions"]
        known = job_indexes.parse(self.out.status.get("completedIndexes"), completions)
        new = {index for pod in self.succeeded_pods if (index := index_of(pod)) is not None}
        self.done = job_indexes.merge(known, new)
        self.succeeded = job_indexes.total(self.done)
        if self.per_index is None:
            return
        known = job_indexes.parse(self.out.status.get("failedIndexes"), completions)
        failed = {
            i for pod in self.failed_pods if self._fails_index(pod) and (i := index_of(pod)) is not None
        }
        self.failed_indexes = job_indexes.merge(known, failed)
        self._find_replaced()

    def _fails_index(self, pod: Object) -> bool:
        verdict = judge_failure(self.policy, pod)
        if verdict.action == "FailIndex":
            return True
        return verdict.counts and failures_of_index(pod) >= (self.per_index or 0)

    def _find_replaced(self) -> None:
        """The last failed pod of each index that runs again: it stays until its replacement exists."""
        settled = job_indexes.merge(self.done, self.failed_indexes or ())
        for pod in self.failed_pods:
            index = index_of(pod)
            if index is None or job_indexes.has(settled, index) or self.pods.active_indexes[index]:
                continue
            last = self.replaced.get(index)
            if last is None or _rank(last) <= _rank(pod):
                self.replaced[index] = pod

    # Ends

    def _known_end(self) -> End | None:
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            entry = condition(self.job, kind)
            if entry is not None and entry["status"] == "True":
                return End(kind, entry.get("reason", ""), entry.get("message", ""))
        return None

    def _failure(self) -> End | None:
        for pod in self.failed_pods:
            verdict = judge_failure(self.policy, pod)
            if verdict.action == "FailJob":
                return End("FailureTarget", "PodFailurePolicy", verdict.message)
        if self.failed > self.limit or self._too_many_restarts():
            words = "Job has reached the specified backoff limit"
            return End("FailureTarget", "BackoffLimitExceeded", words)
        left = self._deadline_left()
        if left is not None and left <= _NONE:
            words = "Job was active longer than specified deadline"
            return End("FailureTarget", "DeadlineExceeded", words)
        self.out.again = left
        return self._index_failure()

    def _index_failure(self) -> End | None:
        if self.failed_indexes is None:
            return None
        failed = job_indexes.total(self.failed_indexes)
        most = self.spec.get("maxFailedIndexes")
        if most is not None and failed > most:
            words = "Job has exceeded the specified maximal number of failed indexes"
            return End("FailureTarget", "MaxFailedIndexesExceeded", words)
        if failed and failed + job_indexes.total(self.done) >= self.spec["completions"]:
            return End("FailureTarget", "FailedIndexes", "Job has failed indexes")
        return None

    def _policy_success(self) -> End | None:
        message = success_message(self.job, self.done) if self.indexed else ""
        return End("SuccessCriteriaMet", "SuccessPolicy", message) if message else None

    def _too_many_restarts(self) -> bool:
        """restartPolicy OnFailure: restarts in place count towards the limit."""
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts: int = sum(
            entry.get("restartCount", 0)
            for pod in self.pods.active.values()
            for group in ("initContainerStatuses", "containerStatuses")
            for entry in (pod.get("status") or {}).get(group) or ()
        )
        return restarts >= self.limit if self.limit else restarts > 0

    def _deadline_left(self) -> timedelta | None:
        seconds = self.spec.get("activeDeadlineSeconds")
        started = self.out.status.get("startTime")
        if seconds is None or started is None or is_suspended(self.job):
            return None
        return read_stamp(started) + timedelta(seconds=seconds) - self.now

    # Pods

    def _manage(self) -> None:
        """manageJob: delete what is too much, or else create what is missing; then see if all is done."""
        if self.job["metadata"].get("deletionTimestamp"):
            return
        active = len(self.pods.active)
        if is_suspended(self.job):
            self._delete(active)
        else:
            wanted = self._wanted(active)
            self._delete(max(active - wanted, 0))
            del self.out.delete[PODS_PER_SYNC:]
            if not self.out.delete:
                self._create(wanted - active)
        left = active - len(self.out.delete) + len(self.out.create)
        if left == 0 and self._is_complete():
            words = "Reached expected number of succeeded pods"
            self.out.end = End("SuccessCriteriaMet", "CompletionsReached", words)
        else:
            self._tell_suspension()

    def _wanted(self, active: int) -> int:
        parallelism: int = self.spec.get("parallelism", 1)
        if self.completions is None:
            return active if self.succeeded else parallelism
        return max(min(self.completions - self.succeeded, parallelism), 0)

    def _is_complete(self) -> bool:
        if self.completions is None:
            return self.succeeded > 0
        return self.succeeded >= self.completions

    def _delete(self, at_least: int) -> None:
        self.out.delete = self.pods.removable(self.job, at_least)
        self.out.release = True

    def _create(self, missing: int) -> None:
        if self.only_failed:
            missing -= len(self.pods.terminating)
        if missing <= 0:
            return
        wait = _NONE if self.per_index is not None else self.out.backoff.remaining(self.now)
        if wait > _NONE:
            self._sync_again(wait)
            return
        missing = min(missing, PODS_PER_SYNC)
        if not self.indexed:
            self.out.create = [(None, None)] * missing
            return
        indexes = self._pending_indexes(missing)
        waits = {i: remaining_for_index(self.replaced.get(i), self.now) for i in indexes}
        ready = [index for index in indexes if waits[index] <= _NONE]
        if indexes and not ready:
            self._sync_again(min(waits.values()))
        elif any(waits[index] > _NONE for index in indexes):
            self._sync_again(min(wait for wait in waits.values() if wait > _NONE))
        self.out.create = [(index, self.replaced.get(index)) for index in ready]

    def _pending_indexes(self, count: int) -> list[int]:
        settled = job_indexes.merge(self.done, self.failed_indexes or ())
        taken = {index for index, pods in self.pods.active_indexes.items() if pods}
        if self.only_failed:
            taken |= {index for index, pods in self.pods.terminating_indexes.items() if pods}
        return job_indexes.pending(settled, taken, count, self.spec["completions"])

    def _sync_again(self, wait: timedelta) -> None:
        self.out.again = wait if self.out.again is None else min(wait, self.out.again)

    # Status

    def _tell_suspension(self) -> None:
        status = self.out.status
        if is_suspended(self.job):
            if self._set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                self.out.events.append(("Suspended", "Job suspended"))
                status.pop("startTime", None)
        elif self._set_condition("Suspended", "False", "JobResumed", "Job resumed"):
            self.out.events.append(("Resumed", "Job resumed"))
            status["startTime"] = stamp(self.now)

    def _set_condition(self, kind: str, value: str, reason: str, message: str) -> bool:
        """ensureJobConditionStatus: True where it changed; one that is absent is not added as False."""
        now = stamp(self.now)
        new = {"type": kind, "status": value, "lastProbeTime": now, "lastTransitionTime": now}
        new |= {"reason": reason, "message": message}
        for at, entry in enumerate(self.conditions):
            if entry["type"] == kind:
                if all(entry.get(name) == new[name] for name in ("status", "reason", "message")):
                    return False
                self.conditions[at] = new
                return True
        if value == "False":
            return False
        self.conditions.append(new)
        return True

    def _account(self) -> None:
        """Whose finalizers go: ended pods, but for those that a replacement has to be derived from."""
        out = self.out
        if out.end is not None or self.job["metadata"].get("deletionTimestamp"):
            pods = sorted(self.pods.tracked.items())
        else:
            made = {index for index, _ in out.create}
            waiting = {id(pod) for index, pod in self.replaced.items() if index not in made}
            pods = [
                (name, pod)
                for name, pod in sorted(self.pods.unaccounted.items())
                if id(pod) not in waiting
                and (in_phase(pod, "Succeeded") or counts_as_failed(pod, self.only_failed))
            ]
        out.account = [pod for _, pod in pods]

    def _write(self) -> None:
        out, status = self.out, self.out.status
        active = len(self.pods.active) - len(out.delete) + len(out.create)
        gone_ready = sum(1 for pod in out.delete if is_ready(pod))
        bound = sum(1 for pod in out.delete if pod["spec"].get("nodeName"))
        failures = sum(1 for pod in out.account if self._counts(pod))
        _put(status, "active", active)
        status["ready"] = self.pods.ready - gone_ready
        status["terminating"] = len(self.pods.terminating) + bound
        _put(status, "failed", status.get("failed", 0) + failures)
        _put(status, "succeeded", self.succeeded)
        if self.indexed:
            _put(status, "completedIndexes", job_indexes.render(self.done))
        if self.failed_indexes is not None:
            status["failedIndexes"] = job_indexes.render(self.failed_indexes)
        status["uncountedTerminatedPods"] = {}
        if out.end is not None:
            self._write_end(out.end)
        if self.conditions:
            status["conditions"] = self.conditions

    def _counts(self, pod: Object) -> bool:
        """Whether an accounted pod is a failure; once the Job has failed, whatever still ran is one."""
        if in_phase(pod, "Succeeded") or not self._is_valid(pod):
            return False
        over = self.out.end is not None and self.out.end.interim == "FailureTarget"
        failed = over or counts_as_failed(pod, self.only_failed)
        return failed and judge_failure(self.policy, pod).counts

    def _write_end(self, end: End) -> None:
        self._set_condition(end.interim, "True", end.reason, end.message)
        if self.out.status["terminating"]:
            return
        self.out.finished = True
        self._set_condition(end.terminal, "True", end.reason, end.message)
        if end.terminal == "Complete":
            self.out.status["completionTime"] = stamp(self.now)
            self.out.events.append(("Completed", "Job completed"))
        else:
            self.out.events.append((end.reason, end.message))


def _rank(pod: Object) -> tuple[int, datetime]:
    return failures_of_index(pod) + ignored_failures_of_index(pod), finished_at(pod)


def _put(status: Object, name: str, value: int | str) -> None:
    """Go leaves zero values out."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)
