"""The cloud: one server for EC2, Pricing and Cost Explorer, spoken to by boto3 with only its address changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from aiohttp import web

from sandbox.cloud.codec import AwsError, JsonCodec, QueryCodec
from sandbox.cloud.cost_explorer import CostExplorer
from sandbox.cloud.costs import spent
from sandbox.cloud.ec2 import MUTATING, Action, Machines
from sandbox.cloud.ec2_catalog import Catalog
from sandbox.cloud.fleets import Fleets
from sandbox.cloud.join import Joining
from sandbox.cloud.launches import Launcher
from sandbox.cloud.pricing import Pricing
from sandbox.cloud.region import SPOT_NOTICE, Machine, PriceChange, Region
from sandbox.cloud.spec import parse_spec
from sandbox.hosting import Host
from sandbox.world import World

_SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
Hook = Callable[[str, Mapping[str, Any]], Any]


@dataclass
class Faults:
    """What goes wrong on purpose."""

    errors: dict[str, list[AwsError]] = field(default_factory=dict)
    """action → errors for its next calls"""
    lost_replies: int = 0
    """the next changing calls are carried out and their connection closed without a reply"""
    slow_seconds: float = 0.0


class Cloud:
    """One account in several regions. `spec` is documented in `sandbox.cloud.spec`."""

    def __init__(self, world: World, spec: Mapping[str, Any]) -> None:
        self.world = world
        self.spec = parse_spec(spec)
        self.regions = {
            name: Region(region, world.now, self.spec.no_capacity_status)
            for name, region in self.spec.regions.items()
        }
        self.joining = Joining(world, self.spec, self.regions)
        launcher = Launcher(world, self.spec, self.joining.launched)
        self.cost_explorer = CostExplorer(world, self.spec, self.regions)
        self._pricing = Pricing(world, self.regions)
        self._ec2 = QueryCodec("ec2")
        self._json = JsonCodec()
        self._actions: dict[str, Action] = {
            **Machines(launcher, self.joining.ended).actions(),
            **Catalog(world, self.regions).actions(),
            **Fleets(launcher).actions(),
        }
        self._targets = {
            "AWSPriceListService.GetProducts": self._pricing.get_products,
            "AWSInsightsIndexService.GetCostAndUsage": self.cost_explorer.get_cost_and_usage,
        }
        self.faults = Faults()
        self.hooks: list[Hook] = []
        self.requests: list[tuple[datetime, str, str]] = []
        """(world time, region, action) of every EC2 call that changes something"""

    def app(self) -> web.Application:
        """The application: everything is a POST to /."""
        application = web.Application(client_max_size=8 * 1024 * 1024)
        application.router.add_post("/", self._handle)
        return application

    def serve(self, host: Host, *, port: int = 0) -> str:
        """Serve; returns the address."""
        return host.serve(self.app(), port=port)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.faults.slow_seconds:
            await asyncio.sleep(self.faults.slow_seconds)
        target = request.headers.get("X-Amz-Target", "")
        try:
            region = self._authenticated(request)
        except AwsError as error:
            return self._refusal(error, target)
        if target:
            return self._handle_json(target, await request.read())
        form = {key: str(value) for key, value in (await request.post()).items()}
        return await self._handle_ec2(request, region, form)

    def _authenticated(self, request: web.Request) -> str:
        match = _SCOPE.search(request.headers.get("Authorization", ""))
        if match is None:
            raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
        if match[1] not in self.spec.credentials:
            code = "UnrecognizedClientException" if request.headers.get("X-Amz-Target") else "AuthFailure"
            raise AwsError(code, "AWS was not able to validate the provided access credentials", 401)
        return match[2]

    def _refusal(self, error: AwsError, target: str) -> web.Response:
        body = self._json.error(error) if target else self._ec2.error(error)
        kind = self._json.content_type if target else "text/xml"
        return web.Response(body=body, status=error.status, headers={"Content-Type": kind})

    def _handle_json(self, target: str, body: bytes) -> web.Response:
        try:
            action = self._targets.get(target)
            if action is None:
                raise AwsError("UnknownOperationException", f"{target} is not offered here.")
            answer = action(self._json.read(body))
        except AwsError as error:
            return self._refusal(error, target)
        return web.Response(body=self._json.write(answer), headers={"Content-Type": self._json.content_type})

    async def _handle_ec2(
        self, request: web.Request, place: str, form: Mapping[str, str]
    ) -> web.StreamResponse:
        name = form.get("Action", "")
        changing = name in MUTATING
        info = {"action": name, "region": place, "form": form}
        if changing and await self._stopped("before", info):
            return _hang_up(request)
        try:
            body = self._perform(name, place, form)
        except AwsError as error:
            return self._refusal(error, "")
        if changing:
            self.requests.append((self.world.now, place, name))
            if self.faults.lost_replies > 0:
                self.faults.lost_replies -= 1
                return _hang_up(request)
            if await self._stopped("after", info):
                return _hang_up(request)
        return web.Response(body=body, headers={"Content-Type": self._ec2.content_type})

    def _perform(self, name: str, place: str, form: Mapping[str, str]) -> bytes:
        waiting = self.faults.errors.get(name)
        if waiting:
            raise waiting.pop(0)
        region = self.regions.get(place)
        if region is None:
            raise AwsError("AuthFailure", f"The region {place} is not enabled for this account.", 401)
        if region.down:
            raise AwsError("Unavailable", "The server is overloaded and can't handle the request.", 503)
        operation = self._ec2.operation(name)
        action = self._actions.get(name)
        if action is None:
            raise AwsError("UnsupportedOperation", f"{name} is not offered here.")
        if not region.call_tokens.take(1, self.world.now):
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
        return self._ec2.write(operation, action(region, self._ec2.read(operation, form)))

    async def _stopped(self, moment: str, info: Mapping[str, Any]) -> bool:
        stop = False
        for hook in self.hooks:
            said = hook(moment, info)
            if isinstance(said, Awaitable):
                said = await said
            stop = stop or said == "drop"
        return stop

    # What scenarios and tests do to it and read from it (on the sandbox's loop)

    def on_request(self, hook: Hook) -> None:
        """Call `hook(moment, info)` around each changing EC2 call, moments `before` and `after` (performed,
        not yet answered); returning "drop" (or an awaitable of it) ends the connection there."""
        self.hooks.append(hook)

    def set_capacity(self, region: str, zone: str, kind: str, count: int, *, spot: bool = False) -> None:
        """How many machines of a type the zone has in all."""
        offer = self.regions[region].offer(zone, kind)
        if spot:
            offer.spot_capacity = count
        else:
            offer.capacity = count

    def set_price(self, region: str, zone: str, kind: str, price: str, *, spot: bool = False) -> None:
        """A price per hour from now on."""
        changes = self.regions[region].prices.setdefault((zone, kind, spot), [])
        changes.append(PriceChange(self.world.now, Fraction(price)))

    def fail_next(self, action: str, code: str, *, times: int = 1, status: int = 400) -> None:
        """The next calls of an action answer an error."""
        error = AwsError(code, f"{code}, as asked for", status)
        self.faults.errors.setdefault(action, []).extend([error] * times)

    def interrupt(self, machine_id: str) -> None:
        """Take a spot machine back: marked now, ended two minutes later."""
        region, machine = self.find(machine_id)
        machine.marked = self.world.now

        def end() -> None:
            if machine.live:
                region.end(machine, self.world.now, "Server.SpotInstanceTermination")
                self.joining.ended(machine)

        self.world.after(SPOT_NOTICE.total_seconds(), end)

    def find(self, machine_id: str) -> tuple[Region, Machine]:
        """A machine and its region; KeyError where there is none."""
        for region in self.regions.values():
            if machine_id in region.machines:
                return region, region.machines[machine_id]
        raise KeyError(machine_id)

    def machines(self) -> list[Machine]:
        """All machines ever, oldest first."""
        found = [m for region in self.regions.values() for m in region.machines.values()]
        return sorted(found, key=lambda m: (m.launched, m.number))

    def spent(self, since: datetime, until: datetime, **tags: str) -> Fraction:
        """Dollars of machines that carry all these tags (given without their prefix), exactly."""
        wanted = {f"quartermaster.dev/{key}": value for key, value in tags.items()}
        return spent(self.regions, since, until, lambda m: wanted.items() <= m.tags.items())


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
