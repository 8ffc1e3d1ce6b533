"""`quartermaster ledger verify` on the data that a played story left: nothing to find, then each planted fault."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from bot.__main__ import cli
from bot.terminal import DATABASE
from rehearsal.format import load_scenario
from rehearsal.runner import play

STORY = Path(__file__).with_name("overflow-pause-and-kill.yaml")
ONE = "(SELECT max(id) FROM lines WHERE share != '1/1' AND subject != 'rest')"
"""a pod's line, beside that of what is left of its machine"""
SAME_INTERVAL = f"(SELECT machine, started FROM lines WHERE id = {ONE})"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a whole play: machines of two regions, pods, idle, an end."""
    folder = tmp_path_factory.mktemp("story") / "play"
    outcome = play(load_scenario(STORY)[0], folder)
    assert outcome.passed
    return folder / "data"


def ledger_verify(data: Path, monkeypatch: Any, capsys: Any) -> tuple[int, dict[str, Any]]:
    """Exit code, and what it prints as JSON."""
    monkeypatch.setenv("QM_DATA_DIR", str(data))
    try:
        code = cli()(["ledger", "verify", "--output", "json"], standalone_mode=False)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    return int(code or 0), json.loads(capsys.readouterr().out)


def columns(connection: sqlite3.Connection) -> str:
    """All columns of a line but its id."""
    names = [row[1] for row in connection.execute("PRAGMA table_info(lines)")]
    return ", ".join(name for name in names if name != "id")


def test_a_played_ledger_is_exact(played, monkeypatch, capsys):
    """Recomputed from the observations: no fault, exit code 0."""
    code, printed = ledger_verify(played, monkeypatch, capsys)

    assert (code, printed["ok"], printed["data"]["faults"]) == (0, True, [])


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (f"UPDATE lines SET amount = amount + 1 WHERE id = {ONE}", "changed"),
        (f"DELETE FROM lines WHERE id = {ONE}", "missing"),
        (f"INSERT INTO lines SELECT NULL, {{columns}} FROM lines WHERE id = {ONE}", "doubled"),
        (f"UPDATE lines SET started = started + 1, ended = ended + 1 WHERE id = {ONE}", "shifted"),
        (f"DELETE FROM lines WHERE (machine, started) = {SAME_INTERVAL}", "gap"),
    ],
)
def test_each_planted_fault_is_found(played, tmp_path, monkeypatch, capsys, sql, kind):
    """One micro-dollar, a line removed, doubled, shifted by a microsecond, a gap: named, with exit code 1."""
    data = tmp_path / "data"
    shutil.copytree(played, data)
    with closing(sqlite3.connect(data / DATABASE)) as connection, connection:
        planted = connection.execute(sql.format(columns=columns(connection))).rowcount
    code, printed = ledger_verify(data, monkeypatch, capsys)

    assert planted >= 1
    assert (code, printed["ok"]) == (1, False)
    assert kind in {fault["kind"] for fault in printed["data"]["faults"]}
    assert kind in printed["text"] or printed["data"]["faults"][0]["detail"] in printed["text"]
