"""The settings: one YAML file, typed, with the file and line of every value in its errors.

This module knows clusters, pools, people, teams and caps. Each package owns the model of its own section
(`guard:`, `scaler:`, `launcher:`, `slack:`) and hands it to `load_settings`, which validates all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, create_model, field_validator, model_validator

from config.fields import Dollars, Strict, Zone
from config.source import Document, load_yaml, validate
from fleet.errors import BadInput
from fleet.model import CapacityType, Taint
from fleet.pools import Pool, Region
from fleet.pools import Zone as PoolZone
from fleet.values import Money

Section = TypeVar("Section", bound=BaseModel)
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
ROLES = ("researcher", "lead", "operator", "admin")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            "a name has lower-case letters, digits and -, starts with a letter, at most 40 characters"
        )
    return value


class ClusterSettings(Strict):
    """One Kubernetes API."""

    name: str
    """how settings, cards and labels call it"""
    kubeconfig: Path | None = None
    """file with address and credentials, relative to the settings file"""
    context: str | None = None
    """context of the kubeconfig; its current one where not given"""
    in_cluster: bool = False
    """serve runs inside this cluster, under its service account"""
    home: bool = False
    """the cluster that holds our Lease; the first one where none says so"""
    governed: tuple[str, ...] = ()
    """namespaces in which Quartermaster may act (they must also carry quartermaster.dev/governed=true)"""
    join_endpoint: str = ""
    """address that machines join at, where it differs from the kubeconfig's"""

    _check_name = field_validator("name")(_name)

    @model_validator(mode="after")
    def _one_way_in(self) -> ClusterSettings:
        if self.in_cluster == (self.kubeconfig is not None):
            raise ValueError("give either kubeconfig: PATH or in_cluster: true")
        return self


class ZoneSettings(Strict):
    """A zone and the subnet in it."""

    name: str
    """e.g. `us-west-2a`"""
    subnet: str
    """machines in this zone are launched into it"""


class RegionSettings(Strict):
    """One region of a pool."""

    name: str
    """e.g. `us-west-2`"""
    image: str
    """AMI of the region"""
    zones: tuple[ZoneSettings, ...] = Field(min_length=1)
    """zones that may be bought in"""
    security_groups: tuple[str, ...] = ()
    """of new machines"""
    max_nodes: int | None = Field(default=None, ge=0)
    """at most this many machines in the region; none = the pool's limit alone"""


class TaintSettings(Strict):
    """A taint on new nodes."""

    key: str
    """of the taint"""
    value: str = ""
    """of the taint"""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """what it keeps away"""


class PoolSettings(Strict):
    """What a cluster may add nodes from. On-premises pools cannot grow; they give their nodes a rate."""

    name: str
    """tag and label of its machines"""
    cluster: str
    """the cluster that its machines join"""
    provider: Literal["aws", "onprem"]
    """`aws` buys machines; `onprem` prices those that exist"""
    regions: tuple[RegionSettings, ...] = ()
    """in order of preference: the next one is tried when one has no capacity"""
    instance_types: tuple[str, ...] = ()
    """what may be bought; the planner chooses among them"""
    capacity_types: tuple[Literal["on-demand", "spot"], ...] = ("on-demand",)
    """what an experiment's `spot:` may choose from"""
    max_nodes: int | None = Field(default=None, ge=0)
    """at most this many machines; none = no limit but the caps"""
    instance_profile: str = ""
    """IAM instance profile of new machines"""
    user_data: str = ""
    """template that makes a machine join; `{endpoint}` `{token}` `{labels}` `{taints}` are filled in"""
    labels: dict[str, str] = Field(default_factory=dict)
    """further labels of new nodes"""
    taints: tuple[TaintSettings, ...] = ()
    """of new nodes"""
    selector: dict[str, str] = Field(default_factory=dict)
    """on-premises: labels of the nodes that belong to the pool"""
    price_per_hour: Dollars | None = None
    """on-premises: what one node costs an hour"""

    _check_name = field_validator("name")(_name)

    @model_validator(mode="after")
    def _complete(self) -> PoolSettings:
        if self.provider == "aws" and not (self.regions and self.instance_types):
            raise ValueError("an aws pool needs regions: and instance_types:")
        if self.provider == "onprem" and not (self.selector and self.price_per_hour is not None):
            raise ValueError("an onprem pool needs selector: (labels of its nodes) and price_per_hour:")
        return self

    def pool(self) -> Pool:
        """The value that adapters and planner read."""
        return Pool(
            name=self.name,
            cluster=self.cluster,
            provider=self.provider,
            regions=tuple(
                Region(
                    r.name,
                    tuple(PoolZone(z.name, z.subnet) for z in r.zones),
                    r.image,
                    r.security_groups,
                    r.max_nodes,
                )
                for r in self.regions
            ),
            instance_types=self.instance_types,
            capacity_types=tuple(CapacityType(kind) for kind in self.capacity_types),
            max_nodes=self.max_nodes,
            instance_profile=self.instance_profile,
            user_data=self.user_data,
            labels=dict(self.labels),
            taints=tuple(Taint(t.key, t.value, t.effect) for t in self.taints),
            selector=dict(self.selector),
            hourly=self.price_per_hour,
        )


class PersonSettings(Strict):
    """Somebody the product knows."""

    id: str
    """Slack user id"""
    name: str
    """as cards call them"""
    team: str = ""
    """one of `teams`"""
    roles: tuple[Literal["researcher", "lead", "operator", "admin"], ...] = ("researcher",)
    """a lead answers for the own team, an operator acts on every run, an admin does both and sets every cap"""
    system_user: str = ""
    """name on the machine that runs serve (peer of the control socket)"""
    kubernetes: str = ""
    """user name in the clusters, for work that was created with kubectl"""
    approval_limit: Dollars = Money(0)
    """how much this person may add to a cap in one approval"""


class TeamSettings(Strict):
    """A team and the channel that its messages go to."""

    name: str
    """as people, caps and labels name it"""
    channel: str = ""
    """id of its Slack channel; the fleet's where not given"""

    _check_name = field_validator("name")(_name)


class CapScope(Strict):
    """Exactly one of these."""

    fleet: bool = False
    """everything"""
    cluster: str = ""
    """one of `clusters`"""
    region: str = ""
    """a provider's region"""
    team: str = ""
    """one of `teams`"""
    person: str = ""
    """a person's id"""
    experiment: str = ""
    """all runs of this experiment"""

    @model_validator(mode="after")
    def _exactly_one(self) -> CapScope:
        if sum(bool(value) for value in self.model_dump().values()) != 1:
            raise ValueError(
                "a cap has exactly one scope: fleet: true, or cluster, region, team, person or experiment: NAME"
            )
        return self

    @property
    def pair(self) -> tuple[str, str]:
        """`("team", "vision")`; the fleet is `("fleet", "")`."""
        kind, value = next((kind, value) for kind, value in self.model_dump().items() if value)
        return kind, "" if kind == "fleet" else str(value)


class CapSettings(Strict):
    """A cap in dollars. A limit of 0 means zero; no cap is no entry."""

    name: str
    """as cards and `/exp caps` call it"""
    scope: CapScope
    """what it covers"""
    limit: Dollars
    """at 100 % work has stopped"""
    window: Literal["total", "day", "week", "month"] = "month"
    """what the limit is for; it starts again at the window's end"""
    zone: Zone | None = None
    """None = UTC"""
    kill: bool = False
    """a pause that failed (or work that cannot be paused) may be killed"""
    raised_by: tuple[str, ...] = ("lead", "admin")
    """role names or person ids that may approve more"""

    _check_name = field_validator("name")(_name)


class CoreSettings(Strict):
    """Everything but the packages' own sections."""

    data_dir: Path | None = None
    """folder of the database and the control socket; `$QM_DATA_DIR` where not given"""
    clusters: tuple[ClusterSettings, ...] = Field(min_length=1)
    """the fleet"""
    pools: tuple[PoolSettings, ...] = ()
    """what the clusters may add nodes from"""
    people: tuple[PersonSettings, ...] = ()
    """who is known; everybody else may only read"""
    teams: tuple[TeamSettings, ...] = ()
    """groups of people with a channel"""
    caps: tuple[CapSettings, ...] = ()
    """limits in dollars; one that changed here applies at the next start, others stay as people set them"""


class Settings:
    """The validated file: `core`, one model a section, and where it came from."""

    def __init__(self, core: CoreSettings, sections: Mapping[str, BaseModel], document: Document) -> None:
        self.core = core
        self._sections = dict(sections)
        self.document = document
        self.folder = Path(document.name).resolve().parent

    def section(self, name: str, model: type[Section]) -> Section:
        """A package's own settings."""
        found = self._sections[name]
        if not isinstance(found, model):
            raise TypeError(f"section {name} is a {type(found).__name__}, not a {model.__name__}")
        return found

    def resolve(self, path: Path) -> Path:
        """A path in the file is relative to the file's folder."""
        return path if path.is_absolute() else self.folder / path

    @property
    def home(self) -> ClusterSettings:
        """The cluster that holds our Lease."""
        return next((c for c in self.core.clusters if c.home), self.core.clusters[0])

    def pools(self) -> tuple[Pool, ...]:
        """All pools as values."""
        return tuple(entry.pool() for entry in self.core.pools)


def load_settings(path: Path, sections: Mapping[str, type[BaseModel]]) -> Settings:
    """Read and check a settings file. `sections` maps a top-level key to the model of the package that owns it.

    Raises BadInput: one sentence with file:line.
    """
    return settings_from(load_yaml(path), sections)


def settings_from(document: Document, sections: Mapping[str, type[BaseModel]]) -> Settings:
    """Settings from a document that is read already (scenarios hold theirs inline)."""
    if document.data is None:
        raise BadInput(
            "The settings file is empty.", where=document.where(), hint="It needs at least `clusters:`."
        )
    fields: dict[str, Any] = {name: (model, Field(default_factory=model)) for name, model in sections.items()}
    whole = create_model("SettingsFile", __base__=CoreSettings, **fields)
    found = validate(document, whole)
    core = CoreSettings.model_construct(**{name: getattr(found, name) for name in CoreSettings.model_fields})
    _check_references(core, document)
    return Settings(core, {name: getattr(found, name) for name in sections}, document)


def _check_references(core: CoreSettings, document: Document) -> None:
    """Names that stand for something must stand for something that exists, and only once."""
    for part in ("clusters", "pools", "teams", "caps"):
        _unique([entry.name for entry in getattr(core, part)], part, "name", document)
    _unique([person.id for person in core.people], "people", "id", document)
    clusters = {c.name for c in core.clusters}
    teams = {t.name for t in core.teams}
    for index, pool in enumerate(core.pools):
        if pool.cluster not in clusters:
            _unknown(document, ("pools", index, "cluster"), pool.cluster, "cluster", clusters)
    for index, person in enumerate(core.people):
        if person.team and person.team not in teams:
            _unknown(document, ("people", index, "team"), person.team, "team", teams)
    for index, cap in enumerate(core.caps):
        kind, value = cap.scope.pair
        if kind == "team" and value not in teams:
            _unknown(document, ("caps", index, "scope", "team"), value, "team", teams)
        if kind == "cluster" and value not in clusters:
            _unknown(document, ("caps", index, "scope", "cluster"), value, "cluster", clusters)
        _check_raisers(core, document, index)
    if sum(c.home for c in core.clusters) > 1:
        raise BadInput(
            "More than one cluster says home: true.", where=document.where(("clusters",)), hint="Keep one."
        )


def _check_raisers(core: CoreSettings, document: Document, index: int) -> None:
    """A cap that nobody could ever raise is a mistake to be told now, not at three in the morning."""
    cap = core.caps[index]
    able = [p for p in core.people if p.id in cap.raised_by or set(p.roles) & set(cap.raised_by)]
    if core.people and not able:
        raise BadInput(
            f"Nobody in people: could approve more for the cap {cap.name} (raised_by: {', '.join(cap.raised_by)}).",
            where=document.where(("caps", index)),
            hint="Name a person id or a role that somebody has.",
        )


def _unique(names: list[str], part: str, key: str, document: Document) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise BadInput(
                f"{part} has the {key} {name!r} twice.",
                where=document.where((part, index, key)),
                hint="Rename one.",
            )


def _unknown(
    document: Document, place: tuple[str | int, ...], value: str, what: str, known: set[str]
) -> None:
    names = ", ".join(sorted(known)) or "none yet"
    raise BadInput(f"There is no {what} {value!r}.", where=document.where(place), hint=f"Known: {names}.")
