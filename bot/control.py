"""The control socket: the terminal asks a running `serve` over HTTP/JSON on a Unix socket.

Who asks is the system user at the other end of the socket, as the kernel tells it. What is asked runs on the
deciding thread; the socket's threads only wait for it.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import queue
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import structlog

from fleet.errors import Unavailable

log = structlog.get_logger(__name__)
ANSWER_TIMEOUT = 60.0
POLL_SECONDS = 0.1
LONGEST_PATH = 100
"""bytes; the kernel takes 107"""
MAX_BODY = 1_000_000
OK, REFUSED, BAD = 0, 1, 2
"""exit codes: done; refused or failed; input that cannot be used"""


@dataclass
class Question:
    """One call from a terminal, waiting for the deciding thread."""

    words: tuple[str, ...]
    request: str
    system_user: str
    answer: dict[str, Any] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    given_up: bool = False
    """nobody waits for it any more, so it is not done"""

    def reply(self, code: int, text: str, data: Any = None) -> None:
        """Hand the answer to the waiting thread."""
        self.answer = {"code": code, "text": text, "data": data}
        self.done.set()


class ControlSocket:
    """Serves the socket. `pending` is read by the deciding thread."""

    def __init__(self, path: Path, nudge: Callable[[], None]) -> None:
        self.path = path
        self.pending: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._nudge = nudge
        self._server: _Server | None = None

    def start(self) -> None:
        """Bind (a stale socket of a dead process is replaced) and serve in the background.

        Everybody on the machine may connect: what they may do depends on who the kernel says they are.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        with _reachable(self.path) as reachable:
            self._server = _Server(reachable, self)
        self.path.chmod(0o666)
        threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="control", daemon=True
        ).start()

    def close(self) -> None:
        """Stop serving; whoever waits is told."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self.path.unlink(missing_ok=True)
        while not self.pending.empty():
            self.pending.get().reply(REFUSED, "Quartermaster is stopping.")

    def ask(self, question: Question) -> Mapping[str, Any]:
        """Queue a question and wait for its answer."""
        self.pending.put(question)
        self._nudge()
        if not question.done.wait(ANSWER_TIMEOUT):
            question.given_up = True
            question.reply(
                REFUSED, "Quartermaster is busy and did not answer within a minute; nothing was done."
            )
        return question.answer


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path: str, control: ControlSocket) -> None:
        self.control = control
        super().__init__(path, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "local"

    def log_message(self, format: str, *args: Any) -> None:
        """What was asked is logged by whoever does it."""

    def do_POST(self) -> None:
        """POST /v1/run {"words": [...], "request": "..."} → {"code", "text", "data"}."""
        if self.path != "/v1/run":
            self._send(404, {"code": BAD, "text": "There is no such path.", "data": None})
            return
        try:
            length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
            body = json.loads(self.rfile.read(length))
            words = tuple(str(word) for word in body["words"])
            request = str(body["request"])
        except (ValueError, KeyError, TypeError):
            self._send(400, {"code": BAD, "text": "The body is not what this path takes.", "data": None})
            return
        question = Question(words, request, peer_user(self.connection))
        self._send(200, self.server.control.ask(question))

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def peer_user(connection: socket.socket) -> str:
    """The system user at the other end, as the kernel tells it; its number where it has no name."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", credentials)
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class _reachable:  # noqa: N801 - used as a context manager
    """A path of at most 107 bytes for a socket, through its folder's descriptor where the real one is longer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= LONGEST_PATH:
            return str(self._path)
        self._folder = os.open(self._path.parent, os.O_RDONLY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            os.close(self._folder)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_TIMEOUT + 10)
        self._socket_path = path

    def connect(self) -> None:
        """Connect to the Unix socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with _reachable(self._socket_path) as path:
            self.sock.connect(path)


def listens(path: Path) -> bool:
    """Whether a serve is behind the socket: a killed one leaves the file."""
    connection = _Connection(path)
    try:
        connection.connect()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError:
        return True
    finally:
        connection.close()
    return True


def ask(path: Path, words: tuple[str, ...], request: str) -> dict[str, Any]:
    """Ask a running serve from another process. Raises Unavailable where none answers."""
    connection = _Connection(path)
    try:
        body = json.dumps({"words": list(words), "request": request})
        connection.request("POST", "/v1/run", body, {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except PermissionError:
        raise Unavailable(f"You may not use the socket {path}: ask whoever runs serve.") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise Unavailable(
            f"No serve answers at {path}. Start one: quartermaster serve --config FILE."
        ) from None
    finally:
        connection.close()
    return answer
