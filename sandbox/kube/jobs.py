"""The Job controller: makes and removes pods, keeps the status, ends Jobs, deletes them after their TTL.

What it decides is in `job_sync`; here it watches, waits and writes. Spec changes are answered after a
tenth of a second, pod changes are gathered for a second (SyncJobBatchPeriod).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sandbox.kube.errors import ApiError
from sandbox.kube.job_pods import JobPods, PodMaker, has_finalizer, without_finalizer
from sandbox.kube.job_rules import Backoff, is_finished
from sandbox.kube.job_sync import PODS_PER_SYNC, Outcome, Sync
from sandbox.kube.pod_status import read_stamp
from sandbox.kube.recorder import record
from sandbox.kube.store import Store
from sandbox.world import Timer, World

Object = dict[str, Any]
_SOON = timedelta(seconds=0.1)
_BATCH = timedelta(seconds=1)


class JobController:
    """Acts on one store. Jobs with a `managedBy` of somebody else are left alone."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._pods: dict[str, JobPods] = {}
        self._jobs: dict[str, tuple[str, str]] = {}
        """uid → namespace and name"""
        self._backoffs: dict[str, Backoff] = {}
        self._timers: dict[str, tuple[datetime, Timer]] = {}
        self._orphans: dict[tuple[str, str], str] = {}
        for job in store.list("jobs.batch"):
            self._see_job("ADDED", job)
        for pod in store.list("pods"):
            self._see_pod("ADDED", pod)
        store.subscribe(self._see)

    # Watching

    def _see(self, event: str, resource: str, new: Object, old: Object | None) -> None:
        if resource == "pods":
            self._see_pod(event, new)
        elif resource == "jobs.batch":
            self._see_job(event, new, old)

    def _see_job(self, event: str, job: Object, old: Object | None = None) -> None:
        metadata = job["metadata"]
        uid = metadata["uid"]
        if event == "DELETED":
            self._jobs.pop(uid, None)
            self._backoffs.pop(uid, None)
            for name, pod in self._pods.pop(uid, JobPods()).tracked.items():
                self._adopt_orphan((metadata["namespace"], name), pod)
            return
        if not _is_ours(job):
            return
        self._jobs[uid] = (metadata["namespace"], metadata["name"])
        if is_finished(job):
            self._expire(job)
        if old is None or _asks_for_sync(job, old):
            self._sync_in(uid, _SOON)

    def _see_pod(self, event: str, pod: Object) -> None:
        uid = _job_uid(pod)
        if uid is None:
            return
        name = pod["metadata"]["name"]
        if uid not in self._jobs:
            if event != "DELETED" and has_finalizer(pod):
                self._adopt_orphan((pod["metadata"]["namespace"], name), pod)
            return
        pods = self._pods.setdefault(uid, JobPods())
        if event == "DELETED":
            pods.forget(name)
        else:
            pods.see(pod)
        self._sync_in(uid, _BATCH)

    def _sync_in(self, uid: str, wait: timedelta) -> None:
        """Synchronise after `wait`, or at the earlier time that was already agreed."""
        due = self._world.now + wait
        known = self._timers.get(uid)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._timers[uid] = (due, self._world.at(due, lambda: self._sync(uid)))

    # Synchronising

    def _sync(self, uid: str) -> None:
        self._timers.pop(uid, None)
        where = self._jobs.get(uid)
        job = self._store.get("jobs.batch", *where) if where else None
        if job is None or job["metadata"]["uid"] != uid:
            return
        pods = self._pods.setdefault(uid, JobPods())
        if is_finished(job):
            self._release([pod for _, pod in sorted(pods.tracked.items())])
            return
        outcome = Sync(job, pods, self._backoffs.get(uid, Backoff()), self._world.now).run()
        self._backoffs[uid] = outcome.backoff
        self._carry_out(job, outcome)
        if outcome.again is not None:
            self._sync_in(uid, max(outcome.again, _SOON))
        elif len(outcome.create) == PODS_PER_SYNC or len(outcome.delete) == PODS_PER_SYNC:
            self._sync_in(uid, _BATCH)

    def _carry_out(self, job: Object, outcome: Outcome) -> None:
        """Status first, so that nothing is forgotten; then the pods."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        job = self._store.update("jobs.batch", {**job, "status": outcome.status})
        if outcome.release:
            self._release(outcome.delete)
        for pod in outcome.delete:
            self._delete_pod(pod)
        self._create_pods(job, outcome)
        self._release(outcome.account)
        present = self._store.get("jobs.batch", namespace, name)
        for reason, message in outcome.events if present else ():
            warning = outcome.end is not None and outcome.end.terminal == "Failed"
            record(self._store, "job-controller", job, reason, message, warning=warning)

    def _delete_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if self._store.get("pods", metadata["namespace"], metadata["name"]) is not None:
            self._store.delete("pods", metadata["namespace"], metadata["name"])

    def _create_pods(self, job: Object, outcome: Outcome) -> None:
        maker = PodMaker(job)
        for index, replaces in outcome.create:
            try:
                self._store.create("pods", maker.make(index, replaces))
            except ApiError as error:
                message = f"Error creating: {error.message}"
                record(self._store, "job-controller", job, "FailedCreate", message, warning=True)
                self._sync_in(job["metadata"]["uid"], _BATCH)
                break

    def _release(self, pods: list[Object]) -> None:
        """Remove the tracking finalizer from the pods as they now are."""
        for pod in pods:
            present = self._store.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            if present is not None and has_finalizer(present):
                self._store.update("pods", without_finalizer(present))

    # Afterwards

    def _adopt_orphan(self, key: tuple[str, str], pod: Object) -> None:
        """The Job is gone: nobody will count this pod."""
        if not self._orphans:
            self._world.after(_SOON.total_seconds(), self._release_orphans)
        self._orphans[key] = pod["metadata"]["uid"]

    def _release_orphans(self) -> None:
        orphans, self._orphans = self._orphans, {}
        for key, uid in sorted(orphans.items()):
            pod = self._store.get("pods", *key)
            if pod is not None and pod["metadata"]["uid"] == uid and _job_uid(pod) not in self._jobs:
                self._release([pod])

    def _expire(self, job: Object) -> None:
        """Come back when ttlSecondsAfterFinished is over."""
        over = _expiry(job)
        if over is not None and not job["metadata"].get("deletionTimestamp"):
            uid = job["metadata"]["uid"]
            self._world.at(over, lambda: self._delete_expired(uid))

    def _delete_expired(self, uid: str) -> None:
        where = self._jobs.get(uid)
        job = self._store.get("jobs.batch", *where) if where else None
        if where is None or job is None or job["metadata"].get("deletionTimestamp"):
            return
        over = _expiry(job)
        if over is not None and over <= self._world.now:
            self._store.delete("jobs.batch", *where, propagation="Foreground", uid=uid)


def _expiry(job: Object) -> datetime | None:
    """When the TTL of a finished Job is over, counted from its terminal condition."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return None
    ended: str = next(
        entry["lastTransitionTime"]
        for entry in job["status"]["conditions"]
        if entry["type"] in ("Complete", "Failed") and entry["status"] == "True"
    )
    return read_stamp(ended) + timedelta(seconds=ttl)


def _is_ours(job: Object) -> bool:
    return job["spec"].get("managedBy") in (None, "kubernetes.io/job-controller")


def _asks_for_sync(job: Object, old: Object) -> bool:
    """Status written by ourselves does not."""
    return bool(
        job["spec"] != old["spec"]
        or job["metadata"].get("deletionTimestamp") != old["metadata"].get("deletionTimestamp")
    )


def _job_uid(pod: Object) -> str | None:
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == "Job":
            return str(reference["uid"])
    return None
