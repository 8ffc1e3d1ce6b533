"""Experiments in Python, in the style of 2017.

    exp = Experiment("dota-a3c", image="acme/a3c:1")
    exp.add_role("ps", replicas=2, cpu=8, memory="32Gi", spot="never")
    exp.add_role("worker", replicas=16, cpu=24, memory="64Gi")
    exp.run(mode="dry")

It is the same spec as the YAML file, with the same checks. `mode="kube"` hands the spec to a running
`quartermaster serve`: the caller gives the transport, so that this module needs no chat and no socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ValidationError

from config.source import suggestion
from fleet.errors import BadInput
from launcher import spec
from launcher.manifests import render, spec_json
from launcher.names import RunIdentity
from launcher.settings import LauncherSettings

Transport = Callable[[str], str]
"""Takes the spec as JSON, asks `serve` to launch it, returns what it answered."""
_NEEDS = frozenset(spec.Needs.model_fields)


class Experiment:
    """Collects roles, then runs them."""

    def __init__(self, name: str, **fields: Any) -> None:
        self._fields: dict[str, Any] = {"name": name, **_grouped(fields)}
        self._roles: dict[str, Any] = {}

    def add_role(self, name: str, **fields: Any) -> Experiment:
        """Add a role; `cpu`, `memory`, `gpu`, `shm`, `disk` may stand beside the role's own fields."""
        if name in self._roles:
            raise BadInput(f"The role {name!r} is there twice.", hint="Rename one of them.")
        self._roles[name] = _grouped(fields)
        return self

    def spec(self) -> spec.Experiment:
        """The checked spec. Raises BadInput with one sentence."""
        whole = {**self._fields, **({"roles": self._roles} if self._roles else {})}
        try:
            return spec.Experiment.model_validate(whole)
        except ValidationError as error:
            raise _sentence(error) from None

    def run(self, mode: Literal["dry", "kube"] = "kube", transport: Transport | None = None) -> str:
        """`dry` returns the manifests as YAML; `kube` launches through `transport` and returns its answer."""
        if mode == "dry":
            return manifests_yaml(self.spec())
        if mode != "kube":
            raise BadInput(f"There is no mode {mode!r}.", hint=suggestion(mode, ["dry", "kube"]))
        if transport is None:
            raise BadInput("mode='kube' needs a transport to a running serve.", hint="Or use mode='dry'.")
        return transport(spec_json(self.spec()))


def manifests_yaml(experiment: spec.Experiment, settings: LauncherSettings | None = None) -> str:
    """What a launch would create, as YAML documents under a placeholder run id."""
    settings = settings or LauncherSettings()
    rendered = render(experiment, RunIdentity("xxxxx", settings.namespace), settings)
    return yaml.safe_dump_all([dict(o) for o in rendered.objects], sort_keys=False)


def _grouped(fields: dict[str, Any]) -> dict[str, Any]:
    """`cpu=8` beside the role's fields means `resources={"cpu": 8}`."""
    needs = {key: value for key, value in fields.items() if key in _NEEDS}
    rest = {key: value for key, value in fields.items() if key not in _NEEDS}
    if needs:
        rest["resources"] = {**rest.get("resources", {}), **needs}
    return rest


def _sentence(error: ValidationError) -> BadInput:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        model: type[BaseModel] = spec.Role if first["loc"][0] == "roles" else spec.Experiment
        known = [*model.model_fields, *_NEEDS]
        return BadInput(f"{place} is not a field.", hint=suggestion(str(first["loc"][-1]), known))
    return BadInput(f"{place}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": "))
