"""One look: ask clusters, providers and prices, and let the ledger absorb what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.errors import OutsideError
from fleet.model import ClusterSnapshot, Instance
from guard.caps import midnights
from guard.events import GuardGap
from guard.meter import Observation
from guard.moments import micros, moment
from guard.observe import Observer
from guard.state import GuardState


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found. `now` never runs backwards."""

    now: datetime
    snapshots: Mapping[str, ClusterSnapshot]
    seen: Sequence[Observation]
    closed: int
    problems: tuple[str, ...]


class Look:
    """Keeps what may be forgotten between two looks."""

    def __init__(self, state: GuardState) -> None:
        self._state = state
        rows = state.database.rows(
            "SELECT key, MAX(at) AS at FROM observations WHERE kind = 'ended' GROUP BY key"
        )
        self._observer = Observer(
            lambda: state.ledger.meter,
            state.outside.prices.node_price,
            {row["key"]: row["at"] for row in rows},
        )
        self._asked: datetime | None = None
        self._settled = -1

    def look(self, now: datetime) -> Looked:
        """Observe and absorb. A clock that ran backwards is taken as standing still, and told."""
        state = self._state
        last = state.ledger.marked
        seen = list(self._time(last, now))
        now = max(now, last) if last else now
        snapshots = {view.name: view.snapshot(now) for view in state.outside.views}
        problems: list[str] = []
        listed = self._instances(snapshots, now, problems)
        if listed is not None:
            seen += self._observer.instances(listed, now)
        for snapshot in snapshots.values():
            if snapshot.synced:
                seen += self._observer.nodes(snapshot, now)
                seen += self._observer.pods(snapshot, now)
        seen += self._observer.prices(now, state.settings.price_every)
        seen += self._boundaries(last, now)
        try:
            closed = state.ledger.absorb(seen, now)
        except BaseException:
            self._observer.forget()
            raise
        state.see(snapshots)
        return Looked(now, snapshots, seen, len(closed), tuple(problems))

    def _time(self, last: datetime | None, now: datetime) -> list[Observation]:
        """A silence or a jump back of the clock becomes an observation, and people are told."""
        if last is None:
            return []
        silence = now - last
        limit = max(5 * self._state.settings.tick, self._state.settings.heartbeat_limit)
        if silence < timedelta(0):
            detail = "the clock went backwards; nothing is metered twice"
            kind, since, until = "clock", now, last
        elif silence > limit:
            detail = (
                "the guard did not look; what happened is rebuilt from timestamps, the rest at the last burn"
            )
            kind, since, until = "gap", last, now
        else:
            return []
        event = GuardGap(since, until, detail)
        self._state.outside.notifier.notify(event, key=f"guard-{kind}:{micros(last)}", now=max(now, last))
        facts = {"since": micros(since), "until": micros(until)}
        return [Observation(kind, "guard", micros(last), micros(max(now, last)), facts)]

    def _instances(
        self, snapshots: Mapping[str, ClusterSnapshot], now: datetime, problems: list[str]
    ) -> list[Instance] | None:
        """All machines of ours, asked only when something may have changed; None where a provider is silent."""
        purchases = self._state.holds.settled_purchases()
        wanted = (
            self._asked is None
            or now - self._asked >= self._state.settings.machines_every
            or purchases != self._settled
            or self._observer.machines_wanted(snapshots.values())
        )
        if not wanted:
            return None
        found: list[Instance] = []
        for provider in self._state.outside.machines:
            try:
                found += provider.describe()
            except OutsideError as error:
                problems.append(f"{provider.provider} does not list machines: {error}")
                return None
        self._asked, self._settled = now, purchases
        return found

    def _boundaries(self, last: datetime | None, now: datetime) -> list[Observation]:
        """Local midnights since the last look, in every zone that a cap or the digest counts days in."""
        if last is None:
            return []
        zones = {cap.zone for cap in self._state.caps.all()} | {self._state.settings.digest_zone.key, "UTC"}
        edges = {micros(edge) for zone in zones for edge in midnights(zone, last, now)}
        seen = micros(now)
        return [Observation("boundary", moment(edge).isoformat(), edge, seen, {}) for edge in sorted(edges)]
