"""What is compared of an answer of an API server: code, reason, sentences, and the object without its ids."""

from __future__ import annotations

import re
from typing import Any

Answer = tuple[int, Any]
MASKED = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "clusterIP",
}
MASKED |= {"clusterIPs", "controller-uid", "batch.kubernetes.io/controller-uid"}
DROPPED = {"managedFields", "node.alpha.kubernetes.io/ttl"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def normal(code: int, answer: Any) -> Answer:
    """What is compared of an answer."""
    if isinstance(answer, dict) and answer.get("kind") == "Status" and answer.get("status") == "Failure":
        causes = (answer.get("details") or {}).get("causes") or ()
        found = {
            (each.get("field", ""), each.get("reason", ""), sentence(each.get("message", "")))
            for each in causes
        }
        # The real server goes through maps in random order, so several causes come in any order.
        said = sentence(answer.get("message", ""))
        said = said.split(": [")[0] if len(found) > 1 else said
        return code, (answer.get("reason"), said, sorted(found))
    return code, masked(answer)


def sentence(text: str) -> str:
    """A message without ids and versions, up to a dump of an object."""
    text = UUID.sub("UUID", text)
    text = re.sub(r"(in record|current:) \(?\d+\)?", r"\1 N", text)
    return re.split(r'Invalid value: "?\{|Invalid value: "map|json parse error|\n@@|key is not valid', text)[
        0
    ]


def masked(value: Any) -> Any:
    """An object without what differs by nature."""
    if isinstance(value, dict):
        return {
            key: "*" if key in MASKED else masked(inner)
            for key, inner in value.items()
            if key not in DROPPED and inner is not None and not (key == "annotations" and not masked(inner))
        }
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return UUID.sub("UUID", value) if isinstance(value, str) else value
