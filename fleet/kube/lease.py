"""Who may write: a coordination.k8s.io/v1 Lease, honoured by its renewTime, counted by its transitions.

Unlike the `kubernetes` client's LeaderElection, another holder's renewTime is believed, and taking over
is refused by resourceVersion where somebody else was faster.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.errors import BadInput, Conflict, NotFound
from fleet.kube.objects import KubeObjects
from fleet.model import Ref
from fleet.values import utc

API = "coordination.k8s.io/v1"


class KubeLease:
    """The `Lease` port. `identity` is unique to this process; `duration` is how long silence is borne."""

    def __init__(
        self,
        objects: KubeObjects,
        namespace: str,
        name: str,
        identity: str,
        duration: timedelta = timedelta(seconds=60),
    ) -> None:
        self._objects = objects
        self._ref = Ref(objects.cluster, API, "Lease", namespace, name)
        self._identity = identity
        self._duration = duration
        self._epoch: int | None = None
        self._holder = ""

    @property
    def epoch(self) -> int:
        """leaseTransitions at our last acquire; 0 before the first."""
        return self._epoch or 0

    @property
    def holder(self) -> str:
        """Who holds it, as last seen; "" = nobody."""
        return self._holder

    def acquire(self, now: datetime) -> bool:
        """Take or renew; False while somebody else holds it, or was faster.

        The first acquire of a process counts as a change of holder even under the same name: a process
        that was thought dead and shares our name then sees a foreign epoch, and stops.
        Raises Unavailable or Refused where the API does not let us know.
        """
        try:
            found = self._objects.get(self._ref)
        except NotFound:
            return self._create(now)
        spec = found.get("spec") or {}
        self._holder = str(spec.get("holderIdentity") or "")
        transitions = int(spec.get("leaseTransitions") or 0)
        renewing = self._holder == self._identity and self._epoch == transitions
        if not renewing and not self._may_take(spec, now):
            return False
        change = {"renewTime": micro_time(now)}
        if not renewing:
            transitions += 1
            change["acquireTime"] = micro_time(now)
        return self._write(found, transitions, change)

    def release(self) -> None:
        """Give it up on a clean stop, so that the next one need not wait."""
        if self._epoch is None:
            return
        try:
            found = self._objects.get(self._ref)
            spec = found.get("spec") or {}
            if (
                spec.get("holderIdentity") == self._identity
                and int(spec.get("leaseTransitions") or 0) == self._epoch
            ):
                version = found["metadata"]["resourceVersion"]
                self._objects.merge_patch(
                    self._ref,
                    {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": None}},
                )
        except (NotFound, Conflict):
            # It is somebody else's by now.
            pass
        self._epoch, self._holder = None, ""

    def _may_take(self, spec: dict[str, Any], now: datetime) -> bool:
        if not self._holder:
            return True
        if self._holder == self._identity:
            # Ours by name: from an earlier life of this process before its first acquire, else a double's.
            return self._epoch is None
        try:
            renewed = utc(str(spec.get("renewTime")))
        except BadInput:
            return True
        return now >= renewed + timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))

    def _create(self, now: datetime) -> bool:
        manifest = {
            "apiVersion": API,
            "kind": "Lease",
            "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
            "spec": self._spec(1, {"acquireTime": micro_time(now), "renewTime": micro_time(now)}),
        }
        try:
            self._objects.create(manifest)
        except Conflict:
            return False
        return self._ours(1)

    def _write(self, found: dict[str, Any], transitions: int, change: dict[str, str]) -> bool:
        patch = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": self._spec(transitions, change),
        }
        try:
            self._objects.merge_patch(self._ref, patch)
        except (Conflict, NotFound):
            return False
        return self._ours(transitions)

    def _spec(self, transitions: int, change: dict[str, str]) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._duration.total_seconds()),
            "leaseTransitions": transitions,
            **change,
        }

    def _ours(self, transitions: int) -> bool:
        self._epoch, self._holder = transitions, self._identity
        return True


def micro_time(moment: datetime) -> str:
    """A time as the API's MicroTime: always six digits, or it is refused."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
