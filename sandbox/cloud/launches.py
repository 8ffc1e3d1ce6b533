"""RunInstances: what a launch takes of capacity, quota and addresses, and what a repeated token returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.machine import Machine
from sandbox.cloud.orders import Order, read_order
from sandbox.cloud.region import Region
from sandbox.cloud.spec import CloudSpec
from sandbox.cloud.templates import Templates
from sandbox.cloud.throttle import LAUNCHES
from sandbox.cloud.tokens import Tokens
from sandbox.world import World

_ACTION = "RunInstances"


@dataclass
class Launcher:
    """Launches for all regions; `on_launch` is told of each new machine (it boots and joins)."""

    world: World
    spec: CloudSpec
    templates: Templates
    on_launch: Callable[[Machine], None]
    tokens: Tokens = field(default_factory=Tokens)
    counter: int = 0

    def run(self, region: Region, request: Mapping[str, Any]) -> list[Machine]:
        """Between MinCount and MaxCount machines; AwsError and none where that many are not to be had."""
        first = self.tokens.first_result(region.spec.name, _ACTION, request)
        if first is not None:
            return self._again(first)
        least, most = int(request.get("MinCount", 0)), int(request.get("MaxCount", 0))
        if not 1 <= least <= most:
            raise AwsError(
                "InvalidParameterValue",
                f"Invalid value '{least}' for minCount or '{most}' for maxCount: 1 or more, and in order.",
            )
        order = self.order(region, request)
        if request.get("DryRun"):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        self.tokens.claim(region.spec.name, _ACTION, request)
        count = min(most, room(region, order, least))
        region.throttle.take(LAUNCHES, count, self.world.now)
        machines = self.make(region, order, count)
        self.tokens.keep(region.spec.name, _ACTION, request, machines)
        return machines

    @staticmethod
    def _again(machines: list[Machine]) -> list[Machine]:
        if not any(machine.live for machine in machines):
            raise AwsError(
                "IdempotentInstanceTerminated",
                "The instances launched with this client token have been terminated.",
            )
        return machines

    def order(self, region: Region, request: Mapping[str, Any]) -> Order:
        """The checked order of a request, over its launch template where it names one."""
        given = request.get("LaunchTemplate")
        if given:
            own = {key: value for key, value in request.items() if key != "LaunchTemplate"}
            request = {**self.templates.data(region, given), **own}
        return read_order(region, self.spec.profiles, request, self.world.now)

    def make(self, region: Region, order: Order, count: int) -> list[Machine]:
        """The machines, launched now; who calls has checked that they are to be had."""
        reservation = f"r-{self.world.random.getrandbits(68):017x}"
        return [self._make(region, order, reservation) for _ in range(count)]

    def _make(self, region: Region, order: Order, reservation: str) -> Machine:
        self.counter += 1
        machine = Machine(
            id=f"i-{self.world.random.getrandbits(68):017x}",
            number=self.counter,
            region=region.spec.name,
            zone=order.zone,
            kind=order.kind,
            spot=order.spot,
            subnet=order.subnet,
            image=order.image,
            profile=order.profile,
            groups=order.groups,
            user_data=order.user_data,
            tags=dict(order.tags),
            launched=self.world.now,
            reservation=reservation,
            token=order.token,
            max_price=order.max_price,
        )
        region.add(machine)
        self.on_launch(machine)
        return machine


def room(region: Region, order: Order, least: int) -> int:
    """How many machines of the order are to be had; AwsError where these are less than `least`.

    A quota is looked at first, as EC2 does: it says so even where there is no capacity either.
    """
    kind = order.kind
    by_quota = region.quota_left(kind.family, order.spot) // kind.vcpus
    if by_quota < least:
        raise region.no_quota(kind.family, order.spot)
    addresses = region.addresses_left(order.subnet)
    if addresses < least:
        raise region.no_addresses(order.subnet)
    free = region.free(order.zone, kind.name, order.spot)
    if free < least:
        raise region.no_capacity(order.zone, kind.name, order.spot)
    return min(by_quota, addresses, free)
