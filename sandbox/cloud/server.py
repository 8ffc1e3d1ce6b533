"""The cloud: one server for EC2, Pricing and Cost Explorer, spoken to by boto3 with only its address changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from aiohttp import web

from sandbox.cloud.access import Caller, caller
from sandbox.cloud.bill import Bill, Item, midnight
from sandbox.cloud.codec import AwsError, JsonCodec, QueryCodec
from sandbox.cloud.cost_explorer import CostExplorer
from sandbox.cloud.ec2 import MUTATING, Machines
from sandbox.cloud.ec2_catalog import Catalog
from sandbox.cloud.faults import Faults, Hook
from sandbox.cloud.fleets import Fleets
from sandbox.cloud.join import Joining
from sandbox.cloud.launches import Launcher
from sandbox.cloud.machine import Machine
from sandbox.cloud.market import Market
from sandbox.cloud.pricing import Pricing
from sandbox.cloud.region import Region
from sandbox.cloud.spec import parse_spec
from sandbox.cloud.templates import Action, Templates
from sandbox.cloud.throttle import Throttle
from sandbox.hosting import Host
from sandbox.world import World

_MAX_BODY = 8 * 1024 * 1024
_TAG_PREFIX = "quartermaster.dev/"


class Cloud:
    """One account in several regions. `spec` is documented in `sandbox.cloud.spec`.

    Everything but `serve` is called on the sandbox's loop (`Host.call`).
    """

    def __init__(self, world: World, spec: Mapping[str, Any]) -> None:
        self.world = world
        self.spec = parse_spec(spec)
        self.regions = {
            name: Region(region, world.now, self.spec.no_capacity_status, Throttle(self.spec.throttle))
            for name, region in self.spec.regions.items()
        }
        self.joining = Joining(world, self.spec, self.regions)
        self.market = Market(world, self.regions, self.joining.ended)
        self.billing = Bill(world, self.spec.bill, self.regions)
        self.cost_explorer = CostExplorer(self.billing)
        self.faults = Faults()
        self.requests: list[tuple[datetime, str, str]] = []
        """(world time, region, action) of every EC2 call that changed something"""
        templates = Templates(world)
        launcher = Launcher(world, self.spec, templates, self.joining.launched)
        self._ec2 = QueryCodec("ec2")
        self._json = JsonCodec()
        self.ec2_actions: dict[str, Action] = {
            **Machines(launcher, self.joining.ended).actions(),
            **Catalog(world, self.regions).actions(),
            **Fleets(launcher).actions(),
            **templates.actions(),
        }
        self._targets = {
            "AWSPriceListService.GetProducts": Pricing(world, self.regions).get_products,
            "AWSInsightsIndexService.GetCostAndUsage": self.cost_explorer.get_cost_and_usage,
        }

    def app(self) -> web.Application:
        """The application: everything is a POST to /."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_post("/", self._handle)
        self.joining.follow(application)
        return application

    def serve(self, host: Host, *, port: int = 0) -> str:
        """Serve; returns the address."""
        return host.serve(self.app(), port=port)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        target = request.headers.get("X-Amz-Target", "")
        try:
            who = caller(request.headers.get("Authorization", ""), self.spec.credentials)
            await self._take_time(who)
            if target:
                return self._handle_json(who, target, await request.read())
            form = {key: str(value) for key, value in (await request.post()).items()}
            return await self._handle_ec2(request, who, form)
        except AwsError as error:
            body = self._json.error(error) if target else self._ec2.error(error)
            kind = self._json.content_type if target else self._ec2.content_type
            return web.Response(body=body, status=error.status, headers={"Content-Type": kind})

    async def _take_time(self, who: Caller) -> None:
        region = self.regions.get(who.region) if who.service == "ec2" else None
        slow = max(self.faults.slow_seconds, region.slow_seconds if region else 0.0)
        if slow:
            await asyncio.sleep(slow)

    def _handle_json(self, who: Caller, target: str, body: bytes) -> web.Response:
        answering = self._targets.get(target)
        name = target.rpartition(".")[2]
        if answering is None:
            raise AwsError("UnknownOperationException", f"{target} is not offered here.")
        self.faults.raise_next(name)
        who.check(name)
        answer = self._json.write(answering(self._json.read(body)))
        return web.Response(body=answer, headers={"Content-Type": self._json.content_type})

    async def _handle_ec2(
        self, request: web.Request, who: Caller, form: Mapping[str, str]
    ) -> web.StreamResponse:
        name = form.get("Action", "")
        changing = name in MUTATING
        info = {"action": name, "region": who.region, "form": form}
        if changing and await self.faults.tell("before", info):
            return _hang_up(request)
        body = self._perform(who, name, form)
        if changing:
            self.requests.append((self.world.now, who.region, name))
            lost = self.faults.lose_reply()
            if await self.faults.tell("after", info) or lost:
                return _hang_up(request)
        return web.Response(body=body, headers={"Content-Type": self._ec2.content_type})

    def _perform(self, who: Caller, name: str, form: Mapping[str, str]) -> bytes:
        region = self.regions.get(who.region)
        if region is None:
            raise AwsError("AuthFailure", f"The region {who.region} is not enabled for this account.", 401)
        if region.down:
            raise AwsError("Unavailable", "The server is overloaded and can't handle the request.", 503)
        self.faults.raise_next(name)
        operation = self._ec2.operation(name)
        action = self.ec2_actions.get(name)
        if action is None:
            raise AwsError("UnsupportedOperation", f"{name} is not offered here.")
        region.throttle.take(name, 1, self.world.now)
        who.check(name)
        return self._ec2.write(operation, action(region, self._ec2.read(operation, form)))

    # What scenarios and tests do to it and read from it.

    def on_request(self, hook: Hook) -> None:
        """Call `hook(moment, info)` around each changing EC2 call, moments `before` and `after` (performed,
        not yet answered; not for refused ones); returning "drop" (or an awaitable of it) ends the connection
        there. `info` has the action, the region and the raw form."""
        self.faults.hooks.append(hook)

    def fail_next(self, action: str, code: str, *, times: int = 1, status: int | None = None) -> None:
        """The next calls of an action answer an error, by default with the status that AWS sends with it."""
        self.faults.fail_next(action, code, times=times, status=status)

    def lose_replies(self, count: int = 1) -> None:
        """The next changing calls are carried out, and their connection closed without a reply."""
        self.faults.lost_replies += count

    def set_capacity(self, region: str, zone: str, kind: str, count: int, *, spot: bool = False) -> None:
        """How many machines of a type the zone has in all; running ones stay."""
        self.market.set_capacity(self.regions[region], zone, kind, count, spot=spot)

    def set_price(self, region: str, zone: str, kind: str, price: str, *, spot: bool = False) -> None:
        """A price per hour from now on: a zone's for spot, the whole region's for on-demand."""
        self.market.set_price(self.regions[region], zone, kind, Fraction(price), spot=spot)

    def interrupt(self, machine_id: str) -> None:
        """Take a spot machine back, and its capacity with it: marked now, ended two minutes later."""
        self.market.interrupt(*self.find(machine_id))

    def find(self, machine_id: str) -> tuple[Region, Machine]:
        """A machine and its region; KeyError where there is none."""
        for region in self.regions.values():
            if machine_id in region.machines:
                return region, region.machines[machine_id]
        raise KeyError(machine_id)

    def machines(self) -> list[Machine]:
        """All machines ever, in order of launch."""
        found = [machine for region in self.regions.values() for machine in region.machines.values()]
        return sorted(found, key=lambda machine: machine.number)

    def spent(self, since: datetime, until: datetime, **tags: str) -> Fraction:
        """Dollars of machines in [since, until), exactly; of those that carry all these tags (`run="ab1"`)."""
        wanted = {_TAG_PREFIX + key: value for key, value in tags.items()}
        return self.billing.spent(since, until, lambda carried: wanted.items() <= carried.items())

    def bill(self, day: str) -> list[Item]:
        """Everything of a UTC day (`2026-11-06`) that was really run up, whether it is on the bill yet or not."""
        start = midnight(datetime.fromisoformat(day).date())
        return list(self.billing.really(start, start + timedelta(days=1)))


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
