"""The Prometheus stand-in: its query language, its answers over HTTP, and what the exporters tell it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import urllib3

from sandbox.hosting import Host
from sandbox.kube.exporters import DcgmExporter, KubeStateMetrics
from sandbox.prometheus import Prometheus
from sandbox.promql import QueryError, Selector, parse
from sandbox.promql_eval import evaluate
from sandbox.series import Series
from sandbox.world import World
from tests.sandbox.kube.bench import Bench, make_bench

START = 1_000_000_000.0
"""not on the scrape grid"""


def answer(
    text: str, *series: tuple[dict[str, str], list[tuple[float, float, float]]], at: float = 600
) -> Any:
    """Evaluate over series of metric `m`, whose spans count from START."""
    known = [
        Series(labels, tuple((START + start, START + end, value) for start, end, value in spans))
        for labels, spans in series
    ]
    return evaluate(parse(text), lambda name, *_more: known if name == "m" else [], START + at)


A = ({"pod": "a", "node": "x"}, [(0.0, 300.0, 10.0), (300.0, 1e9, 40.0)])
B = ({"pod": "b", "node": "x"}, [(0.0, 1e9, 92.0)])
C = ({"pod": "c.d", "node": "y"}, [(0.0, 1e9, 5.0)])


@pytest.mark.parametrize(
    ("selector", "pods"),
    [
        ("m", ["a", "b", "c.d"]),
        ('m{pod="a"}', ["a"]),
        ("m{pod!='a'}", ["b", "c.d"]),
        ('m{pod=~"a|b"}', ["a", "b"]),
        ('m{pod=~"."}', ["a", "b"]),
        ('m{pod=~"c\\\\.d"}', ["c.d"]),
        ('m{pod!~"a|c.*",node="x"}', ["b"]),
        ('{__name__="m",node="y",}', ["c.d"]),
        ('m{absent=""}', ["a", "b", "c.d"]),
        ('m{absent!=""}', []),
        ("n", []),
    ],
)
def test_matchers_select_series(selector: str, pods: list[str]) -> None:
    """Equality, anchored regular expressions, and the absent label as an empty string."""
    assert [labels["pod"] for labels, _ in answer(selector, A, B, C)] == pods


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("avg_over_time(m[10m])", 25.0),
        ("min_over_time(m[10m])", 10.0),
        ("max_over_time(m[10m])", 40.0),
        ("count_over_time(m[10m])", 40.0),
        ("sum_over_time(m[1m])", 160.0),
        ("last_over_time(m[10m])", 40.0),
        ("m offset 6m", 10.0),
        ("avg_over_time(m[2m] offset 5m)", 10.0),
        ("m * 2 - 30 / 3", 70.0),
        ("2 + m", 42.0),
        ("-m", -40.0),
        ("m > 39", 40.0),
        ("39 < m", 40.0),
        ("m > bool 40", 0.0),
        ("abs(m - 50)", 10.0),
        ("clamp_max(m, 30)", 30.0),
        ("increase(m[10m])", 30.0 * 600 / 585),
    ],
)
def test_functions_and_operators_compute(text: str, value: float) -> None:
    """One series of 10 for five minutes, then 40."""
    ((_, found),) = answer(text, A)
    assert found == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("sum(m)", {(): 137.0}),
        ("avg by (node) (m)", {(("node", "x"),): 66.0, (("node", "y"),): 5.0}),
        ("max(m) by (node)", {(("node", "x"),): 92.0, (("node", "y"),): 5.0}),
        ("min without (pod) (m)", {(("node", "x"),): 40.0, (("node", "y"),): 5.0}),
        ("count(m > 20)", {(): 2.0}),
        ("avg by (node) (avg_over_time(m[10m]))", {(("node", "x"),): 58.5, (("node", "y"),): 5.0}),
    ],
)
def test_aggregations_group(text: str, groups: dict[Any, float]) -> None:
    """by and without, before or after the parentheses."""
    assert {tuple(labels.items()): value for labels, value in answer(text, A, B, C)} == groups


def test_a_series_that_ended_is_gone_after_the_next_scrape() -> None:
    """No value is worse than an old one; over a range it still counts."""
    short = ({"pod": "a"}, [(0.0, 100.0, 7.0)])
    assert answer("m", short, at=95)[0][1] == 7.0
    assert answer("m", short, at=120) == []
    assert answer("avg_over_time(m[5m])", short, at=120)[0][1] == 7.0
    assert answer('absent(m{pod="a"})', short, at=120) == [({"pod": "a"}, 1.0)]
    assert answer("m < 5", short, at=95) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no expression found in input"),
        ("m{", "unexpected end of input in label matching"),
        ("m{pod=a}", 'unexpected identifier "a" in label matching, expected string'),
        ("m{pod=~'('}", "error parsing regexp"),
        ("sum(m", 'unexpected end of input in aggregation, expected ")"'),
        ("holt(m)", 'unknown function with name "holt"'),
        ("m m", 'unexpected identifier "m"'),
        ("m[5x]", "unexpected"),
        ("{}", "vector selector must contain at least one non-empty matcher"),
        ("m ; n", "unexpected character: ';'"),
        ("avg_over_time(m)", "expected type range vector"),
        ("avg_over_time(m[5m], 1)", "expected 1 argument(s)"),
        ("m[5m]", "range vector"),
        ("sum(1)", "expected type instant vector"),
        ("1 > 2", "must use BOOL modifier"),
    ],
)
def test_a_wrong_query_is_refused_in_words(text: str, sentence: str) -> None:
    """bad_data, with what is wrong."""
    with pytest.raises(QueryError) as refused:
        answer(text, A)
    assert sentence in str(refused.value)
    assert refused.value.kind == "bad_data"


@pytest.mark.parametrize("text", ["m / m", "m + on (pod) m", "max_over_time(m[5m:1m])"])
def test_what_is_not_computed_says_so(text: str) -> None:
    """Valid PromQL outside the subset is an execution error, never a wrong number."""
    with pytest.raises(QueryError, match="the stand-in does not") as refused:
        answer(text, A)
    assert refused.value.kind == "execution"


class Asked:
    """A served Prometheus over a cluster, and how to ask it."""

    def __init__(self, host: Host, bench: Bench) -> None:
        self.bench = bench
        self.server = Prometheus(
            bench.world, [DcgmExporter("home", bench.kubelets), KubeStateMetrics("home", bench.store)]
        )
        self.address = host.serve(self.server.app())
        self._http = urllib3.PoolManager()

    def get(self, path: str, method: str = "GET", **fields: str) -> tuple[int, Any]:
        """Status and JSON body."""
        response = (
            self._http.request(method, self.address + path, fields=fields, encode_multipart=False)
            if method == "POST"
            else self._http.request(method, self.address + path, fields=fields)
        )
        return response.status, response.json()

    def values(self, query: str, at: datetime | None = None) -> dict[str, float]:
        """Pod (or phase, …) → value of an instant query."""
        when = {"time": str(at.timestamp())} if at else {}
        status, body = self.get("/api/v1/query", query=query, **when)
        assert status == 200, body
        return {_short(entry["metric"]): float(entry["value"][1]) for entry in body["data"]["result"]}

    def close(self) -> None:
        """Give the sockets back."""
        self._http.clear()


def _short(metric: dict[str, str]) -> str:
    for name in ("phase", "pod", "job_name"):
        if name in metric:
            return metric[name]
    return "-"


@pytest.fixture
def asked() -> Iterator[Asked]:
    """Two GPU pods that run, one that says nothing about its GPU."""
    host = Host()
    bench = make_bench()
    bench.node("n0", cpu="64", gpus=8)
    bench.pod("busy", gpus=2, told={"gpu-utilisation": "92", "run-seconds": "600"})
    bench.pod("idle", gpus=1, told={"gpu-utilisation": "3"})
    bench.pod("silent", gpus=1)
    bench.job("train", completions=3, parallelism=2)
    found = Asked(host, bench)
    bench.run(300)
    yield found
    found.close()
    host.close()


def test_gpu_utilisation_is_what_the_pods_are_told(asked: Asked) -> None:
    """One series a device; silence is absence; free devices read 0 without a pod."""
    metric = "DCGM_FI_DEV_GPU_UTIL"
    assert asked.values(f'avg by (pod) ({metric}{{pod=~"busy|idle|silent"}})') == {"busy": 92, "idle": 3}
    assert asked.values(f'count({metric}{{pod=""}})') == {"-": 4}
    _, body = asked.get("/api/v1/query", query=f'{metric}{{pod="idle"}}')
    labels = body["data"]["result"][0]["metric"]
    assert {"gpu", "UUID", "modelName", "Hostname", "namespace", "container"} <= set(labels)
    assert (labels["Hostname"], labels["container"], labels["namespace"]) == ("n0", "main", "research")


def test_a_query_is_about_the_time_it_asks_for(asked: Asked) -> None:
    """A finished pod has no present value and keeps its past."""
    during = asked.bench.world.now
    asked.bench.run(900)
    query = 'avg by (pod) (DCGM_FI_DEV_GPU_UTIL{pod="busy"})'
    assert asked.values(query) == {}
    assert asked.values(query, during) == {"busy": 92}
    assert asked.values('avg by (pod) (avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod="busy"}[30m]))') == {"busy": 92}


def test_pods_and_jobs_are_told_like_kube_state_metrics(asked: Asked) -> None:
    """Phases as 0 and 1, counts of Jobs, requests that completed pods keep."""
    assert asked.values('kube_pod_status_phase{pod="busy"} == 1') == {"Running": 1}
    asked.bench.run(400)
    phases = asked.values('kube_pod_status_phase{pod="busy"}')
    assert phases == {"Pending": 0, "Running": 0, "Succeeded": 1, "Failed": 0, "Unknown": 0}
    assert asked.values("kube_job_status_active") == {"train": 2}
    assert asked.values("kube_job_spec_completions") == {"train": 3}
    requests = 'kube_pod_container_resource_requests{pod="busy",resource="nvidia_com_gpu"}'
    assert asked.values(requests) == {"busy": 2}


def test_a_pod_that_comes_again_by_its_name_is_one_series(asked: Asked) -> None:
    """The same labels on the same device are joined over their gap."""
    asked.bench.kubelets.finish("research", "idle")
    asked.bench.store.delete("pods", "research", "idle")
    asked.bench.run(60)
    asked.bench.pod("idle", gpus=1, told={"gpu-utilisation": "53"})
    asked.bench.run(100)
    found = asked.values('avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod="idle"}[10m])')
    assert len(found) == 1
    assert 3 < found["idle"] < 53


def test_a_range_query_gives_a_matrix(asked: Asked) -> None:
    """Points at every step, also by POST."""
    now = asked.bench.world.now.timestamp()
    fields = {
        "query": 'sum(kube_pod_status_phase{phase="Running"})',
        "start": str(now - 120),
        "end": str(now),
    }
    status, body = asked.get("/api/v1/query_range", "POST", step="1m", **fields)
    assert (status, body["data"]["resultType"]) == (200, "matrix")
    assert [value for _, value in body["data"]["result"][0]["values"]] == ["5", "5", "5"]


def test_a_bare_range_gives_the_scrapes(asked: Asked) -> None:
    """Every fifteen seconds."""
    status, body = asked.get("/api/v1/query", query='DCGM_FI_DEV_GPU_UTIL{pod="idle"}[1m]')
    assert (status, body["data"]["resultType"]) == (200, "matrix")
    times = [at for at, _ in body["data"]["result"][0]["values"]]
    assert [after - before for before, after in itertools.pairwise(times)] == [15.0] * 3


@pytest.mark.parametrize(
    ("path", "fields", "status", "kind", "words"),
    [
        ("/api/v1/query", {"query": "sum("}, 400, "bad_data", 'invalid parameter "query": 1:5: parse error'),
        ("/api/v1/query", {}, 400, "bad_data", "no expression found in input"),
        ("/api/v1/query", {"query": "up", "time": "soon"}, 400, "bad_data", 'cannot parse "soon" to a valid'),
        ("/api/v1/query", {"query": "up / up"}, 422, "execution", "does not match vectors"),
        (
            "/api/v1/query_range",
            {"query": "up", "step": "0"},
            400,
            "bad_data",
            "zero or negative query resolution",
        ),
        (
            "/api/v1/query_range",
            {"query": "up", "start": "0", "end": "99999", "step": "1"},
            400,
            "bad_data",
            "exceeded maximum resolution of 11,000 points",
        ),
    ],
)
def test_mistakes_have_the_real_form(
    asked: Asked, path: str, fields: dict[str, str], status: int, kind: str, words: str
) -> None:
    """status, errorType and error, with the real HTTP code."""
    found, body = asked.get(path, **fields)
    assert (found, body["status"], body["errorType"]) == (status, "error", kind)
    assert words in body["error"]


def test_faults_are_down_missing_and_warnings(asked: Asked) -> None:
    """A server that is down, a series that is gone, an answer that is only a part."""
    asked.server.missing.add("DCGM_FI_DEV_GPU_UTIL")
    assert asked.values("DCGM_FI_DEV_GPU_UTIL") == {}
    asked.server.warnings.append("one store did not answer")
    assert asked.get("/api/v1/query", query="1")[1]["warnings"] == ["one store did not answer"]
    http = urllib3.PoolManager()
    assert http.request("GET", f"{asked.address}/-/ready").status == 200
    asked.server.down = True
    assert http.request("GET", f"{asked.address}/-/ready").status == 503
    http.clear()


def test_names_and_series_can_be_listed(asked: Asked) -> None:
    """What prometheus-api-client asks for."""
    status, body = asked.get("/api/v1/label/__name__/values")
    assert status == 200
    assert {"DCGM_FI_DEV_GPU_UTIL", "kube_pod_status_phase"} <= set(body["data"])
    _, body = asked.get("/api/v1/series", **{"match[]": 'kube_job_status_active{job_name="train"}'})
    assert body["data"] == [
        {
            "__name__": "kube_job_status_active",
            "namespace": "research",
            "job_name": "train",
            "cluster": "home",
        }
    ]


def test_a_clock_from_the_world_is_used(asked: Asked) -> None:
    """Without a time the query is about the world's present, not the machine's."""
    assert isinstance(asked.bench.world, World)
    _, body = asked.get("/api/v1/query", query="time()")
    assert float(body["data"]["result"][1]) == asked.bench.world.now.timestamp()


@pytest.mark.parametrize(
    ("matcher", "literals"),
    [
        ('pod="a.b"', {"a.b"}),
        ('pod=~"a|b-1"', {"a", "b-1"}),
        ('pod=~"a\\\\.b|c"', {"a.b", "c"}),
        ('pod=~"a.*"', None),
        ('pod=~"(a|b)"', None),
        ('pod=~"\\\\d"', None),
        ('pod!="a"', None),
    ],
)
def test_exporters_are_told_which_values_can_match(matcher: str, literals: set[str] | None) -> None:
    """Only what the text says for sure: a hint may never hide a series."""
    selector = parse(f"m{{{matcher}}}")
    assert isinstance(selector, Selector)
    assert selector.hints().get("pod") == literals
