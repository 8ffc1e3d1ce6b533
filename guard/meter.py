"""The meter: observations in, cost lines out. Pure, exact, and the same again from the same observations.

A machine's time is cut into intervals in which nothing about it changes (pods on it, price, who it was
bought for). In each, its price is split by dominant share (the largest of a pod's fractions of cores,
memory and GPUs; shares that sum to more than one are scaled to one), every part floored to the
micro-dollar, and the remainder is the idle line: pods + idle = the machine's price, exactly, always.

A pod counts from its binding to the end of its last container (init containers, image pulls and
Terminating included). A machine counts from its launch to its end, at least 60 seconds where a provider
bills it (EC2), joined or not. An observation older than the machine's open interval takes effect at that
interval's start: closed lines never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, NamedTuple

from guard.moments import DAY, HOUR, SECOND
from guard.settings import BILLED_AT_LEAST

MINIMUM = int(BILLED_AT_LEAST.total_seconds()) * SECOND
POD, DAEMON, IDLE, UNJOINED, OVERHEAD = "pod", "daemon", "idle", "unjoined", "overhead"
REST = "rest"
"""subject of the line that takes what no pod uses, and the rounding"""
CORRECTION = "correction"


class Who(NamedTuple):
    """Whom a cost belongs to."""

    team: str = ""
    owner: str = ""
    experiment: str = ""
    run: str = ""


NOBODY = Who()


class Account(NamedTuple):
    """Everything that costs are summed by, in the order of `guard.tables.ACCOUNT_COLUMNS`."""

    kind: str
    provider: str
    cluster: str
    region: str
    instance_type: str
    team: str
    owner: str
    experiment: str
    run: str


class Observation(NamedTuple):
    """A fact as seen. `at`: since when it is so; `seen`: when it was looked at (microseconds)."""

    kind: str
    key: str
    at: int
    seen: int
    payload: Mapping[str, Any]


class Line(NamedTuple):
    """A cost over a half-open interval within one UTC day."""

    machine: str
    subject: str
    account: Account
    started: int
    ended: int
    hourly: int
    """the machine's price, micro-dollars an hour"""
    share: str
    """the subject's part of it as a fraction"""
    amount: int
    source: str
    flags: str
    """estimated, gap, minimum; comma-separated"""


class Share(NamedTuple):
    """A pod on a machine."""

    millicores: int
    memory: int
    gpus: int
    who: Who
    daemon: bool
    cluster: str
    namespace: str
    name: str


@dataclass(slots=True)
class Machine:
    """A machine that costs now. `since`: start of its open interval."""

    key: str
    provider: str
    region: str
    zone: str
    instance_type: str
    capacity: str
    hourly: int
    source: str
    estimated: bool
    claim: Who
    """whom it was bought for, until it is reused"""
    hold: str
    billed: bool
    """a provider bills it (there is an instance), so it has a minimum and an end of its own"""
    began: int
    since: int
    cluster: str = ""
    node: str = ""
    """"" while no node has joined from it"""
    allocatable: tuple[int, int, int] = (0, 0, 0)
    gap: bool = False
    """nobody looked during a part of the open interval"""
    pods: dict[str, Share] = field(default_factory=dict)

    def account(self, kind: str, who: Who) -> Account:
        """The account of one kind of cost on this machine."""
        return Account(kind, self.provider, self.cluster, self.region, self.instance_type, *who)

    def parts(self) -> tuple[list[tuple[str, Account, int]], int]:
        """(subject, account, numerator) of every pod, and their common denominator (at least their sum)."""
        cores, memory, gpus = (max(1, value) for value in self.allocatable)
        whole = cores * memory * gpus
        parts = []
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            share = max(pod.millicores * memory * gpus, pod.memory * cores * gpus, pod.gpus * cores * memory)
            kind, who = (DAEMON, NOBODY) if pod.daemon else (POD, pod.who)
            parts.append((uid, self.account(kind, who), min(share, whole)))
        return parts, max(whole, sum(part[2] for part in parts))

    def rest(self) -> Account:
        """Who pays for what no pod uses."""
        if not self.node:
            return self.account(UNJOINED, self.claim)
        return self.account(IDLE if self.claim.run else OVERHEAD, self.claim)

    def rates(self) -> Iterator[tuple[Account, int]]:
        """What runs up right now: micro-dollars an hour × 2**40, by account; sums to the machine's price."""
        parts, whole = self.parts()
        left = self.hourly << 40
        for _, account, share in parts:
            rate = (self.hourly * share << 40) // whole
            left -= rate
            yield account, rate
        yield self.rest(), left

    def lines(self, until: int, *extra_flags: str) -> Iterator[Line]:
        """The open interval as lines up to a moment, cut at UTC midnights."""
        flags = [name for name, on in (("estimated", self.estimated), ("gap", self.gap)) if on]
        marks = ",".join([*flags, *extra_flags])
        parts, whole = self.parts()
        rest = self.rest()
        used = sum(part[2] for part in parts)
        start = self.since
        while start < until:
            end = min(until, start - start % DAY + DAY)
            left = self.hourly * (end - start) // HOUR
            for subject, account, share in parts:
                amount = self.hourly * share * (end - start) // (whole * HOUR)
                left -= amount
                yield self._line(subject, account, (start, end), (share, whole), amount, marks)
            if left or used < whole:
                yield self._line(REST, rest, (start, end), (whole - used, whole), left, marks)
            start = end

    def _line(
        self,
        subject: str,
        account: Account,
        interval: tuple[int, int],
        share: tuple[int, int],
        amount: int,
        flags: str,
    ) -> Line:
        common = gcd(*share) or 1
        text = f"{share[0] // common}/{share[1] // common}"
        return Line(self.key, subject, account, *interval, self.hourly, text, amount, self.source, flags)


class Meter:
    """All machines that cost now. `apply` returns the lines that an observation closes."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.nodes: dict[tuple[str, str], str] = {}
        """(cluster, node name) → machine"""
        self.pods: dict[str, str] = {}
        """pod uid → machine"""
        self.touched: set[str] = set()
        """machines changed since the caller last looked (it empties this)"""
        self._act = {
            "machine": self._machine,
            "price": self._price,
            "joined": self._joined,
            "bound": self._bound,
            "unbound": self._unbound,
            "left": self._left,
            "ended": self._ended,
            "correction": self._correction,
        }

    def restore(self, machine: Machine) -> None:
        """Take up a machine as it stood."""
        self.machines[machine.key] = machine
        if machine.node:
            self.nodes[machine.cluster, machine.node] = machine.key
        self.pods |= dict.fromkeys(machine.pods, machine.key)

    def apply(self, seen: Observation) -> list[Line]:
        """Take an observation in; returns the lines of intervals that it ends, closed for ever."""
        if seen.kind == "boundary":
            return [line for key in list(self.machines) for line in self._close(key, seen.at)]
        if seen.kind == "gap":
            for machine in self.machines.values():
                machine.gap = True
            self.touched.update(self.machines)
            return []
        act = self._act.get(seen.kind)
        return act(seen) if act else []

    def _close(self, key: str, at: int, *flags: str) -> list[Line]:
        machine = self.machines[key]
        if at <= machine.since:
            return []
        closed = list(machine.lines(at, *flags))
        machine.since = at
        machine.gap = False
        self.touched.add(key)
        return closed

    def _machine(self, seen: Observation) -> list[Line]:
        facts = seen.payload
        known = self.machines.get(seen.key)
        if known is None:
            self.machines[seen.key] = Machine(
                key=seen.key,
                began=seen.at,
                since=seen.at,
                **{name: facts[name] for name in _MACHINE_FACTS},
                claim=Who(*facts["who"]),
            )
            self.touched.add(seen.key)
            return []
        earlier = self._earlier(known, seen.at)
        for name in _MACHINE_FACTS[3:]:
            setattr(known, name, facts[name])
        if known.began == known.since or not known.pods:
            known.claim = Who(*facts["who"])
        self.touched.add(seen.key)
        return earlier

    def _earlier(self, known: Machine, at: int) -> list[Line]:
        """A node was seen before its instance: what the machine cost before it joined."""
        if at >= known.began:
            return []
        before = replace(known, began=at, since=at, node="", pods={}, allocatable=(0, 0, 0))
        closed = list(before.lines(known.began))
        known.began = at
        return closed

    def _price(self, seen: Observation) -> list[Line]:
        if seen.key not in self.machines:
            return []
        closed = self._close(seen.key, seen.at)
        machine = self.machines[seen.key]
        machine.hourly = seen.payload["hourly"]
        machine.source = seen.payload["source"]
        machine.estimated = seen.payload["estimated"]
        self.touched.add(seen.key)
        return closed

    def _joined(self, seen: Observation) -> list[Line]:
        if seen.key not in self.machines:
            return []
        closed = self._close(seen.key, seen.at)
        machine = self.machines[seen.key]
        facts = seen.payload
        self.nodes.pop((machine.cluster, machine.node), None)
        machine.cluster, machine.node = facts["cluster"], facts["node"]
        machine.allocatable = (facts["millicores"], facts["memory"], facts["gpus"])
        self.nodes[machine.cluster, machine.node] = seen.key
        self.touched.add(seen.key)
        return closed

    def _bound(self, seen: Observation) -> list[Line]:
        facts = seen.payload
        key = facts["machine"]
        if key not in self.machines:
            return []
        closed = self._close(key, seen.at)
        machine = self.machines[key]
        pod = Share(
            facts["millicores"],
            facts["memory"],
            facts["gpus"],
            Who(*facts["who"]),
            facts["daemon"],
            facts["cluster"],
            facts["namespace"],
            facts["name"],
        )
        machine.pods[seen.key] = pod
        self.pods[seen.key] = key
        self._release(machine)
        self.touched.add(key)
        return closed

    @staticmethod
    def _release(machine: Machine) -> None:
        """Others are on it and whom it was bought for is not: it is reused, and its idle time nobody's."""
        runs = {pod.who.run for pod in machine.pods.values() if not pod.daemon}
        if machine.claim.run and runs and machine.claim.run not in runs:
            machine.claim = NOBODY

    def _unbound(self, seen: Observation) -> list[Line]:
        key = self.pods.pop(seen.key, None)
        if key is None or key not in self.machines:
            return []
        closed = self._close(key, seen.at)
        self.machines[key].pods.pop(seen.key, None)
        self._release(self.machines[key])
        self.touched.add(key)
        return closed

    def _left(self, seen: Observation) -> list[Line]:
        """The node object is gone; what a provider bills goes on until the instance ends."""
        machine = self.machines.get(seen.key)
        if machine is None:
            return []
        closed = self._close(seen.key, seen.at)
        self._forget_node(machine)
        if not machine.billed:
            del self.machines[seen.key]
        self.touched.add(seen.key)
        return closed

    def _ended(self, seen: Observation) -> list[Line]:
        machine = self.machines.get(seen.key)
        if machine is None:
            return []
        closed = self._close(seen.key, seen.at)
        self._forget_node(machine)
        if machine.billed:
            closed += self._close(seen.key, machine.began + MINIMUM, "minimum")
        del self.machines[seen.key]
        self.touched.add(seen.key)
        return closed

    def _correction(self, seen: Observation) -> list[Line]:
        """A signed line beside what was metered, which it never overwrites."""
        facts = seen.payload
        line = (Account(*facts["account"]), facts["started"], facts["ended"], 0, "0/1", facts["amount"])
        return [Line(seen.key, CORRECTION, *line, facts["source"], "")]

    def _forget_node(self, machine: Machine) -> None:
        place = (machine.cluster, machine.node)
        if self.nodes.get(place) == machine.key:
            del self.nodes[place]
        for uid in machine.pods:
            self.pods.pop(uid, None)
        machine.node, machine.pods, machine.allocatable = "", {}, (0, 0, 0)


_MACHINE_FACTS = (
    "hourly",
    "source",
    "estimated",
    "provider",
    "region",
    "zone",
    "instance_type",
    "capacity",
    "hold",
    "billed",
    "cluster",
)
ORDER = {
    kind: order
    for order, kind in enumerate(
        ("gap", "machine", "price", "joined", "bound", "unbound", "left", "ended", "boundary")
    )
}


def in_order(seen: list[Observation]) -> list[Observation]:
    """Observations of one look in the order in which the meter takes them: by time, then by kind."""
    return sorted(seen, key=lambda one: (one.at, ORDER.get(one.kind, 99), one.key))
