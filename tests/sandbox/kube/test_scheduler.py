"""The scheduler's verdicts: who is bound, who is not, and the words that say why."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from sandbox.kube.fitting import effective_requests
from tests.sandbox.kube.bench import Bench, pod_spec

TAIL = "no new claims to deallocate, preemption: "
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def spread(key: str, *, skew: int = 1, hard: bool = True, **more: Any) -> dict[str, Any]:
    """A topologySpreadConstraint over pods labelled app=web."""
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selector = {"matchLabels": {"app": "web"}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector, **more}


def near(key: str, app: str, *, anti: bool = False) -> dict[str, Any]:
    """A pod's affinity: required (anti-)affinity to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    side = "podAntiAffinity" if anti else "podAffinity"
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_beyond_the_gpus_stay_pending_and_say_so(bench: Bench) -> None:
    """Five nodes of eight GPUs take ten pods of four, as on the real control plane."""
    for number in range(5):
        bench.node(f"n{number}", gpus=8)
    for number in range(12):
        bench.pod(f"p{number:02}", gpus=4)
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"n0": 2, "n1": 2, "n2": 2, "n3": 2, "n4": 2, "": 2}
    assert bench.why("p11") == (
        f"0/5 nodes are available: 5 Insufficient nvidia.com/gpu. {TAIL}0/5 nodes are available: "
        "5 No preemption victims found for incoming pod."
    )


def test_a_new_node_takes_the_pods_that_waited(bench: Bench) -> None:
    """What did not fit is tried again when a node comes."""
    bench.pod("big", cpu="8")
    bench.run(1)
    assert bench.why("big") == "no nodes available to schedule pods"
    bench.node("small", cpu="4")
    bench.run(3)
    assert "1 Insufficient cpu" in bench.why("big")
    bench.node("large", cpu="16")
    bench.run(1)
    assert bench.nodes_of() == {"big": "large"}


def test_a_pod_that_ended_makes_room(bench: Bench) -> None:
    """Room that comes free on one node is offered to the pods that wait."""
    bench.node("n0", cpu="1")
    bench.pod("first", told={"run-seconds": "10"})
    bench.pod("second")
    bench.run(5)
    assert bench.nodes_of() == {"first": "n0", "second": ""}
    bench.run(10)
    assert bench.nodes_of() == {"first": "n0", "second": "n0"}


def test_each_filter_names_its_reason_and_the_reasons_are_counted(bench: Bench) -> None:
    """Cordon, taints, selectors and room, in the scheduler's words and order."""
    bench.node("cordoned", unschedulable=True)
    bench.node("tainted", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    bench.node("other", labels={"disk": "hdd"})
    bench.node("full", cpu="1", labels={"disk": "ssd"})
    bench.pod("picky", cpu="2", nodeSelector={"disk": "ssd"})
    bench.run(1)
    assert bench.why("picky") == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
        f"1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. {TAIL}0/4 nodes are available: "
        "4 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("toleration", "bound"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "false"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_taint_needs_a_toleration_that_covers_it(
    bench: Bench, toleration: dict[str, str], bound: bool
) -> None:
    """Key, value, operator and effect all have to match."""
    bench.node("n0", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    bench.pod("p", tolerations=[toleration])
    bench.run(1)
    assert bool(bench.nodes_of()["p"]) is bound


def test_required_node_affinity_is_an_or_of_ands(bench: Bench) -> None:
    """Terms are alternatives, expressions of a term all have to hold."""
    bench.node("a", labels={"type": "m5", "gen": "4"})
    bench.node("b", labels={"type": "p5", "gen": "5"})
    terms = [
        {
            "matchExpressions": [
                {"key": "type", "operator": "In", "values": ["p5"]},
                {"key": "gen", "operator": "Gt", "values": ["5"]},
            ]
        },
        {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["m5"]}]},
    ]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    bench.pod("p", affinity=affinity)
    bench.run(1)
    assert bench.nodes_of() == {"p": "b"}


def test_preferred_node_affinity_only_prefers(bench: Bench) -> None:
    """A preference decides between nodes, and never against all of them."""
    bench.node("a")
    bench.node("b", cpu="1", labels={"zone": "x"})
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
    entry = {"weight": 10, "preference": preference}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [entry]}}
    bench.pod("first", affinity=affinity)
    bench.pod("second", affinity=affinity)
    bench.run(1)
    assert bench.nodes_of() == {"first": "b", "second": "a"}


def test_ten_pods_of_350_millicores_fill_nodes_of_one_core_by_twos(bench: Bench) -> None:
    """Two fit on a core: four nodes hold eight of ten."""
    for number in range(4):
        bench.node(f"n{number}", cpu="1000m")
    for number in range(10):
        bench.pod(f"p{number}", cpu="350m")
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"n0": 2, "n1": 2, "n2": 2, "n3": 2, "": 2}


def test_pod_slots_are_a_resource(bench: Bench) -> None:
    """A node takes as many pods as its kubelet allows."""
    bench.node("n0", pods=10)
    for number in range(12):
        bench.pod(f"p{number:02}", cpu="1m")
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"n0": 10, "": 2}
    assert "1 Too many pods" in bench.why("p11")


def test_a_host_port_is_taken_once_a_node(bench: Bench) -> None:
    """Host port 5555: one pod a node."""
    for number in range(3):
        bench.node(f"n{number}")
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 5555, "hostPort": 5555}]}
    for number in range(4):
        bench.pod(f"p{number}", containers=[container])
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"n0": 1, "n1": 1, "n2": 1, "": 1}
    assert "3 node(s) didn't have free ports for the requested pod ports" in bench.why("p3")


def test_init_containers_and_sidecars_count_as_they_run() -> None:
    """The largest step counts: an init container beside the sidecars before it, or all that stays."""

    def ask(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [
            ask("500m", restartPolicy="Always"),
            ask("3"),
            ask("250m", restartPolicy="Always"),
        ],
        "containers": [ask("1"), ask("1")],
        "overhead": {"cpu": "100m"},
    }
    assert effective_requests(spec) == {"cpu": 3600}
    spec["initContainers"] = [ask("1"), ask("500m", restartPolicy="Always")]
    assert effective_requests(spec) == {"cpu": 2600}


def test_a_limit_alone_is_a_request() -> None:
    """GPUs are usually given as limits only."""
    spec = {
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "1.5Gi"}}}]
    }
    assert effective_requests(spec) == {"nvidia.com/gpu": 8, "memory": 1610612736}


@pytest.mark.parametrize(
    ("constraint", "nodes", "bound"),
    [
        (spread(HOSTNAME, skew=2), 4, 8),
        (spread(HOSTNAME, skew=1, minDomains=4), 3, 3),
        (spread(HOSTNAME, skew=1), 3, 12),
    ],
)
def test_hostname_spread_limits_the_skew(
    bench: Bench, constraint: dict[str, Any], nodes: int, bound: int
) -> None:
    """maxSkew between nodes; with fewer domains than minDomains the minimum counts as zero."""
    for number in range(nodes):
        bench.node(f"n{number}", cpu="4" if number else "64")
    pods = 8 if constraint["maxSkew"] == 2 else 12
    for number in range(pods):
        bench.pod(f"p{number:02}", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    bench.run(1)
    counts = Counter(bench.nodes_of().values())
    unbound = counts.pop("", 0)
    assert pods - unbound == bound
    assert max(counts.values()) - min(counts.values()) <= constraint["maxSkew"]


def test_zone_spread_stops_where_another_zone_is_empty(bench: Bench) -> None:
    """maxSkew 2 with a full second zone: two pods, and the rest says why."""
    bench.node("a", cpu="64", labels={ZONE: "one"})
    bench.node("b", cpu="100m", labels={ZONE: "two"})
    for number in range(4):
        constraint = spread(ZONE, skew=2)
        bench.pod(f"p{number}", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"a": 2, "": 2}
    assert "1 node(s) didn't match pod topology spread constraints" in bench.why("p3")


def test_a_node_without_the_topology_label_takes_no_spread_pod(bench: Bench) -> None:
    """The missing label is named."""
    bench.node("a")
    bench.pod("p", labels={"app": "web"}, topologySpreadConstraints=[spread(ZONE)])
    bench.run(1)
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in bench.why("p")


def test_schedule_anyway_prefers_the_emptier_domain(bench: Bench) -> None:
    """A soft constraint spreads where it can and binds where it cannot."""
    bench.node("a", cpu="64", labels={ZONE: "one"})
    bench.node("b", cpu="2", labels={ZONE: "two"})
    for number in range(6):
        constraint = spread(ZONE, hard=False)
        bench.pod(f"p{number}", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    bench.run(1)
    assert Counter(bench.nodes_of().values()) == {"a": 4, "b": 2}


def test_anti_affinity_holds_in_both_directions(bench: Bench) -> None:
    """A pod that wants to be alone is avoided, and avoids."""
    bench.node("a", cpu="64")
    bench.node("b", cpu="4")
    bench.pod("lonely", labels={"app": "web"}, affinity=near(HOSTNAME, "web", anti=True))
    bench.run(1)
    assert bench.nodes_of() == {"lonely": "a"}
    bench.pod("plain", labels={"app": "web"})
    bench.run(1)
    assert bench.nodes_of()["plain"] == "b"
    bench.pod("again", labels={"app": "web"}, affinity=near(HOSTNAME, "web", anti=True))
    bench.run(1)
    assert "2 node(s) didn't match pod anti-affinity rules" in bench.why("again")
    bench.pod("third", cpu="8", labels={"app": "web"})
    bench.run(1)
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in bench.why("third")


def test_affinity_follows_the_first_of_its_group(bench: Bench) -> None:
    """The first may start anywhere; the others follow it into its zone."""
    for number in range(4):
        bench.node(f"n{number}", cpu="2", labels={ZONE: "one" if number < 2 else "two"})
    for number in range(5):
        bench.pod(f"p{number}", labels={"app": "web"}, affinity=near(ZONE, "web"))
    bench.run(1)
    zones = {"n0": "one", "n1": "one", "n2": "two", "n3": "two", "": ""}
    assert sorted(Counter(zones[node] for node in bench.nodes_of().values()).values()) == [1, 4]
    assert "2 node(s) didn't match pod affinity rules" in bench.why("p4")


def test_higher_priority_goes_first(bench: Bench) -> None:
    """Whatever came first, the room goes to the more important pod."""
    bench.node("n0", cpu="1", ready=False, taints=[{"key": "boot", "effect": "NoSchedule"}])
    for name, value in (("low", 1), ("high", 1000)):
        metadata = {"name": name}
        bench.store.create("priorityclasses.scheduling.k8s.io", {"metadata": metadata, "value": value})
        bench.pod(name, priorityClassName=name, priority=value)
    bench.run(1)
    bench.node("n1", cpu="1")
    bench.run(1)
    assert bench.nodes_of() == {"low": "", "high": "n1"}


def test_a_more_important_pod_preempts(bench: Bench) -> None:
    """The least important pod goes with a DisruptionTarget, and the other takes its place."""
    bench.node("n0", cpu="2")
    for name, value in (("low", 1), ("middle", 10), ("high", 1000)):
        bench.store.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})
    bench.pod("a-low", priorityClassName="low", priority=1)
    bench.pod("b-middle", priorityClassName="middle", priority=10)
    bench.run(5)
    bench.pod("c-high", priorityClassName="high", priority=1000)
    bench.run(0.3)
    conditions = {entry["type"]: entry.get("reason") for entry in bench.get("a-low")["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "PreemptionByScheduler"
    assert bench.get("c-high")["status"]["nominatedNodeName"] == "n0"
    bench.run(5)
    assert bench.nodes_of() == {"b-middle": "n0", "c-high": "n0"}


def test_a_gated_pod_waits_for_its_gates(bench: Bench) -> None:
    """SchedulingGated is not Unschedulable, and nothing is bound before the last gate is gone."""
    bench.node("n0")
    bench.pod("p", schedulingGates=[{"name": "lab/quota"}])
    bench.run(1)
    reasons = [entry.get("reason") for entry in bench.get("p")["status"]["conditions"]]
    assert reasons == ["SchedulingGated"]
    pod = bench.get("p")
    spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
    bench.store.update("pods", {**pod, "spec": spec})
    bench.run(1)
    assert bench.nodes_of() == {"p": "n0"}


def test_another_scheduler_s_pods_are_left_alone(bench: Bench) -> None:
    """spec.schedulerName decides who binds."""
    bench.node("n0")
    bench.pod("theirs", schedulerName="volcano")
    bench.run(2)
    assert bench.nodes_of() == {"theirs": ""}


def test_messages_of_waiting_pods_are_brought_up_to_date(bench: Bench) -> None:
    """A node that does not help still changes the count in the message."""
    bench.node("n0", cpu="1")
    bench.pod("big", cpu="8")
    bench.run(1)
    bench.node("n1", cpu="1")
    bench.run(10)
    assert bench.why("big").startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_the_same_seed_gives_the_same_placement() -> None:
    """Two worlds with the same start are bound alike."""
    from tests.sandbox.kube.bench import make_bench

    found = []
    for _ in range(2):
        bench = make_bench()
        for number in range(7):
            bench.node(f"n{number}", cpu=str(2 + number % 3))
        bench.job("sweep", completions=15, parallelism=15)
        bench.run(5)
        found.append(bench.nodes_of())
    assert found[0] == found[1]


def test_two_thousand_pods_over_two_hundred_nodes_are_quick(bench: Bench) -> None:
    """Half of them constrained; the budget leaves room for a slow machine."""
    for number in range(200):
        bench.node(f"n{number:03}", cpu="16", labels={ZONE: f"z{number % 3}"})
    bench.run(1)
    for number in range(2000):
        constraints = [spread(HOSTNAME)] if number % 2 else []
        spec = pod_spec("1", topologySpreadConstraints=constraints)
        metadata = {"name": f"p{number:04}", "namespace": "research", "labels": {"app": "web"}}
        bench.store.create("pods", {"metadata": metadata, "spec": spec})
    began = time.perf_counter()
    bench.run(0.2)
    took = time.perf_counter() - began
    assert Counter(bool(node) for node in bench.nodes_of().values()) == {True: 2000}
    assert took < 10
