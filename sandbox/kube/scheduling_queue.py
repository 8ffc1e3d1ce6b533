"""Pending pods by class, in the scheduler's order: priority first, then who came first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sandbox.kube.fitting import PodClass

Object = dict[str, Any]
Key = tuple[str, str]


@dataclass(eq=False, slots=True)
class Waiting:
    """The pending pods of one class, oldest first."""

    pod_class: PodClass
    pods: dict[Key, int] = field(default_factory=dict)
    """namespace and name → arrival"""
    told: dict[Key, str] = field(default_factory=dict)
    """what was written into each pod's PodScheduled condition"""
    untold: dict[Key, None] = field(default_factory=dict)
    """those that were never told anything"""
    fresh: bool = True
    """has pods that were never tried"""
    refreshing: bool = False
    """a rewrite of outdated messages is under way"""

    def head(self) -> tuple[int, int]:
        """Sort key of its first pod."""
        return (-self.pod_class.priority, next(iter(self.pods.values())))


class SchedulingQueue:
    """Waiting pods. A class is tried when it has new pods, or when something changed that may help it."""

    def __init__(self) -> None:
        self._classes: dict[bytes, Waiting] = {}
        self._class_of: dict[Key, bytes] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._class_of)

    def add(self, key: Key, pod_class: PodClass, told: str) -> None:
        """A pod waits; `told` is the message its condition already carries."""
        self.remove(key)
        waiting = self._classes.get(pod_class.key)
        if waiting is None:
            waiting = self._classes[pod_class.key] = Waiting(pod_class)
        self._arrivals += 1
        waiting.pods[key] = self._arrivals
        waiting.fresh = True
        if told:
            waiting.told[key] = told
        else:
            waiting.untold[key] = None
        self._class_of[key] = pod_class.key

    def remove(self, key: Key) -> None:
        """The pod is bound, deleted or finished."""
        class_key = self._class_of.pop(key, None)
        if class_key is None:
            return
        waiting = self._classes[class_key]
        del waiting.pods[key]
        waiting.told.pop(key, None)
        waiting.untold.pop(key, None)
        if not waiting.pods:
            del self._classes[class_key]

    def holds(self, key: Key) -> bool:
        """Whether the pod waits here."""
        return key in self._class_of

    def classes(self) -> list[Waiting]:
        """All classes that have waiting pods."""
        return list(self._classes.values())
