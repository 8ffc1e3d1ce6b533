"""Runs programs on the real control plane and in the sandbox at once, and finds where they differ.

Many programs run side by side, each in its namespace and on its nodes, round by round; both clusters see
all of them, so that sentences about "all nodes" agree. World time follows real time. A round is over when
the two have settled on the same; what has not within `PATIENCE` seconds is a difference.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import urllib3

from sandbox.hosting import Host
from sandbox.kube.api import KubeApi
from sandbox.kube.garbage import GarbageCollector
from sandbox.kube.jobs import JobController
from sandbox.kube.kubelet import Kubelets
from sandbox.kube.node_lifecycle import NodeLifecycle
from sandbox.kube.store import Store
from sandbox.world import World
from tests.controlplane.answers import normal
from tests.controlplane.following import Following, identity
from tests.controlplane.harness import ControlPlane
from tests.controlplane.programs import PRIORITY_CLASSES, TELL, Operation, Program
from tests.controlplane.sides import Real
from tests.controlplane.views import job_view, node_view, ordered, pod_view, tidy
from tests.sandbox.kube.serving import MERGE, START

Object = dict[str, Any]
PATHS = {"nodes": "/api/v1/nodes", "pods": "/api/v1/namespaces/@/pods"}
PATHS |= {"jobs": "/apis/batch/v1/namespaces/@/jobs"}
LISTS = {"pods": "/api/v1/pods", "jobs": "/apis/batch/v1/jobs", "nodes": "/api/v1/nodes"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
QUIET, PATIENCE, POLL = 1.4, 15.0, 0.25
"""seconds: nothing changes for so long and both are the same = settled; how long that may take; between looks.
The real Job controller gathers changes of pods for a second."""
_numbers = itertools.count(1)


@dataclass
class Example:
    """One program under way."""

    program: Program
    namespace: str
    difference: str = ""
    """"" while there is none"""
    ages: dict[str, int] = field(default_factory=dict)
    """uid of a pod → the round in which it was first seen"""
    seen: tuple[str, float] = ("", 0.0)
    """the last state, and when it was first seen"""


class Server:
    """One API, as its administrator."""

    def __init__(self, address: str, token: str, **tls: Any) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "tests/1"}
        self._http = urllib3.PoolManager(retries=False, **tls)

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """One request."""
        raw = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if raw is None else {"Content-Type": kind})
        answer = self._http.request(method, self._address + path, body=raw, headers=headers, timeout=20)
        return answer.status, json.loads(answer.data)

    def state(self) -> dict[str, list[Object]]:
        """All pods, Jobs and nodes."""
        return {plural: self.call("GET", path)[1]["items"] for plural, path in LISTS.items()}

    def close(self) -> None:
        """Close the connections."""
        self._http.clear()


class StandIn:
    """The sandbox's cluster with all its controllers, and a scheduler that takes the other's choices."""

    def __init__(self) -> None:
        self.host = Host()
        self.host.call(self._build)
        self.server = Server(self._api.serve(self.host), "token")

    def _build(self) -> None:
        self._world = World(START, seed=7)
        store = Store(self._world, "home")
        self._api = KubeApi(self._world, store, tokens={"token": "admin"})
        GarbageCollector(self._world, store)
        NodeLifecycle(self._world, store)
        JobController(self._world, store)
        self.scheduler = Following(self._world, store)
        Kubelets(self._world, store)

    def follow(self, pods: list[Object], seconds: float) -> None:
        """It is so late; the other cluster's pods are these."""

        def step() -> None:
            self.scheduler.follow(pods)
            self._world.run_until(START + timedelta(seconds=seconds))

        self.host.call(step)

    def close(self) -> None:
        """End it."""
        self.server.close()
        self.host.close()


class Lockstep:
    """One batch of programs on both."""

    def __init__(self, plane: ControlPlane, programs: list[Program]) -> None:
        self._plane = plane
        self.examples = [Example(program, f"generated-{next(_numbers)}") for program in programs]
        self._real = Server(
            plane.address, plane.tokens["admin"], ca_certs=str(plane.folder / "certs/apiserver.crt")
        )
        self._standin = StandIn()
        self._started = time.monotonic()
        self._round = 0
        self._there: dict[str, list[Object]] = {}
        self._here: dict[str, list[Object]] = {}

    def run(self) -> list[Example]:
        """Do everything; the examples with their differences."""
        try:
            self._prepare()
            for number in range(max(len(example.program) for example in self.examples)):
                self._round = number
                for phase in (True, False):
                    self._play(about_nodes=phase)
        finally:
            self._standin.close()
            self._real.close()
            Real(self._plane, "default").clean_all()
        return self.examples

    def _prepare(self) -> None:
        Real(self._plane, "default").clean_all()
        self._started = time.monotonic()
        for body in PRIORITY_CLASSES:
            for server in (self._real, self._standin.server):
                server.call("POST", CLASSES, body)
        for example in self.examples:
            self._do(example, "POST", "/api/v1/namespaces", {"metadata": {"name": "@"}})

    def _play(self, *, about_nodes: bool) -> None:
        """The operations of one round that are about nodes, or all others; then let both settle."""
        changed = False
        for example in self.examples:
            todo = example.program[self._round] if self._round < len(example.program) else []
            for operation in todo if not example.difference else ():
                if _is_about_nodes(operation) == about_nodes:
                    self._operate(example, operation)
                    changed = True
        if changed:
            self._settle()

    # Operations

    def _operate(self, example: Example, operation: Operation) -> None:
        method, target, body = operation
        if method in ("POST", "PATCH", "DELETE"):
            plural, _, name = target.partition("/")
            path = PATHS[plural] + (f"/{name}" if name else "")
            self._do(example, method, path, body)
        else:
            self._touch(example, operation)

    def _do(self, example: Example, method: str, path: str, body: Any) -> None:
        path, body = placed(path, example.namespace), placed(body, example.namespace)
        kind = MERGE if method == "PATCH" else "application/json"
        there, here = (server.call(method, path, body, kind) for server in (self._real, self._standin.server))
        self._compare_answers(example, (method, path, body), there, here)

    def _touch(self, example: Example, operation: Operation) -> None:
        """Something happens to the first running pod of a Job, or to a pod of that name; or nothing."""
        method, name, value = operation
        wanted = ((example.namespace, "job", name), (example.namespace, "pod", name))
        found = [
            pod for pod in self._there.get("pods", ()) if identity(pod)[:3] in wanted and _is_running(pod)
        ]
        if not found:
            return
        there = min(found, key=lambda pod: (identity(pod), pod["metadata"]["uid"]))
        pairs = self._standin.scheduler.pairs
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in self._here["pods"]}
        here = next(
            (names.get(mine) for mine, theirs in pairs.items() if theirs == there["metadata"]["uid"]), None
        )
        answers = []
        for server, pod in ((self._real, there["metadata"]["name"]), (self._standin.server, here)):
            path = placed(PATHS["pods"], example.namespace) + f"/{pod}"
            answers.append(_act(server, path, method, value))
        self._compare_answers(example, operation, *answers)

    def _compare_answers(self, example: Example, what: Any, there: Any, here: Any) -> None:
        shown = [_shown(*answer) for answer in (there, here)]
        if shown[0] != shown[1]:
            example.difference = explain(f"answer to {what}", *shown)

    # Settling

    def _settle(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            self._look()
            open_ = [example for example in self.examples if not example.difference]
            views = {example.namespace: self._views(example) for example in open_}
            settled = [self._is_settled(example, *views[example.namespace]) for example in open_]
            if all(settled):
                return
            if time.monotonic() > deadline:
                for example in open_:
                    there, here = views[example.namespace]
                    if there != here:
                        example.difference = explain(f"round {self._round}", there, here)
                return
            time.sleep(POLL)

    def _look(self) -> None:
        self._there = self._real.state()
        self._standin.follow(self._there["pods"], time.monotonic() - self._started)
        self._here = self._standin.server.state()

    def _is_settled(self, example: Example, there: Object, here: Object) -> bool:
        state = json.dumps([there, here], sort_keys=True)
        if example.seen[0] != state:
            example.seen = (state, time.monotonic())
        return there == here and time.monotonic() - example.seen[1] >= QUIET

    def _views(self, example: Example) -> tuple[Object, Object]:
        there, here = self._view(example, self._there), self._view(example, self._here)
        offered = self._standin.scheduler.offered
        here["would be bound"] = {
            key[1]: nodes for key, nodes in offered.items() if key[0] == example.namespace
        }
        there["would be bound"] = {}
        return there, here

    def _view(self, example: Example, state: dict[str, list[Object]]) -> Object:
        namespace = example.namespace
        pods = [pod for pod in state["pods"] if pod["metadata"]["namespace"] == namespace]
        for pod in pods:
            example.ages.setdefault(pod["metadata"]["uid"], self._round)
        jobs = [job for job in state["jobs"] if job["metadata"]["namespace"] == namespace]
        nodes = [node for node in state["nodes"] if node["metadata"]["name"].startswith(f"{namespace}-n")]
        return {
            "pods": ordered(
                [pod_view(pod, fresh=example.ages[pod["metadata"]["uid"]] == self._round) for pod in pods]
            ),
            "jobs": ordered([job_view(job) for job in jobs]),
            "nodes": ordered([node_view(node) for node in nodes]),
        }


def placed(value: Any, namespace: str) -> Any:
    """With the namespace's name for every `@`."""
    return json.loads(json.dumps(value).replace("@", namespace))


def _is_about_nodes(operation: Operation) -> bool:
    return operation[1].startswith("nodes")


def _is_running(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def _act(server: Server, path: str, method: str, value: Any) -> tuple[int, Any]:
    if method == "KILL":
        return server.call("DELETE", path)
    if method == "EVICT":
        return server.call("POST", f"{path}/eviction", {"metadata": {"name": path.rpartition("/")[2]}})
    told = {f"{TELL}run-seconds": "0", f"{TELL}exit-code": str(value)}
    return server.call("PATCH", path, {"metadata": {"annotations": told}}, MERGE)


def _shown(code: int, answer: Any) -> Any:
    """What is compared of an answer: of an object that is still changing not its status."""
    if answer.get("kind") == "Status":
        return normal(code, answer)
    kept = {key: value for key, value in answer.items() if key != "status"}
    if answer["kind"] == "Pod":
        return code, pod_view(kept, fresh=False)
    return code, tidy(kept)


def explain(what: str, there: Any, here: Any) -> str:
    """Where two values differ, in as few lines as possible."""
    lines = [what]
    _differences("", there, here, lines)
    return "\n".join(lines)


def _differences(at: str, there: Any, here: Any, lines: list[str]) -> None:
    if there == here:
        return
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            _differences(f"{at}.{key}", there.get(key), here.get(key), lines)
    elif isinstance(there, list | tuple) and isinstance(here, list | tuple) and len(there) == len(here):
        for number, pair in enumerate(zip(there, here, strict=True)):
            _differences(f"{at}[{number}]", *pair, lines)
    else:
        lines.append(f"{at}: real {json.dumps(there)}, sandbox {json.dumps(here)}")
