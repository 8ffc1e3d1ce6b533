"""Implementations of the cloud ports that their contracts run over, each with its world at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.billing import CostExplorer
from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_catalog import AwsCatalog
from fleet.clouds.aws_machines import AwsMachines, Join
from fleet.model import CapacityType
from fleet.pools import Pool, Region, Zone
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.world import World
from tests.builders import T0

REGIONS = ("us-west-2", "us-east-1")
TYPES = ("m5.xlarge", "p5.48xlarge")
SPEC = {
    "regions": {
        region: {
            "zones": {
                f"{region}{zone}": {
                    "offers": {
                        "m5.xlarge": {"price": "0.192", "spot": "0.07", "capacity": 20, "spot_capacity": 5},
                        **({"p5.48xlarge": {"price": "55.04", "capacity": 3}} if zone == "a" else {}),
                    },
                    "subnets": {
                        f"subnet-{region}{zone}": {"addresses": 4091},
                        f"small-{region}{zone}": {"addresses": 1},
                    },
                }
                for zone in "ab"
            },
            "quotas": {"Standard": 64, "P": 2000},
        }
        for region in REGIONS
    },
    "boot_seconds": 30,
    "visible_after_seconds": 5,
    "bill": {"after_hours": 24, "final_after_days": 3, "tags": ["quartermaster.dev/run"]},
}


class WorldClock:
    """The Clock port, standing where the world stands."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        """The world's time."""
        return self._world.now

    def wait_until(self, moment: datetime, wake: Callable[[], bool]) -> datetime:
        """Nothing here waits."""
        raise AssertionError

    def nudge(self) -> None:
        """Nothing here waits."""


@dataclass
class Provider:
    """One provider: its ports, and what a test does to its world."""

    catalog: AwsCatalog
    machines: AwsMachines
    billing: CostExplorer
    pools: tuple[Pool, ...]
    cloud: Cloud
    host: Host
    clock: WorldClock
    again: Callable[..., AwsMachines]
    """the Machines port as it is after a restart of the process, or (with a name) of another installation"""

    def pass_(self, **duration: float) -> None:
        """Let world time pass."""
        moment = self.cloud.world.now + timedelta(**duration)
        self.host.call(self.cloud.world.run_until, moment)

    def do(self, action: Callable[..., object], *args: object, **more: object) -> None:
        """Change the provider's world, on its own thread."""
        self.host.call(lambda: action(*args, **more))


def pools() -> tuple[Pool, ...]:
    """An on-demand and a spot pool over both regions, and one in subnets that are nearly full."""
    regions = {
        prefix: tuple(
            Region(r, tuple(Zone(f"{r}{z}", f"{prefix}-{r}{z}") for z in "ab"), f"ami-{r}") for r in REGIONS
        )
        for prefix in ("subnet", "small")
    }
    common: dict[str, Any] = {
        "cluster": "home",
        "provider": "aws",
        "instance_profile": "node",
        "user_data": "endpoint={endpoint}\ntoken={token}\nlabels={labels}\ntaints={taints}\n",
    }
    return (
        Pool("steady", regions=regions["subnet"], instance_types=TYPES, **common),
        Pool(
            "cheap",
            regions=regions["subnet"],
            instance_types=TYPES[:1],
            capacity_types=(CapacityType.SPOT,),
            **common,
        ),
        Pool("tight", regions=regions["small"], instance_types=TYPES[:1], **common),
    )


@contextmanager
def sandbox_aws() -> Iterator[Provider]:
    """AWS by boto3 over the sandbox's cloud, in a world that stands still until it is moved."""
    host = Host()
    try:

        async def made() -> Cloud:
            return Cloud(World(T0), SPEC)

        cloud = host.run(made())
        clients = AwsClients(cloud.serve(host), access_key="AKIASANDBOX", secret_key="any")
        clock, chosen = WorldClock(cloud.world), pools()
        joins = {"home": Join("http://127.0.0.1:1", "token")}

        def machines(fleet: Callable[[], str] = lambda: "uid-home") -> AwsMachines:
            return AwsMachines(chosen, clients, joins, clock, fleet)

        yield Provider(
            AwsCatalog(chosen, clients),
            machines(),
            CostExplorer(clients),
            chosen,
            cloud,
            host,
            clock,
            machines,
        )
    finally:
        host.close()


PROVIDERS = {"sandbox-aws": sandbox_aws}
