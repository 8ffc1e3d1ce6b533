"""GPU utilisation from Prometheus: a value, absent (unknown, never zero), or an error.

What the exporters do, and what is done about it: workload labels arrive as `pod` or, where the scrape
does not honour labels, as `exported_pod` (then `pod` is the exporter's); `Hostname` became `hostname`;
MIG devices have no GPU_UTIL but a fraction of the time that the engine was busy; blank readings show as
giant numbers; an exporter that restarted doubles its series for a while.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from fleet.errors import BadInput
from fleet.ports import Sample

TIMEOUT_SECONDS = 10
PODS_A_QUERY = 100
"""Names go into the URL: servers and proxies cut off at some kilobytes."""
_SOURCES = (("DCGM_FI_DEV_GPU_UTIL", 1.0), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 100.0))
"""Series and what makes its value a percentage; the first that is there counts for a GPU."""
_LABELS = (("exported_namespace", "exported_pod"), ("namespace", "pod"))
_HIGHEST = 100.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PrometheusMetrics:
    """The `Metrics` port over one Prometheus. `cluster_label` is set where it watches several clusters."""

    def __init__(
        self, url: str, *, cluster_label: str = "", timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadInput(
                f"{url!r} is not the address of a Prometheus.", hint="Write it like http://host:9090."
            )
        self._cluster_label = cluster_label
        self._timeout = timeout_seconds
        self._warnings: list[str] = []
        session = requests.Session()
        # Nothing stands between us and this machine; elsewhere the environment's proxy may be needed.
        session.trust_env = urlsplit(url).hostname not in _LOOPBACK
        session.hooks["response"].append(self._note_warnings)
        self._client: Any = PrometheusConnect(
            url=url.rstrip("/"), session=session, retry=Retry(total=0), timeout=timeout_seconds
        )

    def gpu_utilisation(
        self, cluster: str, pods: Sequence[tuple[str, str]], at: datetime, window: timedelta
    ) -> Sample:
        """Mean utilisation (0..100) of the GPUs of these (namespace, pod)s over the window before `at`.

        A GPU that several pods share counts once. Absent where no GPU of them has a usable series.
        """
        values: dict[tuple[str, ...], float] = {}
        for start in range(0, len(pods), PODS_A_QUERY):
            found = self._of_pods(cluster, pods[start : start + PODS_A_QUERY], at, window)
            if isinstance(found, Sample):
                return found
            values |= found
        if not values:
            return Sample(None)
        return Sample(sum(values.values()) / len(values))

    def query(self, expression: str, at: datetime) -> Sample:
        """One number from an instant query; several series are an error, none (or NaN) is absent."""
        result = self._ask(expression, at)
        if isinstance(result, Sample):
            return result
        if result and not isinstance(result[0], Mapping):
            return _sample(result)
        if len(result) > 1:
            return Sample(None, f"{expression} gives {len(result)} series, not one.")
        return _sample(result[0].get("value", ())) if result else Sample(None)

    def _of_pods(
        self, cluster: str, pods: Sequence[tuple[str, str]], at: datetime, window: timedelta
    ) -> dict[tuple[str, ...], float] | Sample:
        """Percent by GPU; a Sample where asking failed."""
        found: dict[tuple[str, ...], float] = {}
        wanted = set(pods)
        for series, factor in _SOURCES:
            for labels in _LABELS:
                expression = self._expression(series, labels, cluster, pods, window)
                result = self._ask(expression, at)
                if isinstance(result, Sample):
                    return result
                fresh = _by_gpu(result, labels, wanted, factor)
                found |= {gpu: value for gpu, value in fresh.items() if gpu not in found}
                if fresh:
                    break
        return found

    def _expression(
        self,
        series: str,
        labels: tuple[str, str],
        cluster: str,
        pods: Sequence[tuple[str, str]],
        window: timedelta,
    ) -> str:
        matchers = [
            f'{labels[0]}=~"{_any_of(namespace for namespace, _ in pods)}"',
            f'{labels[1]}=~"{_any_of(name for _, name in pods)}"',
        ]
        if self._cluster_label:
            matchers.append(f'{self._cluster_label}="{_quoted(cluster)}"')
        seconds = max(1, int(window.total_seconds()))
        return f"avg_over_time({series}{{{','.join(matchers)}}}[{seconds}s])"

    def _ask(self, expression: str, at: datetime) -> list[Any] | Sample:
        self._warnings.clear()
        try:
            result = self._client.custom_query(
                expression, params={"time": f"{at.timestamp():.3f}"}, timeout=self._timeout
            )
        except (ValueError, KeyError, TypeError) as error:
            return Sample(None, f"Prometheus gives no answer that can be read: {error!r}")
        except (requests.RequestException, PrometheusApiClientException) as error:
            return Sample(None, f"Prometheus does not answer: {' '.join(str(error).split())[:300]}")
        if self._warnings:
            # A part of the answer is missing: a mean over the rest would be wrong.
            return Sample(None, f"Prometheus answers in part: {'; '.join(self._warnings)[:300]}")
        return list(result)

    def _note_warnings(self, response: requests.Response, *_args: Any, **_kwargs: Any) -> None:
        """The client drops warnings of partial answers: keep them."""
        try:
            document = response.json()
        except ValueError:
            return
        if isinstance(document, dict):
            self._warnings += [str(warning) for warning in document.get("warnings") or ()]


def _by_gpu(
    result: Iterable[Mapping[str, Any]], labels: tuple[str, str], wanted: set[tuple[str, str]], factor: float
) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for series in result:
        metric = series.get("metric", {})
        if (metric.get(labels[0]), metric.get(labels[1])) not in wanted:
            # The matchers cross namespaces with names: another team's pod of the same name is not meant.
            continue
        value = _sample(series.get("value", ())).value
        if value is None or not 0.0 <= value * factor <= _HIGHEST:
            continue
        gpu = _gpu(metric)
        found[gpu] = max(found.get(gpu, 0.0), value * factor)
    return found


def _gpu(metric: Mapping[str, str]) -> tuple[str, ...]:
    host = metric.get("hostname") or metric.get("Hostname") or metric.get("instance") or ""
    device = metric.get("UUID") or metric.get("gpu") or metric.get("device") or ""
    return (host, device, metric.get("GPU_I_ID", ""))


def _sample(value: Sequence[Any]) -> Sample:
    try:
        number = float(value[1])
    except (IndexError, TypeError, ValueError):
        return Sample(None, f"{value!r} is not a sample.")
    return Sample(number) if math.isfinite(number) else Sample(None)


def _any_of(names: Iterable[str]) -> str:
    return "|".join(_quoted(_escaped(name)) for name in sorted(set(names)))


def _escaped(name: str) -> str:
    """The name as an RE2 expression that matches only it."""
    return "".join(f"\\{letter}" if letter in r"\.+*?()|[]{}^$" else letter for letter in name)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
