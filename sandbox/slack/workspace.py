"""The workspace: its application on one port, and what scenarios and tests do to it and read from it.

Everything here runs on the sandbox's loop: from another thread use `host.call(workspace.say, …)` and
`host.run(workspace.settled(act))`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox.hosting import Host
from sandbox.slack.acts import Act, Acts
from sandbox.slack.files import receive, serve_file
from sandbox.slack.link import Link
from sandbox.slack.manifest import read_manifest
from sandbox.slack.page_api import PageApi
from sandbox.slack.responses import Responses
from sandbox.slack.spec import parse_spec
from sandbox.slack.state import Message, State
from sandbox.slack.web_api import Hook, WebApi
from sandbox.world import World

_UPLOAD_LIMIT = 32 * 1024 * 1024


class Workspace:
    """One Slack workspace with one app installed.

    `spec` is documented in `sandbox.slack.spec`; `manifest` is the app's manifest as plain values;
    `participant` is the name under which the stepped world knows the app's process; `rate_limits` False
    is for stepped worlds, where real time does not pass.
    """

    def __init__(
        self,
        world: World,
        spec: Mapping[str, Any],
        manifest: Mapping[str, Any],
        *,
        participant: str = "serve",
        rate_limits: bool = True,
    ) -> None:
        self.state = State(world, parse_spec(spec), read_manifest(manifest))
        self.link = Link(self.state, participant)
        self._responses = Responses(self.state)
        self.api = WebApi(self.state, self.link, self._responses, rate_limits=rate_limits)
        self.acts = Acts(self.state, self.link, self._responses)
        self.faults = self.api.faults
        self._page = PageApi(self.state, self.acts, self.link)

    def serve(self, host: Host, *, port: int = 0) -> str:
        """Serve on a port of 127.0.0.1; returns the address. The Web API is under `/api/`."""
        self.state.address = host.serve(self.app(), port=port)
        return self.state.address

    @property
    def api_url(self) -> str:
        """The base_url for Slack's SDK."""
        return f"{self.state.address}/api/"

    def app(self) -> web.Application:
        """The application: /api/, /link/, /response/, /upload/, /files/, the page under / and /page/."""
        application = web.Application(client_max_size=_UPLOAD_LIMIT, middlewares=[self._know_address])
        router = application.router
        for verb in (router.add_get, router.add_post):
            verb("/api/{method}", self.api.handle)
        router.add_get("/link/", self.link.handle)
        router.add_post("/response/{token}", self.api.respond)
        router.add_post("/upload/{file}", self._receive)
        router.add_get("/files/{file}", self._serve_file)
        self._page.add_routes(router)
        return application

    @web.middleware
    async def _know_address(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.state.address = self.state.address or f"http://{request.host}"
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _receive(self, request: web.Request) -> web.Response:
        return await receive(self.state, request)

    async def _serve_file(self, request: web.Request) -> web.Response:
        return serve_file(self.state, request)

    # What people do

    def say(self, person: str, channel: str, text: str, *, thread_ts: str = "") -> Act:
        """Type a slash command or a message as a person; returns at once, `settled` tells what became of it."""
        return self.acts.say(person, channel, text, thread_ts)

    def click(
        self,
        person: str,
        channel: str,
        message_ts: str,
        action: str,
        *,
        value: Any = None,
        block_id: str = "",
    ) -> Act:
        """Press a button by action_id or text (confirming what asks for it), or choose `value` in a menu."""
        return self.acts.click(person, channel, message_ts, action, value=value, block_id=block_id)

    def submit(self, person: str, view_id: str, values: Mapping[str, Any]) -> Act:
        """Send a form."""
        return self.acts.submit(person, view_id, values)

    async def settled(self, act: Act, timeout: float = 10.0) -> Act:
        """Wait (real seconds) until an act is acknowledged, failed or refused."""
        await asyncio.wait_for(act.settled.wait(), timeout)
        return act

    async def connected(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait (real seconds) until the app has this many Socket Mode connections."""

        async def until() -> None:
            while self.link.connected < count:
                self.link.changed.clear()
                await self.link.changed.wait()

        await asyncio.wait_for(until(), timeout)

    # What there is to see

    def messages(self, channel: str) -> list[Message]:
        """Messages of a channel, oldest first, without thread replies."""
        where = self.state.channel(channel)
        return [
            m
            for m in self.state.messages[where.id].values()
            if m.get("thread_ts", m["ts"]) == m["ts"] or m.get("subtype") == "thread_broadcast"
        ]

    def thread(self, channel: str, thread_ts: str) -> list[Message]:
        """A root message and its replies."""
        return self.state.replies(self.state.channel(channel), thread_ts)

    def direct_messages(self, person: str) -> list[Message]:
        """What the app and a person wrote to each other."""
        return list(self.state.messages[self.state.direct_channel(self.state.person(person).id).id].values())

    def ephemerals(self, person: str, channel: str = "") -> list[Message]:
        """What only this person sees, oldest first."""
        who = self.state.person(person).id
        where = self.state.channel(channel).id if channel else ""
        return [
            each.message
            for each in self.state.ephemerals
            if each.person == who and where in ("", each.message["channel"])
        ]

    def views(self, person: str) -> list[dict[str, Any]]:
        """Forms (and the Home tab) somebody has open, the top one last; each with its `errors`."""
        who = self.state.person(person).id
        return [{**o.view, "errors": dict(o.errors)} for o in self.state.views.values() if o.person == who]

    @property
    def calls(self) -> Counter[str]:
        """Web API calls by method, refused ones too."""
        return self.state.calls

    @property
    def journal(self) -> list[dict[str, Any]]:
        """All that happened, in order: calls, envelopes, acts, connections."""
        return self.state.journal

    def write_journal(self, path: Path) -> None:
        """The journal as JSON lines."""
        lines = (json.dumps(entry, sort_keys=True, default=str) for entry in self.journal)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def on_request(self, hook: Hook) -> None:
        """Call `hook(moment, info)` around each Web API call that changes something.

        `before` nothing has been done yet; `after` it has, and the reply has not been sent. Returning
        "drop" (or an awaitable of it) ends the connection there.
        """
        self.api.hooks.append(hook)

    # The workspace changes

    def archive(self, channel: str) -> None:
        """Archive a channel; the app is told where it subscribed."""
        where = self.state.channel(channel)
        where.archived = True
        self._tell("channel_archive", {"channel": where.id, "user": ""})

    def rename(self, channel: str, name: str) -> None:
        """Rename a channel; its id stays."""
        where = self.state.channel(channel)
        where.name = name
        renamed = {"id": where.id, "name": name, "created": where.created}
        self._tell("channel_rename", {"channel": renamed})

    def deactivate(self, person: str) -> None:
        """Somebody leaves: no more acts, and the API shows them as deleted."""
        who = self.state.person(person)
        who.kind = "deactivated"
        self._tell("user_change", {"user": {"id": who.id, "deleted": True}})

    def invite(self, who: str, channel: str) -> None:
        """Add a person, or the app by its name, to a channel."""
        self.state.channel(channel).members.add(self.state.person(who).id)
        self.state.publish({"type": "channels"})

    def remove(self, who: str, channel: str) -> None:
        """Take a person, or the app, out of a channel."""
        self.state.channel(channel).members.discard(self.state.person(who).id)
        self.state.publish({"type": "channels"})

    def _tell(self, kind: str, event: dict[str, Any]) -> None:
        self.state.publish({"type": "channels"})
        self.acts.event(kind, event)
