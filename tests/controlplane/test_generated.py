"""Generated programs of operations on nodes, pods and Jobs: the sandbox and a real control plane agree.

Compared after every operation: code, reason and object of the answer. Compared when both have settled: all
nodes, pods and Jobs with their statuses. README.md says what is not.
"""

from __future__ import annotations

import pprint

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.controlplane.found import FOUND
from tests.controlplane.harness import ControlPlane
from tests.controlplane.lockstep import Example, Lockstep
from tests.controlplane.programs import Program, programs

pytestmark = pytest.mark.service("control-plane")
BATCH = 20
"""programs at once: with less than a hundred nodes the real scheduler looks at all of them"""


def draw_program(number: int) -> Program:
    """The same program for the same number; hypothesis' first ones are small and alike."""
    found: list[Program] = []

    @seed(number)
    @settings(
        max_examples=12,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found[-1]


def differences(plane: ControlPlane, batch: list[Program]) -> list[Example]:
    """The programs that differ, and do so again when they are repeated: real time is not exact."""
    first = [example for example in Lockstep(plane, batch).run() if example.difference]
    if not first:
        return []
    again = Lockstep(plane, [example.program for example in first]).run()
    return [example for example in again if example.difference]


def report(found: list[Example]) -> str:
    """Differences with the programs that show them, ready to become written cases."""
    return "\n\n".join(
        f"{example.difference}\n{pprint.pformat(example.program, width=150)}" for example in found
    )


def test_generated_programs_end_the_same(control_plane: ControlPlane, examples: int) -> None:
    """Whatever is created, changed and ended in whatever order, both say and do the same."""
    written = list(FOUND.values())
    for first in range(0, examples, BATCH):
        batch = written + [draw_program(number) for number in range(first, min(first + BATCH, examples))]
        written = []
        found = differences(control_plane, batch)
        assert not found, report(found)
