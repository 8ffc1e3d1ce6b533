"""In-memory ports for the launcher's tests: an object store, a budget that can refuse, a notifier."""

from __future__ import annotations

import copy
import itertools
from datetime import datetime
from typing import Any

from fleet.budget import HoldAnswer, HoldKind, HoldRequest, Misfit, Scope
from fleet.errors import Conflict, NotFound
from fleet.model import Ref
from fleet.values import Money


class FakeObjects:
    """Objects of one cluster in a dict; `fail` raises an error once before a matching call."""

    def __init__(self, cluster="home"):
        self.cluster = cluster
        self.stored: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str, Exception]] = []
        self.lost_answers: list[tuple[str, str, Exception]] = []
        self._numbers = itertools.count(1)

    def fail(self, verb, name, error):
        """Raise once, before anything happens."""
        self.failures.append((verb, name, error))

    def lose_answer(self, verb, name, error):
        """Do it, then raise once."""
        self.lost_answers.append((verb, name, error))

    def _called(self, verb, name):
        self.calls.append((verb, name))
        self._raise(self.failures, verb, name)

    @staticmethod
    def _raise(planned, verb, name):
        for entry in planned:
            if entry[:2] == (verb, name):
                planned.remove(entry)
                raise entry[2]

    def add(self, kind, name, *, namespace="research", labels=None, owner=None, **more):
        """Put an object there as if somebody else had made it."""
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        if owner is not None:
            metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
        metadata |= more.pop("metadata", {})
        return self._store({"kind": kind, "metadata": metadata, "spec": {}, "status": {}} | more)

    def _store(self, found):
        number = next(self._numbers)
        metadata = found["metadata"]
        metadata.setdefault("uid", f"uid-{number}")
        metadata["resourceVersion"] = str(number)
        self.stored[found["kind"], metadata["namespace"], metadata["name"]] = found
        return copy.deepcopy(found)

    def get(self, ref: Ref):
        self._called("get", ref.name)
        found = self.stored.get((ref.kind, ref.namespace, ref.name))
        if found is None:
            raise NotFound(f"{ref} is not there.")
        return copy.deepcopy(found)

    def list(self, api_version, kind, namespace="", labels=""):
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        return [
            copy.deepcopy(found)
            for (k, n, _), found in sorted(self.stored.items())
            if k == kind and n == namespace and wanted.items() <= found["metadata"].get("labels", {}).items()
        ]

    def apply(self, manifest, *, manager, dry_run=False):
        name = manifest["metadata"]["name"]
        self._called("apply", name)
        key = (manifest["kind"], manifest["metadata"]["namespace"], name)
        there = self.stored.get(key)
        if there is None and "uid" in manifest["metadata"]:
            raise Conflict("uid mismatch")
        merged = _merge(there or {"status": {}}, copy.deepcopy(dict(manifest)))
        merged["metadata"]["manager"] = manager
        stored = self._store(merged)
        self._raise(self.lost_answers, "apply", name)
        return stored

    def merge_patch(self, ref: Ref, patch, *, dry_run=False):
        self._called("patch", ref.name)
        found = self.stored.get((ref.kind, ref.namespace, ref.name))
        if found is None:
            raise NotFound(f"{ref} is not there.")
        version = patch.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        stored = self._store(_merge(found, copy.deepcopy(dict(patch))))
        self._raise(self.lost_answers, "patch", ref.name)
        return stored

    def delete(self, ref: Ref, *, grace_seconds=None, propagation="Background"):
        self._called("delete", ref.name)
        self.stored.pop((ref.kind, ref.namespace, ref.name), None)
        if ref.kind == "Job":
            for key, found in list(self.stored.items()):
                owners = found["metadata"].get("ownerReferences", ())
                if any(o["kind"] == "Job" and o["name"] == ref.name for o in owners):
                    del self.stored[key]

    def logs(self, ref: Ref, *, container="", tail=100):
        self._called("logs", ref.name)
        return f"last words of {ref.name}"

    def names(self, kind):
        """Names of a kind that are there."""
        return sorted(name for k, _, name in self.stored if k == kind)

    def job(self, name, namespace="research"):
        """A stored Job."""
        return self.stored["Job", namespace, name]


def _merge(base, overlay):
    result = dict(base)
    for key, value in overlay.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merge(result[key], value)
        else:
            result[key] = value
    return result


class FakeBudget:
    """Grants everything, or refuses with one misfit; remembers what it was asked."""

    def __init__(self):
        self.held: dict[str, HoldRequest] = {}
        self.settled: dict[str, Any] = {}
        self.released: dict[str, str] = {}
        self.refuses = False

    def hold(self, request: HoldRequest, now: datetime) -> HoldAnswer:
        if self.refuses:
            misfit = Misfit(
                "team", "team vision", Money.usd(10), Money.usd(9), Money.usd(1), Money.usd(4), ("Ada",)
            )
            return HoldAnswer(request.id, False, (misfit,))
        self.held.setdefault(request.id, request)
        return HoldAnswer(request.id, True)

    check = hold

    def settle(self, hold_id, now, *, burn=None, result=None):
        self.settled[hold_id] = result

    def release(self, hold_id, now, reason):
        self.released[hold_id] = reason

    def unsettled(self, kind: HoldKind):
        return ()

    def blocked(self, scope: Scope, now: datetime) -> str:
        return ""


class FakeNotifier:
    """Remembers events; the same key is told once."""

    def __init__(self):
        self.told: dict[str, Any] = {}

    def notify(self, event, *, key, now):
        self.told.setdefault(key, event)

    def of(self, kind):
        """Events of a type."""
        return [event for event in self.told.values() if isinstance(event, kind)]
