"""One whole cluster: its objects, its API and the controllers that act on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sandbox.hosting import Host
from sandbox.kube.access import Rule
from sandbox.kube.api import KubeApi
from sandbox.kube.garbage import GarbageCollector
from sandbox.kube.jobs import JobController
from sandbox.kube.kubelet import Kubelets
from sandbox.kube.kubelet_node import Profile
from sandbox.kube.node_lifecycle import NodeLifecycle
from sandbox.kube.scheduler import Scheduler
from sandbox.kube.store import Store
from sandbox.world import World

Object = dict[str, Any]

ADMIN = "admin"
MACHINE = "machine"
CONTROLLERS = ("scheduler", "jobs", "kubelets", "garbage", "nodes")
MACHINE_RULES: tuple[Rule, ...] = (
    {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["create", "get", "list", "watch", "patch", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch", "update"]},
)
"""What a machine that joins, and the cloud controller, may do."""


class Cluster:
    """A cluster that is served on the host. Make it from outside the host's thread.

    `users` maps further users to their rules (a ClusterRole's `rules`); `admin` may do everything,
    `machine` joins nodes. `controllers` are those of CONTROLLERS that run; without `kubelets` nothing
    runs on the nodes.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        name: str,
        *,
        users: Mapping[str, Iterable[Rule]] | None = None,
        controllers: Collection[str] = CONTROLLERS,
        profile: Profile | None = None,
    ) -> None:
        unknown = set(controllers) - set(CONTROLLERS)
        if unknown:
            raise ValueError(f"No such controllers: {', '.join(sorted(unknown))}.")
        self.name = name
        self._world = world
        self._host = host
        self._rules = {MACHINE: MACHINE_RULES, **(users or {})}
        self._kubelets: Kubelets | None = None
        self._scheduler: Scheduler | None = None
        host.call(self._build, controllers, profile)
        self.address = self.api.serve(host)

    def _build(self, controllers: Collection[str], profile: Profile | None) -> None:
        world = self._world
        self.store = Store(world, self.name)
        self._tokens = {
            user: f"{self.name}-{user}-{world.random.getrandbits(64):016x}" for user in (ADMIN, *self._rules)
        }
        by_token = {token: user for user, token in self._tokens.items()}
        self.api = KubeApi(world, self.store, tokens=by_token, rules=self._rules)
        if "garbage" in controllers:
            GarbageCollector(world, self.store)
        if "nodes" in controllers:
            NodeLifecycle(world, self.store)
        if "jobs" in controllers:
            JobController(world, self.store)
        if "scheduler" in controllers:
            self._scheduler = Scheduler(world, self.store)
        if "kubelets" in controllers:
            self._kubelets = Kubelets(world, self.store, profile)
            self.api.reader.logs = self._log

    def _log(self, pod: Object, container: str, tail: int | None) -> str:
        metadata = pod["metadata"]
        lines = self.kubelets.logs(metadata["namespace"], metadata["name"], container).splitlines(True)
        return "".join(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])

    @property
    def kubelets(self) -> Kubelets:
        """What runs on the nodes; RuntimeError where the cluster was made without."""
        if self._kubelets is None:
            raise RuntimeError(f"Cluster {self.name} runs no kubelets.")
        return self._kubelets

    @property
    def scheduler(self) -> Scheduler:
        """RuntimeError where the cluster was made without."""
        if self._scheduler is None:
            raise RuntimeError(f"Cluster {self.name} runs no scheduler.")
        return self._scheduler

    @property
    def join_token(self) -> str:
        """The bearer token with which machines join."""
        return self._tokens[MACHINE]

    def token(self, user: str) -> str:
        """The bearer token of one of the users."""
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN) -> Object:
        """A kubeconfig for one of the users, as plain values (YAML and JSON alike)."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "clusters": [{"name": self.name, "cluster": {"server": self.address}}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
        }

    def add_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Object:
        """Create a namespace; from outside the host's thread."""
        manifest = {"metadata": {"name": name, "labels": dict(labels or {})}}
        return self._host.call(self.store.create, "namespaces", manifest)

    def close(self) -> None:
        """The world forgets the API; the host ends the server when it closes."""
        self._world.version_sources.pop(self.address, None)
