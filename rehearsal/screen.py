"""The demo's terminal: live progress while the story is played, and the closing table."""

from __future__ import annotations

import io
import sys
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fleet.values import Money
from rehearsal.demo import Notes
from rehearsal.format import Scenario
from rehearsal.outcome import Sample
from rehearsal.runner import Play

BARS = 34
WIDTH = 110


class Screen:
    """Draws the story as it goes; silent where `live` is False."""

    def __init__(self, scenario: Scenario, *, live: bool) -> None:
        self._scenario = scenario
        self._console = Console(file=sys.stderr, width=None if sys.stderr.isatty() else WIDTH)
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if live else None
        self._drawing = False
        self._address = ""
        self._regions = list(scenario.world.cloud.regions)
        self._told = -1

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.__enter__()
            self._drawing = True
            self._live.update(Panel(self._scenario.about, title=self._scenario.name), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """No more drawing: what follows is printed below."""
        if self._live is not None and self._drawing:
            self._live.__exit__(None, None, None)
        self._drawing = False

    def ready(self, run: Play) -> None:
        """The sandbox is up: its page can be opened."""
        self._address = run.stage.addresses["slack"]
        if not self._drawing:
            self._console.print(
                f"playing {self._scenario.name}; the workspace: {self._address}", highlight=False
            )

    def sample(self, run: Play, sample: Sample, notes: Notes) -> None:
        """Draw one moment; without a live screen, a line every quarter of the story."""
        if self._live is not None and self._drawing:
            self._live.update(self._drawn(run, sample, notes), refresh=True)
            return
        quarter = int((sample.at - run.scenario.start) / run.scenario.lasts * 4)
        if quarter > self._told:
            self._told = quarter
            nodes = sum(sample.nodes.values())
            self._console.print(
                f"{sample.at:%a %d %b %H:%M} UTC: {nodes} nodes, {sample.burn}/h", highlight=False
            )

    def staying(self, address: str, folder: Path) -> None:
        """The story is over and the world goes on."""
        lines = (
            f"The world goes on, a minute a second, until Ctrl-C. Open {address} and type /exp as one of the people,",
            f"or ask at a terminal: quartermaster status --config {folder / 'quartermaster.yaml'}",
        )
        for line in lines:
            self._console.print(line, highlight=False, soft_wrap=True)

    def _drawn(self, run: Play, sample: Sample, notes: Notes) -> Panel:
        nodes = Table.grid(padding=(0, 1))
        most = max([*sample.nodes.values(), 12])
        for region in ["", *self._regions]:
            count = sample.nodes.get(region, 0)
            nodes.add_row(region or "on-premises", "█" * round(count * BARS / most), str(count))
        money = Table.grid(padding=(0, 2))
        for name, spent in sorted(sample.spent.items()):
            money.add_row(name or "overhead", f"{sample.pods.get(name, 0)} pods", str(spent))
        lines = Text()
        lines.append(f"machines now {sample.burn}/h\n", style="bold")
        if notes.alert_at:
            lines.append(f"first alert  {notes.alert_at:%a %H:%M}\n", style="yellow")
        if notes.paused_at:
            lines.append(f"paused       {notes.paused_at:%a %H:%M}, verified\n", style="green")
        done = (sample.at - run.scenario.start) / run.scenario.lasts
        title = f"{self._scenario.name}  {sample.at:%A %d %B %H:%M} UTC  {done:.0%}"
        return Panel(
            Group(nodes, Text(""), money, Text(""), lines),
            title=title,
            subtitle=f"the workspace: {self._address}",
        )


def closing_text(closing: dict[str, Any]) -> str:
    """The closing table, as text of a fixed width."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=WIDTH, color_system=None)
    console.print(_figures(closing))
    console.print(_over_time(closing))
    for check in closing["checks"]:
        console.print(
            f"{'ok  ' if check['held'] else 'FAIL'} {check['name']}: {check['detail']}",
            highlight=False,
            soft_wrap=True,
        )
    return buffer.getvalue()


def _figures(closing: dict[str, Any]) -> Table:
    cast, loose, bystander = closing["cast"], closing["without_guard"], closing["bystander"]
    table = Table(title=f"{closing['scenario']}, told in {closing['seconds']} s", show_header=False)
    table.add_row(f"spent by {cast['ghost']}", str(closing["spent"].get(cast["ghost"], Money(0))))
    forecast = closing["forecast_at_alert"]
    low, high = (_money(forecast.get(key)) for key in ("low", "high"))
    table.add_row(
        "its cost to completion, forecast at the alert", f"{low} to {high}\n{forecast.get('basis', '')}"
    )
    table.add_row(
        "what it really costs when nothing stops it", f"{_money(loose['spent'])} in {loose['took']}"
    )
    table.add_row("from its launch to the first alert", closing["time_to_alert"] or "no alert")
    table.add_row("from its launch to the verified pause", closing["time_to_pause"] or "not paused")
    table.add_row(
        f"{cast['bystander']}: same pods, restarts",
        f"{'yes' if bystander['same_pods'] else 'NO'}, {bystander['restarts']}",
    )
    shift = bystander["shift_seconds"]
    table.add_row(
        f"{cast['bystander']}: finished",
        f"{_time(bystander['finished'])} ({'?' if shift is None else f'{shift:.0f} s'} from a run without {cast['owner']})",
    )
    for bill in closing["bill"]:
        table.add_row(f"the bill of {bill.get('day')}", _bill(bill))
    return table


def _bill(bill: dict[str, Any]) -> str:
    state = "estimated" if bill["estimated"] else "final"
    lines = [f"{bill['billed']} billed ({state}), {bill['metered']} metered, drift {bill['drift']} %"]
    lines += [f"of which {name}: {amount}" for name, amount in bill["differences"].items()]
    return "\n".join(lines)


def _over_time(closing: dict[str, Any]) -> Table:
    table = Table(title="nodes per region over time")
    rows = [row for row in closing["nodes_over_time"] if row["nodes"]]
    regions = sorted({region for row in rows for region in row["nodes"]})
    for name in (
        "time",
        *(region or "on-premises" for region in regions),
        "$/h",
        f"{closing['cast']['ghost']} spent",
    ):
        table.add_column(name, justify="left" if name == "time" else "right", overflow="fold", no_wrap=False)
    last: dict[str, int] | None = None
    for row in rows:
        if row["nodes"] != last:
            counts = [str(row["nodes"].get(region, 0)) for region in regions]
            table.add_row(f"{row['at']:%a %H:%M}", *counts, str(row["burn"]), str(row["spent"]))
        last = row["nodes"]
    return table


def _money(value: Any) -> str:
    if isinstance(value, int):
        return str(Money(value))
    return "unknown" if value is None else str(Money.usd(str(value)))


def _time(value: datetime | None) -> str:
    return f"{value:%a %H:%M:%S}" if value else "not finished"
