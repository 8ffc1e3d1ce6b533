"""EC2's actions on machines: launch, describe, terminate, tag. What is sold is in `ec2_catalog`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.launches import Launcher
from sandbox.cloud.region import LISTED_FOR, Machine, Region, matches

Action = Callable[[Region, Mapping[str, Any]], dict[str, Any]]
MUTATING = frozenset(
    {
        "RunInstances",
        "CreateFleet",
        "TerminateInstances",
        "CreateTags",
        "CreateLaunchTemplate",
        "DeleteLaunchTemplate",
    }
)
PAGE = 1000


class Machines:
    """Actions on machines of any region."""

    def __init__(self, launcher: Launcher, on_end: Callable[[Machine], None]) -> None:
        self._launcher = launcher
        self._world = launcher.world
        self._on_end = on_end

    def actions(self) -> dict[str, Action]:
        """By name."""
        return {
            "RunInstances": self.run_instances,
            "DescribeInstances": self.describe_instances,
            "DescribeInstanceStatus": self.describe_instance_status,
            "DescribeSpotInstanceRequests": self.describe_spot_requests,
            "TerminateInstances": self.terminate_instances,
            "CreateTags": self.create_tags,
        }

    def run_instances(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch."""
        machines = self._launcher.run(region, request)
        return {
            "ReservationId": machines[0].reservation if machines else "r-0",
            "OwnerId": "000000000000",
            "Instances": [self.shape(m) for m in machines],
        }

    def describe_instances(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """List, in pages of reservations' instances."""
        found = self._found(region, request)
        page, token = paged(found, request, default=PAGE)
        reservations: dict[str, list[Machine]] = {}
        for machine in page:
            reservations.setdefault(machine.reservation, []).append(machine)
        return {
            "Reservations": [
                {
                    "ReservationId": key,
                    "OwnerId": "000000000000",
                    "Instances": [self.shape(m) for m in machines],
                }
                for key, machines in reservations.items()
            ],
            "NextToken": token,
        }

    def _found(self, region: Region, request: Mapping[str, Any]) -> list[Machine]:
        now = self._world.now
        listed = region.listed(now, self._launcher.spec.visible_after_seconds)
        ids = request.get("InstanceIds")
        if ids:
            known = {m.id: m for m in listed}
            listed = [self._known(known, key) for key in ids]
        filters = list(request.get("Filters", ()))
        return [m for m in listed if matches(m, filters, now)]

    @staticmethod
    def _known(known: Mapping[str, Machine], key: str) -> Machine:
        if key not in known:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{key}' does not exist")
        return known[key]

    def describe_instance_status(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """State of running machines (all with IncludeAllInstances)."""
        now = self._world.now
        found = [
            m
            for m in self._found(region, request)
            if request.get("IncludeAllInstances") or m.state(now)[1] == "running"
        ]
        page, token = paged(found, request, default=PAGE)
        return {
            "InstanceStatuses": [
                {"InstanceId": m.id, "AvailabilityZone": m.zone, "InstanceState": _state(m.state(now))}
                for m in page
            ],
            "NextToken": token,
        }

    def describe_spot_requests(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request a spot machine; `marked-for-termination` is the two-minute notice."""
        wanted = {
            value
            for each in request.get("Filters", ())
            if each["Name"] == "status-code"
            for value in each["Values"]
        }
        rows = []
        for machine in region.machines.values():
            if not machine.spot or (machine.ended and self._world.now > machine.ended + LISTED_FOR):
                continue
            code = self._spot_code(machine)
            if not wanted or code in wanted:
                rows.append(
                    {
                        "SpotInstanceRequestId": "sir-" + machine.id[2:10],
                        "InstanceId": machine.id,
                        "State": "active" if machine.live else "closed",
                        "Status": {"Code": code, "UpdateTime": machine.marked or machine.launched},
                    }
                )
        page, token = paged(rows, request, default=PAGE)
        return {"SpotInstanceRequests": page, "NextToken": token}

    @staticmethod
    def _spot_code(machine: Machine) -> str:
        if machine.ended:
            return "instance-terminated-no-capacity" if machine.marked else "instance-terminated-by-user"
        return "marked-for-termination" if machine.marked else "fulfilled"

    def terminate_instances(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """End machines; one unknown id refuses the whole call; ended ones are fine."""
        now = self._world.now
        known = {m.id: m for m in region.listed(now, self._launcher.spec.visible_after_seconds)}
        machines = [self._known(known, key) for key in request.get("InstanceIds", ())]
        rows = []
        for machine in machines:
            before = machine.state(now)
            if machine.live:
                region.end(machine, now, "User initiated")
                self._on_end(machine)
            rows.append(
                {
                    "InstanceId": machine.id,
                    "PreviousState": _state(before),
                    "CurrentState": _state(machine.state(now)),
                }
            )
        return {"TerminatingInstances": rows}

    def create_tags(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Tag machines."""
        for key in request.get("Resources", ()):
            machine = self._known(region.machines, key)
            machine.tags |= {tag["Key"]: tag.get("Value", "") for tag in request.get("Tags", ())}
        return {"Return": True}

    def shape(self, machine: Machine) -> dict[str, Any]:
        """An instance as EC2 shows it."""
        state = machine.state(self._world.now)
        return {
            "InstanceId": machine.id,
            "ImageId": machine.image,
            "InstanceType": machine.kind.name,
            "LaunchTime": machine.launched,
            "Placement": {"AvailabilityZone": machine.zone, "Tenancy": "default"},
            "State": _state(state),
            "StateTransitionReason": machine.end_reason,
            "SubnetId": machine.subnet,
            "PrivateDnsName": machine.node_name if machine.live else "",
            "PrivateIpAddress": machine.address if machine.live else None,
            "ClientToken": machine.token,
            "Architecture": "arm64" if machine.kind.arch == "arm64" else "x86_64",
            "InstanceLifecycle": "spot" if machine.spot else None,
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(machine.tags.items())],
        }


def _state(state: tuple[int, str]) -> dict[str, Any]:
    return {"Code": state[0], "Name": state[1]}


def paged(found: Sequence[Any], request: Mapping[str, Any], *, default: int) -> tuple[list[Any], str | None]:
    """One page by MaxResults and NextToken; AwsError for a token that is none."""
    size = int(request.get("MaxResults") or default)
    token = str(request.get("NextToken") or "0")
    if not token.isdigit() or int(token) > len(found):
        raise AwsError("InvalidNextToken", "The specified NextToken is not valid.")
    start = int(token)
    page = list(found[start : start + size])
    return page, str(start + size) if start + size < len(found) else None
