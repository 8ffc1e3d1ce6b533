"""Lists: consistent pages, selectors, versions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from kubernetes import client

from tests.sandbox.kube.serving import MAPS, MERGE, PODS, config_map, pod


def names(found):
    """Names of a list's items."""
    return [item["metadata"]["name"] for item in found["items"]]


def fill(served, count):
    """ConfigMaps c00, c01, …"""
    for number in range(count):
        served.ok("POST", MAPS, config_map(f"c{number:02}", labels={"n": str(number % 2)}))


def test_a_list_has_its_kind_and_version_and_its_items_have_none(served):
    """As the real server writes typed lists."""
    fill(served, 2)
    found = served.ok("GET", MAPS)

    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert found["metadata"] == {"resourceVersion": str(served.do(lambda: served.store.version))}
    assert all("kind" not in item and "apiVersion" not in item for item in found["items"])
    assert served.ok("GET", "/apis/batch/v1/jobs")["items"] == []


def test_pages_are_one_consistent_view(served):
    """Changes between pages are not seen; the pages carry the version of the first."""
    fill(served, 7)
    page = served.ok("GET", MAPS + "?limit=3")
    first = page
    seen = names(page)
    served.ok("DELETE", MAPS + "/c04")
    served.ok("POST", MAPS, config_map("c05a"))
    served.ok("PATCH", MAPS + "/c06", {"data": {"new": "1"}}, kind=MERGE)
    while token := page["metadata"].get("continue"):
        page = served.ok("GET", f"{MAPS}?limit=3&continue={quote(token)}")
        seen += names(page)

    assert seen == [f"c{number:02}" for number in range(7)]
    assert first["metadata"]["remainingItemCount"] == 4
    assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert page["items"][-1]["metadata"]["name"] == "c06"
    assert "data" not in page["items"][-1]


def test_a_page_after_compaction_is_410_with_a_way_on(served):
    """The Status carries a token with which the rest comes, inconsistent."""
    fill(served, 5)
    token = served.ok("GET", MAPS + "?limit=2")["metadata"]["continue"]
    served.ok("DELETE", MAPS + "/c03")
    served.do(served.api.compact)
    code, status = served.call("GET", f"{MAPS}?limit=2&continue={quote(token)}")

    assert (code, status["reason"]) == (410, "Expired")
    assert status["message"].startswith("The provided continue parameter is too old")
    rest = served.ok("GET", f"{MAPS}?continue={quote(status['metadata']['continue'])}")
    assert names(rest) == ["c02", "c04"]


def test_an_exact_version_is_rebuilt_and_a_compacted_one_is_410(served):
    """resourceVersionMatch=Exact."""
    fill(served, 2)
    version = served.ok("GET", MAPS)["metadata"]["resourceVersion"]
    served.ok("DELETE", MAPS + "/c00")
    query = f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"

    assert names(served.ok("GET", query)) == ["c00", "c01"]
    assert names(served.ok("GET", f"{MAPS}?resourceVersion={version}")) == ["c01"]
    served.do(served.api.compact)
    assert served.call("GET", query)[0] == 410


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("n=0", ["c00", "c02"]),
        ("n==0", ["c00", "c02"]),
        ("n!=0", ["c01", "plain"]),
        ("n in (0,1)", ["c00", "c01", "c02"]),
        ("n notin (0)", ["c01", "plain"]),
        ("n", ["c00", "c01", "c02"]),
        ("!n", ["plain"]),
        ("n>0", ["c01"]),
        ("n=0,n!=0", []),
        (" n = 0 ", ["c00", "c02"]),
        ("", ["c00", "c01", "c02", "plain"]),
    ],
)
def test_label_selectors(served, selector, wanted):
    """All forms of the language."""
    fill(served, 3)
    served.ok("POST", MAPS, config_map("plain"))

    assert names(served.ok("GET", f"{MAPS}?labelSelector={quote(selector)}")) == wanted


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a gt 5", "unable to parse requirement: found 'gt', expected: in, notin, =, ==, !=, gt, lt"),
        ("-a=b", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of'),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ],
)
def test_label_selectors_that_cannot_be_read(served, selector, sentence):
    """400 in the parser's words."""
    code, status = served.call("GET", f"{MAPS}?labelSelector={quote(selector)}")

    assert (code, status["reason"]) == (400, "BadRequest")
    assert sentence in status["message"]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName!=n1", ["b"]),
        ("spec.nodeName=", ["b"]),
        ("status.phase=Pending,metadata.name=b", ["b"]),
        ("metadata.namespace=default", []),
        ("spec.schedulerName=default-scheduler", ["a", "b"]),
        ("spec.restartPolicy==Never", []),
    ],
)
def test_field_selectors_of_pods(served, selector, wanted):
    """Where they are, how they are, what they are called."""
    served.ok("POST", PODS, pod("a"))
    served.ok("POST", PODS, pod("b"))
    served.ok(
        "POST", PODS + "/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    )

    assert names(served.ok("GET", f"{PODS}?fieldSelector={quote(selector)}")) == wanted
    assert names(served.ok("GET", f"/api/v1/pods?fieldSelector={quote(selector)}")) == wanted


def test_events_are_found_by_what_they_are_about(served):
    """involvedObject.* and reason."""
    path = "/api/v1/namespaces/research/events"
    for number, name in enumerate(("a", "b")):
        about = {"kind": "Pod", "name": name, "namespace": "research", "uid": f"u{number}"}
        manifest = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "reason": "Failed"}
        served.ok("POST", path, manifest)

    for selector in (
        "involvedObject.name=a",
        "involvedObject.uid=u0",
        "reason=Failed,involvedObject.name!=b",
    ):
        assert names(served.ok("GET", f"{path}?fieldSelector={quote(selector)}")) == ["e0"]


@pytest.mark.parametrize(
    ("query", "code", "sentence"),
    [
        ("fieldSelector=foo%3Dbar", 400, '"foo" is not a known field selector: only "metadata.name"'),
        (
            "fieldSelector=metadata.name",
            400,
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersion=abc", 400, 'invalid resource version: resourceVersion: Invalid value: "abc"'),
        ("resourceVersion=999999", 504, "Timeout: Too large resource version: 999999, current: "),
        (
            "resourceVersionMatch=Exact",
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        ("resourceVersion=5&resourceVersionMatch=Foo", 422, 'supported values: "Exact", "NotOlderThan", ""'),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, '"exact" is forbidden for resourceVersion "0"'),
        ("continue=garbage", 400, "invalid continue token: continue key is not valid"),
    ],
)
def test_lists_that_are_refused(served, query, code, sentence):
    """Wrong parameters."""
    answered, status = served.call("GET", f"{MAPS}?{query}")

    assert answered == code
    assert sentence in status["message"]


def test_the_official_client_pages_through(served):
    """Typed lists with limit and continue."""
    fill(served, 5)
    core: Any = client.CoreV1Api(served.official())
    page = core.list_namespaced_config_map("research", limit=2, label_selector="n in (0,1)")
    second = core.list_namespaced_config_map("research", limit=9, _continue=page.metadata._continue)

    assert [item.metadata.name for item in page.items + second.items] == [f"c{n:02}" for n in range(5)]


def test_a_collection_is_deleted_by_selector(served):
    """The answer lists what went."""
    fill(served, 4)
    dry = served.ok("DELETE", MAPS + "?labelSelector=n%3D0&dryRun=All")
    gone = served.ok("DELETE", MAPS + "?labelSelector=n%3D0")

    assert names(dry) == names(gone) == ["c00", "c02"]
    assert names(served.ok("GET", MAPS)) == ["c01", "c03"]
