"""What runs, how it stands, and why it waits. Reading only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.operations.house import House
from fleet.budget import Scope
from fleet.errors import BadInput
from fleet.model import A_PAUSED, L_REGION, L_ROLE, L_RUN, ClusterSnapshot, Job, Pod
from fleet.ports import Sample
from guard.answers import RunCosts
from launcher.runs import Run, RunState

GPU_WINDOW = timedelta(minutes=10)
RECENT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """One role of a run: how many were asked for, and where they are."""

    role: str
    wanted: int
    running: int
    pending: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run as `status` tells it."""

    run: str
    experiment: str
    owner: str
    owner_name: str
    team: str
    cluster: str
    state: str
    reason: str
    created: datetime
    roles: tuple[RoleStatus, ...]
    nodes: tuple[tuple[str, int], ...]
    """region (or "on premises") and machines on which its pods are"""
    costs: RunCosts
    gpu: Sample | None
    """mean utilisation; None where it holds no GPU or nobody measures"""
    stale_since: datetime | None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as `ls` tells it."""

    run: str
    experiment: str
    owner_name: str
    team: str
    state: str
    active: int
    pending: int
    costs: RunCosts


@dataclass(frozen=True, slots=True)
class Why:
    """Why a run is not (all) running: sentences, the most telling first."""

    run: str
    experiment: str
    state: str
    reasons: tuple[str, ...]


def find(house: House, name: str) -> Run:
    """A run by its id, or the latest of an experiment. Raises BadInput with what is there."""
    run = house.launcher.runs.find(name)
    if run is None:
        names = sorted({r.experiment for r in house.launcher.runs.recent() if r.launched})
        known = f"Known: {', '.join(names[:8])}." if names else "Nothing was launched yet; try launch."
        raise BadInput(f"There is no run or experiment {name!r}.", hint=known)
    return run


def listing(house: House, now: datetime, *, everything: bool = False) -> tuple[RunLine, ...]:
    """Live runs, and those that ended within a day (all recent ones with `everything`)."""
    lines = []
    for run in house.launcher.runs.recent(200):
        ended = run.ended or run.created
        if not run.launched or not (run.state.live or everything or now - ended < RECENT):
            continue
        pods = run_pods(_snapshot(house, run, now), run.id)
        lines.append(
            RunLine(
                run=run.id,
                experiment=run.experiment,
                owner_name=run.owner_name,
                team=run.team,
                state=state_of(house, run, now),
                active=sum(p.phase == "Running" for p in pods),
                pending=sum(p.phase == "Pending" for p in pods),
                costs=house.guard.run_costs(run.id, now),
            )
        )
    return tuple(lines)


def status(house: House, name: str, now: datetime) -> RunStatus:
    """How a run stands."""
    run = find(house, name)
    snapshot = _snapshot(house, run, now)
    pods = run_pods(snapshot, run.id)
    return RunStatus(
        run=run.id,
        experiment=run.experiment,
        owner=run.owner,
        owner_name=run.owner_name,
        team=run.team,
        cluster=run.cluster,
        state=state_of(house, run, now),
        reason=run.reason,
        created=run.created,
        roles=_roles(run_jobs(snapshot, run.id), pods),
        nodes=_nodes(snapshot, pods),
        costs=house.guard.run_costs(run.id, now),
        gpu=_gpu(house, run, pods, now),
        stale_since=snapshot.stale_since,
    )


def why(house: House, name: str, now: datetime) -> Why:
    """Why it waits, was refused or is paused."""
    run = find(house, name)
    snapshot = _snapshot(house, run, now)
    reasons = [run.reason] if run.reason else []
    blocked = house.guard.blocked(scope_of(run), now)
    reasons += [blocked] if blocked else []
    reasons += list(house.planner.pending_reasons(run.id, now))
    reasons += _scheduler_says(run_pods(snapshot, run.id))
    for decision in house.journal.history(subject=run.id, limit=5):
        if decision.kind in ("pause", "kill", "resume") or decision.state == "failed":
            said = decision.result.get("error") or "; ".join(decision.reasons)
            reasons.append(f"{decision.kind} ({decision.state}): {said}")
    if snapshot.stale_since is not None:
        reasons.append(f"The API of cluster {run.cluster} does not answer; what is shown may be old.")
    unique = tuple(dict.fromkeys(reason for reason in reasons if reason))
    return Why(run.id, run.experiment, state_of(house, run, now), unique)


def scope_of(run: Run) -> Scope:
    """Whom the run's cost belongs to."""
    return Scope(run.cluster, "", run.team, run.owner, run.experiment, run.id)


def state_of(house: House, run: Run, now: datetime) -> str:
    """One word: the launcher's book, and for a live run what its Jobs say."""
    if run.state is not RunState.RUNNING:
        return run.state.value
    snapshot = _snapshot(house, run, now)
    jobs = [job for job in run_jobs(snapshot, run.id) if not job.done]
    pods = [pod for pod in run_pods(snapshot, run.id) if pod.active]
    if jobs and all(job.suspended for job in jobs):
        paused = any(A_PAUSED in job.annotations for job in jobs)
        return "pausing" if pods else ("paused" if paused else "suspended")
    if pods and all(pod.phase == "Pending" for pod in pods):
        return "pending"
    return "running"


def _snapshot(house: House, run: Run, now: datetime) -> ClusterSnapshot:
    view = house.views.get(run.cluster)
    if view is None:
        return ClusterSnapshot(run.cluster, now, synced=False)
    return view.snapshot(now)


def run_pods(snapshot: ClusterSnapshot, run: str) -> tuple[Pod, ...]:
    """Pods that carry the run's label."""
    return tuple(pod for pod in snapshot.pods.values() if pod.labels.get(L_RUN) == run)


def run_jobs(snapshot: ClusterSnapshot, run: str) -> tuple[Job, ...]:
    """Jobs that carry the run's label."""
    return tuple(job for job in snapshot.jobs.values() if job.labels.get(L_RUN) == run)


def _roles(jobs: Iterable[Job], pods: Iterable[Pod]) -> tuple[RoleStatus, ...]:
    phases = Counter((pod.labels.get(L_ROLE, ""), pod.phase) for pod in pods)
    lines = []
    for job in sorted(jobs, key=lambda job: job.name):
        role = job.labels.get(L_ROLE) or job.name
        key = job.labels.get(L_ROLE, "")
        lines.append(
            RoleStatus(
                role,
                job.parallelism,
                phases[key, "Running"],
                phases[key, "Pending"],
                job.succeeded,
                job.failed,
            )
        )
    return tuple(lines)


def _nodes(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[tuple[str, int], ...]:
    names = {pod.node for pod in pods if pod.node and pod.active}
    regions = Counter(
        snapshot.nodes[name].labels.get(L_REGION, "on premises") for name in names if name in snapshot.nodes
    )
    return tuple(sorted(regions.items()))


def _gpu(house: House, run: Run, pods: Iterable[Pod], now: datetime) -> Sample | None:
    users = [(p.namespace, p.name) for p in pods if p.requests.gpus and p.phase == "Running"]
    if house.metrics is None or not users:
        return None
    return house.metrics.gpu_utilisation(run.cluster, users, now, GPU_WINDOW)


def _scheduler_says(pods: Iterable[Pod]) -> list[str]:
    said = Counter(pod.message for pod in pods if pod.phase == "Pending" and pod.message)
    return [f"{number} waiting: {message}" for message, number in said.most_common(3)]
