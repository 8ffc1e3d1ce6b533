"""The launch card: what would be bought, what it costs now and at worst, and whether it fits."""

from __future__ import annotations

from bot.messages.model import Block, Button, Buttons, Context, Fields, Header, Message, Table, Text
from bot.operations.launch import LaunchOutcome, LaunchPlan, RoleLine, refusal
from bot.words import cores, count, duration, hourly, listed, memory, name

START = "launch.start"
CANCEL = "launch.cancel"


def card(plan: LaunchPlan, *, buttons: bool = True) -> Message:
    """The card with Launch and Cancel; without Launch where it does not fit."""
    title = name(plan.experiment)
    blocks: list[Block] = [Header(f"Launch {title}?" if buttons else f"Plan of {title}")]
    blocks.append(Fields((("Run", plan.run), ("Owner", name(plan.owner_name)), ("Team", plan.team or "–"))))
    blocks.append(_roles(plan))
    blocks += _nodes(plan)
    blocks.append(Fields(_money(plan)))
    blocks += [Text(f"Note: {warning}") for warning in plan.warnings]
    blocks += _verdict(plan)
    if buttons:
        choices = [Button(START, plan.request, "Launch", "primary")] if plan.launchable else []
        blocks.append(Buttons((*choices, Button(CANCEL, plan.request, "Cancel"))))
        blocks.append(Context(f"{name(plan.owner_name)}, leads of the team, operators and admins may click."))
    return Message(_sentence(plan), tuple(blocks), card=True)


def decided(outcome: LaunchOutcome) -> Message:
    """The card after its decision: no buttons, who decided, and the plan as it was."""
    blocks: list[Block] = [Header(name(outcome.experiment)), Text(outcome.sentence, strong=True)]
    if outcome.plan is not None:
        shown = card(outcome.plan, buttons=False).blocks
        blocks += [block for block in shown if not isinstance(block, Header)]
    return Message(outcome.sentence, tuple(blocks), card=True)


def _roles(plan: LaunchPlan) -> Table:
    rows = [_role(role) for role in plan.roles]
    total = (
        "total",
        f"{sum(r.replicas for r in plan.roles):,}",
        cores(sum(r.millicores * r.replicas for r in plan.roles)),
        memory(sum(r.memory * r.replicas for r in plan.roles)),
        f"{sum(r.gpus * r.replicas for r in plan.roles):,}",
    )
    if len(rows) > 1 or plan.roles[0].replicas > 1:
        rows.append(total)
    return Table(("ROLE", "N", "CPU", "MEM", "GPU"), tuple(rows), frozenset({1, 2, 3, 4}))


def _role(role: RoleLine) -> tuple[str, ...]:
    return (role.role, f"{role.replicas:,}", cores(role.millicores), memory(role.memory), str(role.gpus))


def _nodes(plan: LaunchPlan) -> list[Block]:
    fit = plan.fit
    if not fit.nodes:
        pods = count(fit.existing, "pod fits", "pods fit")
        return [Text(f"Nothing has to be bought: {pods} on machines that are there.")] if fit.existing else []
    rows = tuple(
        (
            f"{line.count} x {line.instance_type}",
            line.zone or line.region,
            line.capacity_type,
            hourly(line.hourly),
        )
        for line in fit.nodes
    )
    return [Table(("NODES", "WHERE", "PAID", "$/h"), rows, frozenset({3}))]


def _money(plan: LaunchPlan) -> tuple[tuple[str, str], ...]:
    fit = plan.fit
    estimate = " (estimate: a price is not known)" if fit.estimated else ""
    end = (
        f"{duration(plan.hours)} limit"
        if plan.declared
        else f"{duration(plan.hours)} by policy, no end declared"
    )
    stop = f"; stops after about {duration(plan.stops_after)} at worst" if plan.stops_after else ""
    where = " → ".join(fit.regions) or "machines that are there"
    there = (
        f"{count(fit.existing, 'pod')} on machines that are there → " if fit.existing and fit.nodes else ""
    )
    return (
        ("Now", hourly(fit.hourly) + estimate),
        ("At worst", hourly(fit.worst_hourly)),
        ("Until its end", f"expected {plan.expected}, worst {plan.worst} ({end})"),
        ("Cap of the run", f"{plan.max_cost}{stop}"),
        ("Where", there + where),
        ("Set aside at launch", str(plan.hold.amount)),
    )


def _verdict(plan: LaunchPlan) -> list[Block]:
    if plan.launchable:
        checked = count(plan.objects, "object")
        return [
            Context(f"Checks: names, limits, {checked} accepted by the cluster in a dry run, fits every cap.")
        ]
    blocks: list[Block] = [Text(f"It cannot be launched now. {refusal(plan)}", strong=True)]
    misfits = plan.answer.misfits
    if misfits:
        rows = tuple(
            (m.cap, m.scope, str(m.limit), str(m.left), str(m.short), listed(m.raised_by, 3)) for m in misfits
        )
        blocks.append(
            Table(("CAP", "FOR", "LIMIT", "LEFT", "SHORT", "RAISED BY"), rows, frozenset({2, 3, 4}))
        )
    return blocks


def _sentence(plan: LaunchPlan) -> str:
    pods = count(sum(role.replicas for role in plan.roles), "pod")
    nodes = count(plan.fit.count, "new node") if plan.fit.count else "no new node"
    fits = "fits every cap" if plan.launchable else f"cannot be launched now: {refusal(plan)}"
    return (
        f"{name(plan.owner_name)} wants to launch {name(plan.experiment)} ({plan.run}): {pods} on {nodes}, "
        f"{hourly(plan.fit.hourly)} now, at worst {plan.worst} in {duration(plan.hours)} under a cap of "
        f"{plan.max_cost}; it {fits}"
    ).rstrip(".") + "."
