"""Kubernetes JSON → flat values of `fleet.model`.

Label sets, placements and resources of pods that look alike are shared: 100,000 pods of a few hundred
Jobs then take tens of megabytes, and the garbage collector has nothing to walk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

import msgspec

from fleet import model
from fleet.kube import wire
from fleet.model import GPU_RESOURCE, Expression, Owner, Placement, Spread, Taint, Toleration
from fleet.values import Resources, parse_bytes, parse_millicores

_INTERN_LIMIT = 50_000
_NEVER = (Expression("", "In", ()),)
"""A node selector term without any requirement matches no node."""
_DAEMON_OWNERS = ("DaemonSet", "Node")
"""Pods of a DaemonSet, and static pods, which the Node itself owns: one a node, not demand."""

T = TypeVar("T")
_POD = msgspec.json.Decoder(wire.Pod)
_NODE = msgspec.json.Decoder(wire.Node)
_JOB = msgspec.json.Decoder(wire.Job)
_NAMESPACE = msgspec.json.Decoder(wire.Namespace)


class Decoder:
    """Decodes the objects of one cluster. One instance a thread: it keeps what it shares in plain dicts.

    Every method raises msgspec.DecodeError or BadInput where the object is not what the API promises,
    and returns the value with its resourceVersion.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._shared: dict[object, object] = {}

    def pod(self, data: bytes | msgspec.Raw) -> tuple[model.Pod, str]:
        """A Pod object."""
        raw = _POD.decode(data)
        meta, spec, status = raw.metadata, raw.spec, raw.status
        owner = self._owner(meta)
        condition = _condition(status.conditions, "PodScheduled")
        waiting = condition is not None and condition.status == "False"
        node = spec.node_name or ""
        phase = status.phase or "Pending"
        times = _ContainerTimes(status)
        return model.Pod(
            cluster=self._cluster,
            namespace=self._share(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            requests=self._share(pod_requests(spec)),
            phase=self._share(phase),
            node=self._share(node),
            labels=self._labels(meta.labels),
            placement=self._share(placement_of(spec, meta.labels or {})),
            owner=owner,
            priority=spec.priority or 0,
            created=meta.creation_timestamp,
            scheduled=_scheduled(raw, condition),
            started=times.started,
            finished=times.finished if phase in ("Succeeded", "Failed") else None,
            deleting=meta.deletion_timestamp,
            grace_seconds=_grace(meta, spec),
            unschedulable=bool(waiting and condition and condition.reason == "Unschedulable" and not node),
            message=self._share(_pod_message(status, condition if waiting else None)),
            restarts=sum(c.restart_count for c in status.container_statuses or ()),
            daemon=owner is not None and owner.kind in _DAEMON_OWNERS,
        ), meta.resource_version

    def node(self, data: bytes | msgspec.Raw) -> tuple[model.Node, str]:
        """A Node object."""
        raw = _NODE.decode(data)
        meta, spec = raw.metadata, raw.spec
        ready = _condition(raw.status.conditions, "Ready")
        allocatable = raw.status.allocatable or {}
        amounts = _amounts(allocatable)
        return model.Node(
            cluster=self._cluster,
            name=meta.name,
            uid=meta.uid,
            allocatable=self._share(
                Resources(
                    amounts.millicores, amounts.memory, amounts.gpus, parse_bytes(_text(allocatable, "pods"))
                )
            ),
            provider_id=spec.provider_id or "",
            labels=self._labels(meta.labels),
            taints=self._share(tuple(Taint(t.key, t.value or "", t.effect) for t in spec.taints or ())),
            unschedulable=bool(spec.unschedulable),
            ready=ready is not None and ready.status == "True",
            created=meta.creation_timestamp,
        ), meta.resource_version

    def job(self, data: bytes | msgspec.Raw) -> tuple[model.Job, str]:
        """A Job object."""
        raw = _JOB.decode(data)
        meta, spec, status = raw.metadata, raw.spec, raw.status
        template = spec.template
        template_labels = template.metadata.labels if template.metadata and template.metadata.labels else {}
        failed = _condition(status.conditions, "Failed")
        is_failed = failed is not None and failed.status == "True"
        return model.Job(
            cluster=self._cluster,
            namespace=self._share(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            labels=self._labels(meta.labels),
            annotations=meta.annotations or {},
            suspended=bool(spec.suspend),
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=spec.completions,
            active=status.active or 0,
            ready=status.ready or 0,
            succeeded=status.succeeded or 0,
            failed=status.failed or 0,
            terminating=status.terminating or 0,
            conditions=frozenset(c.type for c in status.conditions or () if c.status == "True"),
            reason=(failed.reason or "") if failed is not None and is_failed else "",
            pod_requests=self._share(pod_requests(template.spec)),
            placement=self._share(placement_of(template.spec, template_labels)),
            owner=self._owner(meta),
            created=meta.creation_timestamp,
            finished=failed.last_transition_time
            if failed is not None and is_failed
            else status.completion_time,
            version=meta.resource_version,
        ), meta.resource_version

    def namespace(self, data: bytes | msgspec.Raw) -> tuple[tuple[str, bool], str]:
        """A Namespace object: its name, and whether its label allows us to act in it."""
        meta = _NAMESPACE.decode(data).metadata
        allowed = (meta.labels or {}).get(model.L_GOVERNED) == "true"
        return (meta.name, allowed), meta.resource_version

    def _labels(self, labels: Mapping[str, str] | None) -> Mapping[str, str]:
        if not labels:
            return _NO_LABELS
        key = ("labels", *labels.items())
        found = self._shared.get(key)
        if found is None:
            found = {self._share(k): self._share(v) for k, v in labels.items()}
            self._remember(key, found)
        assert isinstance(found, dict)
        return found

    def _owner(self, meta: wire.Metadata) -> Owner | None:
        for reference in meta.owner_references or ():
            if reference.controller:
                return self._share(Owner(reference.kind, reference.name, reference.uid))
        return None

    def _share(self, value: T) -> T:
        found = self._shared.get(value)
        if found is None:
            self._remember(value, value)
            return value
        return found  # type: ignore[return-value]  # equal values of one key are of one type

    def _remember(self, key: object, value: object) -> None:
        if len(self._shared) >= _INTERN_LIMIT:
            self._shared.clear()
        self._shared[key] = value


_NO_LABELS: Mapping[str, str] = {}


class _ContainerTimes:
    """First start and last end of a pod's main containers."""

    def __init__(self, status: wire.PodStatus) -> None:
        states = [c.state for c in status.container_statuses or () if c.state is not None]
        ended = [s.terminated for s in states if s.terminated is not None]
        starts = [s.running.started_at for s in states if s.running is not None]
        self.started = min(_known([*starts, *(t.started_at for t in ended)]), default=None)
        if self.started is None and status.phase == "Running":
            self.started = status.start_time
        ends = _known(t.finished_at for t in ended)
        # Evicted pods, and those of a lost node, have no container that ended: the last condition tells.
        self.finished = max(
            ends or _known(c.last_transition_time for c in status.conditions or ()), default=status.start_time
        )


def _known(moments: Iterable[datetime | None]) -> list[datetime]:
    return [moment for moment in moments if moment is not None]


def _condition(conditions: list[wire.Condition] | None, kind: str) -> wire.Condition | None:
    return next((c for c in conditions or () if c.type == kind), None)


def _scheduled(pod: wire.Pod, condition: wire.Condition | None) -> datetime | None:
    if condition is not None and condition.status == "True" and condition.last_transition_time:
        return condition.last_transition_time
    if pod.spec.node_name:
        # Created with its node named, or bound and not yet seen by its kubelet.
        return pod.status.start_time or pod.metadata.creation_timestamp
    return None


def _grace(meta: wire.Metadata, spec: wire.PodSpec) -> int:
    for seconds in (meta.deletion_grace_period_seconds, spec.termination_grace_period_seconds):
        if seconds is not None:
            return seconds
    return 30


def _pod_message(status: wire.PodStatus, unscheduled: wire.Condition | None) -> str:
    if unscheduled is not None:
        return unscheduled.message or unscheduled.reason or ""
    for container in [*(status.init_container_statuses or ()), *(status.container_statuses or ())]:
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waiting.reason}: {waiting.message}" if waiting.message else str(waiting.reason)
    return status.message or status.reason or ""


def pod_requests(spec: wire.PodSpec) -> Resources:
    """Effective requests, as the scheduler computes them (PodRequests of k8s.io/component-helpers).

    Each init container runs beside the sidecars (restartPolicy: Always) that come before it; the main
    containers run beside all sidecars. Pod-level requests stand in for cpu and memory where given.
    """
    running = Resources()
    for container in spec.containers or ():
        running += _container(container.resources)
    sidecars, highest = Resources(), Resources()
    for container in spec.init_containers or ():
        needs = _container(container.resources)
        if container.restart_policy == "Always":
            sidecars += needs
            highest = highest.maximum(sidecars)
        else:
            highest = highest.maximum(sidecars + needs)
    total = (running + sidecars).maximum(highest)
    if spec.resources is not None:
        whole = _with_defaults(spec.resources)
        given = _container(spec.resources)
        total = Resources(
            given.millicores if "cpu" in whole else total.millicores,
            given.memory if "memory" in whole else total.memory,
            total.gpus,
        )
    total += _amounts(spec.overhead or {})
    return Resources(total.millicores, total.memory, total.gpus, 1)


def _container(resources: wire.Requirements | None) -> Resources:
    return _amounts(_with_defaults(resources)) if resources is not None else Resources()


def _with_defaults(resources: wire.Requirements) -> dict[str, wire.Quantity]:
    """A limit without a request is the request: the API server fills pods in, but not templates."""
    return {**(resources.limits or {}), **(resources.requests or {})}


def _amounts(quantities: Mapping[str, wire.Quantity]) -> Resources:
    return _parse(_text(quantities, "cpu"), _text(quantities, "memory"), _text(quantities, GPU_RESOURCE))


def _text(quantities: Mapping[str, wire.Quantity], name: str) -> str:
    return str(quantities.get(name, "0"))


@lru_cache(maxsize=8192)
def _parse(cpu: str, memory: str, gpus: str) -> Resources:
    return Resources(parse_millicores(cpu), parse_bytes(memory), parse_bytes(gpus))


def placement_of(spec: wire.PodSpec, labels: Mapping[str, str]) -> Placement:
    """Where a pod of this spec may run; only what is required, preferences do not bind."""
    affinity = spec.affinity or wire.Affinity()
    required = affinity.node_affinity.required if affinity.node_affinity else None
    terms = [_term(term) for term in (required.node_selector_terms or ())] if required else []
    if not (spec.node_selector or terms or spec.tolerations or spec.topology_spread_constraints) and not (
        affinity.pod_affinity or affinity.pod_anti_affinity
    ):
        return _ANYWHERE
    return Placement(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=tuple(terms),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in spec.tolerations or ()
        ),
        spreads=tuple(_spread(s, labels) for s in spec.topology_spread_constraints or ()),
        pod_affinity=_pod_affinity(affinity),
    )


_ANYWHERE = Placement()


def _pod_affinity(affinity: wire.Affinity) -> tuple[model.PodAffinity, ...]:
    found = []
    for source, anti in ((affinity.pod_affinity, False), (affinity.pod_anti_affinity, True)):
        for term in (source.required if source else None) or ():
            found.append(model.PodAffinity(term.topology_key, _selector(term.label_selector), anti))
    return tuple(found)


def _term(term: wire.SelectorTerm) -> tuple[Expression, ...]:
    parts = [*(term.match_expressions or ()), *(term.match_fields or ())]
    return tuple(_expression(part) for part in parts) or _NEVER


def _expression(part: wire.Requirement) -> Expression:
    return Expression(part.key, part.operator, tuple(part.values or ()))


def _selector(selector: wire.LabelSelector | None) -> tuple[Expression, ...]:
    if selector is None:
        return _NEVER
    equal = [Expression(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())]
    return (*equal, *(_expression(part) for part in selector.match_expressions or ()))


def _spread(spread: wire.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    own = tuple(
        Expression(key, "In", (labels[key],)) for key in spread.match_label_keys or () if key in labels
    )
    return Spread(
        spread.topology_key,
        spread.max_skew,
        spread.when_unsatisfiable,
        _selector(spread.label_selector) + own,
    )
