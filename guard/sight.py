"""Runs as they are seen in a cluster: their Jobs, how many pods run, wait and hold on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleet.model import L_RUN, ClusterSnapshot, Job, Pod
from guard.meter import Who
from guard.observe import who


@dataclass(frozen=True, slots=True)
class Sight:
    """One run in one cluster, in governed namespaces only."""

    run: str
    cluster: str
    who: Who
    since: datetime | None
    """creation of its oldest object"""
    jobs: tuple[Job, ...]
    bound: int
    """active pods that have a node"""
    pending: int
    """active pods that wait for one"""
    grace: int
    """longest termination grace of its pods, seconds"""

    @property
    def released(self) -> bool:
        """Some Job of it may run: not suspended, not done."""
        return any(not job.suspended and not job.done for job in self.jobs)

    @property
    def done(self) -> bool:
        """Every Job has ended and no pod is left."""
        return bool(self.jobs) and all(job.done for job in self.jobs) and not (self.bound or self.pending)


class Sights:
    """Sees a snapshot; a snapshot whose pods and jobs are the same objects is not looked at again."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, object, dict[str, Sight]]] = {}

    def of(self, snapshot: ClusterSnapshot) -> Mapping[str, Sight]:
        """The runs of a snapshot by id."""
        last = self._last.get(snapshot.cluster)
        if last is not None and last[0] is snapshot.pods and last[1] is snapshot.jobs:
            return last[2]
        found = see(snapshot)
        self._last[snapshot.cluster] = (snapshot.pods, snapshot.jobs, found)
        return found


def see(snapshot: ClusterSnapshot) -> dict[str, Sight]:
    """The runs of a snapshot, by id."""
    jobs: dict[str, list[Job]] = {}
    pods: dict[str, list[Pod]] = {}
    for job in snapshot.jobs.values():
        run = job.labels.get(L_RUN)
        if run and job.namespace in snapshot.governed:
            jobs.setdefault(run, []).append(job)
    for pod in snapshot.pods.values():
        run = pod.labels.get(L_RUN)
        if run and pod.namespace in snapshot.governed:
            pods.setdefault(run, []).append(pod)
    return {
        run: _sight(snapshot.cluster, run, jobs.get(run, ()), pods.get(run, ()))
        for run in sorted(jobs.keys() | pods.keys())
    }


def _sight(cluster: str, run: str, jobs: Sequence[Job], pods: Sequence[Pod]) -> Sight:
    active = [pod for pod in pods if pod.active]
    made = [job.created for job in jobs] + [pod.created for pod in pods]
    labels = jobs[0].labels if jobs else pods[0].labels
    return Sight(
        run=run,
        cluster=cluster,
        who=who(labels),
        since=min((moment for moment in made if moment is not None), default=None),
        jobs=tuple(jobs),
        bound=sum(1 for pod in active if pod.node),
        pending=sum(1 for pod in active if not pod.node),
        grace=max((pod.grace_seconds for pod in active), default=0),
    )
