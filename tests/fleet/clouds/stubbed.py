"""AWS clients that answer what a test wrote down; botocore checks both sides against its service model."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from botocore.stub import Stubber

from fleet.clouds.aws import AwsClients
from fleet.model import CapacityType, Taint
from fleet.pools import Pool, Region, Zone
from fleet.ports import LaunchRequest
from tests.builders import T0


class StubbedAws(AwsClients):
    """Every service and region has its own list of expected calls."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", access_key="stub", secret_key="stub")
        self._stubs: dict[tuple[str, str], Stubber] = {}

    def stub(self, service: str, region: str) -> Stubber:
        """The list of expected calls of a service in a region."""
        key = (service, region)
        if key not in self._stubs:
            self._stubs[key] = Stubber(super()._client(service, region))
            self._stubs[key].activate()
        return self._stubs[key]

    def ec2_stub(self, region: str = "us-west-2") -> Stubber:
        """EC2 of a region."""
        return self.stub("ec2", region)

    def done(self) -> None:
        """All expected calls were made."""
        for stubber in self._stubs.values():
            stubber.assert_no_pending_responses()

    def _client(self, service: str, region: str) -> Any:
        self.stub(service, region)
        return super()._client(service, region)


def pool(**more: Any) -> Pool:
    """An AWS pool of cluster `home` with one region and two zones."""
    fields: dict[str, Any] = {
        "name": "aws",
        "cluster": "home",
        "provider": "aws",
        "regions": (
            Region(
                "us-west-2",
                (Zone("us-west-2a", "subnet-a"), Zone("us-west-2b", "subnet-b")),
                "ami-1",
                ("sg-1",),
            ),
        ),
        "instance_types": ("m5.xlarge",),
        "instance_profile": "node",
        "user_data": "endpoint={endpoint}\ntoken={token}\nca={ca}\nlabels={labels}\ntaints={taints}\nx=${HOME}",
        "labels": {"disk": "fast"},
        "taints": (Taint("gpu", "yes", "NoSchedule"),),
    }
    return Pool(**(fields | more))


def launch(count: int = 2, **more: Any) -> LaunchRequest:
    """A request for machines of that pool."""
    fields: dict[str, Any] = {
        "token": "hold-1",
        "offer_key": "k",
        "provider": "aws",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "instance_type": "m5.xlarge",
        "capacity_type": CapacityType.ON_DEMAND,
        "count": count,
        "pool": "aws",
        "cluster": "home",
        "tags": {"quartermaster.dev/run": "abc12", "team": "vision"},
        "max_price": None,
    }
    return LaunchRequest(**(fields | more))


def raw_instance(instance_id: str, state: str = "running", **more: Any) -> dict[str, Any]:
    """An instance as EC2 gives it."""
    return {
        "InstanceId": instance_id,
        "InstanceType": "m5.xlarge",
        "State": {"Name": state, "Code": 16},
        "Placement": {"AvailabilityZone": "us-west-2a"},
        "LaunchTime": T0,
        "Tags": [{"Key": "quartermaster.dev/cluster", "Value": "home"}],
        **more,
    }


def described(name: str = "m5.xlarge", vcpus: int = 4, mib: int = 16384, **more: Any) -> dict[str, Any]:
    """An instance type as EC2 gives it."""
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": mib},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "NetworkInfo": {"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15},
        **more,
    }


def product(name: str, usd: str, vcpu: str = "4", gpu: str | None = None) -> str:
    """A product of the price list, JSON in a string."""
    attributes = {"instanceType": name, "vcpu": vcpu, **({"gpu": gpu} if gpu else {})}
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
    return json.dumps(
        {
            "product": {"attributes": attributes},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}},
        }
    )


class Ticking:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.moment = T0

    def now(self):
        """Where it was put."""
        return self.moment

    def pass_(self, **duration: int) -> None:
        """Let time pass."""
        self.moment += timedelta(**duration)

    def wait_until(self, moment, wake):
        """Go there."""
        self.moment = moment
        return moment

    def nudge(self) -> None:
        """Nothing waits."""
