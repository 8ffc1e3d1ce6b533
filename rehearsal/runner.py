"""Plays a scenario: the production process in the sandbox, steps and checks at their times, and what came of it.

The runner is a participant of the stepped world, like the product: at one moment it does its steps first, then
the product works, then it checks (`STEPS` and `CHECKS` are its priorities).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.terminal import SOCKET
from bot.wire import PARTICIPANT
from fleet.errors import Unavailable
from fleet.values import Money
from rehearsal.acting import Actor
from rehearsal.checking import Checker
from rehearsal.format import Expectation, Fault, Scenario, Step
from rehearsal.outcome import Check, Outcome, Sample
from rehearsal.product import Product
from rehearsal.readings import Readings
from rehearsal.stage import Stage

STEPS, CHECKS = 10, 200
PROCESS_FAULTS = ("kill", "asleep", "full-disk")
"""what the process itself suffers: the runner ends it, in its order among the steps"""
PRODUCT_PRIORITY = 100
START_SECONDS = 60.0
STALL_SECONDS = 120.0
"""real seconds in which the world must reach the next moment"""


@dataclass
class Options:
    """How to play."""

    guarded: bool = True
    sample_every: timedelta | None = None
    on_sample: Callable[[Sample], None] = lambda _: None
    on_stage: Callable[[Play], None] = lambda _: None
    """called when the sandbox is there and the product is not started yet"""
    on_ready: Callable[[Play], None] = lambda _: None
    until: Callable[[Play], bool] = lambda _: False
    """asked after every sample: True ends the scenario early"""
    lasts: timedelta | None = None
    """instead of the scenario's own length (expectations later than that are left out)"""
    without: str = ""
    """leave out what this person does"""


@dataclass
class Play:
    """A scenario being played."""

    scenario: Scenario
    folder: Path
    options: Options
    stage: Stage
    product: Product
    checks: list[Check] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    readings: Readings | None = None
    outcome: Outcome | None = None
    """set at the end, before `keep` is called"""

    def read(self) -> Readings:
        """The product's database, as it is now."""
        if self.readings is None:
            self.readings = Readings(self.folder / "data")
        self.readings.refresh()
        return self.readings

    @property
    def now(self) -> datetime:
        """World time."""
        return self.stage.world.now


def play(
    scenario: Scenario,
    folder: Path,
    options: Options | None = None,
    *,
    keep: Callable[[Play], Any] | None = None,
    milestones: dict[str, Any] | None = None,
) -> Outcome:
    """Play a scenario to its end. `keep` is called before everything is taken down.

    Raises BadInput for steps that cannot be done, Unavailable where the product ends by itself.
    """
    options = options or Options()
    began = time.monotonic()
    stage = Stage(scenario, folder, guarded=options.guarded)
    product = Product(stage.settings_path, stage.environment)
    run = Play(scenario, folder, options, stage, product)
    try:
        options.on_stage(run)
        _start(run)
        options.on_ready(run)
        _timeline(run)
        run.outcome = _outcome(run, time.monotonic() - began, milestones or {})
        if keep is not None:
            keep(run)
        return run.outcome
    finally:
        stage.host.call(stage.world.forget, PARTICIPANT)
        product.stop()
        if run.readings is not None:
            run.readings.close()
        stage.close()


def _start(run: Play) -> None:
    stage = run.stage

    def expect() -> None:
        stage.world.expect(PARTICIPANT, priority=PRODUCT_PRIORITY)

    stage.host.call(expect)
    run.product.start()
    run.product.wait_for(run.folder / "data" / SOCKET, START_SECONDS)
    try:
        stage.host.run(stage.workspace.connected(1, START_SECONDS), timeout=START_SECONDS + 5)
    except TimeoutError:
        run.product.check()
        raise Unavailable("serve did not connect to the chat workspace.") from None


def _timeline(run: Play) -> None:
    """Steps, checks and samples in order of time; steps before checks at the same moment."""
    actor = Actor(run.stage, run.product, run.read, lambda: _start(run))
    end = run.scenario.start + (run.options.lasts or run.scenario.lasts)
    for moment, priority, what in _moments(run, end):
        advance(run, moment, priority)
        if isinstance(what, Step):
            actor.perform(what)
        elif isinstance(what, Fault):
            actor.recover(what)
        elif isinstance(what, Expectation):
            if run.options.guarded and not run.options.without:
                run.checks.append(Checker(run.stage, run.read()).expectation(what))
        elif _sampled(run) and run.options.until(run):
            return


def _moments(run: Play, end: datetime) -> list[tuple[datetime, int, Step | Fault | Expectation | None]]:
    """What is to be done when, up to the end; a fault stands for its end, None for a sample."""
    start = run.scenario.start
    moments: list[tuple[datetime, int, int, Any]] = []
    for number, step in enumerate(_steps(run)):
        moments.append((start + step.at, STEPS, number, step))
        if step.fault and step.fault.lasts and step.fault.kind in PROCESS_FAULTS:
            moments.append((start + step.at + step.fault.lasts, STEPS, number, step.fault))
    for number, expected in enumerate(run.scenario.expect):
        moments.append((start + expected.at, CHECKS, number, expected))
    lasts = end - start
    every = run.options.sample_every or lasts
    moments += [(start + every * n, CHECKS, 10_000_000 + n, None) for n in range(1, int(lasts / every) + 1)]
    moments.append((end, CHECKS, 20_000_000, None))
    ordered = sorted(moments, key=lambda each: each[:3])
    return [(moment, priority, what) for moment, priority, _, what in ordered if moment <= end]


def _steps(run: Play) -> list[Step]:
    """The scenario's steps, without those of the person who is left out and what their work does by itself."""
    gone = run.options.without
    return [step for step in run.scenario.steps if not gone or step.person != gone]


def advance(run: Play, moment: datetime, priority: int) -> None:
    """Let the world go on until the moment (world time), with the runner woken in its order."""
    stage = run.stage
    stage.host.call(lambda: stage.world.expect("stage", priority=priority))
    waiting = stage.host.later(stage.world.wait("stage", moment))
    deadline = time.monotonic() + STALL_SECONDS
    seen = stage.world.now
    while True:
        with suppress(TimeoutError):
            waiting.result(1.0)
            return
        run.product.check()
        stage.host.check()
        if stage.world.now != seen:
            seen, deadline = stage.world.now, time.monotonic() + STALL_SECONDS
        elif time.monotonic() > deadline:
            waiting.cancel()
            raise Unavailable(
                f"The world has stood still at {seen.isoformat()} for {STALL_SECONDS:.0f} s: the product is busy or hangs."
            )


def _sampled(run: Play) -> bool:
    sample = run.stage.host.call(take_sample, run.stage, run.read())
    run.samples.append(sample)
    run.options.on_sample(sample)
    return True


def take_sample(stage: Stage, readings: Readings) -> Sample:
    """Counts from the sandbox, money from the product's ledger."""
    nodes: dict[str, int] = {}
    pods: dict[str, int] = {}
    for cluster in stage.clusters.values():
        for node in cluster.store.all("nodes"):
            region = node["metadata"].get("labels", {}).get("topology.kubernetes.io/region", "")
            nodes[region] = nodes.get(region, 0) + 1
        for pod in cluster.store.all("pods"):
            if pod.get("status", {}).get("phase") == "Running":
                name = pod["metadata"].get("labels", {}).get("quartermaster.dev/experiment", "")
                pods[name] = pods.get(name, 0) + 1
    now = stage.world.now
    burn = sum(
        (
            stage.cloud.regions[m.region].price(m.zone, m.kind.name, m.spot, now)
            for m in stage.cloud.machines()
            if m.live
        ),
        start=0,
    )
    return Sample(now, nodes, pods, readings.by("experiment", now), Money(int(burn * 1_000_000)))


def _outcome(run: Play, seconds: float, milestones: dict[str, Any]) -> Outcome:
    if run.options.guarded and not run.options.without:
        checker = Checker(run.stage, run.read())
        run.checks += [checker.invariant(name) for name in run.scenario.invariants]
    stage = run.stage
    spent = stage.host.call(lambda: stage.cloud.spent(run.scenario.start, stage.world.now))
    return Outcome(
        scenario=run.scenario.name,
        start=run.scenario.start,
        end=run.now,
        seconds=seconds,
        checks=tuple(run.checks),
        samples=tuple(run.samples),
        spent=run.read().by("experiment", run.now),
        cloud_spent=Money(int(spent * 1_000_000)),
        milestones=dict(milestones),
    )
