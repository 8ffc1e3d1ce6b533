"""Ports: what the deciding packages need from the outside and from each other, as Protocols.

Every implementation of a port passes the contract tests in `tests/contracts/`. Errors are those of
`fleet.errors`, and their type decides what happens next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from fleet.budget import HoldAnswer as HoldAnswer
from fleet.budget import HoldKind as HoldKind
from fleet.budget import HoldRequest as HoldRequest
from fleet.budget import Misfit as Misfit
from fleet.budget import Scope as Scope
from fleet.model import CapacityType, ClusterSnapshot, Instance, Offer, Person, Ref
from fleet.values import Money

Manifest = Mapping[str, Any]
"""A Kubernetes object as plain JSON values."""


class Clock(Protocol):
    """World time. The real one reads the machine; the other follows a sandbox's world."""

    def now(self) -> datetime:
        """Aware UTC."""
        ...

    def wait_until(self, moment: datetime, wake: Callable[[], bool]) -> datetime:
        """Block until the moment, or until `wake()` turns true or `nudge()` is called; returns now."""
        ...

    def nudge(self) -> None:
        """End a `wait_until` early, from another thread: there is something to do."""
        ...


class ClusterView(Protocol):
    """A live copy of one cluster, kept by list + watch."""

    name: str

    def snapshot(self, now: datetime) -> ClusterSnapshot:
        """The cluster as last seen; `synced` False before the first full list, `stale_since` when cut off."""
        ...

    def wait_synced(self, timeout: float) -> bool:
        """Wait (real seconds) for the first full list of every kind."""
        ...

    def close(self) -> None:
        """End the watches."""
        ...


class Objects(Protocol):
    """Reading and changing objects of one cluster. Raises the types of `fleet.errors`."""

    cluster: str

    def get(self, ref: Ref) -> dict[str, Any]:
        """The object; NotFound where it is not there."""
        ...

    def list(
        self, api_version: str, kind: str, namespace: str = "", labels: str = ""
    ) -> list[dict[str, Any]]:
        """All objects of a kind (all pages); `labels` is a label selector."""
        ...

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> dict[str, Any]:
        """Create; Conflict where the name is taken."""
        ...

    def apply(self, manifest: Manifest, *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply with force under a field manager."""
        ...

    def merge_patch(self, ref: Ref, patch: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """JSON merge patch; put metadata.resourceVersion into the patch to be refused on a change."""
        ...

    def delete(self, ref: Ref, *, grace_seconds: int | None = None, propagation: str = "Background") -> None:
        """Delete; a missing object is fine. With a uid in `ref` only that very object."""
        ...

    def evict(self, ref: Ref) -> None:
        """Evict a pod through the eviction API (respects PDBs: Throttled where one refuses)."""
        ...

    def logs(self, ref: Ref, *, container: str = "", tail: int = 100) -> str:
        """Last lines of a pod's log."""
        ...


class Lease(Protocol):
    """One holder at a time, with an epoch that grows with every change of holder."""

    def acquire(self, now: datetime) -> bool:
        """Take or renew; False while somebody else holds it."""
        ...

    def release(self) -> None:
        """Give it up on a clean stop."""
        ...

    @property
    def epoch(self) -> int:
        """leaseTransitions at our last acquire."""
        ...

    @property
    def holder(self) -> str:
        """Who holds it, as last seen."""
        ...


@dataclass(frozen=True, slots=True)
class Quota:
    """vCPUs of one family group in one region; `limit` None = not known."""

    provider: str
    region: str
    family: str
    capacity_type: CapacityType
    limit: int | None
    used: int


class Catalog(Protocol):
    """What a provider sells, where, for how much."""

    provider: str

    def offers(self, now: datetime) -> tuple[Offer, ...]:
        """Every offer of the configured pools, priced; unknown prices are upper bounds, flagged."""
        ...

    def quotas(self, now: datetime) -> tuple[Quota, ...]:
        """Quotas where the provider tells them."""
        ...


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One purchase attempt. `token` is the id of its own hold row: repeating it never buys twice."""

    token: str
    offer_key: str
    provider: str
    region: str
    zone: str
    instance_type: str
    capacity_type: CapacityType
    count: int
    pool: str
    cluster: str
    tags: Mapping[str, str]
    max_price: Money | None = None
    minimum: int = 1
    """fewer than this: nothing at all (all-or-nothing where it equals count)"""


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What was bought; `shortfall` is the typed error for the part that was not."""

    instances: tuple[Instance, ...]
    shortfall: Exception | None = None


class Machines(Protocol):
    """Buying and ending machines at one provider."""

    provider: str

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Buy; raises a typed error where nothing was bought. Repeating a request returns its first result."""
        ...

    def describe(self) -> tuple[Instance, ...]:
        """All machines that carry our tags, ended ones while the provider still lists them. Lags launches."""
        ...

    def terminate(self, region: str, ids: Sequence[str]) -> None:
        """End machines; ended or unknown ones are fine."""
        ...

    def interruptions(self) -> tuple[str, ...]:
        """Ids of machines that the provider is about to take back."""
        ...


class Budget(Protocol):
    """No call that costs money is made without a hold that fits every cap that applies."""

    def check(self, request: HoldRequest, now: datetime) -> HoldAnswer:
        """What `hold` would answer; changes nothing."""
        ...

    def hold(self, request: HoldRequest, now: datetime) -> HoldAnswer:
        """Set the money aside in one transaction; the same id again returns the first answer."""
        ...

    def settle(
        self,
        hold_id: str,
        now: datetime,
        *,
        burn: Money | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """The thing was bought or started: metered spend takes the hold's place from here on. Repeatable."""
        ...

    def release(self, hold_id: str, now: datetime, reason: str) -> None:
        """It was not bought, or has ended: give back what is left. Repeatable."""
        ...

    def unsettled(self, kind: HoldKind) -> tuple[HoldRequest, ...]:
        """Holds whose outcome is not recorded yet: recovery repeats their payload."""
        ...

    def blocked(self, scope: Scope, now: datetime) -> str:
        """Why nothing may be bought for this scope now (paused, cap reached, guard silent); "" = nothing does."""
        ...


class WorkState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    DONE = "done"
    KILLED = "killed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """A verified state: `paused` only when no pod is active or terminating."""

    state: WorkState
    active: int = 0
    terminating: int = 0
    detail: str = ""
    """e.g. `pausing (3 pods stuck on node x)`"""


class Workloads(Protocol):
    """Stopping and starting work, ours and others', through its root owner."""

    def pause(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Ask every object of the run to suspend, hosts and workers first. Repeatable."""
        ...

    def resume(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Undo our pause where the objects are still as we left them. Repeatable."""
        ...

    def kill(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """End the run for good; the record and the last logs stay. Repeatable."""
        ...

    def verify(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Where the run stands, read from the API, not from the cache."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A three-state answer: a value, `absent` (no such series: unknown, not zero), or an error."""

    value: float | None
    error: str = ""

    @property
    def absent(self) -> bool:
        """No such series."""
        return self.value is None and not self.error


class Metrics(Protocol):
    """Prometheus."""

    def gpu_utilisation(
        self, cluster: str, pods: Sequence[tuple[str, str]], at: datetime, window: timedelta
    ) -> Sample:
        """Mean utilisation (0..100) of the GPUs of these (namespace, pod)s over the window before `at`."""
        ...

    def query(self, expression: str, at: datetime) -> Sample:
        """One number from an instant query."""
        ...


@dataclass(frozen=True, slots=True)
class BilledDay:
    """One line of a provider's bill for a UTC day, gross of credits."""

    day: str
    """YYYY-MM-DD"""
    service: str
    region: str
    tags: Mapping[str, str]
    amount: Money
    estimated: bool


class Billing(Protocol):
    """The provider's bill, which arrives a day late."""

    def days(self, first: str, last: str, *, group_by_tag: str = "") -> tuple[BilledDay, ...]:
        """Lines of the UTC days first..last (inclusive), all pages."""
        ...


@dataclass(frozen=True, slots=True)
class Posted:
    """Where a message stands in chat."""

    channel: str
    message_id: str
    thread_id: str = ""


class Chat(Protocol):
    """Chat-neutral delivery, durable: a message is queued in the database and sent in order.

    `message` is a value of `bot.messages.model` (opaque here). The same `key` is delivered once;
    posting a `card` key again edits the card in place.
    """

    def post(self, *, key: str, channel: str, message: Any, thread: str = "", now: datetime) -> None:
        """Queue a message; `thread` is the key of the message that roots the thread."""
        ...

    def update(self, *, key: str, message: Any, now: datetime) -> None:
        """Queue an edit of the message with this key."""
        ...


class Directory(Protocol):
    """Who is this, which team, which roles. People live in `config`."""

    def by_chat_id(self, chat_id: str) -> Person:
        """The person behind a Slack user id; an unknown one has `known` False."""
        ...

    def by_system_user(self, name: str) -> Person:
        """The person behind a system user name (peer of the control socket)."""
        ...

    def by_kubernetes_name(self, name: str) -> Person:
        """The person behind a Kubernetes user name or an owner label."""
        ...

    def team_members(self, team: str) -> tuple[Person, ...]:
        """People of a team."""
        ...

    def approvers(self, scope: Scope, amount: Money) -> tuple[Person, ...]:
        """Who may raise a cap of this scope by this amount."""
        ...


class Notifier(Protocol):
    """Tells people. `event` is a value of `guard.events` or `scaler.events`; the wording is the bot's."""

    def notify(self, event: Any, *, key: str, now: datetime) -> None:
        """Queue what the event means for people, durably; the same key is told once."""
        ...
