"""The sandbox's API against the real one: the same requests, the same codes, reasons, sentences and objects.

Not compared: uids, times, versions, managedFields, addresses of Services; what follows a Go dump of an
object in a sentence; how often a cause is repeated.
"""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.controlplane.answers import Answer, normal
from tests.controlplane.harness import ControlPlane
from tests.sandbox.kube.serving import APPLY, MERGE, STRATEGIC, Served, config_map, job, pod, serve
from tests.sandbox.kube.test_api_refusals import DECODING, PATCHES, PLACES
from tests.sandbox.kube.test_api_validation import CREATIONS

pytestmark = pytest.mark.service("control-plane")

Object = dict[str, Any]
_numbers = itertools.count(1)


class Both:
    """A real API server without controllers, and the sandbox's."""

    def __init__(self, plane: ControlPlane, served: Served) -> None:
        self.plane = plane
        self.served = served

    def fresh(self) -> str:
        """A namespace on both sides."""
        name = f"both-{next(_numbers)}"
        self.compare("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def compare(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        """Do it on both; the answers have to agree."""
        answers = [
            normal(*side(method, path, current(side, path, body), kind)) for side in (self.real, self.sandbox)
        ]
        assert answers[0] == answers[1], (method, path, body)
        return answers[0]

    def real(self, method: str, path: str, body: Any, kind: str) -> Answer:
        """One request to the real server."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.plane.tokens['admin']}",
            "Content-Type": kind,
            "User-Agent": "tests/1",
        }
        call = urllib.request.Request(self.plane.address + path, data=raw, headers=headers, method=method)
        try:
            with urllib.request.urlopen(call, timeout=30, context=self.plane._tls()) as response:
                return response.status, json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def sandbox(self, method: str, path: str, body: Any, kind: str) -> Answer:
        """One request to the sandbox."""
        return self.served.call(method, path, body, kind=kind)


def current(side: Any, path: str, body: Any) -> Any:
    """The body with the object's present version where it asks for it."""
    if not isinstance(body, dict) or body.get("metadata", {}).get("resourceVersion") != "@current":
        return body
    version = side("GET", path, None, "application/json")[1].get("metadata", {}).get("resourceVersion", "1")
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Both of them."""
    plane = ControlPlane(tmp_path_factory.mktemp("api-server"), kwok=False, controllers=False)
    served = serve()
    try:
        yield Both(plane.start(), served)
    finally:
        plane.stop()
        served.http.clear()
        served.host.close()


def inside(path: str, namespace: str) -> str:
    """A path of the tables, in another namespace."""
    return path.replace("/namespaces/research", f"/namespaces/{namespace}")


def test_written_refusals_are_the_real_ones(both):
    """Every line of the refusals' tables gets the same answer from the real server."""
    namespace = both.fresh()
    for path, body, _ in CREATIONS + DECODING:
        assert both.compare("POST", inside(path, namespace), body)[0] >= 400
    for method, path, body, _, _, _ in PLACES:
        assert both.compare(method, inside(path, namespace), body)[0] >= 400
    place = f"/api/v1/namespaces/{namespace}/configmaps"
    both.compare("POST", place, config_map("c", a="1"))
    for kind, body, _, _ in PATCHES:
        assert both.compare("PATCH", f"{place}/c", body, kind)[0] >= 400


NAMES = st.sampled_from(["a", "b"])
DATA = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
LABELS = st.dictionaries(st.sampled_from(["team", "-bad"]), st.sampled_from(["x", "y", "z z"]), max_size=1)
NULLED = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2", None]), max_size=2)
CPU = st.sampled_from(["1", "500m", "0.5", 2, "1K", "-1"])
GPUS = st.sampled_from([{}, {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": "0.5"}])
COUNTS = st.sampled_from([None, -1, 0, 2, 3])
PATHS = {"cm": "/api/v1/namespaces/{}/configmaps", "pod": "/api/v1/namespaces/{}/pods"}
PATHS |= {"job": "/apis/batch/v1/namespaces/{}/jobs", "svc": "/api/v1/namespaces/{}/services"}
PATHS |= {"lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases"}
JSON = "application/json"


def named(manifest: Object, name: str, **metadata: Any) -> Object:
    """A manifest under a name."""
    return {**manifest, "metadata": {**manifest.get("metadata", {}), "name": name, **metadata}}


@st.composite
def config_map_steps(draw):
    """Plain writes, applies of two managers, ends."""
    name, data = draw(NAMES), draw(DATA)
    whole = named({"apiVersion": "v1", "kind": "ConfigMap", "data": data}, name, labels=draw(LABELS))
    manager = draw(st.sampled_from(["m1", "m2"]))
    force = draw(st.sampled_from(["", "&force=true"]))
    version = draw(st.sampled_from([{}, {"resourceVersion": "@current"}, {"resourceVersion": "1"}]))
    return draw(
        st.sampled_from(
            [
                ("POST", "cm", "", whole, JSON),
                ("PUT", "cm", f"/{name}", named(whole, name, **version), JSON),
                ("PATCH", "cm", f"/{name}", {"data": draw(NULLED), "metadata": version}, MERGE),
                ("PATCH", "cm", f"/{name}", {"metadata": {"finalizers": ["a.io/x"]}}, STRATEGIC),
                ("PATCH", "cm", f"/{name}", {"metadata": {"finalizers": None}}, MERGE),
                ("PATCH", "cm", f"/{name}?fieldManager={manager}{force}", whole, APPLY),
                ("PATCH", "cm", f"/{name}?fieldManager={manager}{force}", whole, APPLY),
                ("DELETE", "cm", f"/{name}", None, JSON),
                ("GET", "cm", "?labelSelector=team%20notin%20(x)", None, JSON),
            ]
        )
    )


@st.composite
def job_steps(draw):
    """Jobs of all shapes, changed, suspended by another manager, started, ended."""
    name = draw(NAMES)
    spec = {
        "parallelism": draw(COUNTS),
        "completions": draw(COUNTS),
        "completionMode": draw(st.sampled_from([None, "Indexed", "NonIndexed"])),
        "suspend": draw(st.booleans()),
        "backoffLimitPerIndex": draw(st.sampled_from([None, None, 1])),
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    count = draw(COUNTS)
    elastic = {"spec": {"completions": count, "parallelism": draw(st.sampled_from([count, 2]))}}
    suspend = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": draw(st.booleans())}}
    place = {"spec": {"template": {"spec": {"nodeSelector": {"a": draw(st.sampled_from(["1", "2"]))}}}}}
    policy = draw(st.sampled_from([None, "Background", "Foreground", "Orphan"]))
    started = {"status": {"startTime": draw(st.sampled_from([None, "2026-01-01T00:00:00Z"]))}}
    restart = draw(st.sampled_from(["Never", "OnFailure", "Always"]))
    return draw(
        st.sampled_from(
            [
                ("POST", "job", "", job(name, template={"restartPolicy": restart}, **spec), JSON),
                ("POST", "job", "", job(name, **spec), JSON),
                ("PATCH", "job", f"/{name}", elastic, MERGE),
                ("PATCH", "job", f"/{name}", {"spec": {"parallelism": count}}, MERGE),
                ("PATCH", "job", f"/{name}", {"spec": {"suspend": draw(st.booleans())}}, MERGE),
                ("PATCH", "job", f"/{name}", place, STRATEGIC),
                ("PATCH", "job", f"/{name}/status", started, MERGE),
                ("PATCH", "job", f"/{name}?fieldManager=guard", named(suspend, name), APPLY),
                ("PATCH", "job", f"/{name}?fieldManager=guard&force=true", named(suspend, name), APPLY),
                ("DELETE", "job", f"/{name}", {"propagationPolicy": policy} if policy else None, JSON),
            ]
        )
    )


@st.composite
def pod_steps(draw):
    """Pods with all kinds of requests; bound, changed, evicted, ended with and without grace."""
    name = draw(NAMES)
    resources = {"requests": {"cpu": draw(CPU)}, "limits": draw(GPUS)}
    container = {"name": "main", "image": draw(st.sampled_from(["x", "x:1"])), "resources": resources}
    binding = {
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": draw(st.sampled_from(["n1", "n2"]))},
    }
    grace = draw(st.sampled_from([None, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 9}]))
    phase = {"status": {"phase": draw(st.sampled_from(["Running", "Succeeded"]))}}
    field = draw(st.sampled_from([{"nodeName": "n3"}, {"activeDeadlineSeconds": 5}, {"priority": 3}]))
    return draw(
        st.sampled_from(
            [
                ("POST", "pod", "", pod(name, labels=draw(LABELS), containers=[container]), JSON),
                ("POST", "pod", "", pod(name), JSON),
                ("POST", "pod", "?dryRun=All", pod(name), JSON),
                ("POST", "pod", f"/{name}/binding", binding, JSON),
                ("POST", "pod", f"/{name}/eviction", {"metadata": {"name": name}}, JSON),
                ("PATCH", "pod", f"/{name}/status", phase, STRATEGIC),
                ("PATCH", "pod", f"/{name}", {"metadata": {"labels": draw(LABELS)}}, MERGE),
                ("PATCH", "pod", f"/{name}", {"spec": field}, MERGE),
                ("DELETE", "pod", f"/{name}", grace, JSON),
                ("GET", "pod", "?fieldSelector=spec.nodeName%3Dn1", None, JSON),
            ]
        )
    )


@st.composite
def other_steps(draw):
    """Services and leases."""
    name = draw(NAMES)
    headless = {"metadata": {"name": name}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    version = draw(st.sampled_from([{}, {"resourceVersion": "@current"}, {"resourceVersion": "1"}]))
    seconds = draw(st.sampled_from([15, 0]))
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": seconds}}
    return draw(
        st.sampled_from(
            [
                ("POST", "svc", "", headless, JSON),
                ("DELETE", "svc", f"/{name}", None, JSON),
                ("POST", "lease", "", lease, JSON),
                ("PUT", "lease", f"/{name}", named(lease, name, **version), JSON),
                ("PATCH", "lease", f"/{name}", {"spec": {"leaseTransitions": -seconds}}, MERGE),
                ("DELETE", "lease", f"/{name}", None, JSON),
            ]
        )
    )


STEPS = st.one_of(config_map_steps(), job_steps(), pod_steps(), other_steps())


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(st.lists(STEPS, min_size=8, max_size=25))
def test_random_sequences_get_the_same_answers(both, steps):
    """Whatever is done in whatever order: codes, reasons, sentences and objects agree."""
    namespace = both.fresh()
    for method, kind, rest, body, media in steps:
        both.compare(method, PATHS[kind].format(namespace) + rest, body, media)
