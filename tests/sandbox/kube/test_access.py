"""Who may do what: tokens, RBAC rules, and the sentence of a 403."""

from __future__ import annotations

import pytest

from tests.sandbox.kube.serving import JOBS, MAPS, MERGE, PODS, config_map


def as_product(served, method, path, body=None, kind="application/json"):
    """A call of the user whose rules count."""
    return served.call(method, path, body, kind=kind, Authorization="Bearer product-token")


def allow(served, **rule):
    """Give the product one rule."""
    served.api.access.rules["product"] = (rule,)


def test_a_token_that_nobody_has(served):
    """401, without details."""
    code, status = served.call("GET", PODS, Authorization="Bearer nope")

    assert (code, status["reason"], status["message"]) == (401, "Unauthorized", "Unauthorized")


def test_nobody_is_anonymous(served):
    """Without a token one may ask for the version and the health, nothing else."""
    code, status = served.call("GET", PODS, Authorization="")
    assert code == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in status["message"]

    for path in ("/healthz", "/readyz", "/livez"):
        assert served.call("GET", path, Authorization="") == (200, {"text": "ok"})
    assert served.call("GET", "/version", Authorization="")[1]["minor"] == "36"


@pytest.mark.parametrize(
    ("method", "path", "sentence"),
    [
        ("GET", PODS, 'pods is forbidden: User "product" cannot list resource "pods" in API group "" in the namespace "research"'),
        ("GET", "/api/v1/nodes", 'nodes is forbidden: User "product" cannot list resource "nodes" in API group "" at the cluster scope'),
        ("GET", PODS + "?watch=1", 'User "product" cannot watch resource "pods"'),
        ("GET", PODS + "/x/log", 'pods "x" is forbidden: User "product" cannot get resource "pods/log"'),
        ("POST", PODS + "/x/eviction", 'User "product" cannot create resource "pods/eviction" in API group ""'),
        ("DELETE", PODS, 'User "product" cannot deletecollection resource "pods"'),
        (
            "PATCH",
            JOBS + "/x/status",
            'jobs.batch "x" is forbidden: User "product" cannot patch resource "jobs/status" in API group "batch" in the namespace "research"',
        ),
        ("GET", "/metrics", 'forbidden: User "product" cannot get path "/metrics"'),
    ],
)  # fmt: skip
def test_what_no_rule_allows_is_named(served, method, path, sentence):
    """Verb, resource, group and place, as the real authoriser says it."""
    code, status = as_product(served, method, path, {} if method in ("POST", "PATCH") else None, kind=MERGE)

    assert (code, status["reason"]) == (403, "Forbidden")
    assert sentence in status["message"]


def test_a_rule_allows_exactly_what_it_says(served):
    """Another verb, group or subresource is still forbidden."""
    allow(served, apiGroups=[""], resources=["configmaps"], verbs=["get", "create"])

    assert as_product(served, "POST", MAPS, config_map("c"))[0] == 201
    assert as_product(served, "GET", MAPS + "/c")[0] == 200
    assert as_product(served, "GET", MAPS)[0] == 403
    assert as_product(served, "GET", PODS)[0] == 403
    assert as_product(served, "PATCH", MAPS + "/c", {}, kind=MERGE)[0] == 403


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, 200),
        ({"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["patch"]}, 200),
        ({"apiGroups": ["batch"], "resources": ["*/status"], "verbs": ["patch"]}, 200),
        ({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["patch"]}, 403),
        ({"apiGroups": [""], "resources": ["jobs/status"], "verbs": ["patch"]}, 403),
        ({"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]}, 403),
        (
            {
                "apiGroups": ["batch"],
                "resources": ["jobs/status"],
                "verbs": ["patch"],
                "resourceNames": ["j"],
            },
            200,
        ),
        (
            {
                "apiGroups": ["batch"],
                "resources": ["jobs/status"],
                "verbs": ["patch"],
                "resourceNames": ["k"],
            },
            403,
        ),
        (
            {
                "apiGroups": ["batch"],
                "resources": ["jobs/status"],
                "verbs": ["patch"],
                "namespaces": ["research"],
            },
            200,
        ),
        (
            {
                "apiGroups": ["batch"],
                "resources": ["jobs/status"],
                "verbs": ["patch"],
                "namespaces": ["prod"],
            },
            403,
        ),
    ],
)
def test_subresources_names_and_namespaces(served, rule, code):
    """A rule for jobs is none for jobs/status."""
    served.do(
        served.store.create, "jobs.batch", {"metadata": {"name": "j", "namespace": "research"}, "spec": {}}
    )
    allow(served, **rule)

    assert as_product(served, "PATCH", JOBS + "/j/status", {"status": {"active": 0}}, kind=MERGE)[0] in (
        code,
        422,
    )
    assert (as_product(served, "PATCH", JOBS + "/j/status", {}, kind=MERGE)[0] == 403) is (code == 403)


def test_paths_that_are_no_resources(served):
    """nonResourceURLs, with a star at the end; discovery is open to everybody with a token."""
    assert as_product(served, "GET", "/apis/batch/v1")[0] == 200
    assert as_product(served, "GET", "/metrics")[0] == 403
    allow(served, nonResourceURLs=["/met*"], verbs=["get"])
    assert as_product(served, "GET", "/metrics")[0] == 404


def test_discovery_lists_what_is_served(served):
    """Groups, versions, resources with verbs and subresources."""
    groups = [group["name"] for group in served.ok("GET", "/apis")["groups"]]
    resources = {each["name"]: each for each in served.ok("GET", "/apis/batch/v1")["resources"]}

    assert {"batch", "apps", "coordination.k8s.io", "scheduling.k8s.io", "policy"} <= set(groups)
    assert resources["jobs"]["kind"] == "Job"
    assert "deletecollection" in resources["jobs"]["verbs"]
    assert resources["jobs/status"]["verbs"] == ["get", "patch", "update"]
    assert served.ok("GET", "/api")["versions"] == ["v1"]
    assert served.call("GET", "/apis/nope.io/v1")[0] == 404


def test_a_caller_may_ask_what_it_may_do(served):
    """A SelfSubjectAccessReview: as authorisation would decide, without a trace; nobody needs a rule for it."""
    allow(served, verbs=["get"], apiGroups=[""], resources=["pods/log"])
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    before = served.store.version

    def allowed(verb, subresource=""):
        attributes = {"verb": verb, "resource": "pods", "subresource": subresource, "namespace": "research"}
        code, answer = as_product(served, "POST", path, {"spec": {"resourceAttributes": attributes}})
        assert (code, answer["kind"]) == (201, "SelfSubjectAccessReview")
        return answer["status"]["allowed"]

    assert [allowed("get", "log"), allowed("get"), allowed("delete", "log")] == [True, False, False]
    assert (served.store.version, served.api.ledger.mutations) == (before, [])
