"""Launch templates: parameters under a name, one version each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.region import Region
from sandbox.world import World

Action = Callable[[Region, Mapping[str, Any]], dict[str, Any]]
_VERSIONS = ("$Latest", "$Default", "1", "")


@dataclass
class Templates:
    """The templates of all regions."""

    world: World
    known: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """(region, id) → its shape and `data`"""

    def actions(self) -> dict[str, Action]:
        """By name."""
        return {
            "CreateLaunchTemplate": self.create,
            "DescribeLaunchTemplates": self.describe,
            "DeleteLaunchTemplate": self.delete,
        }

    def create(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """A template by name."""
        name = str(request.get("LaunchTemplateName", ""))
        if not 3 <= len(name) <= 128:
            raise AwsError(
                "InvalidLaunchTemplateName.MalformedException",
                "A launch template name has 3 to 128 characters.",
            )
        if any(t["LaunchTemplateName"] == name for t in self._of(region)):
            raise AwsError(
                "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."
            )
        identity = f"lt-{self.world.random.getrandbits(68):017x}"
        template = {
            "LaunchTemplateId": identity,
            "LaunchTemplateName": name,
            "CreateTime": self.world.now,
            "DefaultVersionNumber": 1,
            "LatestVersionNumber": 1,
            "data": request.get("LaunchTemplateData", {}),
        }
        self.known[region.spec.name, identity] = template
        return {"LaunchTemplate": _shape(template)}

    def describe(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Templates by name or id, or all."""
        asked = [{"LaunchTemplateName": name} for name in request.get("LaunchTemplateNames", ())]
        asked += [{"LaunchTemplateId": identity} for identity in request.get("LaunchTemplateIds", ())]
        found = [self._find(region, each) for each in asked] if asked else self._of(region)
        return {"LaunchTemplates": [_shape(template) for template in found]}

    def delete(self, region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a template; what was launched from it stays."""
        template = self._find(region, request)
        del self.known[region.spec.name, template["LaunchTemplateId"]]
        return {"LaunchTemplate": _shape(template)}

    def data(self, region: Region, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that a LaunchTemplateSpecification names; AwsError where there are none."""
        template = self._find(region, given)
        if str(given.get("Version", "")) not in _VERSIONS:
            raise AwsError(
                "InvalidLaunchTemplateId.VersionNotFound",
                f"Could not find the specified version {given['Version']} for the launch template.",
            )
        return dict(template["data"])

    def specification(self, region: Region, given: Mapping[str, Any]) -> dict[str, Any]:
        """How an answer names the template."""
        template = self._find(region, given)
        return {"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}

    def _of(self, region: Region) -> list[dict[str, Any]]:
        return [template for (where, _), template in self.known.items() if where == region.spec.name]

    def _find(self, region: Region, given: Mapping[str, Any]) -> dict[str, Any]:
        identity = str(given.get("LaunchTemplateId") or "")
        name = str(given.get("LaunchTemplateName") or "")
        if bool(identity) == bool(name):
            raise AwsError(
                "MissingParameter", "Either a launch template name or its ID must be given, not both."
            )
        for template in self._of(region):
            if identity == template["LaunchTemplateId"] or name == template["LaunchTemplateName"]:
                return template
        if identity:
            raise AwsError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {identity}, does not exist.",
            )
        raise AwsError(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )


def _shape(template: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in template.items() if key != "data"}
