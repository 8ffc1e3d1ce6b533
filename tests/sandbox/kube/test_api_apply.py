"""Server-side apply: who owns which field, what is dropped, what is a conflict."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.sandbox.kube.serving import (
    APPLY,
    JOBS,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    config_map,
    container,
    job,
    pod,
)


def apply(served, manager, manifest, path=MAPS, *, force=False, query=""):
    """Apply a manifest as a manager; status and answer."""
    force_query = "&force=true" if force else ""
    where = f"{path}/{manifest['metadata']['name']}?fieldManager={manager}{force_query}{query}"
    return served.call("PATCH", where, manifest, kind=APPLY)


def owners(obj):
    """Manager and operation → FieldsV1."""
    return {(e["manager"], e["operation"]): e["fieldsV1"] for e in obj["metadata"].get("managedFields", [])}


def test_an_apply_creates_and_owns_what_it_names(served):
    """201; the defaults belong to nobody."""
    code, made = apply(served, "m1", config_map("c", a="1", b="2"))

    assert code == 201
    assert made["data"] == {"a": "1", "b": "2"}
    assert owners(made) == {("m1", "Apply"): {"f:data": {"f:a": {}, "f:b": {}}}}


def test_a_field_that_is_no_longer_named_is_dropped(served):
    """Unless somebody else owns it, too."""
    apply(served, "m1", config_map("c", a="1", b="2", c="3"))
    apply(served, "m2", config_map("c", c="3"))
    code, found = apply(served, "m1", config_map("c", a="1"))

    assert (code, found["data"]) == (200, {"a": "1", "c": "3"})
    assert owners(found) == {
        ("m1", "Apply"): {"f:data": {"f:a": {}}},
        ("m2", "Apply"): {"f:data": {"f:c": {}}},
    }


def test_another_managers_value_is_a_conflict(served):
    """409 that names the manager and the field; nothing changes. With force it moves."""
    apply(served, "m1", config_map("c", a="1"))
    code, status = apply(served, "m2", config_map("c", a="9"))
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}
    ]
    assert served.ok("GET", MAPS + "/c")["data"] == {"a": "1"}

    code, found = apply(served, "m2", config_map("c", a="9"), force=True)
    assert (code, found["data"]) == (200, {"a": "9"})
    assert owners(found) == {("m2", "Apply"): {"f:data": {"f:a": {}}}}


def test_the_same_value_is_shared(served):
    """No conflict; both own it, and it stays until both let go."""
    apply(served, "m1", config_map("c", a="1"))
    code, found = apply(served, "m2", config_map("c", a="1"))
    assert code == 200
    assert set(owners(found)) == {("m1", "Apply"), ("m2", "Apply")}

    assert apply(served, "m1", config_map("c", b="1"))[1]["data"] == {"a": "1", "b": "1"}
    assert apply(served, "m2", config_map("c", b="1"))[1]["data"] == {"b": "1"}


def test_a_plain_write_owns_what_it_changed(served):
    """An apply against it conflicts, and says that it was an update."""
    apply(served, "m1", config_map("c", a="1"))
    found = served.ok("PATCH", MAPS + "/c?fieldManager=m3", {"data": {"m": "1", "a": "2"}}, kind=MERGE)
    code, status = apply(served, "m1", config_map("c", a="1"))

    assert owners(found) == {("m3", "Update"): {"f:data": {"f:a": {}, "f:m": {}}}}
    assert code == 409
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "m3" using v1: .data.a'


def test_several_conflicts_are_listed(served):
    """One sentence a manager."""
    apply(served, "m1", config_map("c", a="1", b="1"))
    apply(served, "m2", config_map("c", c="1"))
    status = apply(served, "m3", config_map("c", a="2", b="2", c="2"))[1]

    assert status["message"] == (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .data.a\n- .data.b\nconflict with "m2": .data.c'
    )


def test_launcher_and_guard_share_a_job(served):
    """The guard takes `suspend` with force and nothing else; the launcher then conflicts on it alone."""
    manifest = job("j", parallelism=2, completions=2, completionMode="Indexed", suspend=True)
    assert apply(served, "launcher", manifest, JOBS)[0] == 201
    mine = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"suspend": False}}

    assert apply(served, "guard", mine, JOBS)[0] == 409
    code, found = apply(served, "guard", mine, JOBS, force=True)
    assert (code, found["spec"]["suspend"], found["spec"]["parallelism"]) == (200, False, 2)
    assert owners(found)[("guard", "Apply")] == {"f:spec": {"f:suspend": {}}}
    status = apply(served, "launcher", manifest, JOBS)[1]
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.suspend"]


def test_items_of_keyed_lists_are_owned_one_by_one(served):
    """Two managers add containers' variables; each drops its own."""
    full = container(
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], ports=[{"containerPort": 80}]
    )
    made = apply(served, "m1", job("j", suspend=True, template={"containers": [full]}), JOBS)[1]
    fields = owners(made)[("m1", "Apply")]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    item = fields['k:{"name":"main"}']

    assert item["f:env"] == {
        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}},
        'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}},
    }
    assert list(item["f:ports"]) == ['k:{"containerPort":80,"protocol":"TCP"}']


def test_a_dropped_list_item_goes_with_its_defaults(served):
    """A volume of a pod template, with what the server filled in."""
    volumes = [{"name": "a", "secret": {"secretName": "x"}}, {"name": "b", "emptyDir": {}}]
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [container()], "volumes": volumes},
            },
        },
    }
    path = "/apis/apps/v1/namespaces/research/deployments"
    made = apply(served, "m1", manifest, path)[1]
    assert made["spec"]["template"]["spec"]["volumes"][0]["secret"]["defaultMode"] == 420
    del volumes[0]

    found = apply(served, "m1", manifest, path)[1]
    assert found["spec"]["template"]["spec"]["volumes"] == [{"name": "b", "emptyDir": {}}]


def test_the_status_is_applied_through_its_subresource(served):
    """Its owner is another one, with the subresource's name; the spec is not touched."""
    apply(served, "m1", pod("p"), PODS)
    status = {"conditions": [{"type": "X", "status": "True"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status}
    found = served.ok("PATCH", PODS + "/p/status?fieldManager=m2", manifest, kind=APPLY)

    assert [c["type"] for c in found["status"]["conditions"]] == ["X"]
    entry = next(e for e in found["metadata"]["managedFields"] if e["manager"] == "m2")
    assert entry["subresource"] == "status"


def test_labels_of_two_managers_live_side_by_side(served):
    """Dropping the last of one's own leaves the other's."""
    apply(served, "m1", config_map("c", labels={"a": "1"}, x="1"))
    apply(served, "m2", config_map("c", labels={"b": "1"}, y="1"))
    found = apply(served, "m1", config_map("c", x="1"))[1]

    assert found["metadata"]["labels"] == {"b": "1"}
    assert "labels" not in apply(served, "m2", config_map("c", y="1"))[1]["metadata"]


def test_an_empty_map_is_owned_as_such(served):
    """Who fills it afterwards is in conflict with who emptied it, as on the real server."""
    apply(served, "m1", config_map("c"))
    code, status = apply(served, "m2", config_map("c", a="1"))

    assert (code, status["details"]["causes"][0]["field"]) == (409, ".data")


def test_applying_the_same_again_is_nothing(served):
    """No new version."""
    made = apply(served, "m1", config_map("c", a="1"))[1]

    assert apply(served, "m1", config_map("c", a="1"))[1] == made


def test_a_dry_run_applies_nothing(served):
    """201 for what is not there, and it still is not."""
    assert apply(served, "m1", config_map("c", a="1"), query="&dryRun=All")[0] == 201
    assert served.call("GET", MAPS + "/c")[0] == 404


@pytest.mark.parametrize(
    ("manifest", "code", "sentence"),
    [
        ({"metadata": {"name": "c"}, "data": {}}, 400, "invalid object type: /, Kind="),
        (
            config_map("c") | {"metadata": {"name": "c", "managedFields": []}},
            400,
            "managedFields must be nil",
        ),
        (config_map("c") | {"metadata": {"name": "c", "uid": "u"}}, 409, "uid mismatch"),
        (config_map("c") | {"foo": 1}, 500, ".foo: field not declared in schema"),
        (config_map("c") | {"data": {"a": 1}}, 500, ".data: expected string, got number"),
    ],
)
def test_applies_that_are_refused(served, manifest, code, sentence):
    """An apply is stricter than a write: unknown fields are errors."""
    answered, status = apply(served, "m1", manifest)

    assert answered == code, status
    assert sentence in status["message"]


def test_force_belongs_to_apply_alone(served):
    """422 for a merge patch with it."""
    served.ok("POST", MAPS, config_map("c"))
    code, status = served.call("PATCH", MAPS + "/c?force=true", {}, kind=MERGE)

    assert code == 422
    assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]


def test_the_official_client_applies(served):
    """Its body goes out as JSON under the apply content type."""
    core: Any = client.CoreV1Api(served.official())
    found = core.patch_namespaced_config_map(
        "c", "research", config_map("c", a="1"), field_manager="m1", force=True, _content_type=APPLY
    )

    assert found.data == {"a": "1"}
    assert found.metadata.managed_fields[0].manager == "m1"


def test_yaml_is_read(served):
    """The content type promises it."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"

    assert served.call("PATCH", MAPS + "/c?fieldManager=m", text, kind=APPLY)[1]["data"] == {"a": "1"}


def test_finalizers_are_a_set(served):
    """A strategic patch adds to them and takes from them by name."""
    manifest = config_map("c")
    manifest["metadata"]["finalizers"] = ["a.io/x"]
    served.ok("POST", MAPS, manifest)

    def finalizers(**metadata):
        return served.ok("PATCH", MAPS + "/c", {"metadata": metadata}, kind=STRATEGIC)["metadata"].get(
            "finalizers"
        )

    assert finalizers(finalizers=["a.io/y"]) == ["a.io/y", "a.io/x"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["a.io/x"]}) == ["a.io/y"]
    served.ok("DELETE", MAPS + "/c")
    assert finalizers(finalizers=None) is None
    assert served.call("GET", MAPS + "/c")[0] == 404
