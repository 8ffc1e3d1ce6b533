"""The Kubernetes API of one cluster, over HTTP: what a client of the real one needs.

Requests run on the sandbox's loop one after the other; only a watch stays open. Faults are in
`KubeApi.faults`, what was changed in `KubeApi.ledger`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from sandbox.hosting import Host
from sandbox.kube import discovery, reviews, routes
from sandbox.kube.access import Access, Attributes, Rule
from sandbox.kube.bodies import decode_object, decode_options
from sandbox.kube.deletes import Deleter, read_options
from sandbox.kube.errors import ApiError, method_not_allowed, no_such_path, too_many_requests
from sandbox.kube.faults import Faults, Hook, Ledger, Mutation
from sandbox.kube.reads import Reader, WatchRequest
from sandbox.kube.routes import ApiRequest
from sandbox.kube.store import Store
from sandbox.kube.watches import Watcher, WatchHub, line
from sandbox.kube.writes import Writer
from sandbox.world import World

BODY_BYTES = 3 * 1024 * 1024
_JSON = "application/json"
_OBJECT_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class _Unanswered(Exception):
    """Close the connection without an answer."""


class KubeApi:
    """Serves one store. `tokens` maps bearer tokens to users, `rules` users to RBAC rules.

    A user without rules of its own may do everything.
    """

    def __init__(
        self,
        world: World,
        store: Store,
        *,
        tokens: Mapping[str, str],
        rules: Mapping[str, Iterable[Rule]] | None = None,
    ) -> None:
        self.world = world
        self.store = store
        self.access = Access(tokens, rules)
        self.faults = Faults()
        self.ledger = Ledger()
        self.hub = WatchHub(store)
        self.reader = Reader(store)
        self.address = ""
        self._writer = Writer(store)
        self._deleter = Deleter(store)

    # Serving

    def app(self) -> web.Application:
        """The application."""
        application = web.Application(client_max_size=BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._handle)
        application.on_shutdown.append(self._shut)
        return application

    def serve(self, host: Host, *, port: int = 0) -> str:
        """Serve on 127.0.0.1 and let the world know the address; returns it."""
        self.address = host.serve(self.app(), port=port)
        self.world.version_sources[self.address] = self.version
        self.world.before_wake.append(self.hub.send_bookmarks)
        return self.address

    def version(self) -> int | None:
        """The present resourceVersion; None while nobody can learn it."""
        return self.store.version if self.faults.answers else None

    async def _shut(self, _application: web.Application) -> None:
        self.hub.close()

    # Faults

    @property
    def down(self) -> bool:
        """Whether every connection is closed unanswered."""
        return self.faults.down

    @down.setter
    def down(self, value: bool) -> None:
        self.faults.down = value
        if value:
            self.hub.drop()

    def drop_watches(self) -> int:
        """Break all open watches; returns how many."""
        return self.hub.drop()

    def compact(self, *, expire_open: bool = False) -> int:
        """Forget the history, so that versions from before answer 410; open watches too if asked."""
        if expire_open:
            self.hub.expire()
        self.reader.forget()
        return self.store.compact()

    @property
    def on_request(self) -> Hook | None:
        """Called before and after every changing request."""
        return self.ledger.hook

    @on_request.setter
    def on_request(self, hook: Hook | None) -> None:
        self.ledger.hook = hook

    # Requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            return _failure(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {BODY_BYTES}"
            return _failure(ApiError(413, "RequestEntityTooLarge", message))
        except _Unanswered:
            return _unanswered(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.faults.down:
            raise _Unanswered
        body = await request.read() if request.can_read_body else b""
        if self.faults.delay:
            with self.world.working():
                await asyncio.sleep(self.faults.delay)
        if self.faults.unavailable:
            raise ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        query = request.rel_url.query
        watching = query.get("watch", "") in ("1", "true")
        if not watching and (seconds := self.faults.throttled()) is not None:
            raise too_many_requests("Too many requests, please try again later.", seconds)
        user = self.access.authenticate(request.headers.get("Authorization"))
        path = request.rel_url.path
        if not _is_resource_path(path):
            return self._other(request.method, path, user)
        if path == reviews.PATH and request.method == "POST":
            asked_for = decode_object(
                body, request.headers.get("Content-Type", ""), "SelfSubjectAccessReview"
            )
            return _json(201, msgspec.json.encode(reviews.review(self.access, user, asked_for)))
        agent = request.headers.get("User-Agent", "").partition("/")[0]
        asked = routes.parse(request.method, path, dict(query), user, agent)
        self.access.authorize(asked.attributes())
        if asked.verb == "watch":
            return await self._watch(request, self.reader.watch(asked))
        if request.method == "GET":
            return self._read(asked)
        return self._write(asked, body, request.headers.get("Content-Type", ""))

    def _other(self, method: str, path: str, user: str) -> web.Response:
        """Paths that are no resources: discovery and health."""
        verb = {"GET": "get", "HEAD": "head"}.get(method, method.lower())
        self.access.authorize(Attributes(user=user, verb=verb, path=path))
        found = discovery.document(path.rstrip("/") or "/")
        if method != "GET" and (found is not None or path in discovery.HEALTH):
            raise method_not_allowed()
        if path in discovery.HEALTH:
            return web.Response(text="ok")
        if found is not None:
            return _json(200, msgspec.json.encode(found))
        if path.startswith(("/api/", "/apis/")):
            raise no_such_path()
        return web.Response(status=404, text="404 page not found\n")

    def _read(self, asked: ApiRequest) -> web.Response:
        if asked.subresource == "log":
            text = self.reader.log(asked)
            pod = self.store.must_get("pods", asked.namespace, asked.name)
            return web.Response(text=text) if pod["spec"].get("nodeName") else web.Response(status=204)
        return _json(200, self.reader.get(asked) if asked.name else self.reader.list(asked))

    def _write(self, asked: ApiRequest, body: bytes, content_type: str) -> web.Response:
        asked.check_options()
        if not asked.mutating:
            return self._perform(asked, body, content_type)
        mutation = Mutation(
            number=len(self.ledger.mutations) + 1,
            user=asked.user,
            verb=asked.verb,
            resource=asked.resource.key,
            namespace=asked.namespace if asked.resource.namespaced else "",
            name=asked.name,
            subresource=asked.subresource,
        )
        self.ledger.mutations.append(mutation)
        if not self.ledger.allows("before", mutation):
            raise _Unanswered
        try:
            response = self._perform(asked, body, content_type)
        except ApiError as error:
            response = _failure(error)
        if not self.ledger.allows("after", mutation) or self.faults.loses_reply():
            raise _Unanswered
        mutation.code = response.status
        return response

    def _perform(self, asked: ApiRequest, body: bytes, content_type: str) -> web.Response:
        code, found = self._change(asked, body, content_type)
        return _json(code, msgspec.json.encode(found))

    def _change(self, asked: ApiRequest, body: bytes, content_type: str) -> tuple[int, dict[str, Any]]:
        if asked.verb == "patch":
            return self._writer.patch(asked, body, content_type)
        if asked.verb in ("delete", "deletecollection"):
            options = decode_options(body)
            if options.get("dryRun"):
                asked = asked.with_query("dryRun", "All")
            chosen = read_options(asked, options)
            if asked.verb == "delete":
                return self._deleter.delete(asked, chosen)
            return self._deleter.delete_collection(asked, chosen, self.reader.selection(asked))
        obj = decode_object(body, content_type, asked.resource.kind)
        if asked.subresource == "eviction":
            return self._deleter.evict(asked, obj)
        if asked.subresource == "binding":
            return self._deleter.bind(asked, obj)
        return self._writer.create(asked, obj) if asked.verb == "create" else self._writer.replace(asked, obj)

    # Watching

    async def _watch(self, request: web.Request, wanted: WatchRequest) -> web.StreamResponse:
        try:
            watcher = self.hub.start(
                wanted.chosen, wanted.version, bookmarks=wanted.bookmarks, initial=wanted.initial
            )
        except ApiError as error:
            if self.faults.refuse_expired_watches or error.code != 410:
                raise
            data = line("ERROR", msgspec.json.encode(error.status()))
            return web.Response(body=data, content_type=_JSON)
        watcher.on_abort = lambda: _abort(request)
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            await _pump(watcher, response, wanted.timeout)
            await response.write_eof()
        except ConnectionResetError:
            return response
        finally:
            self.hub.stop(watcher)
        return response


async def _pump(watcher: Watcher, response: web.StreamResponse, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while (left := deadline - clock()) > 0:
        data = await watcher.take(left)
        if data:
            await response.write(data)
        elif watcher.ended:
            return


def _is_resource_path(path: str) -> bool:
    """Below a group version, /api/v1/… or /apis/batch/v1/…."""
    parts = [part for part in path.split("/") if part]
    return (parts[:1] == ["api"] and len(parts) > 2) or (parts[:1] == ["apis"] and len(parts) > 3)


def _json(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, content_type=_JSON)


def _failure(error: ApiError) -> web.Response:
    response = _json(error.code, msgspec.json.encode(error.status()))
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _unanswered(request: web.Request) -> web.Response:
    _abort(request)
    return web.Response()
