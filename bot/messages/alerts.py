"""Cards of the guard before anything is stopped: a threshold passed, a countdown armed, room made again."""

from __future__ import annotations

from datetime import datetime

from bot.messages.model import Block, Button, Buttons, Confirm, Context, Fields, Header, Message, Text
from bot.messages.runs import PAUSE, kill_button
from bot.words import clock_time, count, duration, hourly, listed, name, percent, span
from fleet.ports import Directory
from fleet.values import Money
from guard.events import (
    About,
    BudgetAlert,
    CapFigures,
    CountdownArmed,
    CountdownCancelled,
    ForecastAdvice,
    ForecastFigures,
)

APPROVE = "guard.approve"
DENY = "guard.deny"


def budget_alert(event: BudgetAlert, directory: Directory, now: datetime) -> Message:
    """A threshold was passed: spent, $/h, projection, cap, time to it; Approve, Pause, Kill."""
    figures = event.figures
    title = f"{event.threshold} % of {figures.cap}"
    text = (
        f"{subject(event.about, figures)} has {_used(event)} of {figures.limit} ({figures.cap}), and burns "
        f"{hourly(figures.burn)}{_reached(figures, now)}."
    )
    blocks: list[Block] = [Header(title), Text(text, mention=event.about.owner)]
    blocks.append(Fields(_figures(figures, event.forecast, now)))
    blocks += [Text(f"• {reason}") for reason in event.reasons]
    blocks += answers(event.about, figures, event.request, event.suggested)
    blocks.append(Context(_who(event.raised_by, directory, event.request)))
    return Message(text, tuple(blocks), card=True)


def countdown(event: CountdownArmed, directory: Directory, now: datetime) -> Message:
    """The countdown: what happens when unless somebody answers. Edited in place while it runs."""
    figures = event.figures
    left = max(event.deadline - now, event.deadline - event.deadline)
    doomed = listed((f"{name(v.experiment)} ({v.run})" for v in event.victims), limit=4)
    text = (
        f"{doomed or subject(event.about, figures)} will be paused at {clock_time(event.deadline)} (in {duration(left)}) "
        f"so that {figures.cap} ({figures.limit}) is kept: {figures.spent} is spent, burning {hourly(figures.burn)}."
    )
    blocks: list[Block] = [Header(f"Pause in {duration(left)}"), Text(text, mention=event.about.owner)]
    blocks.append(Fields((("Pause at", event.deadline), *_figures(figures, event.forecast, now))))
    if event.belt:
        hit = count(len(event.victims), "run")
        blocks.append(
            Text(
                f"This would stop {hit} at once, so nothing new starts under this cap until somebody answers."
            )
        )
    blocks.append(Text("If nobody answers, they are paused; nothing is deleted, and a pause can be resumed."))
    alone = event.victims[0] if len(event.victims) == 1 else event.about
    blocks += answers(alone, figures, event.request, event.suggested, deny=True)
    blocks.append(Context(_who(event.raised_by, directory, event.request)))
    return Message(text, tuple(blocks), card=True)


def countdown_over(event: CountdownCancelled) -> Message:
    """The countdown card after it was called off: no buttons."""
    text = f"The countdown of {event.figures.cap} is off: {event.reason.rstrip('.')}."
    return Message(text, (Header("Countdown called off"), Text(text)), card=True)


def forecast_advice(event: ForecastAdvice, now: datetime) -> Message:
    """Advice only: at completion it would cost more than its cap."""
    figures = event.figures
    text = (
        f"{subject(event.about, figures)} is projected to cost {projected(event.forecast)}, more than what "
        f"{figures.cap} allows ({figures.limit}). Nothing is stopped because of a projection."
    )
    fields = Fields(_figures(figures, event.forecast, now))
    return Message(text, (Text(text, mention=event.about.owner), fields))


def answers(
    about: About, figures: CapFigures, request: str, suggested: Money, *, deny: bool = False
) -> list[Block]:
    """Approve (by a bounded amount), Pause, Kill: each only where it means something."""
    buttons: list[Button] = []
    if request:
        question = f"Raises {figures.cap} by {suggested} for a bounded time. What is not used of it lapses."
        confirm = Confirm("Approve more?", question, "Approve")
        buttons.append(Button(APPROVE, request, f"Approve {suggested}", "primary", confirm))
    if about.run:
        buttons.append(Button(PAUSE, about.run, "Pause"))
    elif deny and request:
        buttons.append(Button(DENY, request, "Do not approve"))
    if about.run:
        buttons.append(
            kill_button(about.run, f"{name(about.experiment)} ({about.run})", hourly(figures.burn))
        )
    return [Buttons(tuple(buttons))] if buttons else []


def subject(about: About, figures: CapFigures) -> str:
    """Whom it is about: the run, or what the cap is for."""
    if about.run:
        return f"{name(about.experiment)} ({about.run})"
    return figures.scope[:1].upper() + figures.scope[1:]


def projected(forecast: ForecastFigures) -> str:
    """`$0.9M to $1.1M (trials completed so far)`."""
    if forecast.high is None:
        return f"at least {forecast.low} ({forecast.basis})"
    return f"{span(forecast.low, forecast.high)} ({forecast.basis})"


def _figures(
    figures: CapFigures, forecast: ForecastFigures | None, now: datetime
) -> tuple[tuple[str, str | datetime], ...]:
    pairs: list[tuple[str, str | datetime]] = [
        ("Spent", f"{figures.spent} of {figures.limit}"),
        ("Burn", hourly(figures.burn)),
        ("Held", str(figures.held)),
        ("Cap", f"{figures.cap} ({figures.scope})"),
    ]
    if forecast is not None:
        pairs.append(("Projected to completion", projected(forecast)))
    if figures.cap_reached_at is not None:
        pairs.append(("Cap reached", figures.cap_reached_at))
        pairs.append(("Time to the cap", duration(max(figures.cap_reached_at - now, now - now))))
    if figures.window_end is not None:
        pairs.append(("Window ends", figures.window_end))
    return tuple(pairs)


def _used(event: BudgetAlert) -> str:
    """`spent $41.20, 82 %`; where it is the commitment that passed, what is spent and what is held."""
    figures = event.figures
    if event.threshold.isdigit():
        return f"spent {figures.spent}, {percent(figures.spent, figures.limit)}"
    committed = figures.spent + figures.held
    share = percent(committed, figures.limit)
    return f"committed {committed} ({figures.spent} spent, {figures.held} held), {share}"


def _reached(figures: CapFigures, now: datetime) -> str:
    if figures.cap_reached_at is None:
        return ""
    return f"; at this burn the cap is reached in {duration(max(figures.cap_reached_at - now, now - now))}"


def _who(raised_by: tuple[str, ...], directory: Directory, request: str) -> str:
    names = listed((_person(entry, directory) for entry in raised_by), limit=4, last="or")
    can = f"{names} can approve more. " if names else "Nobody is set to approve more. "
    return f"{can}Request {request}." if request else can.strip()


def _person(entry: str, directory: Directory) -> str:
    person = directory.by_chat_id(entry)
    return name(person.name) if person.known else name(entry)
