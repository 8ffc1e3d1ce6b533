"""Socket Mode: connects in the background, stays connected, and never keeps the process from starting.

The websocket_client adapter is used because it is back within two seconds of a dropped connection, where the
built-in one takes a minute.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import structlog
from slack_bolt import App
from slack_bolt.adapter.socket_mode.websocket_client import SocketModeHandler
from slack_sdk.errors import SlackApiError, SlackClientError

log = structlog.get_logger(__name__)
PING_SECONDS = 3.0
CONCURRENCY = 4
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
CLOSE_SECONDS = 1.0
OPEN_SECONDS = 10.0


class Socket:
    """The connection to Slack. `start` returns at once; `connected` tells how it stands."""

    def __init__(self, app: App, app_token: str) -> None:
        self._handler = SocketModeHandler(
            app,
            app_token,
            web_client=app.client,
            ping_interval=PING_SECONDS,
            concurrency=CONCURRENCY,
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._connect, name="slack-connect", daemon=True)

    @property
    def connected(self) -> bool:
        """Whether the socket is open now."""
        return bool(self._handler.client.is_connected())

    def start(self) -> None:
        """Connect in the background, again and again until it works; afterwards the client keeps it up."""
        self._thread.start()

    def _connect(self) -> None:
        wait = FIRST_WAIT
        while not self._closing.is_set():
            try:
                # The client's monitor looks at once, before the first socket is open, and would open a second one
                # in whose place the first is dropped, with what was on its way. It starts when there is one.
                self._handler.client.current_app_monitor_started = True
                self._handler.connect()  # type: ignore[no-untyped-call]
                self._when_open(self._handler.client.current_app_monitor.start)
                return
            except (SlackApiError, SlackClientError, OSError) as error:
                log.warning("slack socket does not open", error=str(error), retry_in=wait)
            self._closing.wait(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _when_open(self, act: Callable[[], object]) -> None:
        deadline = time.monotonic() + OPEN_SECONDS
        while not self.connected and time.monotonic() < deadline and not self._closing.wait(0.02):
            continue
        if not self._closing.is_set():
            act()

    def close(self) -> None:
        """Close the socket; what was acknowledged is in the inbox.

        The client's own close waits ten seconds for the closing handshake; a stop cannot wait for that, so
        it is left behind in a thread that does not hold the process.
        """
        self._closing.set()
        client = self._handler.client
        client.auto_reconnect_enabled = client.default_auto_reconnect_enabled = False
        session = client.current_session
        wire = session.sock.sock if session is not None and session.sock is not None else None
        if wire is not None:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                log.debug("socket had ended")
        ending = threading.Thread(target=self._handler.close, name="slack-close", daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
