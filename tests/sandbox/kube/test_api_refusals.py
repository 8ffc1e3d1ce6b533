"""What the API refuses: codes, reasons and sentences are those of a real 1.36 API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.kube.serving import (
    APPLY,
    JOBS,
    JSON_PATCH,
    LEASES,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    config_map,
    container,
    job,
    pod,
)


def with_container(**more):
    """A pod whose only container is special."""
    return pod("x", containers=[container(**more)])


def resources(**more):
    """A pod whose container asks for something special."""
    return with_container(resources=more)


DECODING: list[tuple[str, Any, str]] = [
    (PODS, resources(requests={"cpu": "1K"}), "unable to parse quantity's suffix"),
    (PODS, resources(requests={"cpu": "inf"}), "quantities must match the regular expression"),
    (
        PODS,
        with_container(env=[{"name": "A", "value": 5}]),
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ),
    (
        MAPS,
        {"metadata": {"name": "x"}, "data": {"a": 1}},
        (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go '
            "struct field ConfigMap.data of type string"
        ),
    ),
    (
        LEASES,
        {"metadata": {"name": "l"}, "spec": {"renewTime": "yesterday"}},
        'parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006"',
    ),
    (PODS, job("x"), "converting (v1.Job) to (core.Pod): unknown conversion"),
    (PODS, pod("x") | {"apiVersion": "v2"}, 'no kind "Pod" is registered for version "v2"'),
    (
        PODS + "?fieldValidation=Strict",
        pod("x") | {"foo": 1},
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "foo"',
    ),
    (PODS, b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
    (
        PODS,
        pod("x") | {"metadata": {"name": "x", "namespace": "default"}},
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    (
        "/api/v1/namespaces/research/secrets",
        {"metadata": {"name": "s"}, "data": {"a": "***"}},
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0',
    ),
]


@pytest.mark.parametrize(("path", "body", "sentence"), DECODING, ids=range(len(DECODING)))
def test_what_cannot_be_decoded_is_a_bad_request(served, path, body, sentence):
    """400 BadRequest, naming the field and the type where it is one."""
    code, status = served.call("POST", path, body)

    assert (code, status["reason"]) == (400, "BadRequest")
    assert sentence in status["message"]


PLACES: list[tuple[str, str, Any, int, str, str]] = [
    ("GET", PODS + "/nope", None, 404, "NotFound", 'pods "nope" not found'),
    ("GET", JOBS + "/nope", None, 404, "NotFound", 'jobs.batch "nope" not found'),
    ("DELETE", PODS + "/nope", None, 404, "NotFound", 'pods "nope" not found'),
    ("POST", "/api/v1/namespaces/nope/pods", pod("x"), 404, "NotFound", 'namespaces "nope" not found'),
    ("GET", "/api/v1/widgets", None, 404, "NotFound", "the server could not find the requested resource"),
    ("PUT", PODS, pod("x"), 405, "MethodNotAllowed", "the server does not allow this method"),
    ("POST", PODS + "/x", pod("x"), 405, "MethodNotAllowed", "the server does not allow this method"),
    ("DELETE", "/api/v1/namespaces", None, 405, "MethodNotAllowed", "the server does not allow this method"),
    ("DELETE", "/api/v1/namespaces/default", None, 403, "Forbidden", "this namespace may not be deleted"),
    ("PUT", MAPS + "/x", config_map("x"), 404, "NotFound", 'configmaps "x" not found'),
    (
        "PUT",
        MAPS + "/x",
        config_map("y"),
        400,
        "BadRequest",
        "the name of the object (y) does not match the name",
    ),
    ("PUT", MAPS + "/x", {"data": {}}, 400, "BadRequest", "undeterminable: name must be provided"),
    (
        "POST",
        PODS,
        pod("x", priorityClassName="nope"),
        403,
        "Forbidden",
        'pods "x" is forbidden: no PriorityClass with name nope was found',
    ),
    (
        "POST",
        PODS + "?dryRun=Some",
        pod("x"),
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    (
        "DELETE",
        PODS + "/x",
        {"propagationPolicy": "Sideways"},
        422,
        "Invalid",
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways"',
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "sentence"), PLACES, ids=range(len(PLACES))
)
def test_wrong_places_and_options(served, method, path, body, code, reason, sentence):
    """Missing objects, paths, methods and options each have their code, reason and sentence."""
    answered, status = served.call(method, path, body)

    assert (answered, status["reason"]) == (code, reason)
    assert sentence in status["message"]


def test_another_media_type_is_named(served):
    """415 says what would be accepted; for a patch it only says no."""
    code, status = served.call("POST", PODS, b"{}", kind="text/plain")
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert "accepted media types include: application/json, application/yaml" in status["message"]

    served.ok("POST", MAPS, config_map("c"))
    code, status = served.call("PATCH", MAPS + "/c", {}, kind="application/json")
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")


def test_a_body_over_three_megabytes_is_too_large(served):
    """413, as the real server's limit is 3,145,728 bytes."""
    code, status = served.call("POST", MAPS, config_map("x", a="b" * (3 << 20)))

    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"


PATCHES: list[tuple[str, Any, int, str]] = [
    (MERGE, {"metadata": {"name": "other"}}, 400, "does not match the name on the URL (c)"),
    (
        MERGE,
        {"metadata": {"resourceVersion": "1"}},
        409,
        "the object has been modified; please apply your changes",
    ),
    (MERGE, {"metadata": {"uid": "u"}}, 422, 'metadata.uid: Invalid value: "u": field is immutable'),
    (MERGE, [], 400, "cannot unmarshal array into Go value of type map[string]interface {}"),
    (MERGE, b"{", 400, "error decoding patch: unexpected end of JSON input"),
    (MERGE, {"data": "text"}, 422, "json: cannot unmarshal string into Go struct field ConfigMap.data"),
    (STRATEGIC, {"data": {"a b": "1"}}, 422, "data[a b]: Invalid value"),
    (JSON_PATCH, [{"op": "test", "path": "/data/a", "value": "9"}], 422, "the server rejected our request"),
    (JSON_PATCH, [{"op": "remove", "path": "/data/nope"}], 422, "the server rejected our request"),
    (JSON_PATCH, {"a": 1}, 400, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    (APPLY, config_map("c"), 422, "fieldManager: Required value: is required for apply patch"),
]


@pytest.mark.parametrize(("kind", "body", "code", "sentence"), PATCHES, ids=range(len(PATCHES)))
def test_patches_that_are_refused(served, kind, body, code, sentence):
    """Nothing of a refused patch is kept."""
    made = served.ok("POST", MAPS, config_map("c", a="1"))
    answered, status = served.call("PATCH", MAPS + "/c", body, kind=kind)

    assert answered == code, status
    assert sentence in status["message"]
    assert served.ok("GET", MAPS + "/c") == made


def test_a_create_with_a_version_is_an_error(served):
    """500 without a reason, as the real server says it."""
    manifest = config_map("c")
    manifest["metadata"]["resourceVersion"] = "5"
    code, status = served.call("POST", MAPS, manifest)

    assert code == 500
    assert status["message"] == "resourceVersion should not be set on objects to be created"
    assert "reason" not in status


def test_a_namespace_is_finalized_through_its_subresource(served):
    """A plain PUT does not take the finalizer away; `finalize` does, and the namespace goes."""
    path = "/api/v1/namespaces/research"
    served.ok("DELETE", path)
    body = {"metadata": {"name": "research"}, "spec": {"finalizers": []}}
    assert served.ok("PUT", path, body)["spec"] == {"finalizers": ["kubernetes"]}

    served.ok("PUT", path + "/finalize", body)
    assert served.call("GET", path)[0] == 404


def test_nothing_new_comes_into_a_terminating_namespace(served):
    """403 with the cause NamespaceTerminating, for POST and for apply."""
    served.ok("DELETE", "/api/v1/namespaces/research")

    for method, path, kind in (
        ("POST", MAPS, "application/json"),
        ("PATCH", MAPS + "/c?fieldManager=m", APPLY),
    ):
        code, status = served.call(method, path, config_map("c"), kind=kind)
        assert (code, status["reason"]) == (403, "Forbidden")
        assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
