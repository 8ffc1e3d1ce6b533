"""Event objects that controllers leave on the things they act on."""

from __future__ import annotations

from typing import Any

from sandbox.kube.errors import ApiError
from sandbox.kube.pod_status import stamp
from sandbox.kube.store import Store

Object = dict[str, Any]


def record(
    store: Store, component: str, about: Object, reason: str, message: str, *, warning: bool = False
) -> None:
    """Create an Event about an object; in a namespace that is going away there are none."""
    metadata = about["metadata"]
    now = stamp(store.world.now)
    event = {
        "metadata": {
            "name": f"{metadata['name']}.{store.random.getrandbits(64):016x}",
            "namespace": metadata.get("namespace") or "default",
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        store.create("events", event)
    except ApiError as error:
        if error.code != 403:
            raise
