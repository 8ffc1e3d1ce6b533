"""The README's configuration from zero, played: its settings, its experiment, its first command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from config.source import parse_yaml
from rehearsal.format import Scenario
from rehearsal.runner import play

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
CHANNEL = "123456789"
"""the sandbox gives it the id that the README's settings name"""
WORLD = {
    "cloud": {
        "regions": {
            "us-west-2": {"zones": {"us-west-2a": {"c7i.2xlarge": {"price": "0.357", "capacity": 5}}}},
        }
    },
    "chat": {"channels": [CHANNEL]},
}


def block(first_line: str) -> str:
    """The README's fenced block that starts so."""
    found = re.search(rf"```yaml\n({re.escape(first_line)}\n.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def settings() -> dict[str, Any]:
    """The README's settings; what only a real account and cluster know is left to the sandbox."""
    data = parse_yaml(block("# quartermaster.yaml"), "README.md").data
    (pool,) = data["pools"]
    pool["regions"] = [{"name": region["name"]} for region in pool["regions"]]
    for key in ("user_data", "instance_profile"):
        del pool[key]
    return {key: value for key, value in data.items() if key not in ("clusters", "data_dir")}


def test_the_configuration_from_zero_launches_its_experiment(tmp_path):
    """`/exp launch hello`, a click: a machine is bought, the pod runs, and what it cost stays under its cap."""
    scenario = Scenario.model_validate(
        {
            "name": "readme",
            "start": "2026-11-06T17:00:00Z",
            "lasts": "30m",
            "world": WORLD,
            "settings": settings(),
            "files": {"experiments/hello.yaml": block("# experiments/hello.yaml")},
            "steps": [
                {"at": "1m", "slash": {"by": "Ada", "text": "/exp launch hello", "channel": CHANNEL}},
                {"at": "2m", "click": {"by": "Ada", "button": "Launch", "on": "hello", "channel": CHANNEL}},
            ],
            "expect": [
                {"at": "10m", "work": {"experiment": "hello", "is": "running"}},
                {"at": "10m", "nodes": {"region": "us-west-2", "equals": 1}},
                {"at": "30m", "spend": {"experiment": "hello", "at_most": 5}},
            ],
        }
    )
    outcome = play(scenario, tmp_path / "play")

    assert [check for check in outcome.checks if not check.held] == []
    assert len(outcome.checks) == 7
