"""What the Objects port promises, over every Kubernetes API."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import Conflict, NotFound, Refused
from fleet.kube import objects as module
from fleet.kube.objects import KubeObjects
from fleet.model import Ref


def config_map(
    namespace: str, name: str = "c", labels: dict[str, str] | None = None, **data: str
) -> dict[str, Any]:
    """A ConfigMap."""
    meta = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def ref(namespace: str, name: str = "c", kind: str = "ConfigMap", uid: str = "", version: str = "v1") -> Ref:
    """A reference to it."""
    return Ref("any", version, kind, namespace, name, uid)


def waiting_pod(namespace: str, name: str = "p", **labels: str) -> dict[str, Any]:
    """A pod that no node takes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeSelector": {"nowhere": "to-be-found"},
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
    }


def job(namespace: str, name: str = "j", **spec: Any) -> dict[str, Any]:
    """A suspended Indexed Job of four pods."""
    template = {
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"nowhere": "to-be-found"},
            "containers": [{"name": "main", "image": "i"}],
        }
    }
    base = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 4,
        "template": template,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**base, **spec},
    }


def test_what_is_created_can_be_read(objects: KubeObjects, namespace):
    """A created object has a uid and a version, and is what get returns."""
    made = objects.create(config_map(namespace, a="1"))
    assert made["metadata"]["uid"]
    assert int(made["metadata"]["resourceVersion"]) > 0
    found = objects.get(ref(namespace, uid=made["metadata"]["uid"]))
    assert found["data"] == {"a": "1"}
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_taken_name_is_a_conflict(objects, namespace):
    """Creating twice leaves the first."""
    objects.create(config_map(namespace, a="1"))
    with pytest.raises(Conflict) as caught:
        objects.create(config_map(namespace, a="2"))
    assert caught.value.code == "AlreadyExists"
    assert objects.get(ref(namespace))["data"] == {"a": "1"}


def test_what_is_not_there_is_not_found(objects, namespace):
    """Objects, namespaces and kinds that do not exist."""
    for call in (
        lambda: objects.get(ref(namespace)),
        lambda: objects.get(ref("no-such-namespace")),
        lambda: objects.merge_patch(ref(namespace), {"data": {"a": "1"}}),
        lambda: objects.create(config_map("no-such-namespace")),
        lambda: objects.list("nowhere.dev/v1", "Thing", namespace),
    ):
        with pytest.raises(NotFound):
            call()
    assert objects.list("v1", "Pod", "no-such-namespace") == []


def test_a_dry_run_changes_nothing(objects, namespace):
    """Create, patch and apply with dry run answer as if they had, and leave everything."""
    assert objects.create(config_map(namespace, a="1"), dry_run=True)["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        objects.get(ref(namespace))
    made = objects.create(config_map(namespace, a="1"))
    assert objects.merge_patch(ref(namespace), {"data": {"a": "2"}}, dry_run=True)["data"] == {"a": "2"}
    applied = objects.apply(config_map(namespace, b="3"), manager="contract", dry_run=True)
    assert applied["data"]["b"] == "3"
    after = objects.get(ref(namespace))
    assert after["data"] == {"a": "1"}
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "Upper_Case"}},
        {"metadata": {"labels": {"a": "not a label value"}}},
        {"metadata": {"name": "x" * 254}},
    ],
)
def test_what_is_invalid_is_refused(objects, namespace, change):
    """Names and labels that Kubernetes refuses are Refused as Invalid, and nothing is made."""
    manifest = config_map(namespace)
    manifest["metadata"] |= change["metadata"]
    with pytest.raises(Refused) as caught:
        objects.create(manifest)
    assert caught.value.code == "Invalid"
    assert [
        o for o in objects.list("v1", "ConfigMap", namespace) if o["metadata"]["name"] != "kube-root-ca.crt"
    ] == []


def test_a_quantity_that_is_none_is_refused(objects, namespace):
    """A pod that asks for 1K of a core never exists."""
    pod = waiting_pod(namespace)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1K"
    with pytest.raises(Refused):
        objects.create(pod)
    assert objects.list("v1", "Pod", namespace) == []


def test_a_merge_patch_adds_changes_and_removes(objects, namespace):
    """Maps merge, null removes, the version grows; an empty patch changes nothing."""
    made = objects.create(config_map(namespace, a="1", b="2"))
    patched = objects.merge_patch(ref(namespace), {"data": {"a": "3", "b": None, "c": "4"}})
    assert patched["data"] == {"a": "3", "c": "4"}
    assert int(patched["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert (
        objects.merge_patch(ref(namespace), {})["metadata"]["resourceVersion"]
        == patched["metadata"]["resourceVersion"]
    )


def test_a_patch_of_an_old_version_is_a_conflict(objects, namespace):
    """With a version in the patch, somebody else's change in between refuses it."""
    made = objects.create(config_map(namespace, a="1"))
    version = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    objects.merge_patch(ref(namespace), {**version, "data": {"a": "2"}})
    with pytest.raises(Conflict) as caught:
        objects.merge_patch(ref(namespace), {**version, "data": {"a": "3"}})
    assert caught.value.code == "Conflict"
    assert objects.get(ref(namespace))["data"] == {"a": "2"}


def test_what_is_immutable_stays(objects, namespace):
    """A Job's template and completion mode cannot be changed."""
    objects.create(job(namespace))
    with pytest.raises(Refused) as caught:
        objects.merge_patch(
            ref(namespace, "j", "Job", version="batch/v1"), {"spec": {"completionMode": "NonIndexed"}}
        )
    assert caught.value.code == "Invalid"


def test_apply_makes_changes_and_gives_up_fields(objects, namespace):
    """Applying creates, repeats without a change, and removes what is no longer applied, but not others' fields."""
    first = objects.apply(config_map(namespace, a="1", b="2"), manager="contract")
    again = objects.apply(config_map(namespace, a="1", b="2"), manager="contract")
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    objects.merge_patch(ref(namespace), {"data": {"other": "x"}})
    last = objects.apply(config_map(namespace, a="9"), manager="contract")
    assert last["data"] == {"a": "9", "other": "x"}
    assert last["metadata"]["uid"] == first["metadata"]["uid"]


def test_apply_takes_over_by_force(objects, namespace):
    """A field that another manager owns becomes ours."""
    objects.apply(config_map(namespace, a="theirs"), manager="them")
    assert objects.apply(config_map(namespace, a="ours"), manager="us")["data"] == {"a": "ours"}


def test_delete_is_repeatable_and_means_the_object_it_names(objects, namespace):
    """Another uid is left alone, the right one goes, and a second time is fine."""
    made = objects.create(config_map(namespace))
    objects.delete(ref(namespace, uid="00000000-0000-0000-0000-000000000000"))
    assert objects.get(ref(namespace))["metadata"]["uid"] == made["metadata"]["uid"]
    objects.delete(ref(namespace, uid=made["metadata"]["uid"]))
    with pytest.raises(NotFound):
        objects.get(ref(namespace))
    objects.delete(ref(namespace))


def test_a_name_can_be_used_again(objects, namespace):
    """The new object is another one, and the old uid does not find it."""
    old = objects.create(config_map(namespace))["metadata"]["uid"]
    objects.delete(ref(namespace))
    new = objects.create(config_map(namespace))["metadata"]["uid"]
    assert new != old
    with pytest.raises(NotFound):
        objects.get(ref(namespace, uid=old))


def test_lists_are_whole_whatever_the_page(objects, namespace, monkeypatch):
    """Seven objects in pages of two are seven; selectors choose among them; nothing of another namespace comes."""
    monkeypatch.setattr(module, "PAGE", 2)
    for number in range(7):
        objects.create(config_map(namespace, f"c{number}", {"odd": str(number % 2), "app": "contract"}))
    chosen = objects.list("v1", "ConfigMap", namespace, labels="app=contract")
    assert [found["metadata"]["name"] for found in chosen] == [f"c{number}" for number in range(7)]
    assert {(found["kind"], found["apiVersion"]) for found in chosen} == {("ConfigMap", "v1")}

    def names(labels: str) -> list[str]:
        return [
            found["metadata"]["name"] for found in objects.list("v1", "ConfigMap", namespace, labels=labels)
        ]

    assert names("odd=1") == ["c1", "c3", "c5"]
    assert names("app=contract,odd!=1") == ["c0", "c2", "c4", "c6"]
    assert names("app in (contract, x),odd notin (0)") == ["c1", "c3", "c5"]
    assert names("odd,!app") == []
    everywhere = objects.list("v1", "ConfigMap", labels="app=contract")
    assert {found["metadata"]["namespace"] for found in everywhere} >= {namespace}


def test_a_selector_that_is_none_is_refused(objects, namespace):
    """Bad syntax is not an empty list."""
    with pytest.raises(Refused):
        objects.list("v1", "ConfigMap", namespace, labels="a in (")


def test_cluster_wide_objects(objects):
    """Nodes and priority classes have no namespace."""
    objects.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "contract"},
            "value": 7,
        },
        manager="contract",
    )
    found = objects.get(Ref("any", "scheduling.k8s.io/v1", "PriorityClass", "", "contract"))
    assert found["value"] == 7
    assert isinstance(objects.list("v1", "Node"), list)


def test_a_job_is_suspended_scaled_and_resumed_by_patches(objects, namespace):
    """The patches that the launcher and the guard make are accepted."""
    objects.create(job(namespace))
    where = ref(namespace, "j", "Job", version="batch/v1")
    assert objects.get(where)["spec"]["suspend"] is True
    scaled = objects.merge_patch(where, {"spec": {"parallelism": 2, "completions": 2}})
    assert (scaled["spec"]["parallelism"], scaled["spec"]["completions"]) == (2, 2)
    assert objects.merge_patch(where, {"spec": {"suspend": False}})["spec"]["suspend"] is False
    annotated = objects.merge_patch(
        where, {"spec": {"suspend": True}, "metadata": {"annotations": {"a": "b"}}}
    )
    assert (annotated["spec"]["suspend"], annotated["metadata"]["annotations"]["a"]) == (True, "b")


def test_evicting(objects, namespace):
    """An evicted pod that no node has is gone; a pod that is not there is fine."""
    pod = objects.create(waiting_pod(namespace))
    objects.evict(ref(namespace, "p", "Pod", uid=pod["metadata"]["uid"]))
    with pytest.raises(NotFound):
        objects.get(ref(namespace, "p", "Pod"))
    objects.evict(ref(namespace, "p", "Pod"))


def test_logs_of_a_pod_that_has_not_started(objects, namespace):
    """There is nothing to read yet, which is no error; a pod that is not there is."""
    objects.create(waiting_pod(namespace))
    assert objects.logs(ref(namespace, "p", "Pod")) == ""
    with pytest.raises(NotFound):
        objects.logs(ref(namespace, "absent", "Pod"))


def test_events_are_found_by_the_name_they_are_about(objects, namespace):
    """Events about other objects are not among them."""
    for name in ("p", "q"):
        objects.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"e-{name}", "namespace": namespace},
                "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace},
                "reason": "Tested",
                "message": f"about {name}",
                "type": "Normal",
            }
        )
    assert [event["message"] for event in objects.events(namespace, "p") if event["reason"] == "Tested"] == [
        "about p"
    ]
