"""Random days against a second integrator that shares no code with the meter, and the cost of a quiet tick."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest

from fleet.model import Pod
from fleet.values import Money
from guard.moments import micros
from tests.builders import pod
from tests.guard.fakes import labels
from tests.guard.lab import Lab

RUNS = ("aaaaa", "bbbbb", "ccccc")
SIZES = ((1000, 0), (4000, 0), (500, 1), (2000, 4), (8000, 8))
PRICE = 3_600_000


class Day:
    """A few machines and pods that come and go at whole seconds, ticked once a minute, restarted at times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lab = Lab()
        self.lab.tick()
        self.began: dict[str, datetime] = {}
        self.ended: dict[str, datetime] = {}
        self.owner: dict[str, str] = {}
        self.pods: dict[str, Pod] = {}

    def moment(self) -> datetime:
        """A whole second of the minute before now."""
        return self.lab.now - timedelta(seconds=self.random.randrange(60))

    def step(self) -> None:
        """A minute passes, and something happens in it."""
        self.lab.now += timedelta(minutes=1)
        chance = self.random.random()
        alive = [name for name in self.began if name not in self.ended]
        if chance < 0.08 and len(alive) < 4:
            name = f"m{len(self.began)}"
            began = self.moment()
            self.owner[name] = self.random.choice(RUNS)
            self.lab.machine(name, self.owner[name], at=began)
            self.began[name] = began
        elif chance < 0.35 and alive:
            self._bind(self.random.choice(alive))
        elif chance < 0.55:
            self._finish()
        elif chance < 0.58 and alive:
            self._end(self.random.choice(alive))
        if self.random.random() < 0.05:
            self.lab.boot()
        self.lab.tick()

    def _bind(self, machine: str) -> None:
        millicores, gpus = self.random.choice(SIZES)
        name = f"p{len(self.pods)}"
        began = self.lab.now - timedelta(seconds=self.random.randrange(30))
        one = pod(
            name,
            cpu=f"{millicores}m",
            memory="1Gi",
            gpus=gpus,
            node=machine,
            phase="Running",
            scheduled=began,
            labels=labels(self.random.choice(RUNS)),
        )
        self.pods[name] = one
        self.lab.view.put(one)

    def _finish(self) -> None:
        running = [
            p
            for p in self.pods.values()
            if p.active and p.name in {q.name for q in self.lab.view.pods.values()}
        ]
        if running:
            one = self.random.choice(running)
            ended = replace(
                one, phase="Succeeded", finished=self.lab.now - timedelta(seconds=self.random.randrange(30))
            )
            self.pods[one.name] = ended
            self.lab.view.put(ended)

    def _end(self, machine: str) -> None:
        ended = self.lab.now
        self.ended[machine] = ended
        self.lab.machines.end(f"i-{machine}", ended)
        gone = [p.name for p in self.pods.values() if p.node == machine]
        for name in gone:
            if self.pods[name].active:
                self.pods[name] = replace(self.pods[name], phase="Failed", finished=ended)
        self.lab.view.drop(machine, *gone)


def integrate(day: Day) -> dict[str, Fraction]:
    """What every pod has cost, second by second, in exact fractions of a micro-dollar."""
    now = day.lab.now
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for machine, began in day.began.items():
        end = day.ended.get(machine, now)
        mine = [p for p in day.pods.values() if p.node == machine]
        second = began
        while second < end:
            on = [p for p in mine if p.scheduled and p.scheduled <= second < (p.finished or now)]
            shares = [
                max(
                    Fraction(p.requests.millicores, 8000),
                    Fraction(p.requests.memory, 64 * 2**30),
                    Fraction(p.requests.gpus, 8),
                )
                for p in on
            ]
            scale = max(Fraction(1), sum(shares, Fraction(0)))
            for one, share in zip(on, shares, strict=True):
                sums[one.uid] += share / scale * PRICE / 3600
            second += timedelta(seconds=1)
        sums["machines"] += Fraction(PRICE * int((end - began).total_seconds()), 3600)
    return sums


@pytest.mark.parametrize("seed", range(12))
def test_random_hours_agree_with_a_second_by_second_integrator(seed):
    """Three hours of chance with restarts: every pod within a micro-dollar a line, the machines' sum too."""
    day = Day(seed)
    for _ in range(180):
        day.step()
    assert day.lab.guard.verify_ledger() == ()
    at = day.lab.now
    found: dict[str, int] = defaultdict(int)
    lines: dict[str, int] = defaultdict(int)
    ledger = day.lab.guard._state.ledger
    for line in [*ledger.closed_lines(0, micros(at)), *ledger.open_lines(micros(at))]:
        found[line.subject] += line.amount
        lines[line.subject] += 1
    exact = integrate(day)
    for uid in {p.uid for p in day.pods.values()}:
        assert 0 <= exact[uid] - found[uid] < max(1, lines[uid]), uid
    total = sum(row.amount.micros for row in day.lab.guard.costs(by="kind", since=None, until=at))
    assert 0 <= exact["machines"] - total <= sum(lines.values())
    runs = {run: day.lab.guard.run_costs(run, at).spent for run in RUNS}
    rows = {row.key: row.amount for row in day.lab.guard.costs(by="run", since=None, until=at)}
    for run, spent in runs.items():
        assert abs(spent.micros - rows.get(run, Money(0)).micros) <= len(day.pods) + len(day.began)


def test_quiet_tick_is_cheap():
    """400 machines, 400 pods, 6 caps: a tick in which nothing changes, best of 20, stays far below 10 ms."""
    lab = Lab()
    lab.tick()
    for kind, value in (
        ("fleet", ""),
        ("team", "vision"),
        ("run", "abcde"),
        ("cluster", "home"),
        ("person", "U1"),
    ):
        lab.cap(kind, "1000000", kind, value)
    lab.run(machines=400)
    lab.pass_time(minutes=7)
    best = 1.0
    for _ in range(20):
        lab.now += timedelta(minutes=1)
        began = time.perf_counter()
        lab.tick()
        best = min(best, time.perf_counter() - began)
    assert best < 0.010
    assert lab.database.row("SELECT COUNT(*) AS n FROM lines") == {"n": 0}
