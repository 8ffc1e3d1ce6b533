"""Ending a run by itself: when the roles that decide are done, the others go too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.budget import launch_hold_id
from fleet.journal import Verdict
from fleet.model import L_ROLE, Decision, Job
from fleet.ports import WorkState
from launcher.events import RunFinished
from launcher.ports import LauncherPorts
from launcher.runs import Run, RunState, RunStore
from launcher.spec import Experiment

SETTLING = timedelta(minutes=2)
"""The watch may lag this long behind a launch: a run is not called gone before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run has ended."""

    state: RunState
    reason: str


def judge(run: Run, experiment: Experiment, jobs: tuple[Job, ...], now: datetime) -> Outcome | None:
    """Whether the run has ended, from its Jobs as seen: None while it has not."""
    if not jobs:
        since = run.started or run.created
        return Outcome(RunState.GONE, "its objects are gone") if now > since + SETTLING else None
    roles = set(experiment.resolved())
    deciding = set(experiment.success) or roles
    if any(job.labels.get(L_ROLE, "") not in roles and not job.done for job in jobs):
        # Somebody put a Job of their own under this run: it is not over before that is.
        return None
    seen = {job.labels.get(L_ROLE, ""): job for job in jobs}
    if not deciding <= set(seen):
        return None
    failed = [role for role in sorted(deciding) if "Failed" in seen[role].conditions]
    if failed:
        reason = seen[failed[0]].reason or "failed"
        return Outcome(RunState.FAILED, f"{failed[0]}: {reason}")
    if all("Complete" in seen[role].conditions for role in deciding):
        return Outcome(RunState.DONE, "")
    return None


class FinishHandler:
    """Journal handler of kind `finish`."""

    def __init__(self, runs: RunStore, outside: LauncherPorts) -> None:
        self._runs = runs
        self._out = outside

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Keep the last logs of what still runs, delete it, and give the launch hold back."""
        run, workloads = decision.payload["run"], self._out.workloads
        cluster = decision.payload["cluster"]
        workloads.keep_logs(cluster, run, now)
        ended = workloads.delete_unfinished(cluster, run)
        workloads.delete_extras(cluster, run)
        self._out.budget.release(launch_hold_id(run), now, "the run has ended")
        return {"ended": list(ended)}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """No pod of it is left that has not finished."""
        payload = decision.payload
        status = self._out.workloads.verify(payload["cluster"], payload["run"], now)
        if status.active or status.terminating or status.state is WorkState.RUNNING:
            return Verdict.NOT_YET
        self._runs.move(payload["run"], RunState(payload["outcome"]), now, payload["reason"])
        return Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Tell how it ended."""
        run = self._runs.get(decision.payload["run"])
        if run is None:
            return
        event = RunFinished(
            run.id,
            run.experiment,
            run.owner,
            run.team,
            run.channel,
            run.thread,
            decision.payload["outcome"],
            decision.payload["reason"],
        )
        self._out.notifier.notify(event, key=f"{decision.id}:finished", now=now)
