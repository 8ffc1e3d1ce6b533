"""What was stopped, resumed or ended, and what could not be."""

from __future__ import annotations

from datetime import datetime

from bot.messages.alerts import APPROVE
from bot.messages.model import Block, Button, Buttons, Confirm, Context, Fields, Header, Message, Text
from bot.messages.runs import RESUME, kill_button
from bot.operations.stop import Asked
from bot.words import clock_time, duration, hourly, name
from fleet.ports import Directory
from guard.events import (
    About,
    DecisionFailed,
    Killed,
    PauseStarted,
    PauseStuck,
    PauseVerified,
    Resumed,
    UnpausedByHand,
)


def asked(found: Asked) -> Message:
    """The answer to whoever asked for a pause, resume or kill."""
    return Message(found.sentence)


def pause_started(event: PauseStarted, directory: Directory) -> Message:
    """Asked of the cluster, not verified yet."""
    by = actor(event.actor, directory)
    sentences = (
        f"{run(event.about)} is being paused by {by}.",
        _end(event.reason),
        "It counts as paused when no pod is left.",
    )
    text = " ".join(sentence for sentence in sentences if sentence)
    return Message(text, (Text(text, mention=event.about.owner),))


def pause_verified(event: PauseVerified, directory: Directory) -> Message:
    """No pod is active or terminating. With Approve and resume, or Resume, and Kill."""
    text = (
        f"{run(event.about)} is paused, verified after {event.took_seconds} s: no pod is active or terminating. "
        f"It has spent {event.spent}."
    )
    blocks: list[Block] = [Header("Paused"), Text(text, mention=event.about.owner)]
    pairs: list[tuple[str, str | datetime]] = [
        ("By", actor(event.actor, directory)),
        ("Why", event.reason or "–"),
        ("Spent by the run", str(event.spent)),
    ]
    if event.figures is not None:
        figures = event.figures
        pairs.append(("Cap", f"{figures.cap} ({figures.scope}): {figures.spent} of {figures.limit}"))
    blocks.append(Fields(tuple(pairs)))
    title = run(event.about)
    kill = kill_button(event.about.run, title, "what it would still cost")
    if event.request:
        question = f"Adds {event.suggested} for a bounded time and resumes {title}."
        confirm = Confirm("Approve and resume?", question, "Approve")
        approve = Button(APPROVE, event.request, f"Approve {event.suggested}", "primary", confirm)
        blocks.append(Buttons((approve, kill)))
    else:
        blocks.append(Buttons((Button(RESUME, event.about.run, "Resume", "primary"), kill)))
    blocks.append(Context(f"Nothing was deleted. Decision {event.decision}."))
    return Message(text, tuple(blocks), card=True)


def pause_stuck(event: PauseStuck, now: datetime) -> Message:
    """The pause has not become true in time; it still costs money."""
    text = (
        f"{run(event.about)} is not paused yet after {duration(now - event.since)}: {_end(event.detail)} "
        f"It still burns {hourly(event.burn)}."
    )
    kill = kill_button(event.about.run, run(event.about), hourly(event.burn))
    return Message(text, (Text(text, mention=event.about.owner), Buttons((kill,))))


def unpaused(event: UnpausedByHand, now: datetime) -> Message:
    """Somebody released what a cap had paused."""
    text = f"{run(event.about)} was released by hand while its cap has no room ({event.times} times now). "
    if event.again_at is None:
        text += "It is not paused again by itself: an operator has to look."
    elif event.again_at <= now:
        text += "It is paused again at once; it runs on when more is approved."
    else:
        text += f"It is paused again at {clock_time(event.again_at)} unless more is approved."
    return Message(text, (Text(text, mention=event.about.owner),))


def resumed(event: Resumed, directory: Directory) -> Message:
    """It runs again."""
    text = f"{run(event.about)} runs again, resumed by {actor(event.actor, directory)}. {_end(event.reason)}"
    return Message(text.strip())


def killed(event: Killed, directory: Directory) -> Message:
    """Ended for good."""
    sentences = (
        f"{run(event.about)} was killed by {actor(event.actor, directory)} after spending {event.spent}.",
        _end(event.reason),
        "Its record and last logs stay.",
    )
    text = " ".join(sentence for sentence in sentences if sentence)
    return Message(text, (Text(text, mention=event.about.owner),))


def decision_failed(event: DecisionFailed) -> Message:
    """Something decided could not be done."""
    text = f"The {event.kind} of {run(event.about)} could not be carried out: {_end(event.reason)}"
    return Message(text, (Text(text, mention=event.about.owner), Context(f"Decision {event.decision}.")))


def run(about: About) -> str:
    """`sweep (6n4p8)`."""
    return f"{name(about.experiment)} ({about.run})" if about.experiment else about.run


def actor(who: str, directory: Directory) -> str:
    """A person by name, the guard as `the guard`."""
    if who in ("guard", ""):
        return "the guard"
    person = directory.by_chat_id(who)
    return name(person.name)


def _end(sentence: str) -> str:
    cleaned = sentence.strip()
    return cleaned if not cleaned or cleaned.endswith((".", "!", "?")) else f"{cleaned}."
