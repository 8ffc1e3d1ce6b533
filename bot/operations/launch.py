"""Planning, proposing and starting a launch. Shown before anything is bought; started by a click."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.operations import rights
from bot.operations.fitting import Fit
from bot.operations.house import House
from bot.operations.runs import scope_of
from fleet.budget import HoldAnswer, HoldKind, HoldRequest, launch_hold_id
from fleet.errors import BadInput, OutsideError, Unavailable
from fleet.model import L_GOVERNED, L_ROLE, Person
from fleet.values import Money
from guard.caps import Cap, ScopeKind
from launcher.load import find_experiment
from launcher.manifests import Rendered
from launcher.ports import Order, Prepared
from launcher.runs import Run, RunState


@dataclass(frozen=True, slots=True)
class RoleLine:
    """One role on the card: how many, and what one of them asks for."""

    role: str
    replicas: int
    millicores: int
    memory: int
    """bytes"""
    gpus: int


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything the card shows."""

    request: str
    run: str
    experiment: str
    owner: str
    owner_name: str
    team: str
    cluster: str
    roles: tuple[RoleLine, ...]
    fit: Fit
    hours: timedelta
    declared: bool
    """the experiment itself says how long it runs; else the policy's hours"""
    expected: Money
    worst: Money
    max_cost: Money
    stops_after: timedelta | None
    """when the run's cap stops it at worst, where that is before its end"""
    warnings: tuple[str, ...]
    objects: int
    problem: str
    """why it cannot be launched; "" where it can"""
    hold: HoldRequest
    answer: HoldAnswer

    @property
    def launchable(self) -> bool:
        """The Launch button makes sense."""
        return self.answer.granted and not self.problem and not self.fit.unplaced


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """What became of a click on a launch card."""

    ok: bool
    sentence: str
    request: str
    run: str
    experiment: str
    actor_name: str
    plan: LaunchPlan | None = None


def thread_key(request: str) -> str:
    """Key of the launch card: the root of the run's thread."""
    return f"launch:{request}"


def run_cap(run: str) -> str:
    """Name of the cap that a launch sets on its run."""
    return f"run-{run}"


def order(house: House, person: Person, name: str, request: str, channel: str = "") -> Order:
    """An order for an experiment of the settings' folder. Raises BadInput."""
    experiment = find_experiment(house.experiments, name)
    cluster = next((c for c in experiment.clusters if c in house.views), "") or house.home
    if experiment.clusters and cluster not in experiment.clusters:
        raise BadInput(
            f"{name} names the clusters {', '.join(experiment.clusters)}, and none of them is configured.",
            hint=f"Known: {', '.join(house.views)}.",
        )
    return Order(request, experiment, person, cluster, channel=channel, thread=thread_key(request))


def plan(house: House, person: Person, name: str, request: str, now: datetime) -> LaunchPlan:
    """What a launch would need and cost; nothing is stored."""
    return _plan(house, house.launcher.prepare(order(house, person, name, request), now), now)


def propose(house: House, person: Person, name: str, request: str, now: datetime, channel: str) -> LaunchPlan:
    """The plan, stored, so that a click can start it. Raises NotAllowed, BadInput."""
    rights.known(person)
    wanted = order(house, person, name, request, channel)
    return _plan(house, house.launcher.propose(wanted, now), now)


def start(house: House, person: Person, request: str, now: datetime, *, again: bool = False) -> LaunchOutcome:
    """Start what was proposed: cap of the run, hold, Jobs suspended, then released. Once a request.

    `again`: the same click after a crash; a launch that is under way then is its own.
    """
    run = _proposed(house, request)
    rights.acts_on(person, run.owner, run.team, f"The launch of {run.experiment}", house.directory)
    if run.state is not RunState.PROPOSED:
        if again and run.state.live:
            return _outcome(run, person, _launched(run, person), ok=True)
        return _outcome(run, person, f"{run.experiment} is {_said(run)} already.", ok=False)
    plan_ = _plan(house, Prepared(run, house.launcher.rendered(run)), now)
    if not plan_.launchable:
        return _outcome(run, person, refusal(plan_), ok=False, plan=plan_)
    cap = Cap(name=run_cap(run.id), scope_kind=ScopeKind.RUN, scope_value=run.id, limit=plan_.max_cost)
    house.guard.set_cap(cap, person.id, now)
    decision = house.launcher.start(run.id, hold=plan_.hold, actor=person.id, now=now)
    if decision.state == "failed":
        return _outcome(run, person, str(decision.result.get("error", "It failed.")), ok=False, plan=plan_)
    return _outcome(run, person, _launched(run, person), ok=True, plan=plan_)


def cancel(
    house: House, person: Person, request: str, now: datetime, *, again: bool = False
) -> LaunchOutcome:
    """Withdraw a proposal. `again`: the same click after a crash."""
    run = _proposed(house, request)
    rights.acts_on(person, run.owner, run.team, f"The launch of {run.experiment}", house.directory)
    if run.state is not RunState.PROPOSED and not (again and run.reason == "withdrawn"):
        return _outcome(run, person, f"{run.experiment} is {_said(run)} already.", ok=False)
    house.launcher.withdraw(run.id, now)
    return _outcome(run, person, f"{person.name} cancelled the launch of {run.experiment}.", ok=True)


def expire(house: House, older: timedelta, now: datetime) -> tuple[LaunchOutcome, ...]:
    """Withdraw proposals that nobody clicked in time: their prices are old."""
    found = []
    for run in house.launcher.runs.recent(200):
        if run.state is RunState.PROPOSED and now - run.created >= older:
            house.launcher.withdraw(run.id, now)
            sentence = (
                f"The launch of {run.experiment} was not clicked in time and is withdrawn; launch it again."
            )
            found.append(LaunchOutcome(True, sentence, run.request, run.id, run.experiment, ""))
    return tuple(found)


def refusal(plan_: LaunchPlan) -> str:
    """Why a plan cannot be launched, in sentences; "" where it can."""
    if plan_.problem:
        return plan_.problem
    if plan_.fit.unplaced:
        return " ".join(f"{count} of its pods fit nowhere: {reason}" for count, reason in plan_.fit.unplaced)
    if plan_.answer.granted:
        return ""
    return plan_.answer.reason or "No cap has room for it."


def _proposed(house: House, request: str) -> Run:
    run = house.launcher.runs.by_request(request)
    if run is None:
        raise BadInput("This card belongs to no launch that is known here.", hint="Launch it again.")
    return run


def _launched(run: Run, person: Person) -> str:
    return f"{person.name} launched {run.experiment} ({run.id})."


def _said(run: Run) -> str:
    return "cancelled" if run.reason == "withdrawn" else run.state.value


def _outcome(
    run: Run, person: Person, sentence: str, *, ok: bool, plan: LaunchPlan | None = None
) -> LaunchOutcome:
    return LaunchOutcome(ok, sentence, run.request, run.id, run.experiment, person.name, plan)


def _plan(house: House, prepared: Prepared, now: datetime) -> LaunchPlan:
    run, rendered = prepared.run, prepared.rendered
    experiment = run.parsed()
    fit = house.planner.fit(run.cluster, rendered.pods, now)
    declared = experiment.limits.max_hours is not None
    worst = fit.worst_hourly.over(rendered.hours)
    hold = _hold(house, run, rendered, fit, declared)
    lasts = rendered.max_cost.lasts(fit.worst_hourly)
    return LaunchPlan(
        request=run.request,
        run=run.id,
        experiment=run.experiment,
        owner=run.owner,
        owner_name=run.owner_name,
        team=run.team,
        cluster=run.cluster,
        roles=_roles(rendered),
        fit=fit,
        hours=rendered.hours,
        declared=declared,
        expected=fit.hourly.over(rendered.hours),
        worst=worst,
        max_cost=rendered.max_cost,
        stops_after=lasts if lasts is not None and lasts < rendered.hours else None,
        warnings=rendered.warnings,
        objects=len(rendered.objects),
        problem=_not_governed(house, run, now) or _dry_run(house, run, rendered),
        hold=hold,
        answer=house.guard.budget.check(hold, now),
    )


def _not_governed(house: House, run: Run, now: datetime) -> str:
    """Why nothing may be launched there: governed is what the settings list and the cluster labels."""
    if run.namespace in house.views[run.cluster].snapshot(now).governed:
        return ""
    return (
        f"Namespace {run.namespace} of cluster {run.cluster} is not governed: it must be listed under governed: in the "
        f"settings and labelled; type: kubectl label namespace {run.namespace} {L_GOVERNED}=true"
    )


def _hold(house: House, run: Run, rendered: Rendered, fit: Fit, declared: bool) -> HoldRequest:
    """The worst case where an end is declared, else what burns until a pause has worked (rolling)."""
    whole = fit.worst_hourly.over(rendered.hours if declared else house.guard_settings.span)
    return HoldRequest(
        id=launch_hold_id(run.id),
        kind=HoldKind.LAUNCH,
        scope=scope_of(run),
        amount=min(whole, rendered.max_cost),
        burn=fit.worst_hourly,
        reason=f"launch of {run.experiment} ({run.id})",
        payload={
            "rolling": not declared,
            "hours": rendered.hours.total_seconds() / 3600,
            "max_cost": rendered.max_cost.micros,
            "pods": len(rendered.pods),
        },
    )


def _roles(rendered: Rendered) -> tuple[RoleLine, ...]:
    lines: dict[str, RoleLine] = {}
    for pod in rendered.pods:
        role = pod.labels.get(L_ROLE, "")
        before = lines[role].replicas if role in lines else 0
        asked = pod.requests
        lines[role] = RoleLine(role, before + 1, asked.millicores, asked.memory, asked.gpus)
    return tuple(lines.values())


def _dry_run(house: House, run: Run, rendered: Rendered) -> str:
    """What the API server says against the objects, before any exists; "" where nothing."""
    if run.state is not RunState.PROPOSED:
        return ""
    objects = house.objects.get(run.cluster)
    if objects is None:
        return f"There is no cluster {run.cluster}."
    for manifest in rendered.objects:
        try:
            objects.create(manifest, dry_run=True)
        except Unavailable:
            return f"The API of cluster {run.cluster} does not answer, so nothing can be launched there now."
        except (OutsideError, BadInput) as error:
            return f"The cluster refuses {manifest['kind']} {manifest['metadata']['name']}: {error}"
    return ""
