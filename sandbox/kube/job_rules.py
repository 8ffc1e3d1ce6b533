"""What a Job's spec says about ends, failures and waiting: pure readings of spec, pods and times.

Sources: k8s.io/kubernetes/pkg/controller/job/{pod_failure_policy,success_policy,backoff_utils}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandbox.kube.job_indexes import Intervals, matches_rule, parse, total
from sandbox.kube.pod_status import condition, in_phase, read_stamp

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
FINALIZER = "batch.kubernetes.io/job-tracking"
_FIRST_BACKOFF = timedelta(seconds=10)
_LONGEST_BACKOFF = timedelta(minutes=10)


def is_indexed(job: Object) -> bool:
    """completionMode: Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Object) -> bool:
    """spec.suspend."""
    return bool(job["spec"].get("suspend"))


def is_finished(job: Object) -> bool:
    """Complete or Failed."""
    return any(
        entry["type"] in ("Complete", "Failed") and entry["status"] == "True"
        for entry in (job.get("status") or {}).get("conditions") or ()
    )


def replaces_only_failed(job: Object) -> bool:
    """podReplacementPolicy: Failed, which a podFailurePolicy implies."""
    return job["spec"].get("podReplacementPolicy") == "Failed" or bool(job["spec"].get("podFailurePolicy"))


def counts_as_failed(pod: Object, only_failed: bool) -> bool:
    """Failed, or (unless only Failed pods are replaced) on its way out."""
    if in_phase(pod, "Failed"):
        return True
    if only_failed:
        return False
    return bool(pod["metadata"].get("deletionTimestamp")) and not in_phase(pod, "Succeeded")


def index_of(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def failures_of_index(pod: Object) -> int:
    """Counted failures of the index before this pod."""
    text = (pod["metadata"].get("annotations") or {}).get(FAILURES, "0")
    return int(text) if text.isdigit() else 0


def ignored_failures_of_index(pod: Object) -> int:
    """Failures of the index before this pod that the failure policy ignored."""
    text = (pod["metadata"].get("annotations") or {}).get(IGNORED_FAILURES, "0")
    return int(text) if text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """What the podFailurePolicy makes of one failed pod."""

    action: str = ""
    """Ignore, Count, FailIndex, FailJob; "" where no rule matched"""
    message: str = ""
    """only for FailJob"""

    @property
    def counts(self) -> bool:
        """The failure counts towards the limits."""
        return self.action != "Ignore"


def judge_failure(policy: Mapping[str, Any] | None, pod: Object) -> FailureVerdict:
    """The first rule that matches."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        if rule.get("onExitCodes") is not None:
            what = _exit_code_words(pod, rule["onExitCodes"])
        else:
            what = _condition_words(pod, rule.get("onPodConditions") or ())
        if what:
            action = rule["action"]
            said = f"{what} matching {action} rule at index {index}"
            return FailureVerdict(action, said if action == "FailJob" else "")
    return FailureVerdict()


def _exit_code_words(pod: Object, wanted: Mapping[str, Any]) -> str:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    containers = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    for container in containers:
        ended = (container.get("state") or {}).get("terminated")
        if not ended or not ended["exitCode"]:
            continue
        if wanted.get("containerName") not in (None, container["name"]):
            continue
        if (ended["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
            return (
                f"Container {container['name']} for pod {metadata['namespace']}/{metadata['name']} "
                f"failed with exit code {ended['exitCode']}"
            )
    return ""


def _condition_words(pod: Object, patterns: Sequence[Mapping[str, Any]]) -> str:
    wanted = {(pattern["type"], pattern.get("status") or "True") for pattern in patterns}
    for entry in (pod.get("status") or {}).get("conditions") or ():
        if (entry["type"], entry["status"]) in wanted:
            metadata = pod["metadata"]
            return f"Pod {metadata['namespace']}/{metadata['name']} has condition {entry['type']}"
    return ""


def success_message(job: Object, succeeded: Intervals) -> str:
    """What the successPolicy says when it is met; "" where it is not."""
    for index, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = parse(rule["succeededIndexes"], job["spec"]["completions"])
            met = bool(wanted) and bool(succeeded) and matches_rule(wanted, succeeded, count)
        else:
            met = count is not None and bool(succeeded) and total(succeeded) >= count
        if met:
            return f"Matched rules at index {index}"
    return ""


def finished_at(pod: Object) -> datetime:
    """When the pod ended: its last container, else Ready turning false, else its deletion, else creation."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ends = [
        ((entry.get("state") or {}).get("terminated") or {}).get("finishedAt", "")
        for entry in status.get("containerStatuses") or ()
    ]
    if ends and all(ends):
        return read_stamp(max(ends))
    ready = condition(pod, "Ready")
    if ready and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return read_stamp(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return read_stamp(metadata["deletionTimestamp"]) - grace
    return read_stamp(metadata["creationTimestamp"])


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures since the last success: the more, the longer the wait before the next pods."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Backoff:
        """With newly finished pods."""
        successes = [finished_at(pod) for pod in succeeded]
        failures = sorted(finished_at(pod) for pod in failed)
        if not successes:
            return Backoff(self.failures + len(failures), failures[-1]) if failures else self
        later = [moment for moment in failures if moment > max(successes)]
        return Backoff(len(later), later[-1]) if later else Backoff()

    def remaining(self, now: datetime) -> timedelta:
        """How long no pods are to be created: 10 s doubling up to 10 min after the last failure."""
        return _remaining(self.failures, self.last, now)


def remaining_for_index(last_failed: Object | None, now: datetime) -> timedelta:
    """The same for one index, from the pod that failed last on it."""
    if last_failed is None:
        return timedelta(0)
    failures = failures_of_index(last_failed) + ignored_failures_of_index(last_failed) + 1
    return _remaining(failures, finished_at(last_failed), now)


def _remaining(failures: int, last: datetime | None, now: datetime) -> timedelta:
    if not failures or last is None:
        return timedelta(0)
    wait = min(_FIRST_BACKOFF * (1 << min(failures - 1, 10)), _LONGEST_BACKOFF)
    return max(wait - (now - last), timedelta(0))
