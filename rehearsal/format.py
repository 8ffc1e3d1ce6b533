"""The scenario format: a world, a timeline of steps, and what is expected when. See docs/scenarios.md.

One file, checked whole before anything starts; a mistake is one sentence with file and line. Times are
offsets from the scenario's start (`90m`, `1h30m`, `2d`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from config.fields import Dollars, Duration, Strict
from config.source import Document, load_yaml, validate
from fleet.errors import BadInput
from fleet.values import format_duration, utc


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return utc(str(value))
    except BadInput as error:
        raise ValueError(str(error)) from None


Subject = TypeVar("Subject", bound=Strict)
Moment = Annotated[datetime, BeforeValidator(_moment)]


class NodeGroup(Strict):
    """On-premises nodes that exist from the start: `count` of them, named `<name>-<n>`."""

    name: str
    count: int = Field(default=1, ge=1, le=5000)
    cpu: str
    memory: str
    gpus: int = Field(default=0, ge=0)
    labels: dict[str, str] = Field(default_factory=dict)
    zone: str = ""


class ClusterWorld(Strict):
    """One Kubernetes cluster of the world."""

    name: str = "home"
    namespaces: tuple[str, ...] = ("research",)
    """created and labelled as governed"""
    other_namespaces: tuple[str, ...] = ()
    """created and not governed"""
    nodes: tuple[NodeGroup, ...] = ()


class OfferWorld(Strict):
    """What one zone sells of one instance type."""

    price: Dollars
    """on-demand, per hour"""
    spot: Dollars | None = None
    capacity: int = Field(ge=0, le=100_000)
    spot_capacity: int = Field(default=0, ge=0, le=100_000)


class RegionWorld(Strict):
    """One cloud region: zones with offers by instance type, and quotas in vCPU by family group."""

    zones: dict[str, dict[str, OfferWorld]]
    quotas: dict[str, int] = Field(default_factory=dict)
    never_joins: tuple[str, ...] = ()
    """zones whose machines start and bill, and never reach their cluster"""

    @model_validator(mode="after")
    def _known_zones(self) -> RegionWorld:
        unknown = [zone for zone in self.never_joins if zone not in self.zones]
        if unknown:
            raise ValueError(
                f"never_joins: there is no zone {unknown[0]!r}; there are {', '.join(self.zones)}"
            )
        return self


class CloudWorld(Strict):
    """The cloud: regions, and how long machines take to boot."""

    regions: dict[str, RegionWorld] = Field(default_factory=dict)
    boot: Duration = timedelta(seconds=90)
    gpus_ready: Duration | None = None
    """GPUs appear on a node this long after it joined; null = with it"""
    bill_after: Duration = timedelta(hours=24)
    """a day's bill appears this long after the day ended"""


class PersonWorld(Strict):
    """Somebody in the chat workspace. Who may do what is in the settings' `people:`."""

    id: str
    name: str
    kind: Literal["member", "admin", "guest", "external", "deactivated"] = "member"


class ChatWorld(Strict):
    """The chat workspace. People of the settings are in it by themselves."""

    channels: tuple[str, ...] = ("research",)
    people: tuple[PersonWorld, ...] = ()


class WorldSection(Strict):
    """Everything outside the product."""

    clusters: tuple[ClusterWorld, ...] = (ClusterWorld(),)
    cloud: CloudWorld = CloudWorld()
    chat: ChatWorld = ChatWorld()


class Slash(Strict):
    """Somebody types a command."""

    by: str
    text: str
    channel: str = "research"


class Click(Strict):
    """Somebody presses a button of the newest message that has it and contains `on`.

    `Approve` also finds `Approve $25.00`.
    """

    by: str
    button: str
    on: str = ""
    channel: str = "research"


class ObjectStep(Strict):
    """A change somebody makes with kubectl."""

    kind: str
    name: str
    namespace: str = "research"
    cluster: str = "home"
    patch: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None


class Finish(Strict):
    """A job's running pods end now with this exit code."""

    experiment: str
    exit_code: int = Field(default=0, ge=0, le=255)
    count: int | None = Field(default=None, ge=1)
    cluster: str = "home"


class OfferChange(Strict):
    """The cloud changes what it has or asks."""

    region: str
    zone: str = ""
    """empty = every zone of the region"""
    instance_type: str
    capacity: int | None = Field(default=None, ge=0)
    price: Dollars | None = None
    spot: Dollars | None = None


class Fault(Strict):
    """Something breaks. `lasts` ends it by itself."""

    kind: Literal[
        "api-down",
        "cloud-down",
        "slack-down",
        "slack-429",
        "lost-ack",
        "drop-sockets",
        "drop-watches",
        "expire-watches",
        "cloud-error",
        "kill",
        "asleep",
        "full-disk",
        "clock-jump",
    ]
    cluster: str = "home"
    region: str = ""
    lasts: Duration | None = None
    times: int = Field(default=1, ge=1)
    code: str = "RequestLimitExceeded"
    """of a cloud-error: what the next calls of `call` are answered"""
    call: str = "RunInstances"
    ahead: Duration = timedelta(0)
    behind: Duration = timedelta(0)
    """of a clock-jump: how wrong the product's clock is from here on"""

    @model_validator(mode="after")
    def _ends(self) -> Fault:
        if self.kind in ("asleep", "full-disk") and self.lasts is None:
            raise ValueError(f"say how long: {self.kind} has lasts:")
        jumps = bool(self.ahead) + bool(self.behind)
        if jumps != (self.kind == "clock-jump"):
            raise ValueError("say ahead: or behind: of a clock-jump, one of them, and of nothing else")
        return self


class Step(Strict):
    """One thing that happens at one time."""

    at: Duration
    by: str = ""
    """whose step this is, where the action does not say"""
    slash: Slash | None = None
    click: Click | None = None
    create: ObjectStep | None = None
    patch: ObjectStep | None = None
    delete: ObjectStep | None = None
    finish: Finish | None = None
    offer: OfferChange | None = None
    fault: Fault | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Step:
        return _exactly_one(
            self, ("slash", "click", "create", "patch", "delete", "finish", "offer", "fault"), "step"
        )

    @property
    def person(self) -> str:
        """Who does it; empty for what happens by itself."""
        said = self.slash or self.click
        return said.by if said else self.by


class Bounds(Strict):
    """A number that must hold: `is`, or between `at_least` and `at_most`."""

    equals: int | None = None
    at_least: int | None = None
    at_most: int | None = None

    @model_validator(mode="after")
    def _something(self) -> Bounds:
        if self.equals is None and self.at_least is None and self.at_most is None:
            raise ValueError("say equals, at_least or at_most")
        return self


class Spend(Strict):
    """What the ledger says was spent; without experiment and team, by nobody that is known."""

    experiment: str = ""
    team: str = ""
    at_least: Dollars | None = None
    at_most: Dollars | None = None


class Pods(Bounds):
    """How many pods of an experiment, or of a namespace, are in a phase."""

    experiment: str = ""
    namespace: str = ""
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "any"] = "Running"
    cluster: str = "home"


class Nodes(Bounds):
    """How many nodes a cluster has (in a region, with a name that begins so, cordoned or not)."""

    cluster: str = "home"
    region: str = ""
    named: str = ""
    cordoned: bool | None = None


class Machines(Bounds):
    """How many machines the cloud has, or has ever had."""

    region: str = ""
    zone: str = ""
    instance_type: str = ""
    state: Literal["running", "ended", "any"] = "running"


class Messages(Bounds):
    """How many messages in a channel (and its threads) contain a text; with `to`, of those only they see."""

    channel: str = "research"
    contains: str
    to: str = ""


class Decisions(Bounds):
    """How many decisions of a kind there are about an experiment."""

    kind: str
    experiment: str = ""
    state: str = "announced"


class WorkState(Strict):
    """How an experiment stands, read from the cluster's API."""

    experiment: str
    is_: Literal["running", "pausing", "paused", "done", "killed", "gone"] = Field(alias="is")
    cluster: str = "home"


class Expectation(Strict):
    """One thing that must be true at one time."""

    at: Duration
    spend: Spend | None = None
    pods: Pods | None = None
    nodes: Nodes | None = None
    machines: Machines | None = None
    messages: Messages | None = None
    decisions: Decisions | None = None
    work: WorkState | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> Expectation:
        subjects = ("spend", "pods", "nodes", "machines", "messages", "decisions", "work")
        return _exactly_one(self, subjects, "expectation")


def _exactly_one(entry: Subject, names: tuple[str, ...], what: str) -> Subject:
    given = [name for name in names if getattr(entry, name) is not None]
    if len(given) != 1:
        raise ValueError(f"a {what} has at: and exactly one of {', '.join(names)}")
    return entry


Invariant = Literal[
    "ledger-exact", "no-double-purchase", "nothing-bought-while-paused", "system-pods-untouched"
]


RESERVED_FILES = ("quartermaster.yaml", "data", "serve.log")


class Scenario(Strict):
    """A whole scenario."""

    name: str
    about: str = ""
    seed: int = Field(default=1, ge=0)
    start: Moment
    lasts: Duration
    world: WorldSection = WorldSection()
    settings: dict[str, Any]
    """the product's settings file; clusters, and images, subnets and user data of pools, are filled in"""
    files: dict[str, str] = Field(default_factory=dict)
    """files beside the settings, by relative path: the experiments"""
    steps: tuple[Step, ...] = ()
    expect: tuple[Expectation, ...] = ()
    invariants: tuple[Invariant, ...] = (
        "ledger-exact",
        "no-double-purchase",
        "nothing-bought-while-paused",
        "system-pods-untouched",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Scenario:
        for at in [step.at for step in self.steps] + [expectation.at for expectation in self.expect]:
            if at > self.lasts:
                raise ValueError(
                    f"something is at {format_duration(at)}, after the scenario's end ({format_duration(self.lasts)})"
                )
        for name in self.files:
            _check_file_name(name)
        return self


def _check_file_name(name: str) -> None:
    """Files stay beside the settings, and never stand in for what the sandbox itself writes there."""
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        raise ValueError(f"files: {name!r} must stay beside the settings")
    if parts and (parts[0].startswith(("kubeconfig", ".")) or parts[0] in RESERVED_FILES):
        raise ValueError(f"files: {name!r} is written by the sandbox itself; choose another name")


def load_scenario(path: Path) -> tuple[Scenario, Document]:
    """Read and check a scenario file. Raises BadInput: one sentence with file:line."""
    document = load_yaml(path)
    return validate(document, Scenario), document
