"""GPU utilisation from what exporters really export."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from fleet.errors import BadInput
from fleet.metrics import PrometheusMetrics
from fleet.ports import Sample
from sandbox.hosting import Host
from tests.builders import T0

WINDOW = timedelta(minutes=15)
UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


class Server:
    """Answers instant queries of one series with the series that a test gave it, matching labels itself."""

    def __init__(self) -> None:
        self.series: list[tuple[str, dict[str, str], str]] = []
        self.queries: list[dict[str, str]] = []
        self.fixed: Any = None
        self.address = ""

    def add(self, value: str, name: str = UTIL, **labels: str) -> None:
        """A series with its mean over any window."""
        self.series.append((name, labels, value))

    async def query(self, request: web.Request) -> web.StreamResponse:
        """`avg_over_time(name{label=~"…",…}[…s])`."""
        self.queries.append(dict(request.query))
        if self.fixed is not None:
            return await self.fixed(request) if callable(self.fixed) else web.json_response(self.fixed)
        found = re.fullmatch(r"avg_over_time\((\w+)\{(.*)\}\[(\d+)s\]\)", request.query["query"])
        assert found, request.query["query"]
        matchers = re.findall(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"', found[2])
        result = [
            {"metric": labels, "value": [float(request.query["time"]), value]}
            for name, labels, value in self.series
            if name == found[1]
            and all(self.matches(labels.get(key, ""), op, text) for key, op, text in matchers)
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    def matches(self, value: str, operator: str, text: str) -> bool:
        """As Prometheus: the string literal is unescaped first, a regex is anchored."""
        plain = re.sub(r"\\(.)", r"\1", text)
        return bool(re.fullmatch(plain, value)) if operator == "=~" else plain == value


@pytest.fixture
def server() -> Iterator[Server]:
    """A Prometheus."""
    host, made = Host(), Server()
    application = web.Application()
    application.router.add_get("/api/v1/query", made.query)
    made.address = host.serve(application)
    yield made
    host.close()


def ask(server: Server, *pods: tuple[str, str], **more: Any) -> Sample:
    """Utilisation of some pods."""
    return PrometheusMetrics(server.address, **more).gpu_utilisation("home", pods, T0, WINDOW)


def test_the_mean_of_the_gpus_of_the_pods(server):
    """Explicit time and window; only the pods asked for count, not one of the same name elsewhere."""
    server.add("90", pod="w-0", namespace="research", UUID="1")
    server.add("50", pod="w-1", namespace="research", UUID="2")
    server.add("0", pod="w-0", namespace="other", UUID="3")
    server.add("0", pod="w-10", namespace="research", UUID="4")
    assert ask(server, ("research", "w-0"), ("research", "w-1")) == Sample(70.0)
    assert ask(server, ("research", "w-0"), ("other", "w-1")) == Sample(90.0)
    assert {query["time"] for query in server.queries} == {"1793984400.000"}
    assert "[900s]" in server.queries[0]["query"]


def test_exported_labels_win_over_the_exporters_own(server):
    """Without honorLabels `pod` is the exporter's, and the workload is in `exported_pod`."""
    server.add(
        "80", pod="dcgm-x", namespace="gpu", exported_pod="w-0", exported_namespace="research", UUID="1"
    )
    assert ask(server, ("research", "w-0")) == Sample(80.0)


@pytest.mark.parametrize("host", ["Hostname", "hostname"])
def test_a_doubled_series_counts_once(server, host):
    """An exporter that restarted shows each GPU twice for a while; both names of the host label work."""
    for value, job in (("60", "old"), ("80", "new")):
        server.add(value, pod="w-0", namespace="n", gpu="0", job=job, **{host: "a"})
    server.add("40", pod="w-0", namespace="n", gpu="0", **{host: "b"})
    assert ask(server, ("n", "w-0")) == Sample(60.0)


def test_mig_uses_the_engines_share(server):
    """MIG slices have no GPU_UTIL; the fraction of time the engine was busy is used instead, a slice each."""
    server.add("0.5", ENGINE, pod="w-0", namespace="n", UUID="1", GPU_I_ID="3")
    server.add("0.9", ENGINE, pod="w-0", namespace="n", UUID="1", GPU_I_ID="4")
    assert ask(server, ("n", "w-0")) == Sample(70.0)


def test_utilisation_wins_over_the_engine(server):
    """Where a GPU has both series only the first counts."""
    server.add("100", pod="w-0", namespace="n", UUID="1")
    server.add("0.1", ENGINE, pod="w-0", namespace="n", UUID="1")
    assert ask(server, ("n", "w-0")) == Sample(100.0)


def test_absent_is_not_zero(server):
    """No series, blank readings as giant numbers, and NaN are unknown; a real zero is zero."""
    assert ask(server, ("n", "w-0")).absent
    server.add("9223372036854775807", pod="w-0", namespace="n", UUID="1")
    server.add("NaN", pod="w-0", namespace="n", UUID="2")
    server.add("-1", pod="w-0", namespace="n", UUID="3")
    assert ask(server, ("n", "w-0")).absent
    assert ask(server).absent
    server.add("0", pod="w-0", namespace="n", UUID="4")
    assert ask(server, ("n", "w-0")) == Sample(0.0)


def test_names_are_not_patterns(server):
    """A dot in a name is a dot, and a quote ends nothing."""
    server.add("10", pod="w.0", namespace="n", UUID="1")
    server.add("90", pod="wx0", namespace="n", UUID="2")
    assert ask(server, ("n", "w.0")) == Sample(10.0)
    assert ask(server, ("n", 'w"0|.*'), ("n", "(")).absent


def test_many_pods_are_asked_in_parts(server):
    """250 names are three questions, and one mean."""
    for number in range(250):
        server.add("100" if number % 2 else "0", pod=f"w-{number}", namespace="n", UUID=str(number))
    assert ask(server, *[("n", f"w-{number}") for number in range(250)]) == Sample(50.0)
    assert max(len(query["query"]) for query in server.queries) < 3000


def test_one_prometheus_of_many_clusters(server):
    """With a cluster label the same pod of another cluster is not meant."""
    server.add("10", pod="w", namespace="n", UUID="1", cluster="home")
    server.add("90", pod="w", namespace="n", UUID="2", cluster="away")
    assert ask(server, ("n", "w"), cluster_label="cluster") == Sample(10.0)


async def slow(request: web.Request) -> web.Response:
    """Answers too late."""
    await asyncio.sleep(0.3)
    return web.json_response({})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": "success"}, "no answer that can be read"),
        ([], "no answer that can be read"),
        ({"warnings": ["store unreachable"], "data": {"result": []}}, "in part: store unreachable"),
        (lambda request: asyncio.sleep(0, web.Response(status=503, text="down")), "does not answer"),
        (lambda request: asyncio.sleep(0, web.Response(text="<html>")), "no answer that can be read"),
        (slow, "does not answer"),
    ],
    ids=["no data", "list", "partial", "503", "html", "slow"],
)
def test_errors_are_errors(server, answer, words):
    """What is no whole answer is an error, neither a value nor absent."""
    server.fixed = answer
    metrics = PrometheusMetrics(server.address, timeout_seconds=0.1)
    found = metrics.gpu_utilisation("home", [("n", "w")], T0, WINDOW)
    assert found.value is None
    assert not found.absent
    assert words in found.error


def test_nobody_there():
    """A closed port is an error; an address that is none is refused."""
    assert "does not answer" in PrometheusMetrics("http://127.0.0.1:1").query("up", T0).error
    with pytest.raises(BadInput, match="not the address of a Prometheus"):
        PrometheusMetrics("prometheus:9090")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ([{"metric": {}, "value": [1, "3.5"]}], Sample(3.5)),
        ([1, "7"], Sample(7.0)),
        ([], Sample(None)),
        ([{"metric": {}, "value": [1, "NaN"]}], Sample(None)),
        ([{"metric": {}, "value": [1, "+Inf"]}], Sample(None)),
        ([{"value": [1, "1"]}, {"value": [1, "2"]}], Sample(None, "up gives 2 series, not one.")),
    ],
    ids=["vector", "scalar", "empty", "nan", "inf", "two"],
)
def test_a_query_is_one_number(server, result, expected):
    """Vectors of one, scalars, nothing, and too much."""
    server.fixed = {"status": "success", "data": {"result": result}}
    assert PrometheusMetrics(server.address).query("up", T0) == expected


def test_the_environments_proxy_is_not_asked_about_this_machine(server, monkeypatch):
    """A proxy that is set for the process never sees loopback queries."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.add("5", pod="w", namespace="n", UUID="1")
    assert ask(server, ("n", "w")) == Sample(5.0)
