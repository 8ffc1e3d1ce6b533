"""`replay` plays what the documentation shows, with the production process, and says what failed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bot.__main__ import cli
from config.source import parse_yaml, validate
from fleet.errors import BadInput
from fleet.values import Money
from rehearsal.format import Scenario, load_scenario
from rehearsal.product import only_this_machine
from rehearsal.runner import Options, Play, play

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = re.search(
    r"```yaml\n(name: one-cap\n.*?)```", (ROOT / "docs/scenarios.md").read_text(), re.DOTALL
)


def documented() -> str:
    """The small scenario of docs/scenarios.md."""
    assert DOCUMENTED is not None
    return DOCUMENTED[1]


def test_the_documented_scenario_passes(tmp_path):
    """A launch over the chat, a machine bought, a cap of one dollar: paused before it is spent."""
    outcome = play(validate(parse_yaml(documented(), "one-cap.yaml"), Scenario), tmp_path / "play")

    assert [check for check in outcome.checks if not check.held] == []
    assert len(outcome.checks) == 7


def test_a_cap_that_is_larger_moves_the_figures(tmp_path):
    """The same world with ten dollars: nothing is paused, so the documented expectation fails, with the figure."""
    text = documented().replace("max_cost: 1}", "max_cost: 10}")
    outcome = play(validate(parse_yaml(text, "one-cap.yaml"), Scenario), tmp_path / "play")
    failed = {check.name: check.detail for check in outcome.checks if not check.held}

    assert failed["at 6 h: work experiment hello, is paused"] == "it is running"
    assert failed["at 6 h: spend experiment hello, at_most $1.00"].startswith("spent 1.1")


def test_the_same_seed_gives_the_same_decisions_and_ledger(tmp_path):
    """Two plays of one scenario: the same decisions at the same times, the same lines."""
    rows = []
    for name in ("first", "second"):
        play(
            validate(parse_yaml(documented(), "one-cap.yaml"), Scenario),
            tmp_path / name,
            keep=lambda run: rows.append(dump(run)),
        )

    assert rows[0] == rows[1]
    assert len(rows[0]["lines"]) > 3


def dump(run: Play) -> dict[str, Any]:
    """Decisions and lines as rows."""
    database = run.read()._database
    return {
        "decisions": database.rows(
            "SELECT kind, key, actor, reasons, decided_at, state FROM decisions ORDER BY rowid"
        ),
        "lines": database.rows("SELECT * FROM lines ORDER BY id"),
        "holds": database.rows("SELECT * FROM holds ORDER BY id"),
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("lasts: 6h", "lasts: 1h"), "something is at 6 h, after the scenario's end (1 h)"),
        (
            ("slash: {by: Ada", "slahs: {by: Ada"),
            "s.yaml:28: steps.0.slahs is not a setting that exists. Did you mean 'slash'?",
        ),
        (('price: "0.192"', "prize: 1"), "is not a setting that exists. Did you mean 'price'?"),
        (("is: running", "is: happy"), "Input should be 'running'"),
        (
            ("{at: 10m, work: {experiment: hello, is: running}}", "{at: 10m}"),
            "a expectation has at: and exactly one of",
        ),
        (
            ("steps:\n", "steps:\n  - {at: 1m, fault: {kind: clock-jump}}\n"),
            "say ahead: or behind: of a clock-jump, one of them, and of nothing else",
        ),
        (
            ("steps:\n", "steps:\n  - {at: 1m, fault: {kind: kill, behind: 1m}}\n"),
            "say ahead: or behind: of a clock-jump, one of them, and of nothing else",
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_one_sentence(tmp_path, change, sentence):
    """What, where and what instead, before anything is started."""
    path = tmp_path / "s.yaml"
    path.write_text(documented().replace(*change))
    with pytest.raises(BadInput) as caught:
        load_scenario(path)

    assert sentence in str(caught.value)


def test_the_command_prints_json_and_exits_1_where_something_failed(tmp_path, capsys):
    """`replay --output json`: figures as exact decimals, `passed` false, exit code 1."""
    path = tmp_path / "s.yaml"
    path.write_text(documented().replace("at_most: 1}", 'at_most: "0.50"}'))
    code = cli()(["replay", str(path), "--output", "json"], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)

    assert code == 1
    assert printed["passed"] is False
    assert re.fullmatch(r"0\.98\d{4}", printed["spent"]["hello"])


def test_other_addresses_than_this_machines_are_refused():
    """A scenario never talks to a real cloud, cluster or Slack."""
    with pytest.raises(BadInput, match=r"QM_SLACK_URL points at .* not this machine"):
        only_this_machine({"QM_SLACK_URL": "https://slack.com/api/"})


def test_settings_of_a_running_service_are_tried_without_touching_it(tmp_path):
    """Pasted `data_dir`, socket and port are not used: nothing is written there, and the story is told all the same."""
    real = tmp_path / "real"
    pasted = f"settings:\n  data_dir: {real}\n  serve: {{socket: {real}/control.sock, health_port: 9469}}\n"
    text = documented().replace("settings:\n", pasted).replace("lasts: 6h", "lasts: 30m").split("expect:")[0]
    outcome = play(validate(parse_yaml(text, "pasted.yaml"), Scenario), tmp_path / "play")

    assert outcome.spent["hello"] > Money(0)
    assert not real.exists()
    assert (tmp_path / "play/data").is_dir()


@pytest.mark.parametrize(
    "name", ["kubeconfig-home", "quartermaster.yaml", "data/x", ".env", "../x", "/etc/x"]
)
def test_files_never_stand_in_for_what_the_sandbox_writes(name):
    """A kubeconfig may hold a command and any address: a scenario cannot bring one."""
    text = documented().replace("  experiments/hello.yaml: |", f"  {name}: |")
    with pytest.raises(BadInput, match=r"is written by the sandbox itself|must stay beside the settings"):
        validate(parse_yaml(text, "s.yaml"), Scenario)


def test_without_a_guard_no_cap_is_left(tmp_path):
    """`--no-guard` lifts an experiment's own cap too: nothing is paused at its dollar."""
    outcome = play(
        validate(parse_yaml(documented(), "s.yaml"), Scenario), tmp_path / "play", Options(guarded=False)
    )

    assert Money.usd("1.02") < outcome.spent["hello"] < Money.usd("1.20")
    assert outcome.checks == ()
