"""A machine's way into its cluster, and the cloud controller manager's part of it.

The user data name an endpoint and a token. With the right image, subnet and profile the machine boots and
registers its Node there, whichever API that is. With anything wrong it bills and never joins. While the API
does not answer it tries again. When the machine ends, its Node is removed through the same API.

The stepped world stands still from the moment a machine's turn comes until the API has answered: whatever
an answer takes in real time, it comes at the same world time in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from typing import Any

import aiohttp
from aiohttp import web

from sandbox.cloud.machine import Machine
from sandbox.cloud.node import node_of
from sandbox.cloud.region import Region
from sandbox.cloud.spec import CloudSpec
from sandbox.cloud.user_data import CannotJoin, UserData, read_user_data
from sandbox.world import World

REMOVE_SECONDS = 5.0
"""from the end of a machine until its Node goes"""
RETRY_SECONDS, SLOW_RETRY_SECONDS, QUICK_TRIES = 10.0, 60.0, 30
"""world time between tries: the first ones are quick"""
TIMEOUT = aiohttp.ClientTimeout(total=20)
_GONE = (200, 202, 404)
_ACCEPTED = (200, 201, 409)
"""409: it is there already, from a try whose answer was lost"""
_UNANSWERED = 0


class Joining:
    """Boots machines and keeps their Nodes true."""

    def __init__(self, world: World, spec: CloudSpec, regions: Mapping[str, Region]) -> None:
        self._world = world
        self._spec = spec
        self._regions = regions
        self._joined: dict[str, UserData] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self.boot_seconds: dict[str, float] = {}
        """region → seconds, where it differs from the spec's"""

    @property
    def joined(self) -> frozenset[str]:
        """Ids of machines whose Node was accepted and not removed yet."""
        return frozenset(self._joined)

    def launched(self, machine: Machine) -> None:
        """It boots from now."""
        boot = self.boot_seconds.get(machine.region, self._regions[machine.region].spec.boot_seconds)
        self._world.after(self._spec.boot_seconds if boot is None else boot, lambda: self._booted(machine))

    def ended(self, machine: Machine) -> None:
        """Its Node goes within seconds."""
        self._world.after(REMOVE_SECONDS, lambda: self._left(machine))

    def _booted(self, machine: Machine) -> None:
        if machine.live and self.able(machine):
            self._start(self._join(machine, 0))

    def _left(self, machine: Machine) -> None:
        if machine.id in self._joined:
            self._start(self._remove(machine, 0))

    def able(self, machine: Machine) -> bool:
        """Whether image, subnet and profile let it reach a cluster."""
        region = self._regions[machine.region].spec
        return (
            region.images.get(machine.image, False)
            and region.subnets[machine.subnet].joins
            and self._spec.profiles.get(machine.profile, False)
        )

    def follow(self, application: web.Application) -> None:
        """End what is under way when the application is shut down."""

        async def close(_: web.Application) -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._session is not None:
                await self._session.close()

        application.on_cleanup.append(close)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        still = ExitStack()
        still.enter_context(self._world.working())
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(finished: asyncio.Task[None]) -> None:
            self._tasks.discard(finished)
            still.close()

        task.add_done_callback(done)

    def _again(self, tries: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        delay = RETRY_SECONDS if tries < QUICK_TRIES else SLOW_RETRY_SECONDS
        self._world.after(delay, lambda: self._start(work()))

    async def _join(self, machine: Machine, tries: int) -> None:
        if not machine.live or not self.able(machine):
            return
        try:
            told = read_user_data(machine.user_data)
            status = await self._call(
                "POST", told, "/api/v1/nodes", node_of(machine, told, self._gpus(machine))
            )
        except CannotJoin:
            return
        if status in _ACCEPTED:
            self._joined[machine.id] = told
            if machine.ended is not None:  # meanwhile
                self.ended(machine)
        elif status == _UNANSWERED or status >= 500 or status == 429:
            self._again(tries, lambda: self._join(machine, tries + 1))

    def _gpus(self, machine: Machine) -> float | None:
        here = self._regions[machine.region].spec.gpu_ready_seconds
        return self._spec.gpu_ready_seconds if here is None else here

    async def _remove(self, machine: Machine, tries: int) -> None:
        told = self._joined.get(machine.id)
        if told is None:
            return
        status = await self._call("DELETE", told, f"/api/v1/nodes/{machine.node_name}", None)
        if status in _GONE:
            self._joined.pop(machine.id, None)
        else:
            self._again(tries, lambda: self._remove(machine, tries + 1))

    async def _call(self, method: str, told: UserData, path: str, body: Mapping[str, Any] | None) -> int:
        """The status; 0 where nothing answered."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {told.token}"}
        tls = told.tls()
        try:
            async with self._session.request(
                method, told.endpoint + path, json=body, headers=headers, ssl=tls
            ) as response:
                await response.read()
                return response.status
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise CannotJoin(f"{told.endpoint} is no address.") from error
        except (aiohttp.ClientError, TimeoutError, OSError):
            return _UNANSWERED
