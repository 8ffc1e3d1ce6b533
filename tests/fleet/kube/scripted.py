"""A Kubernetes API that says exactly what a test writes down, byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from fleet.kube.connection import Connection, connect
from sandbox.hosting import Host

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]
CLOSING = web.AppKey("closing", asyncio.Event)
PATHS = ("/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs", "/api/v1/namespaces")


def status(code: int, reason: str, message: str = "because") -> web.Response:
    """A Status object with its HTTP code."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


def event(kind: str, thing: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """A bookmark line."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def raw_pod(name: str, version: int, **labels: str) -> dict[str, Any]:
    """A pod as the API gives it, with one container of one core."""
    return {
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-06T17:00:00Z",
            "labels": labels,
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": "Pending"},
    }


class ScriptedApi:
    """Lists are empty at version 1 and watches stay open, unless a script for the path comes first."""

    def __init__(self) -> None:
        self.lists: dict[str, deque[Script]] = defaultdict(deque)
        self.watches: dict[str, deque[Script]] = defaultdict(deque)
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.closing = asyncio.Event()
        self.answers: dict[tuple[str, str], deque[web.Response]] = defaultdict(deque)

    def app(self) -> web.Application:
        """The HTTP side."""
        application = web.Application()
        application[CLOSING] = self.closing
        application.router.add_route("*", "/{path:.*}", self._serve)
        return application

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((request.method, request.path, dict(request.query)))
        self.headers.append(dict(request.headers))
        body = await request.read()
        self.bodies.append(json.loads(body) if body else None)
        answers = self.answers[request.method, request.path]
        if answers:
            return answers.popleft()
        if request.query.get("watch"):
            scripts = self.watches[request.path]
            return await (scripts.popleft() if scripts else quiet)(request)
        scripts = self.lists[request.path]
        return await (scripts.popleft() if scripts else page([], 1))(request)

    def queries(self, path: str, *, watch: bool) -> list[dict[str, str]]:
        """Queries of the lists or watches of a path, in order."""
        return [q for _, p, q in self.calls if p == path and bool(q.get("watch")) is watch]


def page(items: list[dict[str, Any]], version: int, token: str = "") -> Script:
    """A page of a list."""

    async def serve(_: web.Request) -> web.StreamResponse:
        meta = {"resourceVersion": str(version), **({"continue": token} if token else {})}
        return web.json_response({"metadata": meta, "items": items})

    return serve


def fails(code: int, reason: str) -> Script:
    """A list or watch that is refused."""

    async def serve(_: web.Request) -> web.StreamResponse:
        return status(code, reason)

    return serve


def says(*chunks: bytes, then: str = "stay") -> Script:
    """A watch that sends these chunks and then stays open, ends cleanly (`end`) or breaks off (`drop`)."""

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.002)
        if then == "drop":
            assert request.transport is not None
            request.transport.abort()
        elif then == "stay":
            await request.app[CLOSING].wait()
        return response

    return serve


async def quiet(request: web.Request) -> web.StreamResponse:
    """A watch that says nothing."""
    return await says()(request)


@contextmanager
def serving(api: ScriptedApi) -> Iterator[str]:
    """Serve it on this machine; yields its address."""
    host = Host()
    try:
        yield host.serve(api.app())
    finally:
        host.call(api.closing.set)
        host.close()


def kubeconfig(address: str, **user: Any) -> dict[str, Any]:
    """A kubeconfig with one context, `there`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "there",
        "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": user or {"token": "secret-1"}}],
    }


def connection(address: str, tmp_path: Any, **user: Any) -> Connection:
    """A connection through a kubeconfig file."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(address, **user)))
    return connect(file, None, False, "home")
