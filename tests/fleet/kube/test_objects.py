"""What goes over the wire when objects are read and changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from fleet.errors import BadInput, Conflict, NotFound, Refused, Throttled
from fleet.kube.objects import KubeObjects, collection_path, plural
from fleet.model import Ref
from tests.fleet.kube.scripted import ScriptedApi, connection, fails, page, serving, status

JOBS = "/apis/batch/v1/namespaces/research/jobs"
JOB = Ref("home", "batch/v1", "Job", "research", "j")
POD = Ref("home", "v1", "Pod", "research", "p")
PODS = "/api/v1/namespaces/research/pods"
MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "research"},
}


@pytest.fixture
def api() -> ScriptedApi:
    """An empty cluster."""
    return ScriptedApi()


@pytest.fixture
def objects(api, tmp_path) -> Iterator[KubeObjects]:
    """Objects of that cluster."""
    with serving(api) as address:
        yield KubeObjects(connection(address, tmp_path))


def says(api: ScriptedApi, method: str, path: str, body: Any = None) -> None:
    """The next answer to a request."""
    api.answers[method, path].append(web.json_response(body or {}))


def test_create_posts_json_to_the_collection(api, objects):
    """A dry run differs only by its query."""
    says(api, "POST", JOBS, {"metadata": {"uid": "1"}})
    says(api, "POST", JOBS)
    assert objects.create(MANIFEST) == {"metadata": {"uid": "1"}}
    objects.create(MANIFEST, dry_run=True)
    assert api.calls == [("POST", JOBS, {}), ("POST", JOBS, {"dryRun": "All"})]
    assert api.bodies == [MANIFEST, MANIFEST]
    assert api.headers[0]["Content-Type"] == "application/json"


def test_apply_is_a_patch_with_manager_and_force(api, objects):
    """Server-side apply goes out as JSON under its own content type."""
    says(api, "PATCH", f"{JOBS}/j")
    objects.apply(MANIFEST, manager="quartermaster", dry_run=True)
    assert api.calls == [
        ("PATCH", f"{JOBS}/j", {"fieldManager": "quartermaster", "force": "true", "dryRun": "All"})
    ]
    assert api.headers[0]["Content-Type"] == "application/apply-patch+yaml"
    assert api.bodies == [MANIFEST]


def test_merge_patch_keeps_nulls(api, objects):
    """A null removes a field, so it has to arrive; the content type is merge, not strategic."""
    says(api, "PATCH", f"{JOBS}/j")
    objects.merge_patch(JOB, {"spec": {"suspend": True}, "metadata": {"annotations": {"a": None}}})
    assert api.headers[0]["Content-Type"] == "application/merge-patch+json"
    assert api.bodies == [{"spec": {"suspend": True}, "metadata": {"annotations": {"a": None}}}]


def test_get_with_a_uid_means_that_very_object(api, objects):
    """Another object under the same name is not the one that was meant."""
    says(api, "GET", f"{JOBS}/j", {"metadata": {"uid": "2"}})
    with pytest.raises(NotFound, match="another object has its name"):
        objects.get(Ref("home", "batch/v1", "Job", "research", "j", "1"))


def test_delete_tells_grace_propagation_and_uid(api, objects):
    """Everything that limits a deletion is in its body."""
    says(api, "DELETE", f"{JOBS}/j")
    objects.delete(
        Ref("home", "batch/v1", "Job", "research", "j", "u1"), grace_seconds=0, propagation="Foreground"
    )
    assert api.bodies == [
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u1"},
        }
    ]


def test_deleting_what_is_gone_is_fine(api, objects):
    """404 is what was wanted, and so is 409 where another object has taken the name."""
    api.answers["DELETE", f"{JOBS}/j"] += [
        status(404, "NotFound"),
        status(409, "Conflict"),
        status(409, "Conflict"),
    ]
    objects.delete(JOB)
    objects.delete(Ref("home", "batch/v1", "Job", "research", "j", "u1"))
    with pytest.raises(Conflict):
        objects.delete(JOB)


def test_evict(api, objects):
    """An eviction carries apiVersion and kind; a budget that refuses is Throttled; a gone pod is fine."""
    path = f"{PODS}/p/eviction"
    says(api, "POST", path)
    api.answers["POST", path] += [
        status(429, "TooManyRequests", "disruption budget"),
        status(404, "NotFound"),
    ]
    objects.evict(Ref("home", "v1", "Pod", "research", "p", "u"))
    assert api.bodies[0] == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "research"},
        "deleteOptions": {"preconditions": {"uid": "u"}},
    }
    with pytest.raises(Throttled, match="disruption budget"):
        objects.evict(POD)
    objects.evict(POD)


def test_logs(api, objects):
    """The tail of one container; nothing where it has not started; other refusals stay."""
    path = f"{PODS}/p/log"
    api.answers["GET", path] += [
        web.Response(body=b"caf\xc3\xa9\n\xff"),
        status(400, "BadRequest", 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        status(400, "BadRequest", "a container name must be specified"),
    ]
    assert objects.logs(POD, container="c", tail=5) == "café\n�"
    assert api.calls[0][2] == {"tailLines": "5", "container": "c"}
    assert objects.logs(POD) == ""
    with pytest.raises(Refused, match="container name"):
        objects.logs(POD)


def test_list_reads_all_pages_and_names_what_it_read(api, objects):
    """Items carry no kind on the wire; all pages come, and one that expired starts the list over."""
    first = page([{"metadata": {"name": "a"}}], 5, "t")
    api.lists[JOBS] += [first, fails(410, "Expired"), first, page([{"metadata": {"name": "b"}}], 5)]
    found = objects.list("batch/v1", "Job", "research", labels="a=b,!c")
    assert [item["metadata"]["name"] for item in found] == ["a", "b"]
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("batch/v1", "Job")}
    assert all(query["labelSelector"] == "a=b,!c" for _, _, query in api.calls)


def test_events_of_an_object(api, objects):
    """Events are read by the name of what they are about."""
    events = "/api/v1/namespaces/research/events"
    api.lists[events].append(page([{"reason": "Pulled"}], 5))
    assert objects.events("research", "p")[0]["reason"] == "Pulled"
    assert api.calls[0][2]["fieldSelector"] == "involvedObject.name=p"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"kind": "Job", "metadata": {"name": "j"}}, "needs apiVersion and kind"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "needs metadata.namespace"),
    ],
)
def test_objects_that_cannot_be_placed_are_refused_before_they_are_sent(api, objects, manifest, words):
    """A manifest without kind or namespace never reaches the API."""
    with pytest.raises(BadInput, match=words):
        objects.create(manifest)
    assert api.calls == []


def test_a_name_cannot_leave_its_place(api, objects):
    """A slash in a name is quoted, not a path."""
    api.answers["GET", f"{JOBS}/../x"].append(web.json_response({"metadata": {}}))
    objects.get(Ref("home", "batch/v1", "Job", "research", "../x"))
    with pytest.raises(BadInput, match="without a name"):
        objects.get(Ref("home", "batch/v1", "Job", "research", ""))


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("Pod", "pods"),
        ("PriorityClass", "priorityclasses"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Endpoints", "endpoints"),
        ("ResourceQuota", "resourcequotas"),
        ("ClusterQueue", "clusterqueues"),
        ("Gateway", "gateways"),
    ],
)
def test_plural(kind, word):
    """Resource names as the API forms them."""
    assert plural(kind) == word


def test_cluster_wide_kinds_have_no_namespace_in_their_path():
    """A namespace in a Node's manifest is not part of its path."""
    assert collection_path("v1", "Node", "research") == "/api/v1/nodes"
    assert collection_path("batch/v1", "Job") == "/apis/batch/v1/jobs"
    assert (
        collection_path("coordination.k8s.io/v1", "Lease", "a")
        == "/apis/coordination.k8s.io/v1/namespaces/a/leases"
    )
