"""CreateFleet type=instant: overrides are tried in order, and what failed is told beside what was launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sandbox.cloud.allocation import Allocation, Candidate, Terms, allocate
from sandbox.cloud.codec import AwsError
from sandbox.cloud.launches import Launcher
from sandbox.cloud.machine import Machine
from sandbox.cloud.region import Region
from sandbox.cloud.templates import Action
from sandbox.cloud.throttle import LAUNCHES

_ACTION = "CreateFleet"
_MAX_MINIMUM = 1000
_OVERRIDDEN = ("InstanceType", "SubnetId", "ImageId")


@dataclass
class Fleets:
    """Instant fleets. Nothing of a fleet is kept: its machines are listed with the others."""

    launcher: Launcher

    def actions(self) -> dict[str, Action]:
        """By name."""
        return {_ACTION: self.create_fleet}

    def create_fleet(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch up to the target over the overrides; below MinTargetCapacity nothing."""
        if request.get("Type") != "instant":
            raise AwsError("InvalidParameterValue", "Only fleets of type instant are offered here.")
        tokens, place = self.launcher.tokens, region.spec.name
        first: dict[str, Any] | None = tokens.first_result(place, _ACTION, request)
        if first is not None:
            return first
        parts = [
            (_terms(request, spot), self._candidates(region, request, spot), wanted, spot)
            for spot, wanted in _targets(request.get("TargetCapacitySpecification") or {})
            if wanted
        ]
        if request.get("DryRun"):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        answer: dict[str, Any] = {
            "FleetId": f"fleet-{self.launcher.world.random.getrandbits(64):016x}",
            "Instances": [],
            "Errors": [],
        }
        allocations: list[tuple[bool, Allocation]] = []
        for terms, (candidates, errors), wanted, spot in parts:
            answer["Errors"] += errors
            before = tuple(each for _, allocation in allocations for each in allocation.taken)
            allocations.append((spot, allocate(region, candidates, wanted, terms, before)))
        count = sum(allocation.count for _, allocation in allocations)
        region.throttle.take(LAUNCHES, count, self.launcher.world.now)
        for spot, allocation in allocations:
            self._launch(region, allocation, spot, answer)
        tokens.keep(place, _ACTION, request, answer)
        return answer

    def _launch(self, region: Region, allocation: Allocation, spot: bool, answer: dict[str, Any]) -> None:
        lifecycle = "spot" if spot else "on-demand"
        answer["Errors"] += [
            _error(candidate.shape, lifecycle, error) for candidate, error in allocation.errors
        ]
        for candidate, count in allocation.taken:
            machines: list[Machine] = self.launcher.make(region, candidate.order, count)
            answer["Instances"].append(
                {
                    "LaunchTemplateAndOverrides": candidate.shape,
                    "Lifecycle": lifecycle,
                    "InstanceIds": [machine.id for machine in machines],
                    "InstanceType": candidate.order.kind.name,
                }
            )

    def _candidates(
        self, region: Region, request: Mapping[str, Any], spot: bool
    ) -> tuple[list[Candidate], list[dict[str, Any]]]:
        """Overrides that could be launched, and the errors of those that are wrong."""
        candidates: list[Candidate] = []
        errors: list[dict[str, Any]] = []
        for config in request.get("LaunchTemplateConfigs", ()):
            template = config.get("LaunchTemplateSpecification") or {}
            data = self.launcher.templates.data(region, template)
            specification = self.launcher.templates.specification(region, template)
            for override in config.get("Overrides") or [{}]:
                shape = {"LaunchTemplateSpecification": specification, "Overrides": override}
                launch = _launch_request(request, data, override, spot)
                try:
                    order = self.launcher.order(region, launch)
                except AwsError as error:
                    errors.append(_error(shape, "spot" if spot else "on-demand", error))
                    continue
                price = region.price(order.zone, order.kind.name, spot, self.launcher.world.now)
                candidates.append(Candidate(order, price, float(override.get("Priority", 1e9)), shape))
        return candidates, errors


def _launch_request(
    request: Mapping[str, Any], data: Mapping[str, Any], override: Mapping[str, Any], spot: bool
) -> dict[str, Any]:
    launch = {**data, **{key: override[key] for key in _OVERRIDDEN if override.get(key)}}
    zone = override.get("AvailabilityZone") or (override.get("Placement") or {}).get("AvailabilityZone")
    if zone:
        launch["Placement"] = {"AvailabilityZone": zone}
    launch["TagSpecifications"] = [*data.get("TagSpecifications", ()), *request.get("TagSpecifications", ())]
    launch.pop("InstanceMarketOptions", None)
    if spot:
        launch["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {"MaxPrice": override.get("MaxPrice")},
        }
    return launch


def _targets(given: Mapping[str, Any]) -> list[tuple[bool, int]]:
    """(spot, machines wanted), on-demand first."""
    total = int(given.get("TotalTargetCapacity", 0))
    spot_by_default = given.get("DefaultTargetCapacityType", "on-demand") == "spot"
    on_demand, spot = int(given.get("OnDemandTargetCapacity", 0)), int(given.get("SpotTargetCapacity", 0))
    rest = total - on_demand - spot
    if total < 1 or rest < 0:
        raise AwsError("InvalidParameterValue", "TotalTargetCapacity must be at least 1, and hold its parts.")
    return [
        (False, on_demand + (0 if spot_by_default else rest)),
        (True, spot + (rest if spot_by_default else 0)),
    ]


def _terms(request: Mapping[str, Any], spot: bool) -> Terms:
    options = request.get("SpotOptions" if spot else "OnDemandOptions") or {}
    minimum = int(options.get("MinTargetCapacity") or 0)
    single_type = bool(options.get("SingleInstanceType"))
    single_zone = bool(options.get("SingleAvailabilityZone"))
    if minimum > _MAX_MINIMUM:
        raise AwsError("InvalidParameterValue", f"MinTargetCapacity is at most {_MAX_MINIMUM}.")
    if minimum and not (single_type or single_zone):
        raise AwsError(
            "InvalidParameterCombination",
            "MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone.",
        )
    hourly = options.get("MaxTotalPrice")
    strategy = str(options.get("AllocationStrategy") or "lowest-price")
    return Terms(strategy, minimum, single_type, single_zone, None if not hourly else Fraction(str(hourly)))


def _error(shape: Mapping[str, Any], lifecycle: str, error: AwsError) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": shape,
        "Lifecycle": lifecycle,
        "ErrorCode": error.code,
        "ErrorMessage": error.message,
    }
