"""The experiment spec: what a researcher writes, as strict models.

Field by field it is `docs/experiments.md`. Unknown keys are refused; nothing is silently rewritten; a
number that looks like a quantity is checked the way the API server would check it. Scalars of `env`
keep their source text (`3.10` is not `3.1`): `launcher.load` takes care of that before validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    model_validator,
)

from fleet.errors import BadInput
from fleet.values import Money, parse_bytes, parse_duration, parse_millicores

T = TypeVar("T")
MAX_NAME = 30
MAX_ROLE = 12
SINGLE_ROLE = "main"
"""Name of the role of an experiment that declares none."""
_MIB = 2**20


def _said(check: Callable[[Any], T]) -> Callable[[Any], T]:
    """Turn our BadInput into the ValueError that pydantic collects with its place."""

    def checked(value: Any) -> T:
        try:
            return check(value)
        except BadInput as error:
            raise ValueError(str(error)) from error

    return checked


def _dns_name(longest: int, what: str) -> Callable[[str], str]:
    form = re.compile(rf"[a-z]([a-z0-9-]{{0,{longest - 2}}}[a-z0-9])?", re.ASCII)

    def check(value: str) -> str:
        if form.fullmatch(value):
            return value
        usable = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-0123456789")[:longest].strip("-")
        advice = f" For example {usable!r}." if usable else " Nothing in it can be kept."
        raise ValueError(
            f"{value!r} is not a usable {what}: lower-case letters, digits and '-', starting with a letter, "
            f"at most {longest} characters.{advice}"
        )

    return check


def _plain_number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a quantity. Write it like 500m, 2 or 16Gi.")
    return value if isinstance(value, str) else str(Decimal(str(value)))


def _cpu(value: Any) -> str:
    text = _plain_number(value)
    if parse_millicores(text) <= 0:
        raise ValueError(f"{text!r} is no CPU at all. Write it like 500m or 2.")
    return text


def _memory(value: Any) -> str:
    text = _plain_number(value)
    if parse_bytes(text) < _MIB:
        raise ValueError(f"{text!r} is less than a mebibyte. Write it like 512Mi or {text.strip()}Gi.")
    return text


def _money(value: Any) -> Money:
    if isinstance(value, Money):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not an amount of dollars. Write it like 1204.18 or 1.5k.")
    amount = Money.usd(str(value))
    if amount <= Money.zero():
        raise ValueError(f"{value!r} would allow nothing. Write an amount above 0.")
    return amount


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a duration. Write it like 45s, 90m, 1h30m or 2d.")
    length = parse_duration(value)
    if length <= timedelta(0):
        raise ValueError(f"{value!r} is no time at all. Write it like 45s, 90m, 1h30m or 2d.")
    return length


def _label_value(value: Any) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", text, re.ASCII):
        raise ValueError(
            f"{value!r} is not a label value: up to 63 letters, digits, '-', '_' and '.', "
            "starting and ending with a letter or digit."
        )
    return text


def _text(value: Any) -> str:
    if value is None:
        raise ValueError('It has no value. Write "" for an empty one.')
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not text.")
    return str(value)


def _volume(value: str) -> str:
    kind, _, rest = value.partition(":")
    if kind == "pvc" and re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", rest):
        return value
    if kind == "empty" and rest:
        _memory(rest)
        return value
    raise ValueError(f"{value!r} is not a volume. Write it like pvc:NAME or empty:10Gi.")


ExperimentName = Annotated[str, AfterValidator(_dns_name(MAX_NAME, "experiment name"))]
RoleName = Annotated[str, AfterValidator(_dns_name(MAX_ROLE, "role name"))]
Cpu = Annotated[str, BeforeValidator(_said(_cpu))]
Memory = Annotated[str, BeforeValidator(_said(_memory))]
Amount = Annotated[Money, PlainValidator(_said(_money)), PlainSerializer(lambda money: money.exact())]
Length = Annotated[
    timedelta,
    PlainValidator(_said(_duration)),
    PlainSerializer(lambda length: f"{int(length.total_seconds())}s"),
]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, BeforeValidator(_text)]
SecretRef = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._-]+$")]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^:\x00]*$")]
VolumeSource = Annotated[str, AfterValidator(_said(_volume))]
PortName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Command = str | list[Text]
Spot = Literal["prefer", "require", "never"]
Priority = Literal["low", "normal", "high"]


class Model(BaseModel):
    """Strict, closed and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class Needs(Model):
    """What one replica asks for. `memory`, `shm`, `disk` are bytes in Kubernetes notation."""

    cpu: Cpu = "1"
    memory: Memory = "2Gi"
    gpu: Annotated[int, Field(ge=0, le=16)] = 0
    gpu_type: Annotated[str, AfterValidator(_label_value)] | None = None
    shm: Memory | None = None
    disk: Memory | None = None


class Sidecar(Model):
    """A container that starts before the role's own, ends with it, and does not hold the job open."""

    image: str
    command: Command | None = None
    env: dict[EnvName, Text] = Field(default_factory=dict)
    ports: dict[PortName, Port] = Field(default_factory=dict)
    resources: Needs = Field(default_factory=lambda: Needs(cpu="100m", memory="128Mi"))


class PlacementSpec(Model):
    """`zone: same` keeps a run in one zone; `spread` prefers one replica a node."""

    zone: Literal["any", "same"] = "any"
    spread: bool = False


class Checkpoint(Model):
    """Where work is saved, and how long (seconds) a replica needs for it after SIGTERM."""

    path: Annotated[str, Field(min_length=1)]
    grace: Annotated[int, Field(ge=1, le=3600)] = 120


class Limits(Model):
    """What the whole experiment may take, all retries and trials included."""

    max_cost: Amount | None = None
    max_hours: Annotated[float, Field(gt=0, le=8760)] | None = None
    """hours of running, not of waiting"""
    max_nodes: Positive | None = None
    max_gpus: Annotated[int, Field(ge=0)] | None = None
    max_cores: Positive | None = None
    idle_minutes: Positive | None = None


class Sweep(Model):
    """One trial an index. `params` hold lists, or `{range: [from, to, step?]}`, `{uniform: [low, high]}`,
    `{log_uniform: [low, high]}`."""

    method: Literal["grid", "list", "random"] = "grid"
    params: Annotated[dict[str, Any], Field(min_length=1)]
    samples: Positive | None = None
    seed: int = 0
    max_parallel: Annotated[int, Field(ge=1, le=100_000)] = 16
    max_trials: Annotated[int, Field(ge=1, le=100_000)] = 100
    max_failed: Annotated[int, Field(ge=0)] | None = None


class Role(Model):
    """One kind of replica. What a role leaves out it takes from the experiment."""

    image: Annotated[str, Field(min_length=1)] | None = None
    command: Command | None = None
    env: dict[EnvName, Text] = Field(default_factory=dict)
    secrets: dict[EnvName, SecretRef] = Field(default_factory=dict)
    volumes: dict[AbsolutePath, VolumeSource] = Field(default_factory=dict)
    ports: dict[PortName, Port] = Field(default_factory=dict)
    resources: Needs = Field(default_factory=Needs)
    replicas: Annotated[int, Field(ge=1, le=100_000)] = 1
    min_replicas: Positive | None = None
    retries: Annotated[int, Field(ge=0, le=1000)] = 2
    """application failures only; disruptions do not count"""
    sidecars: dict[RoleName, Sidecar] = Field(default_factory=dict)
    placement: PlacementSpec = Field(default_factory=PlacementSpec)
    spot: Spot = "prefer"
    overrides: dict[str, Any] = Field(default_factory=dict)
    """raw overlay on the pod template, merged last and shown in the plan"""

    @model_validator(mode="after")
    def _consistent(self) -> Role:
        if self.min_replicas is not None and self.min_replicas > self.replicas:
            raise ValueError(
                f"min_replicas ({self.min_replicas}) is above replicas ({self.replicas}). Lower it, or start more."
            )
        reserved = sorted(name for name in self.env if name.startswith("QM_"))
        if reserved:
            raise ValueError(
                f"{reserved[0]} is set by Quartermaster. Choose a name that does not start with QM_."
            )
        return self

    @property
    def elastic(self) -> bool:
        """It may be scaled while it runs."""
        return self.min_replicas is not None


_ROLES_EXCLUDE = ("command", "replicas", "min_replicas", "ports", "sidecars")
_MERGED = ("env", "secrets", "volumes")
_INHERITED = ("image", "resources", "retries", "placement", "spot")


class Experiment(Role):
    """What a person launches. Role fields at the top are the defaults of every role."""

    name: ExperimentName
    roles: dict[RoleName, Role] = Field(default_factory=dict)
    success: list[RoleName] = Field(default_factory=list)
    """roles whose completion completes the run; all where empty"""
    sweep: Sweep | None = None
    checkpoint: Checkpoint | None = None
    priority: Priority = "normal"
    clusters: list[str] = Field(default_factory=list)
    limits: Limits = Field(default_factory=Limits)
    keep: Length = timedelta(days=7)
    """how long finished objects stay"""
    tags: dict[
        Annotated[str, AfterValidator(_label_value)], Annotated[str, BeforeValidator(_label_value)]
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        twice = sorted(set(_ROLES_EXCLUDE) & self.model_fields_set) if self.roles else []
        if twice:
            raise ValueError(f"{twice[0]} stands beside roles. Move it into the role that it is about.")
        unknown = [role for role in self.success if role not in self.resolved()]
        if unknown:
            raise ValueError(
                f"success names {unknown[0]!r}, which is not one of the roles: {', '.join(self.resolved())}."
            )
        if self.sweep is not None and len(self.roles) > 1:
            raise ValueError(
                f"A sweep has one role, and this has {len(self.roles)}. Leave one, or drop the sweep."
            )
        for name, role in self.resolved().items():
            if role.image is None:
                raise ValueError(f"Role {name!r} has no image. Give it one, or one to the experiment.")
        return self

    def resolved(self) -> dict[str, Role]:
        """Every role with what it inherits, in the order written; a lone experiment is the role `main`."""
        if not self.roles:
            fields = {name: getattr(self, name) for name in Role.model_fields}
            return {SINGLE_ROLE: Role.model_construct(**fields)}
        return {name: self._inherit(role) for name, role in self.roles.items()}

    def _inherit(self, role: Role) -> Role:
        fields: dict[str, Any] = {name: getattr(role, name) for name in Role.model_fields}
        for name in _INHERITED:
            if name not in role.model_fields_set:
                fields[name] = getattr(self, name)
        for name in _MERGED:
            fields[name] = {**getattr(self, name), **fields[name]}
        fields["overrides"] = merged(self.overrides, role.overrides)
        return Role.model_construct(**fields)


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A deep merge: mappings merge, lists of named things merge by name, null removes, the rest replaces."""
    result: dict[str, Any] = dict(base)
    for key, value in overlay.items():
        there = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(there, Mapping) and isinstance(value, Mapping):
            result[key] = merged(there, value)
        elif _named(there) and _named(value):
            result[key] = _merged_by_name(there, value)
        else:
            result[key] = value
    return result


def _named(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) and "name" in v for v in value)
    )


def _merged_by_name(base: Any, overlay: Any) -> list[dict[str, Any]]:
    found = {item["name"]: dict(item) for item in base}
    for item in overlay:
        found[item["name"]] = merged(found.get(item["name"], {}), item)
    return list(found.values())
