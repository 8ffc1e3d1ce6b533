"""The launcher as the bot uses it: propose, start, scale, and notice what has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from config.source import suggestion
from fleet.budget import HoldRequest
from fleet.db import Database
from fleet.errors import BadInput, OutsideError
from fleet.journal import STOPS, Journal, NewDecision
from fleet.model import L_RUN, ClusterSnapshot, Decision, Job, Ref
from fleet.ports import WorkState
from launcher.finish import FinishHandler, judge
from launcher.manifests import Rendered, render, spec_hash, spec_json
from launcher.names import job_name, run_id
from launcher.ports import LauncherPorts, Order, Prepared, hold_to_json
from launcher.runs import WITHDRAWN, Run, RunState, RunStore
from launcher.scaling import ScaleHandler, ScalePlan, plan_scale
from launcher.settings import LauncherSettings
from launcher.steps import LaunchHandler

MAX_COLLISIONS = 20


class Launcher:
    """Launches, scales and ends runs through the journal."""

    def __init__(
        self, *, database: Database, journal: Journal, settings: LauncherSettings, outside: LauncherPorts
    ) -> None:
        self.runs = RunStore(database)
        self._db = database
        self._journal = journal
        self._settings = settings
        self._out = outside
        self._launching = LaunchHandler(self.runs, settings, outside)
        journal.register("launch", self._launching, given_up=self._launching.given_up)
        scaling = ScaleHandler(self.runs, outside)
        journal.register("scale", scaling, given_up=scaling.given_up)
        journal.register("finish", FinishHandler(self.runs, outside), STOPS)

    def prepare(self, order: Order, now: datetime) -> Prepared:
        """What the order would create, with the run id that it will have; nothing is stored. Raises BadInput."""
        if order.cluster not in self._out.objects:
            hint = suggestion(order.cluster, list(self._out.objects))
            raise BadInput(f"There is no cluster {order.cluster!r}.", hint=hint)
        known = self.runs.by_request(order.request)
        if known is not None:
            return Prepared(known, self.rendered(known))
        experiment, person = order.experiment, order.person
        run = Run(
            id=self._free_id(order.request),
            request=order.request,
            experiment=experiment.name,
            owner=person.id,
            owner_name=person.name,
            team=person.team,
            cluster=order.cluster,
            namespace=order.namespace or self._settings.namespace,
            spec=spec_json(experiment),
            spec_hash=spec_hash(experiment),
            state=RunState.PROPOSED,
            reason="",
            channel=order.channel,
            thread=order.thread,
            created=now,
        )
        return Prepared(run, self.rendered(run))

    def propose(self, order: Order, now: datetime) -> Prepared:
        """`prepare`, stored: it can be started by its run id later, also after a restart."""
        prepared = self.prepare(order, now)
        return replace(prepared, run=self.runs.add(prepared.run))

    def start(self, run_id_: str, *, hold: HoldRequest | None, actor: str, now: datetime) -> Decision:
        """Launch a proposed run. Started twice, it is the same launch. Where the returned decision is
        `failed`, its result's `error` says why and nothing of the run is left.

        `hold` is taken first (its id by `fleet.budget.launch_hold_id`); None where no money is involved.
        """
        with self._db.transaction():
            run = self._known(run_id_)
            if run.state is not RunState.PROPOSED and self._journal.by_key(f"launch:{run.id}") is None:
                raise BadInput(f"{run.experiment} ({run.id}) was withdrawn.", hint="Launch it again.")
            if run.state is RunState.PROPOSED:
                self.runs.move(run.id, RunState.LAUNCHING, now)
            payload = {"run": run.id, "hold": hold_to_json(hold) if hold is not None else None}
            reasons = (f"{actor} launched {run.experiment}",)
            decision = self._journal.decide(
                NewDecision("launch", f"launch:{run.id}", actor, run.id, reasons, payload), now
            )
        return self._journal.carry_out(decision, now) if decision.state != "failed" else decision

    def plan_scale(self, run_id_: str, role: str, replicas: int) -> ScalePlan:
        """What scaling would do, from the Job as it is now. Raises BadInput."""
        run = self._known(run_id_)
        roles = run.parsed().resolved()
        name = role or (next(iter(roles)) if len(roles) == 1 else "")
        if name not in roles:
            hint = suggestion(role, list(roles))
            raise BadInput(f"{role!r} is not a role of {run.experiment}.", hint=hint)
        ref = Ref(run.cluster, "batch/v1", "Job", run.namespace, job_name(run.experiment, run.id, name))
        job = self._out.objects[run.cluster].get(ref)
        return plan_scale(run, name, replicas, job, self._settings)

    def scale(
        self, plan: ScalePlan, *, hold: HoldRequest | None, request: str, actor: str, now: datetime
    ) -> Decision:
        """Carry a scale plan out; the same `request` is carried out once."""
        payload = {
            "run": plan.run.id,
            "role": plan.role,
            "before": plan.before,
            "after": plan.after,
            "patch": dict(plan.patch),
            "warning": plan.warning,
            "hold": hold_to_json(hold) if hold is not None else None,
        }
        reasons = (f"{actor} scaled {plan.role} from {plan.before} to {plan.after}",)
        decision = self._journal.decide(
            NewDecision("scale", f"scale:{plan.run.id}:{request}", actor, plan.run.id, reasons, payload), now
        )
        return self._journal.carry_out(decision, now) if decision.state != "failed" else decision

    def withdraw(self, run_id_: str, now: datetime) -> None:
        """Forget a proposal that nobody started."""
        run = self._known(run_id_)
        if run.state is RunState.PROPOSED:
            self.runs.move(run.id, RunState.FAILED, now, WITHDRAWN)

    def tick(self, snapshots: Sequence[ClusterSnapshot], now: datetime) -> tuple[Decision, ...]:
        """Notice runs that have ended and finish them; clean up after failed launches."""
        live = self.runs.live()
        if not live:
            return ()
        seen = {s.cluster: _jobs_by_run(s) for s in snapshots if s.synced and s.stale_since is None}
        decisions = []
        for run in live:
            if run.state is RunState.FAILING and self._launching.clean(run):
                self.runs.move(run.id, RunState.FAILED, now, run.reason)
            elif run.state is RunState.RUNNING and run.cluster in seen:
                decisions += self._finish_if_ended(run, seen[run.cluster].get(run.id, ()), now)
        return tuple(decisions)

    def _finish_if_ended(self, run: Run, jobs: tuple[Job, ...], now: datetime) -> list[Decision]:
        outcome = judge(run, run.parsed(), jobs, now)
        if outcome is None or (outcome.state is RunState.GONE and not self._really_gone(run, now)):
            return []
        payload = {
            "run": run.id,
            "cluster": run.cluster,
            "outcome": outcome.state.value,
            "reason": outcome.reason,
        }
        reasons = (outcome.reason or "every role that decides has completed",)
        decision = self._journal.decide(
            NewDecision("finish", f"finish:{run.id}", "launcher", run.id, reasons, payload), now
        )
        return [self._journal.carry_out(decision, now)]

    def _really_gone(self, run: Run, now: datetime) -> bool:
        """The cache shows nothing of the run: ask the API before anything is concluded from that."""
        try:
            return self._out.workloads.verify(run.cluster, run.id, now).state is WorkState.GONE
        except OutsideError:
            return False

    def rendered(self, run: Run) -> Rendered:
        """The run's objects, as they are or will be created. Raises BadInput."""
        return render(run.parsed(), run.identity, self._settings)

    def _free_id(self, request: str) -> str:
        for attempt in range(MAX_COLLISIONS):
            candidate = run_id(request, attempt)
            if self.runs.get(candidate) is None:
                return candidate
        raise BadInput("No run id is free for this request.", hint="Try again.")

    def _known(self, run_id_: str) -> Run:
        run = self.runs.find(run_id_)
        if run is None:
            names = sorted({run.experiment for run in self.runs.recent()})
            raise BadInput(f"There is no run {run_id_!r}.", hint=suggestion(run_id_, names))
        return run


def _jobs_by_run(snapshot: ClusterSnapshot) -> dict[str, tuple[Job, ...]]:
    found: dict[str, tuple[Job, ...]] = {}
    for job in snapshot.jobs.values():
        run = job.labels.get(L_RUN)
        if run and job.namespace in snapshot.governed:
            found[run] = (*found.get(run, ()), job)
    return found
