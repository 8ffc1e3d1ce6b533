"""The objects of one cluster and their history: what etcd and the registry are to the real API server.

Everything happens on the sandbox's loop, so nothing takes a lock. Objects are plain dicts and treated
as immutable: a change replaces the object. Resources are named by plural and group (`pods`,
`jobs.batch`, `leases.coordination.k8s.io`).
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from sandbox.kube.admission import with_topology_labels
from sandbox.kube.defaults import prepare
from sandbox.kube.errors import already_exists, bad_request, conflict, not_found
from sandbox.kube.history import Event, History
from sandbox.kube.lifecycle import counted_spec, grace_of, owners, same, terminating
from sandbox.kube.resources import BY_KEY, RESOURCES
from sandbox.world import World

Object = dict[str, Any]
Objects = list[Object]
Owned = list[tuple[str, Object]]
Callback = Callable[[str, str, Object, Object | None], None]
"""(event type, resource, new object, old object or None for ADDED)"""

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Metadata that only the server changes."""
_PROPAGATION_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def timestamp(moment: datetime) -> str:
    """A time as metadata carries it: UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """One cluster's objects. Raises ApiError where the real server would refuse.

    Creating applies the server's defaults; validation of what people send is the API's part.
    """

    def __init__(self, world: World, name: str, *, window: int = 20_000) -> None:
        """`window` is how many events of one resource are kept for watches that resume."""
        self.world = world
        self.name = name
        self.history = History([resource.key for resource in RESOURCES], window)
        self.random = random.Random(world.random.getrandbits(64))
        self._version = 0
        self._objects: dict[str, dict[tuple[str, str], Object]] = {r.key: {} for r in RESOURCES}
        self._by_node: dict[str, dict[tuple[str, str], Object]] = {}
        self._by_owner: dict[str, dict[tuple[str, str, str], Object]] = {}
        self._callbacks: list[Callback] = []
        self._queue: deque[Event] = deque()
        self._delivering = False
        for namespace in _NAMESPACES:
            self.create("namespaces", {"metadata": {"name": namespace}})
        for name, value in _PRIORITY_CLASSES.items():
            self.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._version

    # Reading

    def get(self, resource: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None. `namespace` is ignored for cluster-scoped resources."""
        return self._table(resource).get(self._key(resource, namespace, name))

    def must_get(self, resource: str, namespace: str | None, name: str) -> Object:
        """The object; ApiError 404 where it is not there."""
        found = self.get(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def list(self, resource: str, namespace: str | None = None) -> Objects:
        """All objects, ordered by namespace and name as etcd orders its keys; None = every namespace."""
        table = self._table(resource)
        if namespace is None or not BY_KEY[resource].namespaced:
            keys: Iterable[tuple[str, str]] = table
        else:
            keys = (key for key in table if key[0] == namespace)
        return [table[key] for key in sorted(keys)]

    def all(self, resource: str) -> Iterable[Object]:
        """All objects in no particular order, without sorting; do not change the store meanwhile."""
        return self._table(resource).values()

    def as_of(self, resource: str, version: int, namespace: str | None = None) -> Objects | None:
        """All objects as they were at a version, ordered; None where the history does not reach it."""
        if not self.history.reaches(resource, version):
            return None
        found = self.history.as_of(resource, version, self._table(resource))
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def pods_on(self, node: str) -> Objects:
        """Pods whose spec.nodeName is the node, ordered by namespace and name."""
        found = self._by_node.get(node, {})
        return [found[key] for key in sorted(found)]

    def owned_by(self, uid: str, resource: str | None = None) -> Owned:
        """(resource, object) of everything that names this uid as an owner, in a fixed order."""
        found = self._by_owner.get(uid, {})
        return [(key[0], found[key]) for key in sorted(found) if resource in (None, key[0])]

    # Changing

    def create(self, resource: str, obj: Object) -> Object:
        """Add an object, with the server's defaults, a uid and (with generateName) a name.

        ApiError 409 AlreadyExists; 403 where its namespace is terminating or admission refuses it.
        """
        return self.insert(resource, self.draft(resource, obj))

    def draft(self, resource: str, obj: Object) -> Object:
        """The object as `create` would add it; changes nothing (a dry run answers with this)."""
        kind = BY_KEY[resource]
        metadata = dict(obj.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generate_name(resource, metadata)
        if kind.namespaced:
            metadata["namespace"] = metadata.get("namespace") or "default"
            self._refuse_terminating_namespace(resource, metadata)
        else:
            metadata.pop("namespace", None)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(self.world.now)
        if kind.counts_generation:
            metadata["generation"] = 1
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        drafted = prepare(resource, {**head, **obj, **head, "metadata": metadata}, self.list)
        if resource == "pods" and drafted["spec"].get("nodeName"):
            return with_topology_labels(drafted, self.get("nodes", None, drafted["spec"]["nodeName"]))
        return drafted

    def insert(self, resource: str, drafted: Object) -> Object:
        """Add what `draft` made; ApiError 409 AlreadyExists where the name is taken."""
        metadata = drafted["metadata"]
        if (metadata.get("namespace", ""), metadata["name"]) in self._table(resource):
            raise already_exists(resource, metadata["name"])
        return self._commit("ADDED", resource, drafted, None)

    def update(self, resource: str, obj: Object) -> Object:
        """Replace the whole object (spec, status and metadata); nothing happens where nothing changes.

        A resourceVersion in the object has to be the current one (409 Conflict otherwise). An object
        that is being deleted goes away when its last finalizer goes and its grace is over.
        """
        metadata = obj["metadata"]
        old = self.must_get(resource, metadata.get("namespace"), metadata["name"])
        was = old["metadata"]
        if metadata.get("resourceVersion") not in (None, "", was["resourceVersion"]):
            raise conflict(resource, metadata["name"])
        if metadata.get("uid") not in (None, "", was["uid"]):
            why = (
                f"Precondition failed: UID in precondition: {metadata['uid']}, "
                f"UID in object meta: {was['uid']}"
            )
            raise conflict(resource, metadata["name"], why)
        new = self.revised(resource, old, obj)
        if self._has_ended(new):
            return self._commit("DELETED", resource, new, old)
        if same(new, old):
            return old
        return self._commit("MODIFIED", resource, new, old)

    def revised(self, resource: str, old: Object, obj: Object) -> Object:
        """What `update` makes of an object; changes nothing (a dry run answers with this)."""
        was = old["metadata"]
        kept = {name: was[name] for name in _SERVER_FIELDS if name in was}
        new = {
            "apiVersion": old["apiVersion"],
            "kind": old["kind"],
            **{name: value for name, value in obj.items() if name not in ("apiVersion", "kind")},
            "metadata": {**obj["metadata"], **kept},
        }
        changed = new.get("spec") is not old.get("spec") and counted_spec(new) != counted_spec(old)
        if changed and BY_KEY[resource].counts_generation:
            new["metadata"]["generation"] = was.get("generation", 0) + 1
        return new

    def patch_status(self, resource: str, namespace: str | None, name: str, status: Object) -> Object:
        """Merge the top-level fields of `status` into the object's status; a None removes a field."""
        old = self.must_get(resource, namespace, name)
        merged = {**old.get("status", {}), **status}
        merged = {field: value for field, value in merged.items() if value is not None}
        return self.update(resource, {**old, "status": merged})

    def delete(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        grace_seconds: int | None = None,
        propagation: str = "Background",
        uid: str | None = None,
    ) -> Object:
        """Ask for an object's end, and return it as it then is.

        It is gone at once unless it has finalizers (`Foreground` and `Orphan` add one for the garbage
        collector), is a pod on a node that still runs (its grace), or is a namespace with content.
        """
        old = self.must_get(resource, namespace, name)
        if uid is not None and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(resource, name, why)
        new = self.marked(resource, old, grace_seconds, propagation)
        if self._has_ended(new) or "deletionTimestamp" not in new["metadata"]:
            return self._commit("DELETED", resource, new, old)
        if same(new, old):
            return old
        return self._commit("MODIFIED", resource, new, old)

    def marked(self, resource: str, old: Object, grace_seconds: int | None, propagation: str) -> Object:
        """What `delete` makes of an object; changes nothing (a dry run answers with this)."""
        metadata = dict(old["metadata"])
        finalizer = _PROPAGATION_FINALIZERS.get(propagation)
        if finalizer and finalizer not in metadata.get("finalizers", []):
            metadata["finalizers"] = [*metadata.get("finalizers", []), finalizer]
        if resource not in ("pods", "namespaces") and not metadata.get("finalizers"):
            return {**old, "metadata": metadata}
        grace = grace_of(resource, old, grace_seconds)
        known = metadata.get("deletionTimestamp")
        if known is None or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = timestamp(self.world.now + timedelta(seconds=grace))
            if resource != "namespaces":
                metadata["deletionGracePeriodSeconds"] = grace
        if known is None and "generation" in metadata:
            metadata["generation"] += 1
        new = {**old, "metadata": metadata}
        if resource == "namespaces":
            new["status"] = {**old.get("status", {}), "phase": "Terminating"}
        return new

    def finalize(self, resource: str, namespace: str | None, name: str) -> None:
        """The grace is over (a kubelet's or namespace controller's word): gone, once no finalizer holds it.

        Nothing happens where the object is not there any more.
        """
        old = self.get(resource, namespace, name)
        if old is None:
            return
        if resource == "namespaces" and old.get("spec", {}).get("finalizers"):
            old = self.update(resource, {**old, "spec": {**old["spec"], "finalizers": []}})
        if self.get(resource, namespace, name) is not None:
            self.delete(resource, namespace, name, grace_seconds=0)

    # Watching

    def subscribe(self, callback: Callback) -> None:
        """Call back after every change, in the order of the changes.

        A change made inside a callback is delivered after the callbacks of the one before it.
        """
        self._callbacks.append(callback)

    def compact(self) -> int:
        """Forget all history: watches and pages from before now answer 410. Returns the version."""
        self.history.compact(self._version)
        return self._version

    # Inside

    def _table(self, resource: str) -> dict[tuple[str, str], Object]:
        try:
            return self._objects[resource]
        except KeyError:
            raise bad_request(f"the stand-in has no resource {resource!r}") from None

    def _key(self, resource: str, namespace: str | None, name: str) -> tuple[str, str]:
        return (namespace or "default", name) if BY_KEY[resource].namespaced else ("", name)

    def _generate_name(self, resource: str, metadata: Object) -> str:
        base = str(metadata["generateName"])[:58]
        while True:
            name = base + "".join(self.random.choices(_SUFFIX_LETTERS, k=5))
            if self.get(resource, metadata.get("namespace"), name) is None:
                return name

    def _refuse_terminating_namespace(self, resource: str, metadata: Object) -> None:
        namespace = self._objects["namespaces"].get(("", metadata["namespace"]))
        if namespace is None or namespace["metadata"].get("deletionTimestamp") is None:
            return
        raise terminating(resource, metadata["name"], metadata["namespace"])

    def _has_ended(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        return (
            metadata.get("deletionTimestamp") is not None
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and not (obj["kind"] == "Namespace" and obj.get("spec", {}).get("finalizers"))
        )

    def _commit(self, event_type: str, resource: str, new: Object, old: Object | None) -> Object:
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        key = (new["metadata"].get("namespace", ""), new["metadata"]["name"])
        if event_type == "DELETED":
            del self._objects[resource][key]
        else:
            self._objects[resource][key] = new
        self._index(resource, key, None if event_type == "DELETED" else new, old)
        event = Event(self._version, event_type, resource, new, old)
        self.history.add(event)
        self._deliver(event)
        return new

    def _index(self, resource: str, key: tuple[str, str], new: Object | None, old: Object | None) -> None:
        for uid in owners(old) - owners(new):
            self._by_owner[uid].pop((resource, *key), None)
            if not self._by_owner[uid]:
                del self._by_owner[uid]
        if new is not None:
            for uid in owners(new):
                self._by_owner.setdefault(uid, {})[(resource, *key)] = new
        if resource != "pods":
            return
        was = old["spec"].get("nodeName") if old else None
        now = new["spec"].get("nodeName") if new else None
        if was and was != now:
            del self._by_node[was][key]
        if now and new is not None:
            self._by_node.setdefault(now, {})[key] = new

    def _deliver(self, event: Event) -> None:
        self._queue.append(event)
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._queue:
                due = self._queue.popleft()
                for callback in self._callbacks:
                    callback(due.type, due.resource, due.new, due.old)
        finally:
            self._delivering = False
