"""What must hold of scheduler and Job controller after any sequence of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.kube import job_indexes
from sandbox.kube.fitting import NodeState, class_key, effective_requests, fits, read_class
from sandbox.kube.job_rules import index_of, is_finished
from sandbox.kube.pod_status import is_terminal
from tests.sandbox.kube.bench import Bench, make_bench

EVENTS = st.one_of(
    st.tuples(st.just("node"), st.integers(1, 8), st.integers(0, 4)),
    st.tuples(st.just("pod"), st.integers(1, 6), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 20), st.integers(0, 1)),
    st.tuples(st.just("cordon"), st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("lose"), st.integers(0, 5), st.just(0)),
)


def cause(bench: Bench, number: int, event: tuple[str, int, int]) -> None:
    """One event; what it names by number is taken modulo what there is."""
    kind, first, second = event
    nodes = bench.store.list("nodes")
    if kind == "node":
        bench.node(f"n{number:02}", cpu=str(first), gpus=second)
    elif kind == "pod":
        bench.pod(f"p{number:02}", cpu=str(first), gpus=second)
    elif kind == "end":
        pods = [pod for pod in bench.pods() if pod["spec"].get("nodeName")]
        if pods:
            name = pods[first % len(pods)]["metadata"]["name"]
            if not bench.kubelets.finish("research", name, second):
                bench.store.delete("pods", "research", name)
    elif nodes and kind == "cordon":
        node = nodes[first % len(nodes)]
        bench.store.update("nodes", {**node, "spec": {**node["spec"], "unschedulable": bool(second)}})
    elif nodes:
        bench.store.delete("nodes", None, nodes[first % len(nodes)]["metadata"]["name"])


def states(bench: Bench) -> dict[str, NodeState]:
    """The nodes as they are, counted from nothing."""
    found = {}
    for node in bench.store.list("nodes"):
        state = found[node["metadata"]["name"]] = NodeState(node["metadata"]["name"])
        state.read(node)
    for pod in bench.pods():
        name = pod["spec"].get("nodeName", "")
        if name in found and not is_terminal(pod):
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            found[name].add(key, read_class(pod, class_key(pod, ()), ()))
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_no_node_is_overfull_and_nothing_waits_that_fits(events: list[tuple[str, int, int]]) -> None:
    """Whatever happened: requests stay within allocatable, and every pending pod fits nowhere."""
    bench = make_bench()
    for number, event in enumerate(events):
        cause(bench, number, event)
        bench.run(0.05 if number % 3 else 3)
    bench.run(60)
    found = states(bench)
    for state in found.values():
        assert all(quantity <= state.allocatable.get(name, 0) for name, quantity in state.used.items())
    for pod in bench.pods():
        if not pod["spec"].get("nodeName"):
            pod_class = read_class(pod, class_key(pod, ()), ())
            assert not any(fits(pod_class, state) for state in found.values())
            assert bench.why(pod["metadata"]["name"]).startswith(
                f"0/{len(found)} nodes are available: " if found else "no nodes available"
            )
            assert effective_requests(pod["spec"]) == pod_class.requests


STEPS = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 7), st.integers(0, 1)),
    st.tuples(st.just("delete"), st.integers(0, 7), st.just(0)),
    st.tuples(st.just("suspend"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("scale"), st.integers(1, 8), st.just(0)),
    st.tuples(st.just("throttle"), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
)


def act(bench: Bench, step: tuple[str, int, int]) -> None:
    """One step of a Job's life."""
    kind, first, second = step
    job = bench.store.must_get("jobs.batch", "research", "train")
    pods = [pod for pod in bench.pods() if pod["status"].get("phase") == "Running"]
    if kind == "end" and pods:
        bench.kubelets.finish("research", pods[first % len(pods)]["metadata"]["name"], second)
    elif kind == "delete" and pods:
        bench.store.delete("pods", "research", pods[first % len(pods)]["metadata"]["name"])
    elif kind == "wait":
        bench.run(first)
    elif is_finished(job):
        return
    elif kind == "suspend":
        bench.edit_job("train", suspend=bool(first))
    elif kind == "scale":
        bench.edit_job("train", completions=first, parallelism=first)
    elif kind == "throttle" and job["spec"]["completions"] >= first:
        bench.edit_job("train", parallelism=first)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25), st.sampled_from([None, 0, 2]), st.booleans())
def test_a_job_s_status_always_adds_up(
    steps: list[tuple[str, int, int]], per_index: int | None, only_failed: bool
) -> None:
    """Counts are those of the pods, no index runs twice, and whatever is finished leaves nothing behind."""
    bench = make_bench()
    bench.node("n0", cpu="64")
    policy = "Failed" if only_failed else "TerminatingOrFailed"
    limits: dict[str, Any] = {
        "backoffLimitPerIndex": per_index,
        "backoffLimit": 6 if per_index is None else 100,
    }
    bench.job("train", completions=4, parallelism=4, podReplacementPolicy=policy, **limits)
    for number, step in enumerate(steps):
        act(bench, step)
        bench.run(0.3 if number % 2 else 2)
        indexes = Counter(index_of(pod) for pod in bench.pods() if _is_active(pod))
        assert all(count == 1 for count in indexes.values())
    bench.run(700)
    job = bench.store.must_get("jobs.batch", "research", "train")
    status, spec = job["status"], job["spec"]
    done = job_indexes.parse(status.get("completedIndexes"), spec["completions"])
    active = [pod for pod in bench.pods() if _is_active(pod)]
    assert status.get("succeeded", 0) == job_indexes.total(done)
    assert (status.get("active", 0), status["terminating"]) == (len(active), 0)
    assert status["ready"] == sum(pod["status"]["phase"] == "Running" for pod in active)
    if is_finished(job):
        assert active == []
        assert all("finalizers" not in pod["metadata"] for pod in bench.pods())
    elif spec.get("suspend"):
        assert active == []
    else:
        failed = job_indexes.parse(status.get("failedIndexes"), spec["completions"])
        left = spec["completions"] - job_indexes.total(done) - job_indexes.total(failed)
        assert len(active) == min(left, spec["parallelism"])


def _is_active(pod: dict[str, object]) -> bool:
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return not is_terminal(pod) and not metadata.get("deletionTimestamp")
