"""The demo: what it prints is computed from the worlds it played, and reads well."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from config.source import parse_yaml, validate
from fleet.errors import BadInput
from fleet.values import Money
from rehearsal.demo import cast_of, compare
from rehearsal.format import Scenario, load_scenario
from rehearsal.outcome import Check, Outcome, Sample, plain
from rehearsal.screen import closing_text
from tests.builders import T0

ROOT = Path(__file__).resolve().parents[2]
STORY = ROOT / "rehearsal/stories/ghost-story.yaml"


def test_the_cast_is_read_from_the_story():
    """The first launch is the bystander's, the last the ghost's; two are needed."""
    story, document = load_scenario(STORY)
    cast = cast_of(story)

    assert (cast.bystander, cast.ghost, cast.ghost_owner) == ("vision", "sweep", "Ivo")
    alone = document.data | {"steps": document.data["steps"][:2]}
    with pytest.raises(BadInput, match="needs two experiments"):
        cast_of(validate(parse_yaml(json.dumps(alone), "s"), Scenario))


def closing() -> dict[str, Any]:
    """The closing figures of three made-up worlds."""
    story, _ = load_scenario(STORY)
    burn = Money.usd(2248)
    samples = (Sample(T0, {"": 4, "us-west-2": 11}, {"sweep": 300}, {"sweep": Money.usd(700)}, burn),)
    checks = (Check("at 8 h: work sweep, is paused", False, "it is running"),)
    end = T0 + timedelta(hours=34)
    outcome = Outcome("ghost-story", T0, end, 40.0, checks, samples, {}, Money.usd(5000), {})
    run: Any = SimpleNamespace(outcome=outcome)
    bill = {"day": "2026-11-06", "billed": Money.usd(100), "metered": Money.usd(100), "drift": "+0.00"}
    noted: dict[str, Any] = {
        "cast": {"bystander": "vision", "ghost": "sweep", "owner": "Ivo"},
        "spent": {"sweep": Money.usd("4823.69")},
        "ghost_launched": T0,
        "first_alert": T0 + timedelta(minutes=108),
        "paused": T0 + timedelta(minutes=169),
        "forecast_at_alert": {"low": "7021.46", "high": "1080000", "basis": "1201 declared trials"},
        "bill": [bill | {"estimated": True, "differences": {"unjoined machines": Money.usd(5)}}],
        "messages": 9,
        "bystander": {"same_pods": True, "restarts": 0, "finished": T0 + timedelta(hours=5)},
    }
    alone = {"milestones": {"done_at": "2026-11-06T22:00:30Z"}}
    span = {"start": "2026-11-06T16:00:00Z", "end": "2026-11-28T01:00:00Z"}
    loose = {"spent": {"sweep": "1060000.0"}, "samples": [{"nodes": {"us-west-2": 13}}], **span}
    return noted | compare(run, noted, (alone, loose), cast_of(story)) | {"seconds": 41.0}


@pytest.mark.parametrize(
    "part",
    [
        "$4,823.69",
        "$7,021.46 to $1.08M",
        "$1.06M in 21 d 9 h",
        "1 h 48 m",
        "2 h 49 m",
        "30 s from a run without Ivo",
        "of which unjoined machines: $5.00",
        "FAIL at 8 h",
    ],
)
def test_the_closing_table_shows_the_figures_and_marks_what_failed(part):
    """Money, durations, drift and differences as people read them; a failed check says FAIL."""
    assert part in closing_text(closing())


def test_the_figures_compare_the_three_worlds():
    """The peak of nodes without a guard, whether all held, and everything as JSON."""
    told = closing()

    assert told["without_guard"]["nodes"] == {"us-west-2": 13}
    assert told["passed"] is False
    assert json.loads(json.dumps(plain(told)))["spent"] == {"sweep": "4823.690000"}


def test_the_whole_demo_as_json():
    """`quartermaster demo --headless --json`: every promise of the story, from a world that was really played."""
    done = subprocess.run(
        [sys.executable, "-m", "bot", "demo", "--headless", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    told: dict[str, Any] = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr[-2000:]
    assert Money.usd(told["spent"]["sweep"]) <= Money.usd(5000)
    assert Money.usd(1_500_000) > Money.usd(told["without_guard"]["spent"]) > Money.usd(700_000)
    low, high = (Money.usd(told["forecast_at_alert"][key]) for key in ("low", "high"))
    assert low < Money.usd(told["without_guard"]["spent"]) < high
    assert told["bystander"]["same_pods"] is True
    assert told["bystander"]["restarts"] == 0
    assert told["bystander"]["shift_seconds"] <= 60
    assert {region for row in told["nodes_over_time"] for region, count in row["nodes"].items() if count} >= {
        "us-west-2",
        "us-east-1",
        "eu-west-1",
        "ap-northeast-1",
    }
    assert [abs(float(bill["drift"])) <= 0.5 for bill in told["bill"]] == [True]
