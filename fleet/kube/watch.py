"""A live copy of one cluster: pods, nodes, jobs and namespaces, each kept by its own list + watch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from fleet.kube.connection import Connection
from fleet.kube.decode import Decoder
from fleet.kube.objects import KubeObjects
from fleet.kube.reflector import Decode, Reflector, Store
from fleet.model import ClusterSnapshot, Job, Node, Pod

PATHS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "jobs": "/apis/batch/v1/jobs",
    "namespaces": "/api/v1/namespaces",
}


class WatchCache:
    """The `ClusterView` of a Kubernetes API. Starts its threads at once; `close` ends them.

    `governed` are the namespaces that the settings list; one counts as governed where it also carries
    the label `quartermaster.dev/governed=true`.
    """

    def __init__(
        self, connection: Connection, name: str, governed: Sequence[str], *, page: int = 500
    ) -> None:
        self.name = name
        self.address = connection.address
        self._listed = tuple(governed)
        self._objects = KubeObjects(connection)
        self._pods: Store[Pod] = Store()
        self._nodes: Store[Node] = Store()
        self._jobs: Store[Job] = Store()
        self._namespaces: Store[bool] = Store()
        self._stale_since: datetime | None = None
        self._cached: tuple[int, ClusterSnapshot] | None = None
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(connection, PATHS["pods"], _pods(name), self._pods, page),
            Reflector(connection, PATHS["nodes"], _nodes(name), self._nodes, page),
            Reflector(connection, PATHS["jobs"], _jobs(name), self._jobs, page),
            Reflector(connection, PATHS["namespaces"], _namespaces(name), self._namespaces, page),
        )
        for reflector in self._reflectors:
            reflector.start()

    @property
    def _stores(self) -> tuple[Store[Any], ...]:
        return (self._pods, self._nodes, self._jobs, self._namespaces)

    @property
    def version(self) -> int:
        """The resourceVersion up to which everything has been seen, of the kind that lags most."""
        return min(store.version for store in self._stores)

    @property
    def generation(self) -> int:
        """Grows whenever an object changes; equal generations mean equal snapshots but for the time."""
        return sum(store.changes for store in self._stores)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the data may be old, a sentence each; () while all watches stand."""
        return tuple(sorted({store.problem for store in self._stores if store.problem}))

    def reached(self, version: int | None) -> bool:
        """True where all watches stand and have seen this version; None asks whether all are cut off.

        An API that refuses new requests may keep its open watches: asked with None, those connect anew.
        """
        if version is None:
            standing = [
                reflector
                for reflector, store in zip(self._reflectors, self._stores, strict=True)
                if not store.problem
            ]
            for reflector in standing:
                reflector.reconnect()
            return not standing
        return not self.problems and self.version >= version

    def snapshot(self, now: datetime) -> ClusterSnapshot:
        """The cluster as last seen. Cheap: what did not change since the last call is the same object.

        `stale_since` is the first snapshot that saw the API cut off, so that a stepped world repeats.
        """
        broken = any(store.problem for store in self._stores)
        self._stale_since = (self._stale_since or now) if broken else None
        generation = self.generation
        cached = self._cached
        if cached is None or cached[0] != generation or not cached[1].synced:
            labelled = self._namespaces.view()
            base = ClusterSnapshot(
                cluster=self.name,
                observed_at=now,
                synced=all(store.synced for store in self._stores),
                pods=self._pods.view(),
                nodes=self._nodes.view(),
                jobs=self._jobs.view(),
                governed=frozenset(name for name in self._listed if labelled.get(name)),
            )
            # Counted before the views were taken: a change in between makes the next call look again.
            self._cached = cached = (generation, base)
        return replace(cached[1], observed_at=now, stale_since=self._stale_since)

    def wait_synced(self, timeout: float) -> bool:
        """Wait (real seconds) for the first full list of every kind."""
        deadline = time.monotonic() + timeout
        return all(store.wait_synced(max(0.0, deadline - time.monotonic())) for store in self._stores)

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Kubernetes events about an object of this name, read from the API; for people."""
        return self._objects.events(namespace, name)

    def close(self) -> None:
        """End the watches."""
        for reflector in self._reflectors:
            reflector.stop()
        for reflector in self._reflectors:
            reflector.join(2.0)


def _pods(cluster: str) -> Decode[Pod]:
    decoder = Decoder(cluster)

    def decode(data: bytes | msgspec.Raw) -> tuple[str, Pod, str]:
        pod, version = decoder.pod(data)
        return pod.uid, pod, version

    return decode


def _nodes(cluster: str) -> Decode[Node]:
    decoder = Decoder(cluster)

    def decode(data: bytes | msgspec.Raw) -> tuple[str, Node, str]:
        node, version = decoder.node(data)
        return node.name, node, version

    return decode


def _jobs(cluster: str) -> Decode[Job]:
    decoder = Decoder(cluster)

    def decode(data: bytes | msgspec.Raw) -> tuple[str, Job, str]:
        job, version = decoder.job(data)
        return job.uid, job, version

    return decode


def _namespaces(cluster: str) -> Decode[bool]:
    decoder = Decoder(cluster)

    def decode(data: bytes | msgspec.Raw) -> tuple[str, bool, str]:
        (name, allowed), version = decoder.namespace(data)
        return name, allowed, version

    return decode
