"""Ending machines through the journal: persist → terminate → seen ended → announce. Repeatable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleet.journal import Journal, NewDecision, Verdict
from fleet.model import Decision
from scaler.events import MachineFailed
from scaler.ports import ScalerPorts
from scaler.store import ScalerStore
from scaler.values import Machine

KIND = "end-machines"


def decide_to_end(
    journal: Journal, machines: tuple[Machine, ...], reason: str, failed: bool, now: datetime
) -> Decision:
    """Record the decision to end machines of one region."""
    first = machines[0]
    ids = [machine.id for machine in machines]
    digest = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    payload = {
        "provider": first.provider,
        "region": first.region,
        "ids": ids,
        "reason": reason,
        "failed": [_told(machine) for machine in machines] if failed else [],
    }
    return journal.decide(
        NewDecision(
            KIND, f"end:{digest}:{now.isoformat()}", "scaler", first.group.run or first.id, (reason,), payload
        ),
        now,
    )


def _told(machine: Machine) -> dict[str, str]:
    return {
        "run": machine.group.run,
        "owner": machine.group.owner,
        "team": machine.group.team,
        "machine": machine.id,
        "region": machine.region,
        "instance_type": machine.instance_type,
    }


class EndingHandler:
    """Journal handler of kind `end-machines`."""

    def __init__(self, store: ScalerStore, outside: ScalerPorts) -> None:
        self._store = store
        self._out = outside

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Ask the provider; ended and unknown machines are fine."""
        del now
        payload = decision.payload
        machines = self._out.machines.get(payload["provider"])
        if machines is not None:
            machines.terminate(payload["region"], payload["ids"])
        return {"asked": payload["ids"]}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """The provider has listed all of them as ended."""
        del now
        live = {machine.id for machine in self._store.live()}
        return Verdict.NOT_YET if live & set(decision.payload["ids"]) else Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Only failures are news."""
        reason = decision.payload["reason"]
        for told in decision.payload["failed"]:
            key = f"{decision.id}:{told['machine']}"
            self._out.notifier.notify(MachineFailed(**told, reason=reason), key=key, now=now)
