"""Scaling a role of a run: the added replicas are planned, priced and held before the Job is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.operations import rights
from bot.operations.fitting import Fit
from bot.operations.house import House
from bot.operations.runs import find, scope_of
from fleet.budget import HoldAnswer, HoldKind, HoldRequest
from fleet.model import Person
from fleet.values import Money
from launcher.scaling import ScalePlan


@dataclass(frozen=True, slots=True)
class ScaleOrder:
    """`role` may be "" where a run has only one. The same `request` is carried out once."""

    name: str
    role: str
    replicas: int
    request: str


@dataclass(frozen=True, slots=True)
class ScaleOutcome:
    """What became of it."""

    ok: bool
    sentence: str
    run: str
    experiment: str
    role: str
    before: int
    after: int
    hourly: Money
    """what the added replicas burn at worst"""
    fit: Fit | None
    warning: str = ""


def scale(house: House, person: Person, order: ScaleOrder, now: datetime) -> ScaleOutcome:
    """Change a role's size. Raises NotAllowed, BadInput."""
    run = find(house, order.name)
    rights.acts_on(person, run.owner, run.team, f"To scale {run.experiment} ({run.id})", house.directory)
    plan = house.launcher.plan_scale(run.id, order.role, order.replicas)
    fit = house.planner.fit(run.cluster, plan.added, now) if plan.added else None
    if fit is not None and fit.unplaced:
        said = " ".join(f"{count} of them fit nowhere: {reason}" for count, reason in fit.unplaced)
        return _outcome(plan, fit, False, f"{plan.role} was not scaled to {plan.after}. {said}")
    hold = _hold(house, plan, fit, order.request, now)
    if hold is not None:
        answer = house.guard.budget.check(hold, now)
        if not answer.granted:
            return _outcome(plan, fit, False, _refused(plan, answer))
    decision = house.launcher.scale(plan, hold=hold, request=order.request, actor=person.id, now=now)
    if decision.state == "failed":
        return _outcome(plan, fit, False, str(decision.result.get("error", "It failed.")))
    # After a crash the Job may have its new size already: what it had is in the decision.
    done = replace(plan, before=int(decision.payload["before"]), after=int(decision.payload["after"]))
    said = f"{done.run.experiment} ({done.run.id}): {done.role} scales from {done.before} to {done.after}."
    return _outcome(done, fit, True, said)


def _hold(house: House, plan: ScalePlan, fit: Fit | None, request: str, now: datetime) -> HoldRequest | None:
    """As at launch: until the declared end at worst, else what burns until a pause has worked (rolling)."""
    if fit is None:
        return None
    limits = plan.run.parsed().limits
    declared = limits.max_hours is not None
    left = house.guard_settings.span
    if limits.max_hours is not None:
        left = max(left, (plan.run.started or now) + timedelta(hours=limits.max_hours) - now)
    whole = fit.worst_hourly.over(left)
    return HoldRequest(
        id=f"scale-{plan.run.id}-{request}",
        kind=HoldKind.SCALE,
        scope=scope_of(plan.run),
        amount=min(whole, limits.max_cost or house.launcher_settings.default_cap),
        burn=fit.worst_hourly,
        reason=f"{plan.role} of {plan.run.experiment} ({plan.run.id}) to {plan.after}",
        payload={"rolling": not declared, "pods": len(plan.added)},
    )


def _refused(plan: ScalePlan, answer: HoldAnswer) -> str:
    why = answer.reason or "No cap has room for it."
    return f"{plan.role} of {plan.run.experiment} was not scaled to {plan.after}. {why}"


def _outcome(plan: ScalePlan, fit: Fit | None, ok: bool, sentence: str) -> ScaleOutcome:
    return ScaleOutcome(
        ok=ok,
        sentence=sentence,
        run=plan.run.id,
        experiment=plan.run.experiment,
        role=plan.role,
        before=plan.before,
        after=plan.after,
        hourly=fit.worst_hourly if fit else Money(0),
        fit=fit,
        warning=plan.warning,
    )
