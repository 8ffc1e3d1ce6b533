"""Leaves a played world running at a human pace, until Ctrl-C: for a person who wants to play with it."""

from __future__ import annotations

import time

from rehearsal.runner import Play
from rehearsal.screen import Screen

SCALE = 60.0
"""a minute of the world a second"""


def stay(run: Play, screen: Screen) -> None:
    """Scale the world's time and wait for Ctrl-C."""
    stage = run.stage
    stage.host.call(stage.world.forget, "stage")
    stage.host.call(stage.world.set_scale, SCALE)
    screen.staying(stage.addresses["slack"], run.folder)
    try:
        while run.product.pid:
            time.sleep(0.5)
    except KeyboardInterrupt:
        return
    finally:
        stage.host.call(stage.world.set_scale, 0.0)
