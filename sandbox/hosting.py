"""Hosts the stand-ins: one asyncio loop in one thread, an aiohttp application a server, 127.0.0.1 only."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from aiohttp import web

T = TypeVar("T")


class Host:
    """A thread with a loop on which applications are served and sandbox state lives.

    State is touched on the loop only: from other threads go through `call` or `run`.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="sandbox", daemon=True)
        self._runners: list[web.AppRunner] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._failure: BaseException | None = None
        self._thread.start()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result (real seconds)."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def later(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop; its future is waited on with timeouts of the caller's own."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function on the loop and return its result."""

        async def wrapped() -> T:
            return function(*args)

        return self.run(wrapped(), timeout=60)

    def serve(self, application: web.Application, *, port: int = 0) -> str:
        """Serve an application on 127.0.0.1; returns its address, `http://127.0.0.1:<port>`."""
        return self.run(self._serve(application, port), timeout=30)

    async def _serve(self, application: web.Application, port: int) -> str:
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self._runners.append(runner)
        bound = runner.addresses[0][1]
        return f"http://127.0.0.1:{bound}"

    def spawn(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Start a background task on the loop; it is cancelled at `close`."""

        async def start() -> None:
            task = asyncio.ensure_future(work())
            task.add_done_callback(self._ended)
            self._tasks.append(task)

        self.run(start(), timeout=30)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    def check(self) -> None:
        """Raise what ended a background task, where one has ended by an error."""
        if self._failure is not None:
            raise RuntimeError("a background task of the sandbox has failed") from self._failure

    def close(self) -> None:
        """Stop serving, end the tasks and the thread."""
        if not self._thread.is_alive():
            return
        self.run(self._close(), timeout=30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for runner in self._runners:
            await runner.cleanup()
