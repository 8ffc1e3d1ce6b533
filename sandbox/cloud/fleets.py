"""CreateFleet type=instant with launch templates: tries overrides in order and tells each one's error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.ec2 import Action
from sandbox.cloud.launches import Launcher, Order
from sandbox.cloud.region import Machine, Region


@dataclass
class Fleets:
    """Templates and instant fleets."""

    launcher: Launcher
    templates: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """(region, name or id) → template"""

    def actions(self) -> dict[str, Action]:
        """By name."""
        return {
            "CreateLaunchTemplate": self.create_template,
            "DescribeLaunchTemplates": self.describe_templates,
            "DeleteLaunchTemplate": self.delete_template,
            "CreateFleet": self.create_fleet,
        }

    def create_template(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """A template by name."""
        name = str(request.get("LaunchTemplateName", ""))
        if (region.spec.name, name) in self.templates:
            raise AwsError(
                "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."
            )
        template = {
            "id": f"lt-{self.launcher.world.random.getrandbits(68):017x}",
            "name": name,
            "data": request.get("LaunchTemplateData", {}),
        }
        self.templates[region.spec.name, name] = template
        self.templates[region.spec.name, template["id"]] = template
        return {"LaunchTemplate": self._shape(template)}

    def describe_templates(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Templates by name or id, or all."""
        names = [*request.get("LaunchTemplateNames", ()), *request.get("LaunchTemplateIds", ())]
        if names:
            return {"LaunchTemplates": [self._shape(self._template(region, name)) for name in names]}
        unique = {t["id"]: t for (where, _), t in self.templates.items() if where == region.spec.name}
        return {"LaunchTemplates": [self._shape(t) for t in unique.values()]}

    def delete_template(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a template."""
        template = self._template(
            region, str(request.get("LaunchTemplateId") or request.get("LaunchTemplateName"))
        )
        for key in (template["id"], template["name"]):
            self.templates.pop((region.spec.name, key), None)
        return {"LaunchTemplate": self._shape(template)}

    def _template(self, region: Region, name: str) -> dict[str, Any]:
        found = self.templates.get((region.spec.name, name))
        if found is None:
            raise AwsError(
                "InvalidLaunchTemplateName.NotFoundException", "The specified launch template does not exist."
            )
        return found

    @staticmethod
    def _shape(template: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "LaunchTemplateId": template["id"],
            "LaunchTemplateName": template["name"],
            "DefaultVersionNumber": 1,
            "LatestVersionNumber": 1,
        }

    def create_fleet(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch up to the target over the overrides; below MinTargetCapacity nothing stays."""
        if request.get("Type") != "instant":
            raise AwsError("InvalidParameterValue", "Only fleets of type instant are offered here.")
        known = self.launcher.remembered(region, "CreateFleet", request)
        if known is not None:
            return self._answer([region.machines[key] for key in known[0]], known[1])
        target = request.get("TargetCapacitySpecification", {})
        wanted = int(target.get("TotalTargetCapacity", 0))
        spot = target.get("DefaultTargetCapacityType", "on-demand") == "spot"
        options = request.get("SpotOptions" if spot else "OnDemandOptions") or {}
        machines, errors = self._fill(region, request, wanted, options)
        if len(machines) < int(options.get("MinTargetCapacity") or 0):
            for machine in machines:
                region.end(machine, self.launcher.world.now, "Fleet below its minimum")
                del region.machines[machine.id]
            machines = []
        self.launcher.remember(region, "CreateFleet", request, [m.id for m in machines], errors)
        return self._answer(machines, errors)

    def _fill(
        self, region: Region, request: Mapping[str, Any], wanted: int, options: Mapping[str, Any]
    ) -> tuple[list[Machine], list[dict[str, Any]]]:
        machines: list[Machine] = []
        errors: list[dict[str, Any]] = []
        orders = self._orders(region, request, options, errors)
        if options.get("SingleInstanceType") or options.get("SingleAvailabilityZone"):
            orders = orders[:1]
        for order in orders:
            left = wanted - len(machines)
            if left <= 0:
                break
            try:
                allowed = region.check_quota(order.kind, order.spot, left)
                count = min(
                    allowed,
                    region.free(order.zone, order.kind.name, order.spot),
                    region.addresses_left(order.subnet),
                )
                if not count:
                    raise region.no_capacity(order.zone, order.kind.name)
            except AwsError as error:
                errors.append(_error(order.kind.name, order.subnet, error))
                continue
            machines += self.launcher.make(region, order, count)
        return machines, errors

    def _orders(
        self,
        region: Region,
        request: Mapping[str, Any],
        options: Mapping[str, Any],
        errors: list[dict[str, Any]],
    ) -> list[Order]:
        spot = request.get("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType") == "spot"
        orders: list[tuple[float, Order]] = []
        for config in request.get("LaunchTemplateConfigs", ()):
            given = config.get("LaunchTemplateSpecification", {})
            data = self._template(
                region, str(given.get("LaunchTemplateId") or given.get("LaunchTemplateName"))
            )["data"]
            for override in config.get("Overrides") or [{}]:
                launch = {
                    **data,
                    **{k: override[k] for k in ("InstanceType", "SubnetId", "ImageId") if override.get(k)},
                }
                launch["TagSpecifications"] = [
                    *data.get("TagSpecifications", ()),
                    *request.get("TagSpecifications", ()),
                ]
                if spot:
                    launch["InstanceMarketOptions"] = {
                        "MarketType": "spot",
                        "SpotOptions": {"MaxPrice": override.get("MaxPrice")},
                    }
                try:
                    order = self.launcher.order(region, launch)
                except AwsError as error:
                    errors.append(_error(str(launch.get("InstanceType")), str(launch.get("SubnetId")), error))
                    continue
                price = region.price(order.zone, order.kind.name, order.spot, self.launcher.world.now)
                prioritized = options.get("AllocationStrategy") == "prioritized"
                orders.append((float(override.get("Priority", 0)) if prioritized else float(price), order))
        return [order for _, order in sorted(orders, key=lambda each: each[0])]

    def _answer(self, machines: list[Machine], errors: list[dict[str, Any]]) -> dict[str, Any]:
        groups: dict[tuple[str, str, bool], list[str]] = {}
        for machine in machines:
            groups.setdefault((machine.kind.name, machine.subnet, machine.spot), []).append(machine.id)
        return {
            "FleetId": f"fleet-{self.launcher.world.random.getrandbits(64):016x}",
            "Instances": [
                {
                    "InstanceType": kind,
                    "InstanceIds": ids,
                    "Lifecycle": "spot" if spot else "on-demand",
                    "LaunchTemplateAndOverrides": {"Overrides": {"InstanceType": kind, "SubnetId": subnet}},
                }
                for (kind, subnet, spot), ids in groups.items()
            ],
            "Errors": errors,
        }


def _error(kind: str, subnet: str, error: AwsError) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": {"Overrides": {"InstanceType": kind, "SubnetId": subnet}},
        "Lifecycle": "on-demand",
        "ErrorCode": error.code,
        "ErrorMessage": error.message,
    }
