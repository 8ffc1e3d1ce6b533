"""The Web API's front door: encodings, tokens, scopes, rate limits, faults, hooks, and the journal."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from sandbox.slack import chat, directory, files, views
from sandbox.slack.call import Call, Method
from sandbox.slack.errors import ConnectionDropped, RateLimited, SlackError
from sandbox.slack.faults import Faults
from sandbox.slack.link import Link
from sandbox.slack.rates import RateLimits
from sandbox.slack.responses import Responses
from sandbox.slack.state import State

Hook = Callable[[str, dict[str, Any]], Awaitable[str | None] | str | None]
"""Called with "before" or "after" and `{method, arguments}` (after: `answer` too); may return "drop" """


class WebApi:
    """Answers /api/*, and the POSTs to response URLs."""

    def __init__(self, state: State, link: Link, responses: Responses, *, rate_limits: bool) -> None:
        self._state = state
        self._link = link
        self._responses = responses
        self.faults = Faults()
        self.limits = RateLimits(time.monotonic, enabled=rate_limits)
        self.hooks: list[Hook] = []
        self._methods: dict[str, Method] = {
            "api.test": Method(self._api_test, 4),
            "auth.test": Method(self._auth_test, 4),
            "apps.connections.open": Method(self._open_connection, 1, app_level=True),
            **chat.METHODS,
            **directory.METHODS,
            **views.METHODS,
            **files.METHODS,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call of a method."""
        if self.faults.down:
            return web.Response(status=503, text="service unavailable")
        name = request.match_info["method"]
        arguments = await read_arguments(request)
        token = arguments.pop("token", "") or _bearer(request)
        method = self._methods.get(name)
        mutating = method is not None and method.mutating
        self._state.calls[name] += 1
        if self.faults.slow_seconds:
            await asyncio.sleep(self.faults.slow_seconds)
        if self.faults.take(self.faults.failing, name, mutating=mutating):
            self._note(name, arguments, {"ok": False, "error": "fatal_error"}, 500)
            return web.json_response({"ok": False, "error": "fatal_error"}, status=500)
        try:
            return await self._answer(request, name, token, arguments)
        except RateLimited as refusal:
            self._note(name, arguments, refusal.body(), 429)
            headers = {"Retry-After": str(refusal.retry_after)}
            return web.json_response(refusal.body(), status=429, headers=headers)
        except SlackError as refusal:
            self._note(name, arguments, refusal.body(), 200)
            return web.json_response(refusal.body(), headers=self._scopes(method))
        except ConnectionDropped:
            return _drop(request)

    async def _answer(
        self, request: web.Request, name: str, token: str, arguments: dict[str, Any]
    ) -> web.StreamResponse:
        method = self._admit(name, token, arguments)
        call = Call(self._state, name, arguments)
        info = {"method": name, "arguments": arguments}
        if method.mutating:
            await self._run_hooks("before", info)
        body = method.handler(call)
        self._note(name, arguments, body, 200)
        if method.mutating:
            await self._run_hooks("after", {**info, "answer": body})
        if self.faults.take(self.faults.lost_replies, name, mutating=method.mutating):
            return _drop(request)
        return web.json_response(body, headers=self._scopes(method))

    def _admit(self, name: str, token: str, arguments: Mapping[str, Any]) -> Method:
        app = self._state.spec.app
        if not token and name != "api.test":
            raise SlackError("not_authed")
        if name != "api.test" and token not in (app.bot_token, app.app_token):
            raise SlackError("invalid_auth")
        method = self._methods.get(name)
        if method is None:
            raise SlackError("unknown_method", req_method=name)
        if name != "api.test" and (token == app.app_token) != method.app_level:
            raise SlackError("not_allowed_token_type")
        Call(self._state, name, arguments).need(*method.scopes)
        if self.faults.take(self.faults.throttled, name, mutating=method.mutating):
            raise RateLimited(self.faults.retry_after)
        self.limits.check(name, method.tier, str(arguments.get("channel") or ""))
        return method

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """A POST to a response_url. Its hook method is `response_url`."""
        if self.faults.down:
            return web.Response(status=503, text="service unavailable")
        body = await read_arguments(request)
        info = {"method": "response_url", "arguments": body}
        self._state.calls["response_url"] += 1
        try:
            await self._run_hooks("before", info)
            self._responses.respond(request.match_info["token"], body)
            self._note("response_url", body, {"ok": True}, 200)
            await self._run_hooks("after", {**info, "answer": {"ok": True}})
        except SlackError as refusal:
            status = 404 if refusal.code.endswith("_url") else 400
            self._note("response_url", body, refusal.body(), status)
            return web.json_response(refusal.body(), status=status)
        except ConnectionDropped:
            return _drop(request)
        if self.faults.take(self.faults.lost_replies, "response_url", mutating=True):
            return _drop(request)
        return web.Response(text="ok")

    async def _run_hooks(self, moment: str, info: dict[str, Any]) -> None:
        for hook in list(self.hooks):
            verdict = hook(moment, info)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if verdict == "drop":
                self._state.record("dropped", method=info["method"], moment=moment)
                raise ConnectionDropped

    def _note(self, name: str, arguments: Mapping[str, Any], body: dict[str, Any], status: int) -> None:
        if not body["ok"]:
            self._state.refusals[(name, body["error"])] += 1
        shown = {key: value for key, value in arguments.items() if key != "token"}
        ts = body.get("ts") or body.get("message_ts") or ""
        self._state.record(
            "call",
            method=name,
            status=status,
            ok=body["ok"],
            error=body.get("error", ""),
            ts=ts,
            arguments=shown,
        )

    def _scopes(self, method: Method | None) -> dict[str, str]:
        accepted = ",".join(method.scopes) if method else ""
        return {"x-oauth-scopes": ",".join(self._state.manifest.scopes), "x-accepted-oauth-scopes": accepted}

    def _api_test(self, call: Call) -> dict[str, Any]:
        error = call.text("error")
        if error:
            raise SlackError(error)
        return {"ok": True, "args": dict(call.arguments)}

    def _auth_test(self, _call: Call) -> dict[str, Any]:
        team, app = self._state.spec.team, self._state.spec.app
        return {
            "ok": True,
            "url": f"{self._state.address}/",
            "team": team.name,
            "team_id": team.id,
            "user": app.name,
            "user_id": app.bot_user,
            "bot_id": app.bot_id,
            "is_enterprise_install": False,
        }

    def _open_connection(self, _call: Call) -> dict[str, Any]:
        if not self._state.manifest.socket_mode:
            raise SlackError("forbidden_team")
        address = self._state.address.replace("http", "ws", 1)
        app = self._state.spec.app.id
        return {"ok": True, "url": f"{address}/link/?ticket={self._link.ticket()}&app_id={app}"}


async def read_arguments(request: web.Request) -> dict[str, Any]:
    """Arguments of the query and of a form or JSON body; raises HTTP 400 for a body that is neither."""
    arguments: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = json.loads(await request.read() or b"{}")
        except json.JSONDecodeError as error:
            raise web.HTTPBadRequest(text="invalid_json") from error
        if not isinstance(body, dict):
            raise web.HTTPBadRequest(text="json_not_object")
        arguments |= body
    elif request.can_read_body:
        arguments |= dict(await request.post())
    return arguments


def _bearer(request: web.Request) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _drop(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
