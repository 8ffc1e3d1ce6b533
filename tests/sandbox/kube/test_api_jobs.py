"""Jobs through the API: what is filled in, and what may still change."""

from __future__ import annotations

import pytest

from tests.sandbox.kube.serving import JOBS, MERGE, PODS, STRATEGIC, container, job, pod


def indexed(**more):
    """An Indexed Job of three, suspended."""
    return job(
        "j", **({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "suspend": True} | more)
    )


def patch(served, spec, kind=MERGE):
    """Merge-patch the spec of Job j."""
    return served.call("PATCH", JOBS + "/j", {"spec": spec}, kind=kind)


def test_a_job_gets_its_defaults_selector_and_labels(served):
    """Defaults, the generated selector, and labels shared by the Job and its template as the real one does."""
    made = served.ok("POST", JOBS, job("j"))
    uid, spec = made["metadata"]["uid"], made["spec"]
    labels = {
        "team": "vision",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }

    assert {key: spec[key] for key in ("parallelism", "completions", "backoffLimit", "suspend")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "suspend": False,
    }
    assert (spec["completionMode"], spec["podReplacementPolicy"]) == ("NonIndexed", "TerminatingOrFailed")
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels
    assert made["metadata"]["generation"] == 1


def test_a_job_with_its_own_labels_keeps_them(served):
    """Only a Job without labels takes its template's."""
    manifest = job("j")
    manifest["metadata"]["labels"] = {"run": "x7"}

    assert served.ok("POST", JOBS, manifest)["metadata"]["labels"] == {"run": "x7"}


def test_defaults_that_depend_on_other_fields(served):
    """A work queue has no completions; a limit per index lifts the total; a failure policy replaces only failed pods."""
    queue = served.ok("POST", JOBS, job("a", parallelism=5))["spec"]
    by_index = served.ok(
        "POST", JOBS, job("b", completionMode="Indexed", completions=3, backoffLimitPerIndex=1)
    )
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    failing = served.ok("POST", JOBS, job("c", podFailurePolicy=policy))["spec"]

    assert "completions" not in queue
    assert by_index["spec"]["backoffLimit"] == 2**31 - 1
    assert failing["podReplacementPolicy"] == "Failed"
    assert failing["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({"parallelism": 1}, True),
        ({"suspend": False}, True),
        ({"backoffLimit": 1, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 9}, True),
        ({"completions": 6, "parallelism": 6}, True),
        ({"completions": 0, "parallelism": 0}, True),
        ({"completions": 6}, False),
        ({"completions": 6, "parallelism": 5}, False),
        ({"parallelism": -1}, False),
        ({"completionMode": "NonIndexed"}, False),
        ({"backoffLimitPerIndex": 3}, False),
        ({"selector": {"matchLabels": {"a": "b"}}}, False),
    ],
)
def test_what_of_an_indexed_job_may_change(served, spec, accepted):
    """Completions only together with parallelism; suspend and parallelism always."""
    served.ok("POST", JOBS, indexed())
    code, found = patch(served, spec)

    assert (code == 200) is accepted, found
    if accepted:
        assert found["metadata"]["generation"] == 2
        assert {key: found["spec"][key] for key in spec} == spec
    else:
        assert (code, found["reason"]) == (422, "Invalid")


def test_completions_of_a_plain_job_are_fixed(served):
    """Elastic is only for Indexed ones."""
    served.ok("POST", JOBS, job("j", completions=3))
    code, status = patch(served, {"completions": 5, "parallelism": 5})

    assert (code, status["details"]["causes"][0]["field"]) == (422, "spec.completions")
    assert "field is immutable" in status["message"]


SCHEDULING = {"template": {"metadata": {"labels": {"z": "1"}}, "spec": {"nodeSelector": {"p": "q"}}}}
RESOURCES = {
    "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
}
IMAGE = {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}


@pytest.mark.parametrize(("change", "accepted"), [(SCHEDULING, True), (RESOURCES, True), (IMAGE, False)])
def test_the_template_of_a_suspended_job_that_never_started(served, change, accepted):
    """Where and with how much it runs may change, what runs may not."""
    served.ok("POST", JOBS, indexed())

    assert (patch(served, change, STRATEGIC)[0] == 200) is accepted


@pytest.mark.parametrize("change", [SCHEDULING, RESOURCES, IMAGE])
def test_the_template_of_a_started_job_is_fixed(served, change):
    """Also once it is suspended again."""
    served.ok("POST", JOBS, indexed())
    started = {"status": {"startTime": "2026-11-06T17:00:00Z"}}
    served.ok("PATCH", JOBS + "/j/status", started, kind=MERGE)
    code, status = patch(served, change, STRATEGIC)

    assert code == 422
    assert status["details"]["causes"][0]["field"] == "spec.template"


def test_the_status_is_written_only_through_its_subresource(served):
    """A patch of the Job leaves the status alone; one of the status leaves the spec alone."""
    served.ok("POST", JOBS, indexed())
    body = {"spec": {"parallelism": 2}, "status": {"active": 2}}
    plain = served.ok("PATCH", JOBS + "/j", body, kind=MERGE)
    status = served.ok(
        "PATCH", JOBS + "/j/status", {"spec": {"parallelism": 9}, "status": {"active": 4}}, kind=MERGE
    )

    assert (plain["spec"]["parallelism"], plain["status"]) == (2, {})
    assert (status["spec"]["parallelism"], status["status"]["active"]) == (2, 4)
    assert status["metadata"]["generation"] == 2
    code, refused = served.call("PATCH", JOBS + "/j/status", {"status": {"active": -1}}, kind=MERGE)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "status.active")


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        (None, ["orphan"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_deleting_a_job_without_a_policy_orphans_its_pods(served, options, finalizers):
    """The old default of batch/v1, which surprises everybody."""
    served.ok("POST", JOBS, indexed())
    left = served.ok("DELETE", JOBS + "/j", options)

    assert left["kind"] == "Job"
    assert left["metadata"]["finalizers"] == finalizers
    assert left["metadata"]["deletionTimestamp"]


def test_deleting_in_the_background_is_done_at_once(served):
    """The answer is a Status that names what went."""
    made = served.ok("POST", JOBS, indexed())
    status = served.ok("DELETE", JOBS + "/j", {"propagationPolicy": "Background"})

    assert status["status"] == "Success"
    assert status["details"] == {
        "name": "j",
        "group": "batch",
        "kind": "jobs",
        "uid": made["metadata"]["uid"],
    }
    assert served.call("GET", JOBS + "/j")[0] == 404


def test_quantities_are_stored_in_canonical_form(served):
    """Numbers and other spellings read back as the server writes them."""
    asked = {"cpu": 0.5, "memory": "1.5Gi", "nvidia.com/gpu": 2}
    made = served.ok(
        "POST", JOBS, job("j", template={"containers": [container(resources={"limits": asked})]})
    )

    wanted = {"cpu": "500m", "memory": "1536Mi", "nvidia.com/gpu": "2"}
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": wanted}
    made = served.ok("POST", PODS, pod("p", containers=[container(resources={"limits": asked})]))
    assert made["spec"]["containers"][0]["resources"] == {"limits": wanted, "requests": wanted}
