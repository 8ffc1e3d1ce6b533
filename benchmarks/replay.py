"""How fast the stepped world and the production process go together."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

from rehearsal.format import load_scenario
from rehearsal.runner import Options, play

HOURS = 4


def measure() -> str:
    """World time a second of real time, over the hours in which the ghost grows."""
    scenario, _ = load_scenario(Path(str(files("rehearsal") / "stories" / "ghost-story.yaml")))
    with tempfile.TemporaryDirectory(prefix="quartermaster-bench-") as folder:
        outcome = play(
            scenario, Path(folder), Options(lasts=timedelta(hours=HOURS), sample_every=timedelta(minutes=30))
        )
    nodes = max(sum(sample.nodes.values()) for sample in outcome.samples)
    pods = max(sum(sample.pods.values()) for sample in outcome.samples)
    return f"{HOURS * 3600 / outcome.seconds:,.0f} x real time ({outcome.seconds:.1f} s; up to {nodes} nodes, {pods} pods)"
