"""Socket Mode: WebSocket connections, envelopes and their acks. All of it in real time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from sandbox.slack.state import State

ACK_SECONDS = 3.0
_MOST_CONNECTIONS = 10
_PING_SECONDS = 30.0


@dataclass(eq=False)
class Envelope:
    """Something sent to the app; `state` is sent, acknowledged or failed."""

    id: str
    kind: str
    payload: dict[str, Any]
    done: Callable[[Envelope], None]
    accepts_response: bool = True
    attempt: int = 0
    reason: str = ""
    state: str = "sent"
    error: str = ""
    response: dict[str, Any] = field(default_factory=dict)
    sent_at: float = 0.0
    ack_ms: float = 0.0
    connection: Connection | None = None
    timeout: asyncio.TimerHandle | None = None

    def wire(self) -> dict[str, Any]:
        """As it goes over the WebSocket."""
        wire = {
            "envelope_id": self.id,
            "type": self.kind,
            "payload": self.payload,
            "accepts_response_payload": self.accepts_response,
        }
        if self.kind == "events_api":
            wire |= {"retry_attempt": self.attempt, "retry_reason": self.reason}
        return wire


@dataclass(eq=False)
class Connection:
    """One WebSocket of the app."""

    number: int
    socket: web.WebSocketResponse
    request: web.Request
    wanted: bool = True
    """False once it was told to go: nothing new is delivered to it"""

    def abort(self) -> None:
        """End the TCP connection without a close frame."""
        if self.request.transport is not None:
            self.request.transport.abort()


class Link:
    """The app's connections. `participant` is the name the stepped world knows the app by."""

    def __init__(self, state: State, participant: str) -> None:
        self._state = state
        self._participant = participant
        self._tickets: set[str] = set()
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections: list[Connection] = []
        self.envelopes: dict[str, list[Envelope]] = {}
        """id → its deliveries, more than one where it was delivered again"""
        self.ack_seconds = ACK_SECONDS
        self.changed = asyncio.Event()

    @property
    def connected(self) -> int:
        """Connections that deliver."""
        return sum(1 for connection in self.connections if connection.wanted)

    def ticket(self) -> str:
        """Permission for one WebSocket, used once."""
        ticket = self._state.next_id("ticket")
        self._tickets.add(ticket)
        return ticket

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket until it ends."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=401, text="invalid ticket")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(heartbeat=_PING_SECONDS, max_msg_size=0)
        await socket.prepare(request)
        self._turn += 1
        connection = Connection(self._turn, socket, request)
        if len(self.connections) >= _MOST_CONNECTIONS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await socket.close()
            return socket
        await socket.send_json(self._hello())
        self.connections.append(connection)
        self._note("link", what="connected", connection=connection.number)
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    self._received(message.data)
        finally:
            self._gone(connection)
        return socket

    def send(self, envelope: Envelope) -> None:
        """Deliver to any one connection; `envelope.done` is called once, when it is acknowledged or failed."""
        loop = asyncio.get_running_loop()
        self.envelopes.setdefault(envelope.id, []).append(envelope)
        willing = [c for c in self.connections if c.wanted and not c.socket.closed]
        if not willing:
            self._finish(envelope, "failed", "dispatch_failed")
            return
        envelope.sent_at = loop.time()
        envelope.connection = willing[len(self.envelopes) % len(willing)]
        self._state.world.sent(self._participant)
        envelope.timeout = loop.call_later(self.ack_seconds, self._lost, envelope, "operation_timeout")
        self._write(envelope.connection, envelope.wire())

    def redeliver(self, envelope_id: str) -> None:
        """Send an envelope again as it was: the app sees it twice."""
        known = self.envelopes[envelope_id][0]
        again = Envelope(known.id, known.kind, known.payload, lambda _envelope: None, known.accepts_response)
        again.attempt, again.reason = known.attempt + 1, "timeout"
        self.send(again)

    def refresh(self, *, reason: str = "refresh_requested", grace: float = 10.0) -> None:
        """Ask the app to reconnect (`warning`, `refresh_requested`, `link_disabled`), then close after `grace` real s."""
        for connection in list(self.connections):
            self._write(
                connection, {"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}}
            )
            if reason != "warning":
                connection.wanted = False
                asyncio.get_running_loop().call_later(grace, connection.abort)
        self._note("link", what=reason)

    def drop(self) -> None:
        """Abort every connection's TCP transport."""
        self._note("link", what="dropped", connections=len(self.connections))
        for connection in list(self.connections):
            connection.abort()

    def _hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "num_connections": len(self.connections) + 1,
            "debug_info": {"host": "sandbox", "approximate_connection_time": 18060},
            "connection_info": {"app_id": self._state.spec.app.id},
        }

    def _write(self, connection: Connection, data: dict[str, Any]) -> None:
        async def write() -> None:
            try:
                await connection.socket.send_json(data)
            except ConnectionError:
                self._gone(connection)

        task = asyncio.get_running_loop().create_task(write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _received(self, text: str) -> None:
        try:
            answer = json.loads(text)
        except json.JSONDecodeError:
            return
        deliveries = self.envelopes.get(str(answer.get("envelope_id"))) if isinstance(answer, dict) else None
        waiting = next((each for each in deliveries or () if each.state == "sent"), None)
        late = next((each for each in deliveries or () if each.error == "operation_timeout"), None)
        if waiting is not None:
            waiting.response = answer.get("payload") or {}
            waiting.ack_ms = (asyncio.get_running_loop().time() - waiting.sent_at) * 1000
            # What the ack brings is shown before the app is woken: it cannot overtake its own answer.
            self._finish(waiting, "acknowledged", "")
        elif late is not None:
            # Too late for the person, but the app has it and counts it as handled.
            late.error = "acknowledged_late"
            self._state.world.sent(self._participant)
        else:
            return
        self._state.world.acknowledged(self._participant)

    def _gone(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._note("link", what="gone", connection=connection.number)
        for envelope in [each for deliveries in self.envelopes.values() for each in deliveries]:
            if envelope.connection is connection and envelope.state == "sent":
                self._lost(envelope, "connection_lost")

    def _lost(self, envelope: Envelope, error: str) -> None:
        if envelope.state == "sent":
            self._finish(envelope, "failed", error)
            self._state.world.acknowledged(self._participant, handled=False)

    def _finish(self, envelope: Envelope, state: str, error: str) -> None:
        if envelope.timeout is not None:
            envelope.timeout.cancel()
        envelope.state, envelope.error = state, error
        ms = round(envelope.ack_ms, 1)
        self._note("envelope", id=envelope.id, type=envelope.kind, state=state, error=error, ms=ms)
        envelope.done(envelope)

    def _note(self, kind: str, **what: Any) -> None:
        self._state.record(kind, **what)
        self.changed.set()
