"""The page's side: its files, its JSON API under /page/, and live updates as Server-Sent Events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox.slack.acts import Act, Acts
from sandbox.slack.errors import NotPossible
from sandbox.slack.link import Link
from sandbox.slack.spec import Channel, Person
from sandbox.slack.state import State

_FILES = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HEADERS = {
    # Messages are shown as text nodes; this is the second wall against anything they might contain.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_TIME_SECONDS = 1.0
_JOURNAL_SHOWN = 200


class PageApi:
    """What a person acting in the browser needs."""

    def __init__(self, state: State, acts: Acts, link: Link) -> None:
        self._state = state
        self._acts = acts
        self._link = link

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Register the page and its API."""
        router.add_get("/", self._index)
        router.add_get("/archives/{channel}/{message}", self._permalink)
        router.add_get("/static/{name}", self._static)
        router.add_get("/page/state", self._get_state)
        router.add_get("/page/events", self._events)
        router.add_get("/page/journal", self._journal)
        actions: dict[str, Callable[[dict[str, Any]], Act | None]] = {
            "say": lambda b: self._acts.say(b["person"], b["channel"], b["text"], b.get("thread_ts", "")),
            "click": self._click,
            "submit": lambda b: self._acts.submit(b["person"], b["view_id"], b.get("values", {})),
            "close": lambda b: self._acts.close(b["person"], b["view_id"]),
            "home": self._open_home,
            "dismiss": self._dismiss,
        }
        for name, action in actions.items():
            router.add_post(f"/page/{name}", self._action(action))

    async def _index(self, _request: web.Request) -> web.Response:
        return _file("index.html")

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in {path.name for path in _FILES.iterdir()}:
            raise web.HTTPNotFound
        return _file(name)

    async def _permalink(self, request: web.Request) -> web.Response:
        digits = request.match_info["message"].removeprefix("p")
        raise web.HTTPFound(f"/#{request.match_info['channel']}/{digits[:-6]}.{digits[-6:]}")

    async def _get_state(self, request: web.Request) -> web.Response:
        person = self._acting(request)
        state = self._state
        visible = [c for c in state.channels.values() if state.visible_to(c, person.id)]
        return web.json_response(
            {
                "team": {"id": state.spec.team.id, "name": state.spec.team.name},
                "app": {
                    "user": state.spec.app.bot_user,
                    "bot_id": state.spec.app.bot_id,
                    "name": state.spec.app.name,
                },
                "me": person.id,
                "people": [_person(p) for p in state.people.values()],
                "usergroups": [{"id": g.id, "handle": g.handle} for g in state.usergroups.values()],
                "channels": [self._channel(c, person) for c in visible],
                "commands": [vars(command) for command in state.manifest.commands.values()],
                "home_tab": state.manifest.home_tab,
                "messages": {c.id: list(state.messages[c.id].values()) for c in visible},
                "ephemerals": [e.message for e in state.ephemerals if e.person == person.id],
                "views": self._views(person),
                "connections": self._link.connected,
                "journal": state.journal[-_JOURNAL_SHOWN:],
                **self._time(),
            },
            headers=_HEADERS,
        )

    def _acting(self, request: web.Request) -> Person:
        wanted = request.query.get("person", "")
        active = [p for p in self._state.people.values() if p.active]
        found = next((p for p in active if p.id == wanted), None)
        if found is None and (wanted or not active):
            raise web.HTTPNotFound(text="There is no such person who could sign in.")
        return found or active[0]

    def _channel(self, channel: Channel, person: Person) -> dict[str, Any]:
        name = channel.name
        if channel.kind == "im":
            name = self._state.spec.app.name
        return {
            "id": channel.id,
            "name": name,
            "kind": channel.kind,
            "topic": channel.topic,
            "archived": channel.archived,
            "members": len(channel.members),
            "member": person.id in channel.members,
            "app": self._state.app_is_in(channel),
        }

    def _views(self, person: Person) -> list[dict[str, Any]]:
        opened = [o for o in self._state.views.values() if o.person == person.id]
        return [{"view": o.view, "errors": o.errors} for o in opened]

    def _time(self) -> dict[str, Any]:
        return {"now": self._state.now_text(), "scale": self._state.world.scale}

    async def _journal(self, _request: web.Request) -> web.Response:
        return web.json_response(self._state.journal, headers=_HEADERS)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        person = self._acting(request)
        headers = {**_HEADERS, "Content-Type": "text/event-stream"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        queue = self._state.subscribe()
        try:
            await self._send(response, {"type": "hello"})
            while True:
                try:
                    change = await asyncio.wait_for(queue.get(), _TIME_SECONDS)
                except TimeoutError:
                    change = {"type": "time"}
                shown = self._for_person(change, person)
                if shown is not None:
                    await self._send(response, shown)
        except ConnectionError:
            return response
        finally:
            self._state.unsubscribe(queue)

    async def _send(self, response: web.StreamResponse, change: dict[str, Any]) -> None:
        change = {**change, **self._time(), "connections": self._link.connected}
        await response.write(b"data: " + json.dumps(change, default=str).encode() + b"\n\n")

    def _for_person(self, change: dict[str, Any], person: Person) -> dict[str, Any] | None:
        if change.get("person", person.id) != person.id:
            return None
        kind = change["type"]
        if kind == "views":
            return {**change, "views": self._views(person)}
        if kind == "channels":
            visible = [c for c in self._state.channels.values() if self._state.visible_to(c, person.id)]
            return {**change, "channels": [self._channel(c, person) for c in visible]}
        channel_id = change["message"]["channel"] if kind == "message" else change.get("channel", "")
        channel = self._state.channels.get(channel_id)
        if channel is not None and not self._state.visible_to(channel, person.id):
            return None
        return change

    def _action(self, action: Callable[[dict[str, Any]], Act | None]) -> Any:
        async def handle(request: web.Request) -> web.Response:
            # Only JSON: a foreign page cannot send that without asking first.
            if request.content_type != "application/json":
                raise web.HTTPUnsupportedMediaType
            body = await request.json()
            try:
                act = action(body)
            except (NotPossible, KeyError) as error:
                return web.json_response({"ok": False, "error": str(error.args[0])}, status=400)
            return web.json_response({"ok": True, "act": act.summary() if act else None})

        return handle

    def _click(self, body: dict[str, Any]) -> Act:
        return self._acts.click(
            body["person"],
            body["channel"],
            body["message_ts"],
            body["action_id"],
            value=body.get("value"),
            block_id=body.get("block_id", ""),
        )

    def _open_home(self, body: dict[str, Any]) -> Act | None:
        person = self._state.person(body["person"])
        channel = self._state.direct_channel(person.id)
        return self._acts.event("app_home_opened", {"user": person.id, "channel": channel.id, "tab": "home"})

    def _dismiss(self, body: dict[str, Any]) -> None:
        self._state.remove_ephemeral(self._state.person(body["person"]).id, body["message_ts"])


def _person(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "name": person.name,
        "real_name": person.real_name,
        "kind": person.kind,
        "zone": person.zone,
    }


def _file(name: str) -> web.Response:
    path = _FILES / name
    kind = _TYPES.get(path.suffix, "text/plain")
    return web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8", headers=_HEADERS)
