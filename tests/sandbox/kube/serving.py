"""A served API without controllers, spoken to as raw HTTP and through the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import urllib3
from kubernetes import client

from sandbox.hosting import Host
from sandbox.kube.api import KubeApi
from sandbox.kube.store import Store
from sandbox.world import World

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/research/pods"
JOBS = "/apis/batch/v1/namespaces/research/jobs"
MAPS = "/api/v1/namespaces/research/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/research/leases"
SERVICES = "/api/v1/namespaces/research/services"
TOKENS = {"admin-token": "admin", "product-token": "product"}
Object = dict[str, Any]


@dataclass
class Served:
    """One API on 127.0.0.1 and ways to call it."""

    world: World
    host: Host
    store: Store
    api: KubeApi
    http: urllib3.PoolManager

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **headers: str
    ) -> tuple[int, Object]:
        """One request as admin (or with `Authorization`); the status and the JSON answer."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": "Bearer admin-token", "User-Agent": "tests/1"} | headers
        if raw is not None:
            sent["Content-Type"] = kind
        response = self.http.request(method, self.api.address + path, body=raw, headers=sent, timeout=20)
        text = response.data.decode()
        return response.status, json.loads(text) if text.startswith("{") else {"text": text}

    def ok(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Object:
        """A request that has to succeed."""
        code, found = self.call(method, path, body, kind=kind)
        assert code < 300, found
        return found

    def do(self, function: Any, *args: Any) -> Any:
        """Call something on the sandbox's loop."""
        return self.host.call(function, *args)

    def official(self, token: str = "admin-token") -> client.ApiClient:
        """The unmodified official client."""
        configuration = client.Configuration()
        configuration.host = self.api.address
        configuration.api_key = {"authorization": f"Bearer {token}"}
        return client.ApiClient(configuration)

    def lines(self, path: str) -> Iterator[Object]:
        """The events of a watch, as they come; it is open when this returns."""
        response = self.http.request(
            "GET",
            self.api.address + path,
            headers={"Authorization": "Bearer admin-token"},
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=20),
        )
        assert response.status == 200, response.data
        assert response.headers["Transfer-Encoding"] == "chunked"
        return _events(response)

    def recorded(self, path: str) -> list[Object]:
        """What a watch brings up to now; the server ends it cleanly."""
        lines = self.lines(path)
        self.do(self.api.hub.close)
        return list(lines)


def _events(response: urllib3.BaseHTTPResponse) -> Iterator[Object]:
    rest = b""
    try:
        for chunk in response.stream(1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(each) for each in whole)
    finally:
        response.close()


def serve() -> Served:
    """A fresh one, with the namespace research; the caller closes it."""
    host = Host()
    world = World(START)
    store = Store(world, "home")
    api = KubeApi(world, store, tokens=TOKENS, rules={"product": []})
    api.serve(host)
    host.call(store.create, "namespaces", {"metadata": {"name": "research"}})
    return Served(world, host, store, api, urllib3.PoolManager(retries=False, maxsize=8))


def container(**more: Any) -> Object:
    """A container that asks for one core."""
    return {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "1"}}} | more


def pod(name: str, *, labels: Object | None = None, **spec: Any) -> Object:
    """A pod manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container()]} | spec,
    }


def job(name: str, *, template: Any = None, **spec: Any) -> Object:
    """A Job manifest whose pods never restart."""
    inner = {"containers": [container()], "restartPolicy": "Never"} | (template or {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"team": "vision"}}, "spec": inner}} | spec,
    }


def config_map(name: str, *, labels: Any = None, **data: str) -> Object:
    """A ConfigMap manifest."""
    metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
