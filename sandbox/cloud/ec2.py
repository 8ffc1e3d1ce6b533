"""EC2's actions on machines: launch, describe, terminate, tag. What is sold is in `ec2_catalog`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.filters import SPOT_FIELDS, machine_fields, passing
from sandbox.cloud.launches import Launcher
from sandbox.cloud.machine import BY_USER, Machine
from sandbox.cloud.orders import TAGS, check_tags
from sandbox.cloud.paging import page_size, paged, position_of, token_for
from sandbox.cloud.region import Region
from sandbox.cloud.shapes import ACCOUNT, instance, spot_request, state
from sandbox.cloud.templates import Action
from sandbox.cloud.throttle import TERMINATIONS

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
_LEAST = 5
"""EC2 takes no smaller pages"""
_ID = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")


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
        return self._reservation(machines[0].reservation, machines)

    def _reservation(self, identity: str, machines: Sequence[Machine]) -> dict[str, Any]:
        now = self._world.now
        return {
            "ReservationId": identity,
            "OwnerId": ACCOUNT,
            "Instances": [instance(machine, now) for machine in machines],
        }

    def describe_instances(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """List; a page holds at most MaxResults instances, in order of launch."""
        page, token = self._page(region, request)
        reservations: dict[str, list[Machine]] = {}
        for machine in page:
            reservations.setdefault(machine.reservation, []).append(machine)
        return {
            "Reservations": [self._reservation(key, machines) for key, machines in reservations.items()],
            "NextToken": token,
        }

    def describe_instance_status(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """State of running machines (all with IncludeAllInstances)."""
        now = self._world.now
        everything = bool(request.get("IncludeAllInstances"))
        page, token = self._page(region, request, lambda m: everything or m.state(now)[1] == "running")
        fine = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
        return {
            "InstanceStatuses": [
                {
                    "InstanceId": machine.id,
                    "AvailabilityZone": machine.zone,
                    "InstanceState": state(machine.state(now)),
                    "InstanceStatus": fine,
                    "SystemStatus": fine,
                }
                for machine in page
            ],
            "NextToken": token,
        }

    def _page(
        self, region: Region, request: Mapping[str, Any], keep: Callable[[Machine], bool] = lambda _: True
    ) -> tuple[list[Machine], str | None]:
        """A page continues after the last machine of the one before, whatever has ended since."""
        ids = list(request.get("InstanceIds", ()))
        if ids and request.get("MaxResults"):
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        size = page_size(request, PAGE, least=_LEAST)
        token = str(request.get("NextToken") or "")
        after = position_of(token, "InvalidNextToken")[0] if token else 0
        listed = self._known(region, ids) if ids else self._listed(region)
        found = [machine for machine in listed if machine.number > after and keep(machine)]
        found = passing(found, request, machine_fields(self._world.now))
        page = found[:size]
        return page, token_for(page[-1].number) if len(found) > size else None

    def _listed(self, region: Region) -> list[Machine]:
        return region.listed(self._world.now, self._launcher.spec.visible_after_seconds)

    def _known(self, region: Region, ids: Sequence[str]) -> list[Machine]:
        """The machines; one malformed or unknown id refuses the whole call, and the error names all."""
        malformed = [key for key in ids if not _ID.fullmatch(key)]
        if malformed:
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{malformed[0]}"')
        listed = {machine.id: machine for machine in self._listed(region)}
        unknown = [key for key in dict.fromkeys(ids) if key not in listed]
        if unknown:
            words = (
                f"The instance ID '{unknown[0]}' does not exist"
                if len(unknown) == 1
                else f"The instance IDs '{', '.join(unknown)}' do not exist"
            )
            raise AwsError("InvalidInstanceID.NotFound", words)
        return sorted((listed[key] for key in dict.fromkeys(ids)), key=lambda machine: machine.number)

    def describe_spot_requests(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request a spot machine; `marked-for-termination` is the two-minute notice."""
        spot = [machine for machine in self._listed(region) if machine.spot]
        wanted = set(request.get("SpotInstanceRequestIds", ()))
        unknown = wanted - {machine.spot_request for machine in spot}
        if unknown:
            raise AwsError(
                "InvalidSpotInstanceRequestID.NotFound",
                f"The spot instance request ID '{min(unknown)}' does not exist",
            )
        found = passing(
            [machine for machine in spot if not wanted or machine.spot_request in wanted],
            request,
            SPOT_FIELDS,
        )
        page, token = paged(found, request, page_size(request, PAGE, least=_LEAST))
        return {"SpotInstanceRequests": [spot_request(machine) for machine in page], "NextToken": token}

    def terminate_instances(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """End machines; one unknown id refuses the whole call; ended ones are fine."""
        now = self._world.now
        machines = self._known(region, list(request.get("InstanceIds", ())))
        if request.get("DryRun"):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        region.throttle.take(TERMINATIONS, len(machines), now)
        rows = []
        for machine in machines:
            before = machine.state(now)
            if region.end(machine, now, BY_USER):
                self._on_end(machine)
            rows.append(
                {
                    "InstanceId": machine.id,
                    "PreviousState": state(before),
                    "CurrentState": state(machine.state(now)),
                }
            )
        return {"TerminatingInstances": rows}

    def create_tags(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Tag machines; all or none."""
        machines = self._known(region, list(request.get("Resources", ())))
        tags = check_tags(request.get("Tags", ()))
        if any(len(machine.tags | tags) > TAGS for machine in machines):
            raise AwsError("TagLimitExceeded", f"More than {TAGS} tags specified")
        for machine in machines:
            machine.tags |= tags
        return {}
