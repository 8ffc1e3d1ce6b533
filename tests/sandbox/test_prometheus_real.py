"""The Prometheus stand-in beside a real Prometheus that holds the same samples."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from sandbox.promql import QueryError, parse
from sandbox.promql_eval import evaluate
from sandbox.series import Series

START = 1_600_000_005.0
AT = START + 3600.7
"""off the scrape grid: whether a window's edge counts differs between Prometheus 2 and 3"""
SERIES = [
    Series({"pod": "a", "node": "x"}, ((START, START + 1200, 10.0), (START + 1200, math.inf, 40.5))),
    Series({"pod": "b", "node": "x"}, ((START, math.inf, 92.0),)),
    Series({"pod": "c.d", "node": "y"}, ((START + 600, math.inf, 0.25),)),
    Series({"pod": "e"}, ((START + 3000, START + 3200, 1.0), (START + 3200, math.inf, 8.0))),
]
QUERIES = [
    "m",
    'm{pod=~"a|c\\\\.d"}',
    'm{pod!~"a|b",node!=""}',
    'm{node=""}',
    "avg_over_time(m[50m])",
    "min_over_time(m[45m])",
    "max_over_time(m[2700s])",
    "sum_over_time(m[10m])",
    "count_over_time(m[1h30m])",
    "last_over_time(m[5m])",
    "present_over_time(m[5m])",
    "rate(m[50m])",
    "increase(m[50m])",
    "m offset 50m",
    "avg_over_time(m[5m] offset 40m)",
    "sum(m)",
    "avg by (node) (m)",
    "max(m) by (node, pod)",
    "min without (pod) (m)",
    "count(m > 9)",
    "m > bool 9",
    "9 < m",
    "m * 2 - 1 / 4",
    "-m",
    "m == 92",
    "m / 0",
    "abs(m - 50)",
    "clamp_max(m, 30)",
    "clamp_min(m, 30)",
    'absent(m{pod="z",node=~"q"})',
    "absent(m)",
    "vector(3)",
    "1 + 2 * 3",
    "time()",
    "avg(avg_over_time(m[20m]))",
]
WRONG = ["", "sum(", "m{", "m{pod=a}", "m{pod=~'('}", "holt(m)", "m m", "m[5x]", "{}", "m ; n"]
WRONG += ["avg_over_time(m)", "sum(1)", "1 > 2", "m[0s]"]


def _open_metrics() -> str:
    lines = ["# TYPE m gauge"]
    for series in SERIES:
        labels = ",".join(f'{name}="{text}"' for name, text in series.labels.items())
        for first, count, value in series.samples(START - 1, AT):
            lines += [f"m{{{labels}}} {value} {first + 15 * number:.0f}" for number in range(count)]
    return "\n".join([*lines, "# EOF", ""])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus with the samples."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (folder / "samples").write_text(_open_metrics())
    (folder / "config.yml").write_text("global: {}\n")
    backfill = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
    backfill += [str(folder / "samples"), str(folder / "data")]
    subprocess.run(backfill, check=True, capture_output=True)
    address = f"127.0.0.1:{_free_port()}"
    command = ["prometheus", f"--config.file={folder / 'config.yml'}", f"--web.listen-address={address}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", "--storage.tsdb.retention.time=100y"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    http = urllib3.PoolManager(retries=False)
    try:
        _wait_ready(http, f"http://{address}", process)
        yield f"http://{address}"
    finally:
        http.clear()
        process.terminate()
        process.wait(20)


def _wait_ready(http: urllib3.PoolManager, address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if http.request("GET", f"{address}/-/ready").status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError("Prometheus did not become ready")


def ask(address: str, query: str) -> tuple[int, dict[str, Any]]:
    """The real answer."""
    http = urllib3.PoolManager()
    response = http.request("GET", f"{address}/api/v1/query", fields={"query": query, "time": f"{AT:.3f}"})
    http.clear()
    return response.status, response.json()


def ours(query: str) -> dict[frozenset[tuple[str, str]], float]:
    """The stand-in's answer."""
    found = evaluate(parse(query), lambda name, *_more: SERIES if name == "m" else [], AT)
    if isinstance(found, float):
        return {frozenset(): found}
    return {frozenset(labels.items()): value for labels, value in found}


@pytest.mark.service("prometheus")
@pytest.mark.parametrize("query", QUERIES)
def test_the_same_samples_give_the_same_answer(real: str, query: str) -> None:
    """Labels and values of every query of the subset."""
    status, body = ask(real, query)
    assert status == 200, body
    result = body["data"]["result"]
    if body["data"]["resultType"] == "scalar":
        theirs: dict[frozenset[tuple[str, str]], float] = {frozenset(): float(result[1])}
    else:
        theirs = {frozenset(entry["metric"].items()): float(entry["value"][1]) for entry in result}
    assert ours(query) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.service("prometheus")
@pytest.mark.parametrize("query", WRONG)
def test_both_refuse_the_same_queries(real: str, query: str) -> None:
    """400 bad_data there, bad_data here."""
    status, body = ask(real, query)
    assert (status, body["errorType"]) == (400, "bad_data")
    with pytest.raises(QueryError) as refused:
        ours(query)
    assert refused.value.kind == "bad_data"
