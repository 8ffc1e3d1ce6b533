"""`make bench`: one command, one table. Figures of this machine, asserted nowhere."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks import replay

BENCHMARKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("replay: the ghost story's first four hours", replay.measure),
)


def main() -> None:
    """Run those whose name contains the word given, or all."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    table = Table("benchmark", "result")
    for name, measure in BENCHMARKS:
        if word in name:
            table.add_row(name, measure())
    Console().print(table)


main()
