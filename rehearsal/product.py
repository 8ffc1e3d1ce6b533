"""The product as a process of its own: `quartermaster serve` with nothing of this machine's environment.

Only addresses of this machine are handed over, and no credential that was not made by the sandbox.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import bot
from fleet.errors import BadInput, Unavailable

_LOCAL = ("http://127.0.0.1:", "https://127.0.0.1:")
STOP_SECONDS = 20


def only_this_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, refused where an address in it is not this machine's."""
    for name, value in environment.items():
        if "://" in value and not value.startswith(_LOCAL):
            raise BadInput(
                f"{name} points at {value}, which is not this machine.",
                hint="Scenarios run on 127.0.0.1 only.",
            )
    return dict(environment)


class Product:
    """One `serve` process. `kill` is SIGKILL, `stop` is SIGTERM and a clean end."""

    def __init__(self, settings: Path, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(settings.parent),
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(Path(bot.__file__).parents[1]),
            "NO_PROXY": "127.0.0.1,localhost",
            **only_this_machine(environment),
        }
        self.log = settings.parent / "serve.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int:
        """Process id; 0 while it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    def start(self) -> None:
        """Start it; its JSON log is appended to `serve.log`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bot", "serve", "--config", str(self._settings)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                cwd=self._settings.parent,
            )
        self.starts += 1

    def check(self) -> None:
        """Raise Unavailable with the end of its log where it has ended by itself."""
        process = self._process
        if process is not None and process.poll() is not None:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise Unavailable(f"serve ended with exit code {process.returncode}: " + " | ".join(tail))

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. From any thread: to `check` it has not ended by itself."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(STOP_SECONDS)

    def sleep(self) -> None:
        """SIGSTOP, as on a machine that is suspended; returns when it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def fill_disk(self, *, full: bool) -> None:
        """No file of it may grow any more, or may again."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def stop(self) -> int:
        """SIGTERM; SIGKILL where it does not end in time. Returns the exit code."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)
        self._process = None
        return process.returncode

    def wait_for(self, path: Path, seconds: float) -> None:
        """Wait (real time) until a file of the running process is there, e.g. its socket."""
        deadline = time.monotonic() + seconds
        while not path.exists():
            self.check()
            if time.monotonic() > deadline:
                raise Unavailable(f"serve did not make {path.name} within {seconds:.0f} s.")
            time.sleep(0.02)
