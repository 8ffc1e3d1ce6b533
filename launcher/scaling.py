"""Scaling a role that runs: an elastic role's replicas, or how many trials of a sweep run at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from config.source import suggestion
from fleet.errors import BadInput, NotFound, Refused
from fleet.journal import Verdict
from fleet.model import Decision, Pod, Ref
from fleet.ports import Objects
from launcher.events import Scaled, ScaleFailed
from launcher.manifests import limited, render
from launcher.names import job_name
from launcher.planning import planned_pods
from launcher.ports import LauncherPorts, LaunchRefused, hold_from_json, refusal
from launcher.runs import Run, RunState, RunStore
from launcher.settings import LauncherSettings
from launcher.spec import Experiment

OVERTAKEN_AFTER = timedelta(minutes=5)
"""A Job that still has another size then was scaled by somebody else: this scale is over."""


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """What scaling would do; `added` are the pods that it adds, for planning and pricing."""

    run: Run
    role: str
    before: int
    after: int
    patch: Mapping[str, Any]
    added: tuple[Pod, ...]
    warning: str


def plan_scale(
    run: Run, role_name: str, replicas: int, job: Mapping[str, Any], settings: LauncherSettings
) -> ScalePlan:
    """What scaling `role_name` to `replicas` means, given its Job as read now. Raises BadInput."""
    experiment = run.parsed()
    role_name = _checked_role(experiment, role_name)
    if run.state is not RunState.RUNNING or _ended(job):
        raise BadInput(f"{run.experiment} ({run.id}) does not run any more.", hint="Launch it again.")
    spec = job["spec"]
    before = int(spec.get("parallelism", 1))
    if experiment.sweep is not None:
        replicas = _checked_parallel(replicas, int(spec["completions"]))
        patch: dict[str, Any] = {"parallelism": replicas}
    else:
        _check_elastic(experiment, role_name, replicas)
        patch = {"parallelism": replicas, "completions": replicas}
    _check_limits(experiment, run, role_name, replicas, settings)
    name = job_name(run.experiment, run.id, role_name)
    pods = planned_pods(run.cluster, run.namespace, name, spec["template"], max(before, replicas))
    return ScalePlan(
        run, role_name, before, replicas, patch, pods[before:], _warning(job, experiment, replicas)
    )


def _checked_role(experiment: Experiment, role_name: str) -> str:
    roles = experiment.resolved()
    if not role_name and len(roles) == 1:
        return next(iter(roles))
    if role_name not in roles:
        wanted = f"{role_name!r} is" if role_name else "Nothing is named that is"
        raise BadInput(f"{wanted} not a role of {experiment.name}.", hint=suggestion(role_name, list(roles)))
    return role_name


def _checked_parallel(replicas: int, trials: int) -> int:
    if replicas < 1:
        raise BadInput("A sweep runs at least one trial at once.", hint="To stop it for a while, pause it.")
    return min(replicas, trials)


def _check_elastic(experiment: Experiment, role_name: str, replicas: int) -> None:
    role = experiment.resolved()[role_name]
    if role.min_replicas is None:
        raise BadInput(
            f"{role_name} is not elastic: its size is part of its environment.",
            hint="Give it min_replicas and launch again.",
        )
    if replicas < role.min_replicas:
        raise BadInput(
            f"{role_name} has min_replicas {role.min_replicas}.", hint="Ask for at least that many."
        )


def _check_limits(
    experiment: Experiment, run: Run, role_name: str, replicas: int, settings: LauncherSettings
) -> None:
    rendered = render(experiment, run.identity, settings)
    mine = next(
        o for o in rendered.objects if o["metadata"]["labels"].get("app.kubernetes.io/component") == role_name
    )
    allowed = limited(experiment, mine["spec"]["template"]["spec"])
    if replicas > allowed:
        raise BadInput(
            f"limits.max_cores or max_gpus of {experiment.name} allows {allowed} of {role_name}, not {replicas}.",
            hint="Raise it and launch again.",
        )


def _ended(job: Mapping[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c.get("status") == "True" for c in conditions)


def _warning(job: Mapping[str, Any], experiment: Experiment, replicas: int) -> str:
    """KEP-3715: an index that completed, was scaled away and comes back runs again."""
    done = str(job.get("status", {}).get("completedIndexes") or "")
    if experiment.sweep is not None or not done:
        return ""
    highest = int(done.replace(",", "-").split("-")[-1])
    if highest < replicas:
        return ""
    return f"Replica {highest} has completed already; scaled away and back it would run again."


class ScaleHandler:
    """Journal handler of kind `scale`."""

    def __init__(self, runs: RunStore, outside: LauncherPorts) -> None:
        self._runs = runs
        self._out = outside

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Take the hold, then change the Job's size."""
        run, objects = self._target(decision)
        plain = decision.payload.get("hold")
        if plain is not None:
            answer = self._out.budget.hold(hold_from_json(plain), now)
            if not answer.granted:
                raise LaunchRefused(refusal(answer))
        try:
            objects.merge_patch(_job_ref(run, decision), {"spec": dict(decision.payload["patch"])})
        except (Refused, NotFound, BadInput) as error:
            self._give_back(decision, now, str(error))
            raise LaunchRefused(str(error)) from error
        return {"patch": decision.payload["patch"]}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """The Job has the size that was asked for."""
        run, objects = self._target(decision)
        try:
            spec = objects.get(_job_ref(run, decision))["spec"]
        except NotFound as error:
            self._give_back(decision, now, str(error))
            return Verdict.FAILED
        if any(spec.get(field) != size for field, size in decision.payload["patch"].items()):
            if now - decision.decided_at < OVERTAKEN_AFTER:
                return Verdict.NOT_YET
            self._give_back(decision, now, "the Job was given another size meanwhile")
            return Verdict.FAILED
        plain = decision.payload.get("hold")
        if plain is not None:
            self._out.budget.settle(plain["id"], now, result=dict(decision.result))
        return Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Tell the new size."""
        run, _ = self._target(decision)
        payload = decision.payload
        event = Scaled(
            run.id,
            run.experiment,
            run.owner,
            run.team,
            payload["role"],
            payload["before"],
            payload["after"],
            decision.actor,
            payload["warning"],
        )
        self._out.notifier.notify(event, key=f"{decision.id}:scaled", now=now)

    def given_up(self, decision: Decision, reason: str, now: datetime) -> None:
        """The cluster failed it for too long: give the hold back and tell."""
        self._give_back(decision, now, reason)
        run, _ = self._target(decision)
        payload = decision.payload
        event = ScaleFailed(
            run.id,
            run.experiment,
            run.owner,
            run.team,
            payload["role"],
            payload["after"],
            decision.actor,
            reason,
        )
        self._out.notifier.notify(event, key=f"{decision.id}:failed", now=now)

    def _give_back(self, decision: Decision, now: datetime, reason: str) -> None:
        plain = decision.payload.get("hold")
        if plain is not None:
            self._out.budget.release(plain["id"], now, f"scale failed: {reason}")

    def _target(self, decision: Decision) -> tuple[Run, Objects]:
        run = self._runs.get(decision.payload["run"])
        if run is None or run.cluster not in self._out.objects:
            raise LaunchRefused(f"There is no run {decision.payload['run']} to scale.")
        return run, self._out.objects[run.cluster]


def _job_ref(run: Run, decision: Decision) -> Ref:
    name = job_name(run.experiment, run.id, decision.payload["role"])
    return Ref(run.cluster, "batch/v1", "Job", run.namespace, name)
