"""Builders with defaults, so that a test shows only what matters: `pod(gpus=8)`, `node(cpu="4")`."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

from fleet.model import CapacityType, ClusterSnapshot, Instance, Job, Node, Offer, Owner, Pod, Price
from fleet.values import Money, Resources, parse_bytes, parse_millicores

T0 = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
"""A Friday, five in the afternoon UTC."""
_ids = itertools.count(1)


def resources(cpu: str = "1", memory: str = "1Gi", gpus: int = 0, pods: int = 1) -> Resources:
    """Resources from Kubernetes quantities."""
    return Resources(parse_millicores(cpu), parse_bytes(memory), gpus, pods)


def pod(name: str = "", *, cpu: str = "1", memory: str = "1Gi", gpus: int = 0, **more: Any) -> Pod:
    """A pending pod of namespace `research` in cluster `home`."""
    name = name or f"pod-{next(_ids)}"
    fields: dict[str, Any] = {
        "cluster": "home",
        "namespace": "research",
        "name": name,
        "uid": f"uid-{name}",
        "created": T0,
    }
    return Pod(requests=resources(cpu, memory, gpus), **(fields | more))


def node(name: str = "", *, cpu: str = "4", memory: str = "16Gi", gpus: int = 0, **more: Any) -> Node:
    """A ready node of cluster `home`, created at T0."""
    name = name or f"node-{next(_ids)}"
    fields: dict[str, Any] = {"cluster": "home", "name": name, "uid": f"uid-{name}", "created": T0}
    return Node(allocatable=resources(cpu, memory, gpus, pods=110), **(fields | more))


def job(name: str = "", **more: Any) -> Job:
    """A running Indexed Job of namespace `research`."""
    name = name or f"job-{next(_ids)}"
    fields: dict[str, Any] = {
        "cluster": "home",
        "namespace": "research",
        "name": name,
        "uid": f"uid-{name}",
        "created": T0,
    }
    return Job(**(fields | more))


def offer(
    instance_type: str = "m5.xlarge", *, price: str = "0.192", region: str = "us-west-2", **more: Any
) -> Offer:
    """An on-demand AWS offer in the first zone of a region."""
    fields: dict[str, Any] = {
        "provider": "aws",
        "zone": f"{region}a",
        "capacity_type": CapacityType.ON_DEMAND,
        "price": Price(Money.usd(price), "test"),
        "allocatable": resources("3920m", "14162Mi", pods=58),
        "vcpus": 4,
        "family": "Standard",
        "pool": "aws",
    }
    return Offer(region=region, instance_type=instance_type, **(fields | more))


def instance(instance_id: str = "", **more: Any) -> Instance:
    """A running m5.xlarge launched at T0."""
    instance_id = instance_id or f"i-{next(_ids):08x}"
    fields: dict[str, Any] = {
        "provider": "aws",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "id": instance_id,
        "instance_type": "m5.xlarge",
        "capacity_type": CapacityType.ON_DEMAND,
        "state": "running",
        "launched": T0,
    }
    return Instance(**(fields | more))


def snapshot(*things: Pod | Node | Job, **more: Any) -> ClusterSnapshot:
    """A synced snapshot of cluster `home`, with namespace `research` governed."""
    fields: dict[str, Any] = {
        "cluster": "home",
        "observed_at": T0,
        "synced": True,
        "governed": frozenset({"research"}),
    }
    return ClusterSnapshot(
        pods={p.uid: p for p in things if isinstance(p, Pod)},
        nodes={n.name: n for n in things if isinstance(n, Node)},
        jobs={j.uid: j for j in things if isinstance(j, Job)},
        **(fields | more),
    )


def owned_by(job_: Job) -> Owner:
    """The owner reference of a Job's pod."""
    return Owner("Job", job_.name, job_.uid)
