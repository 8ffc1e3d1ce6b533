"""Pods, nodes and Services through the API: defaults, placement, eviction, logs, ends."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.sandbox.kube.serving import MERGE, PODS, SERVICES, STRATEGIC, container, pod

LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/research/poddisruptionbudgets"


def bind(served, name, node="n1"):
    """Give a pod its node."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    return served.call("POST", f"{PODS}/{name}/binding", body)


def running(served, name, **more):
    """A pod that runs and is ready."""
    served.ok("POST", PODS, pod(name, **more))
    assert bind(served, name)[0] == 201
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return served.ok("PATCH", f"{PODS}/{name}/status", {"status": status}, kind=STRATEGIC)


def test_a_pod_gets_what_the_server_gives_it(served):
    """Defaults of spec and containers, tolerations of lost nodes, priority, phase and quality of service."""
    made = served.ok("POST", PODS, pod("p"))
    spec = made["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [(t["key"], t["effect"], t["tolerationSeconds"]) for t in spec["tolerations"]] == [
        (key, "NoExecute", 300) for key in LOST
    ]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_quality_of_service(served, resources, quality):
    """From requests and limits, which fill in for missing requests."""
    made = served.ok("POST", PODS, pod("p", containers=[container(resources=resources)]))

    assert made["status"]["qosClass"] == quality


def test_priority_comes_from_the_class(served):
    """By name, else the global default; another number in the pod is refused."""
    served.ok("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    named = served.ok("POST", PODS, pod("a", priorityClassName="high"))["spec"]
    served.ok("POST", CLASSES, {"metadata": {"name": "low"}, "value": -5, "globalDefault": True})
    default = served.ok("POST", PODS, pod("b"))["spec"]
    code, status = served.call("POST", PODS, pod("c", priorityClassName="high", priority=7))

    assert named["priority"] == 1000
    assert (default["priority"], default["priorityClassName"]) == (-5, "low")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert (
        "priority admission controller computed 1000 from the given PriorityClass name" in status["message"]
    )


def test_a_status_in_a_new_pod_is_ignored(served):
    """A pod starts pending whatever its manifest says."""
    assert (
        served.ok("POST", PODS, pod("p") | {"status": {"phase": "Running"}})["status"]["phase"] == "Pending"
    )


def test_a_pod_is_bound_once(served):
    """The scheduler's call: node and condition at once, no new generation, a second one is a conflict."""
    served.ok("POST", PODS, pod("p"))
    assert bind(served, "p")[0] == 201
    bound = served.ok("GET", PODS + "/p")
    code, status = bind(served, "p", "n2")

    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert bound["metadata"]["generation"] == 1
    assert (code, status["reason"]) == (409, "Conflict")
    assert 'pod p is already assigned to node "n1"' in status["message"]


def test_a_pods_spec_is_fixed_but_for_its_images_and_more_tolerations(served):
    """Everything else is forbidden, nodeName included."""
    served.ok("POST", PODS, pod("p"))
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    more = {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}
    served.ok("PATCH", PODS + "/p", image, kind=STRATEGIC)
    served.ok("PATCH", PODS + "/p", more, kind=STRATEGIC)

    for spec in ({"nodeName": "n9"}, {"schedulerName": "x"}):
        code, status = served.call("PATCH", PODS + "/p", {"spec": spec}, kind=MERGE)
        assert (code, status["details"]["causes"][0]["reason"]) == (422, "FieldValueForbidden")


def test_conditions_are_merged_by_type(served):
    """Strategic merge keeps the others, and $patch: delete takes one away."""
    served.ok("POST", PODS, pod("p"))

    def conditions(*given):
        body = {"status": {"conditions": list(given)}}
        found = served.ok("PATCH", PODS + "/p/status", body, kind=STRATEGIC)["status"]["conditions"]
        return {each["type"]: each["status"] for each in found}

    assert conditions({"type": "A", "status": "True"}) == {"A": "True"}
    assert conditions({"type": "B", "status": "False"}) == {"A": "True", "B": "False"}
    assert conditions({"type": "A", "status": "False"}) == {"A": "False", "B": "False"}
    assert conditions({"type": "A", "$patch": "delete"}) == {"B": "False"}


def test_a_running_pod_is_deleted_with_grace(served):
    """It stays, marked, until its kubelet deletes it with no grace."""
    running(served, "p")
    marked = served.ok("DELETE", PODS + "/p", {"gracePeriodSeconds": 15})
    again = served.ok("DELETE", PODS + "/p")
    last = served.ok("DELETE", PODS + "/p?gracePeriodSeconds=0")

    assert marked["metadata"]["deletionGracePeriodSeconds"] == 15
    assert marked["metadata"]["deletionTimestamp"] == "2026-11-06T17:00:15Z"
    assert again["metadata"] == marked["metadata"]
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0
    assert served.call("GET", PODS + "/p")[0] == 404


def test_preconditions_protect(served):
    """uid and resourceVersion have to be the object's."""
    made = served.ok("POST", PODS, pod("p"))["metadata"]
    for key, value in (("uid", "00000000"), ("resourceVersion", "1")):
        code, status = served.call("DELETE", PODS + "/p", {"preconditions": {key: value}})
        assert (code, status["reason"]) == (409, "Conflict")
        assert "in the precondition" in status["message"]

    wanted = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    served.ok("DELETE", PODS + "/p", {"preconditions": wanted})


def test_dry_runs_change_nothing(served):
    """Create, patch, delete and evict answer as if, and the store stays."""
    running(served, "p")
    before = served.do(lambda: served.store.version)
    dry = "?dryRun=All"

    assert "resourceVersion" not in served.ok("POST", PODS + dry, pod("q"))["metadata"]
    assert served.call("POST", PODS + dry, pod("p"))[0] == 409
    patched = served.ok("PATCH", PODS + "/p" + dry, {"metadata": {"labels": {"a": "b"}}}, kind=MERGE)
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert served.ok("DELETE", PODS + "/p" + dry)["metadata"]["deletionTimestamp"]
    served.ok("DELETE", PODS + "/p", {"dryRun": ["All"]})
    served.ok("POST", PODS + "/p/eviction" + dry, {"metadata": {"name": "p"}})
    assert served.do(lambda: served.store.version) == before
    assert served.api.ledger.mutations[-1].verb != "evict"


def test_an_eviction_deletes_and_says_why(served):
    """DisruptionTarget, then the pod's grace. The official client's body has no kind."""
    running(served, "p", terminationGracePeriodSeconds=7)
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace="research"))
    client.CoreV1Api(served.official()).create_namespaced_pod_eviction("p", "research", body)
    found = served.ok("GET", PODS + "/p")

    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    target = next(c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert target["reason"] == "EvictionByEvictionAPI"


@pytest.mark.parametrize("limit", [{"minAvailable": 2}, {"minAvailable": "100%"}, {"maxUnavailable": 0}])
def test_a_disruption_budget_refuses_an_eviction(served, limit):
    """429 with the cause, and the pod stays; a pod that does not run is not protected."""
    spec = {"selector": {"matchLabels": {"g": "h"}}} | limit
    served.ok("POST", BUDGETS, {"metadata": {"name": "d"}, "spec": spec})
    for name in ("a", "b"):
        running(served, name)
        served.ok("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"g": "h"}}}, kind=MERGE)
    served.ok("POST", PODS, pod("idle", labels={"g": "h"}))
    code, status = served.call("POST", PODS + "/a/eviction", {"metadata": {"name": "a"}})

    assert (code, status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in served.ok("GET", PODS + "/a")["metadata"]
    served.ok("POST", PODS + "/idle/eviction", {"metadata": {"name": "idle"}})


def test_logs_by_container(served):
    """Text from the kubelet; nothing before the pod has a node; a choice where there are several."""
    served.ok("POST", PODS, pod("p"))
    served.ok("POST", PODS, pod("two", containers=[container(), container(name="side")]))
    assert served.call("GET", PODS + "/p/log") == (204, {"text": ""})
    bind(served, "p")
    code, status = served.call("GET", PODS + "/p/log")
    assert (code, status["message"]) == (
        400,
        'container "main" in pod "p" is waiting to start: ContainerCreating',
    )

    started = {"phase": "Running", "containerStatuses": []}
    served.do(served.store.patch_status, "pods", "research", "p", started)
    served.api.reader.logs = lambda pod, container, tail: f"{container}:{tail}"
    assert served.call("GET", PODS + "/p/log?tailLines=5")[1] == {"text": "main:5"}
    assert (
        served.call("GET", PODS + "/p/log?container=zz")[1]["message"]
        == "container zz is not valid for pod p"
    )
    assert "choose one of: [main side]" in served.call("GET", PODS + "/two/log")[1]["message"]


def test_a_node_joins_not_ready(served):
    """Its status is kept, and a taint holds pods back until somebody has seen that it is ready."""
    status = {"capacity": {"cpu": 4, "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    manifest = {"metadata": {"name": "n1"}, "spec": {"providerID": "aws:///a/i-1"}, "status": status}
    made = served.ok("POST", "/api/v1/nodes", manifest)

    assert made["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi"}
    assert made["spec"]["taints"] == [{"key": LOST[0], "effect": "NoSchedule"}]
    cordoned = served.ok("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}, kind=MERGE)
    assert cordoned["spec"]["unschedulable"] is True
    found = served.ok("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue")
    assert len(found["items"]) == 1
    code, refused = served.call("PATCH", "/api/v1/nodes/n1", {"spec": {"providerID": "aws:///b"}}, kind=MERGE)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "spec.providerID")


def test_a_headless_service(served):
    """No ports needed, no address given; with a selector it is single stack."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "b"}}
    made = served.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})["spec"]
    address = served.ok("POST", SERVICES, {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}})[
        "spec"
    ]

    assert (made["clusterIP"], made["clusterIPs"], made["ipFamilyPolicy"]) == (
        "None",
        ["None"],
        "SingleStack",
    )
    assert address["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert address["clusterIP"].count(".") == 3


def test_the_official_client_reads_everything_back(served):
    """Its strict models accept pods, nodes and namespaces as they are served."""
    running(served, "p")
    served.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}})
    core: Any = client.CoreV1Api(served.official())

    assert core.list_pod_for_all_namespaces().items[0].status.phase == "Running"
    assert core.read_node("n1").status.capacity == {"cpu": "4"}
    assert {each.metadata.name for each in core.list_namespace().items} >= {
        "default",
        "research",
        "kube-system",
    }
    assert client.VersionApi(served.official()).get_code().git_version == "v1.36.3"
