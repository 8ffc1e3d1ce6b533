"""/healthz, /readyz and /metrics on this machine: what the deciding thread last knew, served by another thread."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from fleet.errors import BadInput

log = structlog.get_logger(__name__)
POLL_SECONDS = 0.1
"""how soon the server notices that it is to end"""
STUCK_AFTER = 120.0
"""real seconds that one step of the loop may take before the process counts as unhealthy"""


@dataclass
class Vitals:
    """Written by the deciding thread alone; read by the health server."""

    ready: Mapping[str, bool] = field(default_factory=dict)
    """what has to be so before work is done, e.g. `lease`, `cluster home`"""
    notes: Mapping[str, str] = field(default_factory=dict)
    """what is good to know and does not make it unready"""
    live: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """the same, looked at when it is asked, e.g. `slack`: `connected`"""
    step_since: float | None = None
    """monotonic start of the step in hand; None while waiting"""

    def begin(self) -> None:
        """A step begins."""
        self.step_since = time.monotonic()

    def end(self) -> None:
        """A step has ended; the loop waits."""
        self.step_since = None

    @property
    def stuck(self) -> bool:
        """The step in hand takes too long."""
        since = self.step_since
        return since is not None and time.monotonic() - since > STUCK_AFTER


class Meters:
    """The process's own figures for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ticks = self._counter("quartermaster_ticks", "Ticks, by what ticked.", "part")
        self.faults = self._counter("quartermaster_faults", "Unexpected errors at a tick's boundary.", "part")
        self.seconds = self._counter("quartermaster_tick_seconds", "Real seconds spent ticking.", "part")
        self.inbox = self._gauge("quartermaster_inbox_waiting", "Commands and clicks not handled yet.")
        self.outbox = self._gauge("quartermaster_outbox_waiting", "Messages not delivered yet.")
        self.lease = self._gauge("quartermaster_lease_held", "1 while this process holds the Lease.")
        self.decisions = self._gauge(
            "quartermaster_decisions_open", "Decisions that are not carried out yet."
        )
        self.cap_spent = self._gauge(
            "quartermaster_cap_spent_dollars", "Spent under a cap in its window.", "cap"
        )
        self.cap_limit = self._gauge(
            "quartermaster_cap_limit_dollars", "Limit of a cap with approvals.", "cap"
        )
        self.cap_burn = self._gauge("quartermaster_cap_burn_dollars_per_hour", "Burn under a cap.", "cap")

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(name, words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, *labels: str) -> Gauge:
        return Gauge(name, words, labels, registry=self.registry)


class HealthServer:
    """Serves on 127.0.0.1; port 0 takes any free one."""

    def __init__(self, port: int, vitals: Vitals, meters: Meters) -> None:
        handler = type("Handler", (_Handler,), {"vitals": vitals, "meters": meters})
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            raise BadInput(
                f"Port {port} for /healthz and /metrics cannot be used: {error.strerror}.",
                where="serve.health_port",
                hint="Choose another, 0 for any, or null for none.",
            ) from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Serve in the background."""
        threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="health", daemon=True
        ).start()
        log.info("health", port=self.port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    vitals: Vitals
    meters: Meters

    def log_message(self, format: str, *args: Any) -> None:
        """Probes are not worth a line."""

    def do_GET(self) -> None:
        """The three paths; anything else is 404."""
        if self.path == "/metrics":
            self._send(200, generate_latest(self.meters.registry), CONTENT_TYPE_LATEST)
        elif self.path == "/healthz":
            stuck = self.vitals.stuck
            self._json(503 if stuck else 200, {"ok": not stuck})
        elif self.path == "/readyz":
            ready = all(self.vitals.ready.values()) and bool(self.vitals.ready)
            notes = {**self.vitals.notes, **{name: look() for name, look in self.vitals.live.items()}}
            body = {"ok": ready, "needs": dict(self.vitals.ready), "notes": notes}
            self._json(200 if ready else 503, body)
        else:
            self._json(404, {"ok": False})

    def _json(self, status: int, body: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(body, sort_keys=True).encode(), "application/json")

    def _send(self, status: int, payload: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
