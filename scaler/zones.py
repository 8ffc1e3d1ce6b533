"""Zones: how many pods of a class may go into which zone. Pure.

Spread is solved as a whole (a balanced target for every zone) rather than pod by pod, so that the nodes
of a zone can be chosen for all of its pods at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.model import L_ZONE, ClusterSnapshot, Expression, Pod
from scaler.fit import selected
from scaler.values import PodClass

UNLIMITED = 10**9


def constrained(pod: Pod) -> bool:
    """Whether it cares about zones at all."""
    placement = pod.placement
    return any(t.topology_key == L_ZONE for t in placement.pod_affinity) or any(
        s.topology_key == L_ZONE and s.when_unsatisfiable == "DoNotSchedule" for s in placement.spreads
    )


class ZoneBook:
    """Which pods are, or will be, in which zone."""

    def __init__(self, snapshot: ClusterSnapshot, relevant: bool) -> None:
        self._there: list[tuple[Pod, str, int]] = []
        self._node_zones: set[str] = set()
        if not relevant:
            return
        zones = {name: node.labels.get(L_ZONE, "") for name, node in snapshot.nodes.items()}
        self._node_zones = {zone for zone in zones.values() if zone}
        for pod in snapshot.pods.values():
            zone = zones.get(pod.node, "")
            if zone and pod.active and pod.deleting is None:
                self._there.append((pod, zone, 1))

    def add(self, pod: Pod, zone: str, count: int) -> None:
        """Pods will be there."""
        if zone and count:
            self._there.append((pod, zone, count))

    def allowed(self, cls: PodClass, wanted: int, open_zones: Iterable[str]) -> Mapping[str, int] | None:
        """Zone → how many of `wanted` pods may go there; None where it does not matter.

        `open_zones` are those in which something can be had, in order of preference.
        """
        pod = cls.sample
        if not constrained(pod):
            return None
        # A node without the zone label is in no zone: constraints about zones never hold there.
        zones = tuple(dict.fromkeys(filter(None, open_zones)))
        found = dict.fromkeys(zones, UNLIMITED)
        for term in pod.placement.pod_affinity:
            if term.topology_key == L_ZONE:
                counts = self._counts(pod, term.selector)
                itself = selected(term.selector, pod, pod)
                found = _anti(found, counts, itself) if term.anti else _together(found, counts, itself)
        for spread in pod.placement.spreads:
            if spread.topology_key == L_ZONE and spread.when_unsatisfiable == "DoNotSchedule":
                counts = self._counts(pod, spread.selector)
                domains = {z: counts.get(z, 0) for z in (*zones, *sorted(self._node_zones))}
                if selected(spread.selector, pod, pod):
                    found = _balanced(found, domains, spread.max_skew, wanted)
                else:
                    least = min(domains.values(), default=0)
                    found = {z: n for z, n in found.items() if domains[z] - least <= spread.max_skew}
        return found

    def _counts(self, pod: Pod, selector: tuple[Expression, ...]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for other, zone, count in self._there:
            if selected(selector, pod, other):
                counts[zone] = counts.get(zone, 0) + count
        return counts


def _anti(found: Mapping[str, int], counts: Mapping[str, int], itself: bool) -> dict[str, int]:
    return {zone: min(n, 1) if itself else n for zone, n in found.items() if not counts.get(zone)}


def _together(found: Mapping[str, int], counts: Mapping[str, int], itself: bool) -> dict[str, int]:
    if counts:
        return {zone: n for zone, n in found.items() if counts.get(zone)}
    if not itself:
        return {}
    # The first of them decides for all: the most preferred zone that is open.
    return dict(list(found.items())[:1])


def _balanced(found: Mapping[str, int], domains: Mapping[str, int], skew: int, wanted: int) -> dict[str, int]:
    """Fill the emptiest zone again and again, as far as the skew allows."""
    counts = dict(domains)
    targets = dict.fromkeys(found, 0)
    for _ in range(wanted):
        candidates = [zone for zone in found if targets[zone] < found[zone]]
        if not candidates:
            break
        zone = min(candidates, key=lambda name: counts[name])
        if counts[zone] + 1 - min(counts.values()) > skew:
            break
        counts[zone] += 1
        targets[zone] += 1
    return {zone: n for zone, n in targets.items() if n}
