"""The store: versions, names, life and death of objects, and who is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sandbox.kube.errors import ApiError
from sandbox.kube.store import Store
from sandbox.world import World

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)


@pytest.fixture
def store():
    """An empty cluster."""
    return Store(World(START), "home")


def pod(name="p", **more):
    """A pod on node n1."""
    metadata = {"name": name, "namespace": "default"} | more.pop("metadata", {})
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": []} | more}


def add(store, name="p", **more):
    """A pod in the store."""
    return store.create("pods", pod(name, **more))


def test_one_counter_numbers_all_changes(store):
    """The version grows by one a change, whatever the resource, and is the changed object's."""
    before = store.version
    first = add(store)
    second = store.create("configmaps", {"metadata": {"name": "c"}})

    assert [first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]] == [
        str(before + 1),
        str(before + 2),
    ]
    assert store.version == before + 2


def test_a_created_object_has_what_the_server_gives_it(store):
    """uid, time in whole seconds, generation, kind and version."""
    made = add(store)

    assert made["apiVersion"] == "v1"
    assert made["kind"] == "Pod"
    assert made["metadata"]["creationTimestamp"] == "2026-11-06T17:00:00Z"
    assert made["metadata"]["generation"] == 1
    assert len(made["metadata"]["uid"]) == 36


def test_names_are_generated_until_one_is_free(store):
    """generateName adds five characters, never one that is taken."""
    names = {
        store.create("configmaps", {"metadata": {"generateName": "c-"}})["metadata"]["name"]
        for _ in range(200)
    }

    assert len(names) == 200
    assert all(len(name) == 7 and name.startswith("c-") for name in names)


def test_the_same_seed_gives_the_same_uids():
    """A stepped world repeats exactly."""
    made = [add(Store(World(START, seed=7), "home"))["metadata"]["uid"] for _ in range(2)]

    assert made[0] == made[1]


def test_a_name_is_taken_once(store):
    """409 AlreadyExists, in the server's words."""
    add(store)

    with pytest.raises(ApiError) as caught:
        add(store)

    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert str(caught.value) == 'pods "p" already exists'


def test_generation_counts_changes_of_the_spec_only(store):
    """Status, labels and being bound to a node do not count."""
    made = store.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": []}})
    bound = store.update("pods", {**made, "spec": {**made["spec"], "nodeName": "n1"}})
    store.patch_status("pods", "default", "p", {"phase": "Running"})
    changed = store.get("pods", "default", "p")
    later = store.update("pods", {**changed, "spec": {**changed["spec"], "activeDeadlineSeconds": 5}})

    assert bound["metadata"]["generation"] == 1
    assert changed["metadata"]["generation"] == 1
    assert later["metadata"]["generation"] == 2


def test_an_update_that_changes_nothing_is_nothing(store):
    """No new version, nobody told."""
    made = add(store)
    told = []
    store.subscribe(lambda *event: told.append(event))

    assert store.update("pods", {**made, "spec": dict(made["spec"])}) is made
    assert told == []


def test_a_stale_update_is_a_conflict(store):
    """An object read before somebody else's change is refused; without a version it is taken."""
    made = add(store)
    store.patch_status("pods", "default", "p", {"phase": "Running"})

    with pytest.raises(ApiError) as caught:
        store.update("pods", {**made, "status": {"phase": "Failed"}})
    assert caught.value.code == 409

    metadata = {key: value for key, value in made["metadata"].items() if key != "resourceVersion"}
    assert store.update("pods", {**made, "metadata": metadata})["status"]["phase"] == "Pending"


def test_a_running_pod_ends_after_its_grace(store):
    """Marked first with the time at which its grace ends; gone when its kubelet says so."""
    add(store)
    marked = store.delete("pods", "default", "p", grace_seconds=45)

    assert marked["metadata"]["deletionTimestamp"] == "2026-11-06T17:00:45Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 45
    assert marked["metadata"]["generation"] == 2
    store.finalize("pods", "default", "p")
    assert store.get("pods", "default", "p") is None


def test_grace_is_shortened_never_lengthened(store):
    """A second delete with more grace changes nothing, with less it counts."""
    add(store, terminationGracePeriodSeconds=60)
    store.delete("pods", "default", "p")

    assert (
        store.delete("pods", "default", "p", grace_seconds=90)["metadata"]["deletionGracePeriodSeconds"] == 60
    )
    assert (
        store.delete("pods", "default", "p", grace_seconds=5)["metadata"]["deletionGracePeriodSeconds"] == 5
    )


@pytest.mark.parametrize("change", [{"nodeName": ""}, {"phase": "Succeeded"}])
def test_a_pod_that_does_not_run_ends_at_once(store, change):
    """Unscheduled and finished pods have no grace."""
    made = add(store)
    status = {"phase": change.get("phase", "Pending")}
    spec = {**made["spec"], "nodeName": change.get("nodeName", "n1")}
    store.update("pods", {**made, "spec": spec, "status": status})
    store.delete("pods", "default", "p")

    assert store.get("pods", "default", "p") is None


def test_finalizers_hold_an_object(store):
    """It is marked, and goes with its last finalizer."""
    made = add(store, metadata={"finalizers": ["a.io/x"]})
    store.delete("pods", "default", "p", grace_seconds=0)
    held = store.get("pods", "default", "p")

    assert held["metadata"]["deletionTimestamp"]
    store.update("pods", {**held, "metadata": {**held["metadata"], "finalizers": []}})
    assert store.get("pods", "default", "p") is None
    assert made["metadata"]["finalizers"] == ["a.io/x"]


@pytest.mark.parametrize(
    ("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_propagation_leaves_work_for_the_garbage_collector(store, propagation, finalizer):
    """Foreground and Orphan add their finalizer."""
    store.create("jobs.batch", {"metadata": {"name": "j"}, "spec": {}})
    store.delete("jobs.batch", "default", "j", propagation=propagation)

    assert store.get("jobs.batch", "default", "j")["metadata"]["finalizers"] == [finalizer]


def test_a_uid_precondition_protects_the_successor(store):
    """Deleting by the uid of an object that was replaced is a conflict."""
    old = add(store)
    store.delete("pods", "default", "p", grace_seconds=0)
    add(store)

    with pytest.raises(ApiError) as caught:
        store.delete("pods", "default", "p", uid=old["metadata"]["uid"])
    assert caught.value.code == 409
    assert store.get("pods", "default", "p") is not None


def test_a_namespace_terminates_before_it_goes(store):
    """It holds back new content until its controller has finished."""
    store.create("namespaces", {"metadata": {"name": "research"}})
    store.delete("namespaces", None, "research")

    assert store.get("namespaces", None, "research")["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as caught:
        store.create("pods", pod(metadata={"namespace": "research"}))
    assert (caught.value.code, caught.value.details["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    store.finalize("namespaces", None, "research")
    assert store.get("namespaces", None, "research") is None


def test_callbacks_see_changes_in_order_even_nested_ones(store):
    """What a callback changes is told after the change that it was told."""
    seen = []

    def react(event, resource, new, old):
        seen.append((event, new["metadata"]["name"]))
        if event == "ADDED" and new["metadata"]["name"] == "p":
            add(store, "q")

    store.subscribe(react)
    store.subscribe(lambda event, resource, new, old: seen.append((event, new["metadata"]["name"] + "'")))
    add(store)

    assert seen == [("ADDED", "p"), ("ADDED", "p'"), ("ADDED", "q"), ("ADDED", "q'")]


def test_pods_are_found_by_node_and_dependents_by_owner(store):
    """Both indexes follow changes and ends."""
    owner = store.create("jobs.batch", {"metadata": {"name": "j"}, "spec": {}})["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner}
    add(store, "a", metadata={"ownerReferences": [reference]})
    made = add(store, "b", nodeName="n2")
    store.patch_status("pods", "default", "a", {"phase": "Running"})

    assert [each["metadata"]["name"] for each in store.pods_on("n1")] == ["a"]
    assert [(r, o["status"]["phase"]) for r, o in store.owned_by(owner)] == [("pods", "Running")]
    store.update("pods", {**made, "spec": {**made["spec"], "nodeName": "n1"}})
    assert [each["metadata"]["name"] for each in store.pods_on("n1")] == ["a", "b"]
    store.delete("pods", "default", "a", grace_seconds=0)
    assert [each["metadata"]["name"] for each in store.pods_on("n1")] == ["b"]
    assert store.owned_by(owner) == []
    assert store.pods_on("n2") == []


def test_lists_are_ordered_by_namespace_and_name(store):
    """As etcd orders its keys."""
    store.create("namespaces", {"metadata": {"name": "research"}})
    for namespace, name in (("research", "a"), ("default", "b"), ("default", "a")):
        add(store, name, metadata={"namespace": namespace})

    found = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in store.list("pods")]
    assert found == [("default", "a"), ("default", "b"), ("research", "a")]
    assert len(store.list("pods", "research")) == 1


def test_the_past_can_be_rebuilt_until_it_is_compacted(store):
    """`as_of` undoes what came after a version."""
    add(store, "a")
    add(store, "b")
    then = store.version
    store.patch_status("pods", "default", "a", {"phase": "Running"})
    store.delete("pods", "default", "b", grace_seconds=0)
    add(store, "c")

    found = store.as_of("pods", then)
    assert [(each["metadata"]["name"], each["status"]["phase"]) for each in found] == [
        ("a", "Pending"),
        ("b", "Pending"),
    ]
    store.compact()
    assert store.as_of("pods", then) is None


def test_the_window_of_history_is_bounded():
    """The older half is dropped when there are twice too many, and then no longer reached."""
    store = Store(World(START), "home", window=10)
    before = store.version
    for number in range(40):
        add(store, f"p{number}")

    assert not store.history.reaches("pods", before)
    assert store.history.reaches("pods", store.version - 10)
    assert len(store.history.since("pods", 0)) < 20


def test_times_are_the_worlds(store):
    """creationTimestamp follows world time, without its fractions."""
    store.world.run_until(START + timedelta(seconds=90.7))

    assert add(store)["metadata"]["creationTimestamp"] == "2026-11-06T17:01:30Z"
