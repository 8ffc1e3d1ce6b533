"""What runs, how one run stands, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence

from bot.messages.model import Block, Button, Buttons, Confirm, Context, Fields, Header, Message, Table, Text
from bot.operations.runs import RunLine, RunStatus, Why
from bot.words import clock_time, count, duration, hourly, listed, name, percent, span
from guard.answers import RunCosts

PAUSE = "run.pause"
RESUME = "run.resume"
KILL = "run.kill"
WHY = "run.why"


def listing(lines: Sequence[RunLine], others: Sequence[RunLine] = ()) -> Message:
    """`ls`; `others` are what somebody has who asked for their own and has none."""
    if not lines and others:
        theirs = listed((f"{name(line.experiment)} ({line.run}) is {line.state}" for line in others), 3)
        return Message(f"Nothing of yours is running; of others, {theirs}. Try: ls, launch NAME, or help.")
    if not lines:
        return Message("Nothing is running. Try: launch NAME, or help.")
    burn = sum((line.costs.burn for line in lines[1:]), lines[0].costs.burn)
    rows = tuple(
        (
            line.run,
            name(line.experiment),
            name(line.owner_name),
            line.state,
            f"{line.active:,}" + (f" (+{line.pending:,} waiting)" if line.pending else ""),
            str(line.costs.spent),
            hourly(line.costs.burn),
        )
        for line in lines
    )
    table = Table(("RUN", "EXPERIMENT", "OWNER", "STATE", "PODS", "SPENT", "$/h"), rows, frozenset({5, 6}))
    text = f"{count(len(lines), 'run')}, burning {hourly(burn)} together."
    return Message(text, (table, Context(text)))


def status(found: RunStatus) -> Message:
    """`status`."""
    title = f"{name(found.experiment)} ({found.run})"
    pairs: list[tuple[str, str]] = [
        ("State", found.state + (f": {found.reason}" if found.reason else "")),
        ("Owner", f"{name(found.owner_name)}{f' of {found.team}' if found.team else ''}"),
        ("Spent", str(found.costs.spent)),
        ("Burn", hourly(found.costs.burn)),
        ("Projected to completion", projected(found.costs)),
        ("Machines", _nodes(found)),
    ]
    if found.gpu is not None:
        pairs.append(("GPU utilisation, 10 min", _gpu(found)))
    blocks: list[Block] = [Header(title), Fields(tuple(pairs))]
    if found.roles:
        blocks.append(_roles(found))
    blocks += _caps(found.costs)
    if found.stale_since is not None:
        since = clock_time(found.stale_since)
        blocks.append(
            Text(f"The API of {found.cluster} has not answered since {since}; this is how it was then.")
        )
    blocks.append(_buttons(found))
    text = (
        f"{title} is {found.state}: {found.costs.spent} spent, burning {hourly(found.costs.burn)}, "
        f"projected {projected(found.costs)}."
    )
    return Message(text, tuple(blocks))


def why(found: Why) -> Message:
    """`why`."""
    title = f"{name(found.experiment)} ({found.run})"
    if not found.reasons:
        return Message(f"{title} is {found.state}; nothing stands in its way.")
    lines = tuple(Text(f"• {reason}") for reason in found.reasons)
    text = f"{title} is {found.state}: {found.reasons[0]}"
    return Message(text, (Text(f"{title} is {found.state}.", strong=True), *lines))


def projected(costs: RunCosts) -> str:
    """`$900.00 to $1,100.00 (trials completed so far)`."""
    forecast = costs.forecast
    if forecast.high is None:
        return f"at least {forecast.low} ({forecast.basis})"
    return f"{span(forecast.low, forecast.high)} ({forecast.basis})"


def kill_button(run: str, title: str, burn: str) -> Button:
    """Kill asks first, and says what is lost."""
    question = f"Kills {title} for good: what is not in its checkpoint is lost. Saves {burn}."
    return Button(KILL, run, "Kill", "danger", Confirm("Kill it?", question, "Kill", "Keep it"))


def _buttons(found: RunStatus) -> Buttons:
    title = f"{name(found.experiment)} ({found.run})"
    kill = kill_button(found.run, title, hourly(found.costs.burn))
    why_ = Button(WHY, found.run, "Why?")
    if found.state in ("paused", "pausing", "suspended"):
        return Buttons((Button(RESUME, found.run, "Resume", "primary"), kill, why_))
    if found.state in ("running", "pending", "launching"):
        return Buttons((Button(PAUSE, found.run, "Pause"), kill, why_))
    return Buttons((why_,))


def _roles(found: RunStatus) -> Table:
    rows = tuple(
        (
            name(r.role),
            f"{r.wanted:,}",
            f"{r.running:,}",
            f"{r.pending:,}",
            f"{r.succeeded:,}",
            f"{r.failed:,}",
        )
        for r in found.roles
    )
    return Table(("ROLE", "WANTED", "RUNNING", "WAITING", "DONE", "FAILED"), rows, frozenset(range(1, 6)))


def _nodes(found: RunStatus) -> str:
    return ", ".join(f"{number} in {region}" for region, number in found.nodes) or "none"


def _gpu(found: RunStatus) -> str:
    assert found.gpu is not None
    if found.gpu.error:
        return f"unknown ({found.gpu.error})"
    return "unknown (no such series)" if found.gpu.value is None else f"{found.gpu.value:.0f} %"


def _caps(costs: RunCosts) -> list[Block]:
    if not costs.caps:
        return []
    rows = tuple(
        (
            status_.cap.name,
            status_.cap.subject,
            f"{status_.spent} of {status_.allowed}",
            percent(status_.spent, status_.allowed),
            duration(status_.time_to_cap, "not at this burn"),
            status_.state,
        )
        for status_ in costs.caps
    )
    return [Table(("CAP", "FOR", "SPENT", "", "REACHED IN", "STATE"), rows, frozenset({2, 3}))]
