"""Two clusters that the same steps are done to: the real control plane, and the sandbox in stepped time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

from tests.controlplane.harness import ControlPlane
from tests.sandbox.kube.bench import Bench

Object = dict[str, Any]
PATHS = {"pods": "/api/v1", "nodes": "/api/v1", "jobs": "/apis/batch/v1"}
KEYS = {"pods": "pods", "nodes": "nodes", "jobs": "jobs.batch"}


class Real:
    """The real control plane, in one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def _path(self, plural: str, name: str = "") -> str:
        inside = "" if plural == "nodes" else f"/namespaces/{self.namespace}"
        return f"{PATHS[plural]}{inside}/{plural}" + (f"/{name}" if name else "")

    def create(self, plural: str, obj: Object) -> None:
        """POST."""
        self.plane.request("POST", self._path(plural), obj)

    def patch(self, plural: str, name: str, patch: Object) -> None:
        """JSON merge patch."""
        self.plane.request("PATCH", self._path(plural, name), patch, kind="application/merge-patch+json")

    def list(self, plural: str) -> list[Object]:
        """All of the namespace."""
        items: list[Object] = self.plane.request("GET", self._path(plural))["items"]
        return items

    def delete(self, plural: str, name: str, **options: Any) -> None:
        """DELETE; it may be gone already."""
        try:
            self.plane.request("DELETE", self._path(plural, name), options or None)
        except HTTPError as error:
            if error.code != 404:
                raise

    def settle(self, seconds: float) -> None:
        """Time passes by itself."""
        time.sleep(min(seconds, 0.2))

    def clean_all(self) -> None:
        """No Job, pod or node is left for the next case, whoever made it."""
        for path in ("/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/nodes"):
            for item in self.plane.request("GET", path)["items"]:
                where = Real(self.plane, item["metadata"].get("namespace", ""))
                plural = path.rpartition("/")[2]
                options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
                where.delete(plural, item["metadata"]["name"], **options)
        until(
            lambda: (
                not any(self.plane.request("GET", f"/api/v1/{kind}")["items"] for kind in ("pods", "nodes"))
            ),
            "an empty cluster",
        )


class Sandbox:
    """The same over the store, in stepped time."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def create(self, plural: str, obj: Object) -> None:
        """As POST."""
        inside = {} if plural == "nodes" else {"namespace": "research"}
        self.bench.store.create(KEYS[plural], {**obj, "metadata": {**obj["metadata"], **inside}})

    def patch(self, plural: str, name: str, patch: Object) -> None:
        """As a merge patch of two levels."""
        obj = self.bench.store.must_get(KEYS[plural], "research", name)
        merged = {**obj}
        for part, change in patch.items():
            merged[part] = {**obj[part], **change}
            for field, value in change.items():
                if isinstance(value, dict):
                    merged[part][field] = {**obj[part].get(field, {}), **value}
        self.bench.store.update(KEYS[plural], merged)

    def list(self, plural: str) -> list[Object]:
        """All of the namespace."""
        return self.bench.store.list(KEYS[plural], "research")

    def delete(self, plural: str, name: str, **_options: Any) -> None:
        """As DELETE."""
        self.bench.store.delete(KEYS[plural], "research", name)

    def settle(self, seconds: float) -> None:
        """Let world time pass."""
        self.bench.run(seconds)


Side = Real | Sandbox


def until(holds: Callable[[], object], what: str, seconds: float = 40) -> None:
    """Poll the real thing."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.2)
