"""`replay` and `demo` from the command line: what cannot be done is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.__main__ import cli
from fleet.errors import BadInput

STORY = str(Path(__file__).resolve().parents[1] / "scenarios/overflow-pause-and-kill.yaml")


def test_a_folder_that_cannot_be_kept_is_told(tmp_path):
    """`--keep` on a file, not a traceback."""
    taken = tmp_path / "taken"
    taken.write_text("x")
    with pytest.raises(
        BadInput, match=r"The folder .*taken cannot be made: File exists\. Name another after --keep"
    ):
        cli()(["replay", STORY, "--keep", str(taken)], standalone_mode=False)


def test_somebody_unknown_cannot_be_left_out():
    """`--without` names who there is."""
    with pytest.raises(BadInput, match="Nobody is called 'Zoe' in this scenario"):
        cli()(["replay", STORY, "--without", "Zoe"], standalone_mode=False)
