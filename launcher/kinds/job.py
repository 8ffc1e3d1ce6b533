"""batch/v1 Job: pause by suspending, resume only what is still as we left it, kill by deleting.

Suspending deletes the running pods with SIGTERM and their grace, and keeps what has succeeded. A
suspended Job says active=0 as soon as its pods are *terminating*, so `terminating` counts as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.model import A_PAUSED, L_ROLE, Ref
from fleet.ports import Objects
from fleet.values import rfc3339

GUARD_MANAGER = "quartermaster-guard"
"""Field manager of a pause: the object shows who stopped it."""
API_VERSION = "batch/v1"
_OWNERS_THAT_ALLOW_IT = ("", "CronJob")
"""A CronJob's Job may be suspended by itself; every other controller would undo it."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A Job as read from the API."""

    ref: Ref
    role: str
    version: str
    suspended: bool
    done: bool
    active: int
    terminating: int
    paused: str
    """our annotation: what to restore; "" where we did not pause it"""
    controller: str
    """kind of the controller that owns it"""

    @property
    def ours_to_change(self) -> bool:
        """No other controller would undo what is done to it."""
        return self.controller in _OWNERS_THAT_ALLOW_IT


def read(cluster: str, found: Mapping[str, Any]) -> JobState:
    """The state in a Job object."""
    metadata, spec, status = found["metadata"], found.get("spec", {}), found.get("status", {})
    true = {c["type"] for c in status.get("conditions", ()) if c.get("status") == "True"}
    labels = metadata.get("labels") or {}
    return JobState(
        ref=Ref(
            cluster, API_VERSION, "Job", metadata["namespace"], metadata["name"], metadata.get("uid", "")
        ),
        role=labels.get(L_ROLE, ""),
        version=metadata.get("resourceVersion", ""),
        suspended=bool(spec.get("suspend")),
        done=bool(true & {"Complete", "Failed"}),
        active=int(status.get("active") or 0),
        terminating=int(status.get("terminating") or 0),
        paused=(metadata.get("annotations") or {}).get(A_PAUSED, ""),
        controller=controller_of(found)[0],
    )


def controller_of(found: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of an object's controller; empty where it has none."""
    for owner in found["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner["kind"], owner["name"]
    return "", ""


def pause(objects: Objects, job: JobState, now: datetime) -> None:
    """Suspend it and note what to restore. A Job that is paused by us already, or done, is left alone."""
    if job.done or not job.ours_to_change or (job.paused and job.suspended):
        return
    before = job.paused or json.dumps({"suspend": job.suspended, "at": rfc3339(now)}, sort_keys=True)
    metadata = {"name": job.ref.name, "namespace": job.ref.namespace, "annotations": {A_PAUSED: before}}
    if job.ref.uid:
        # Only this very Job: an apply to one that is gone must not make a new one.
        metadata["uid"] = job.ref.uid
    manifest = {"apiVersion": API_VERSION, "kind": "Job", "metadata": metadata, "spec": {"suspend": True}}
    objects.apply(manifest, manager=GUARD_MANAGER)


def resume(objects: Objects, job: JobState) -> bool:
    """Restore what our pause noted, where the Job is still as we left it; False where it is not ours to resume."""
    if job.done or not job.paused:
        return False
    metadata = {"resourceVersion": job.version, "annotations": {A_PAUSED: None}}
    patch: dict[str, Any] = {"metadata": metadata}
    if job.suspended:
        patch["spec"] = {"suspend": bool(json.loads(job.paused).get("suspend", False))}
    objects.merge_patch(job.ref, patch)
    return True


def kill(objects: Objects, job: JobState) -> None:
    """Delete it with its pods."""
    objects.delete(job.ref, propagation="Background")
