"""The demo: the ghost story three times, in worlds of their own that run side by side.

1. With the guard: what is shown live. 2. Without the person whose work gets out of hand: what the others would have
had. 3. With every cap lifted, to the end: what it would really have cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import bot
from bot.control import ask
from bot.terminal import SOCKET
from fleet.errors import BadInput, QuartermasterError, Unavailable
from fleet.values import Money, format_duration, utc
from rehearsal.checking import all_messages
from rehearsal.format import Scenario
from rehearsal.outcome import Sample
from rehearsal.runner import Options, Play, play
from rehearsal.stage import Stage

SAMPLE = timedelta(minutes=10)
LONGEST = timedelta(days=60)
ASIDE_SECONDS = 600.0
"""real seconds that a comparison world may take beyond the guarded one"""
LABEL = "quartermaster.dev/experiment"


@dataclass(frozen=True)
class Cast:
    """Who is who in the story, found in the scenario: the first launch is the bystander's, the last the ghost's."""

    bystander: str
    ghost: str
    ghost_owner: str


@dataclass
class Notes:
    """What is noted while the guarded story is played."""

    alert_at: datetime | None = None
    forecast: dict[str, Any] = field(default_factory=dict)
    paused_at: datetime | None = None
    before: dict[str, int] = field(default_factory=dict)
    """uid → restarts of the bystander's pods before the ghost came"""
    after: dict[str, int] = field(default_factory=dict)
    """the same at their end"""
    ghost_launched: datetime | None = None
    bystander_done: datetime | None = None


def cast_of(scenario: Scenario) -> Cast:
    """The experiments that are launched, and by whom. Raises BadInput where there are not two."""
    launches = [
        (step.slash.text.split()[2], step.slash.by)
        for step in scenario.steps
        if step.slash is not None
        and step.slash.text.split()[1:2] == ["launch"]
        and len(step.slash.text.split()) > 2
    ]
    if len(launches) < 2:
        raise BadInput(
            "A demo needs two experiments that are launched by slash commands.", hint="See rehearsal/stories."
        )
    return Cast(launches[0][0], launches[-1][0], launches[-1][1])


class Aside:
    """Another world, played by another process; `result` waits for its JSON."""

    def __init__(self, file: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bot", "replay", str(file), "--output", "json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(bot.__file__).parents[1])},
        )

    def result(self, seconds: float) -> dict[str, Any]:
        """The outcome; Unavailable where it failed."""
        try:
            out, err = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Unavailable(f"The comparison did not finish within {seconds:.0f} s.") from None
        if self._process.returncode not in (0, 1) or not out:
            raise Unavailable(f"The comparison failed: {err.decode(errors='replace').strip()[-500:]}")
        found: dict[str, Any] = json.loads(out)
        return found

    def end(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(20)


@dataclass
class Story:
    """A demo being played."""

    scenario: Scenario
    file: Path
    folder: Path
    on_sample: Callable[[Play, Sample, Notes], None] = lambda *_: None
    on_ready: Callable[[Play], None] = lambda _: None
    on_closing: Callable[[Play, dict[str, Any]], None] = lambda *_: None
    """the figures are there; the world still stands"""

    def play(self) -> dict[str, Any]:
        """Play all three; the closing figures (plain values, money as Money, times as datetimes)."""
        began = time.monotonic()
        cast = cast_of(self.scenario)
        notes = Notes()
        asides = [
            Aside(self.file, "--without", cast.ghost_owner, "--until-done", cast.bystander),
            Aside(self.file, "--no-guard", "--until-done", cast.ghost),
        ]
        ready: list[Play] = []
        closing: dict[str, Any] = {}

        def started(run: Play) -> None:
            ready.append(run)
            self.on_ready(run)

        def sampled(sample: Sample) -> None:
            observe(ready[0], cast, notes)
            self.on_sample(ready[0], sample, notes)

        def at_the_end(run: Play) -> None:
            found = figures(run, cast, notes)
            alone, loose = (aside.result(ASIDE_SECONDS) for aside in asides)
            closing.update(found | compare(run, found, (alone, loose), cast))
            closing["seconds"] = round(time.monotonic() - began, 1)
            self.on_closing(run, closing)

        try:
            play(
                self.scenario,
                self.folder,
                Options(sample_every=SAMPLE, on_sample=sampled, on_ready=started),
                keep=at_the_end,
            )
        finally:
            for aside in asides:
                aside.end()
        return closing


def observe(run: Play, cast: Cast, notes: Notes) -> None:
    """Note the first alert with its forecast, the pause, and how the bystander's pods fare."""
    readings = run.read()
    pods = run.stage.host.call(pods_of, run.stage, cast.bystander)
    if notes.ghost_launched is None:
        with suppress(BadInput):
            readings.run_of(cast.ghost)
            notes.ghost_launched = utc(readings.decisions("launch", cast.ghost)[0]["decided_at"])
        notes.before = {uid: restarts for uid, (restarts, _) in pods.items()}
    if pods and notes.bystander_done is None:
        notes.after = {uid: restarts for uid, (restarts, _) in pods.items()}
        ended = readings.ended(cast.bystander)
        notes.bystander_done = utc(ended) if ended else None
    alerts = readings.decisions("alert", cast.ghost) or _alerts_of_caps(run, cast)
    if alerts and notes.alert_at is None:
        notes.alert_at = utc(alerts[0]["decided_at"])
        notes.forecast = status(run, cast.ghost).get("costs", {}).get("forecast", {})
    pauses = [
        row for row in readings.decisions("pause", cast.ghost) if row["state"] in ("verified", "announced")
    ]
    if pauses and notes.paused_at is None:
        notes.paused_at = utc(readings.step_time(pauses[0]["id"], "verified") or pauses[0]["decided_at"])


def _alerts_of_caps(run: Play, cast: Cast) -> list[dict[str, Any]]:
    """Alerts name their cap: that of a run is `run-<id>`."""
    readings = run.read()
    caps = {f"run-{each}" for each in readings.runs_of(cast.ghost)}
    return [row for row in readings.decisions("alert") if row["subject"] in caps]


def status(run: Play, experiment: str) -> dict[str, Any]:
    """`quartermaster status NAME --output json`, asked of the running process."""
    with suppress(QuartermasterError):
        answer = ask(run.folder / "data" / SOCKET, ("status", experiment), f"demo-{run.now.isoformat()}")
        data = answer.get("data")
        return dict(data) if isinstance(data, dict) else {}
    return {}


def pods_of(stage: Stage, experiment: str) -> dict[str, tuple[int, datetime | None]]:
    """uid → (restarts, end) of an experiment's pods that are not gone."""
    found: dict[str, tuple[int, datetime | None]] = {}
    for cluster in stage.clusters.values():
        for pod in cluster.store.all("pods"):
            if pod["metadata"].get("labels", {}).get(LABEL) == experiment:
                states = pod.get("status", {}).get("containerStatuses", ())
                ends = [
                    s["state"]["terminated"]["finishedAt"]
                    for s in states
                    if "terminated" in s.get("state", {})
                ]
                restarts = sum(int(s.get("restartCount", 0)) for s in states)
                found[pod["metadata"]["uid"]] = (restarts, max(map(utc, ends)) if ends else None)
    return found


def figures(run: Play, cast: Cast, notes: Notes) -> dict[str, Any]:
    """What the guarded story's own world and ledger say at its end."""
    readings = run.read()
    now = run.now
    bills = readings.decisions("bill")
    return {
        "cast": {"bystander": cast.bystander, "ghost": cast.ghost, "owner": cast.ghost_owner},
        "spent": {name or "overhead": amount for name, amount in readings.by("experiment", now).items()},
        "ghost_launched": notes.ghost_launched,
        "first_alert": notes.alert_at,
        "paused": notes.paused_at,
        "forecast_at_alert": notes.forecast,
        "bill": [_bill(json.loads(row["payload"])) for row in bills],
        "messages": len(run.stage.host.call(all_messages, run.stage, run.scenario.world.chat.channels[0])),
        "bystander": {
            "same_pods": bool(notes.before) and set(notes.before) <= set(notes.after),
            "restarts": sum(notes.after.values()),
            "finished": notes.bystander_done,
        },
    }


def _bill(payload: dict[str, Any]) -> dict[str, Any]:
    """A bill decision's payload with money as money."""
    money = {name: Money(payload[name]) for name in ("billed", "metered")}
    return (
        payload
        | money
        | {"differences": {name: Money(amount) for name, amount in payload["differences"].items()}}
    )


def compare(
    run: Play, closing: dict[str, Any], asides: tuple[dict[str, Any], dict[str, Any]], cast: Cast
) -> dict[str, Any]:
    """The same beside the other two worlds."""
    outcome = run.outcome
    assert outcome is not None, "compared at the end"
    alone, loose = asides
    launched, alert, paused = closing["ghost_launched"], closing["first_alert"], closing["paused"]
    finished, finished_alone = closing["bystander"]["finished"], alone["milestones"].get("done_at")
    shift = abs(finished - utc(finished_alone)) if finished and finished_alone else None
    return {
        "scenario": outcome.scenario,
        "passed": outcome.passed,
        "checks": [{"name": c.name, "held": c.held, "detail": c.detail} for c in outcome.checks],
        "time_to_alert": _between(launched, alert),
        "time_to_pause": _between(launched, paused),
        "without_guard": {
            "spent": loose["spent"].get(cast.ghost, "0"),
            "took": format_duration(utc(loose["end"]) - utc(loose["start"])),
            "nodes": _peak(loose["samples"]),
        },
        "bystander": {
            **closing["bystander"],
            "shift_seconds": shift.total_seconds() if shift is not None else None,
            "finished_without_the_ghost": finished_alone,
        },
        "nodes_over_time": [
            {"at": s.at, "nodes": s.nodes, "spent": s.spent.get(cast.ghost, Money(0)), "burn": s.burn}
            for s in outcome.samples
        ],
    }


def _between(first: datetime | None, second: datetime | None) -> str | None:
    return format_duration(second - first) if first and second else None


def _peak(samples: list[dict[str, Any]]) -> dict[str, int]:
    peak: dict[str, int] = {}
    for sample in samples:
        for region, count in sample["nodes"].items():
            peak[region] = max(peak.get(region, 0), count)
    return peak
