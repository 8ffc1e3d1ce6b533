"""The Job controller: pods by index, suspension, elasticity, limits, ends, and what the status says."""

from __future__ import annotations

import re

import pytest

from tests.sandbox.kube.bench import Bench

INDEX = "batch.kubernetes.io/job-completion-index"


def test_a_suspended_job_makes_no_pod_until_it_is_released(roomy: Bench) -> None:
    """Created suspended, released, running: as seen on the real control plane."""
    roomy.job("train", completions=12, parallelism=12, suspend=True)
    roomy.run(5)
    assert roomy.pods() == []
    assert roomy.true_conditions("train") == {"Suspended": "JobSuspended"}
    assert "startTime" not in roomy.status("train")
    roomy.edit_job("train", suspend=False)
    roomy.run(5)
    status = roomy.status("train")
    assert (status["active"], status["ready"], status["terminating"]) == (12, 12, 0)
    assert roomy.true_conditions("train") == {}
    assert status["conditions"][0]["reason"] == "JobResumed"
    assert status["startTime"] == "2026-11-06T17:00:06Z"


def test_an_indexed_pod_carries_its_index_everywhere(roomy: Bench) -> None:
    """Name, hostname, label, annotation, environment, owner and finalizer."""
    roomy.job("train", completions=2, parallelism=2)
    roomy.run(1)
    pod = roomy.pods()[1]
    assert re.fullmatch(r"train-1-[a-z0-9]{5}", pod["metadata"]["name"])
    assert pod["spec"]["hostname"] == "train-1"
    assert pod["metadata"]["labels"][INDEX] == pod["metadata"]["annotations"][INDEX] == "1"
    variable = pod["spec"]["containers"][0]["env"][-1]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)


def test_a_job_completes_with_its_pods(roomy: Bench) -> None:
    """Counts, indexes, conditions and the completion time of a success."""
    roomy.job("train", completions=5, parallelism=2, told={"run-seconds": "10"})
    roomy.run(15)
    status = roomy.status("train")
    assert (status["succeeded"], status["completedIndexes"]) == (2, "0,1")
    roomy.run(60)
    status = roomy.status("train")
    assert (status["succeeded"], status["completedIndexes"]) == (5, "0-4")
    assert list(roomy.true_conditions("train")) == ["SuccessCriteriaMet", "Complete"]
    assert status["completionTime"] == status["conditions"][-1]["lastTransitionTime"]
    assert "active" not in status
    assert all("finalizers" not in pod["metadata"] for pod in roomy.pods())


def test_suspended_is_said_while_pods_still_end(roomy: Bench) -> None:
    """Only active and terminating both 0 mean that nothing runs any more."""
    told = {"ignore-sigterm": "true"}
    roomy.job("train", completions=10, parallelism=10, told=told, pod={"terminationGracePeriodSeconds": 20})
    roomy.run(5)
    roomy.edit_job("train", suspend=True)
    roomy.run(1)
    assert roomy.true_conditions("train") == {"Suspended": "JobSuspended"}
    status = roomy.status("train")
    assert (status.get("active", 0), status["terminating"]) == (0, 10)
    assert "startTime" not in status
    roomy.run(18)
    assert roomy.status("train")["terminating"] == 10
    roomy.run(4)
    assert roomy.status("train")["terminating"] == 0
    assert roomy.pods() == []
    assert "failed" not in roomy.status("train")


def test_what_was_completed_survives_a_suspension(roomy: Bench) -> None:
    """A resumed Job runs only the indexes that are left."""
    roomy.job("train", completions=4, parallelism=4)
    roomy.run(5)
    roomy.end_index(1, 0)
    roomy.run(3)
    roomy.edit_job("train", suspend=True)
    roomy.run(10)
    assert roomy.status("train")["completedIndexes"] == "1"
    roomy.edit_job("train", suspend=False)
    roomy.run(5)
    assert roomy.running_indexes() == [0, 2, 3]


def test_elastic_scaling_removes_the_highest_indexes_and_brings_them_back(roomy: Bench) -> None:
    """completions and parallelism together, down and up; a completed index scaled away runs again."""
    roomy.job("train", completions=12, parallelism=12)
    roomy.run(5)
    roomy.end_index(2, 0)
    roomy.end_index(9, 0)
    roomy.run(3)
    assert roomy.status("train")["completedIndexes"] == "2,9"
    roomy.edit_job("train", completions=6, parallelism=6)
    roomy.run(10)
    assert roomy.running_indexes() == [0, 1, 3, 4, 5]
    assert roomy.status("train")["completedIndexes"] == "2"
    roomy.edit_job("train", completions=10, parallelism=10)
    roomy.run(5)
    assert roomy.running_indexes() == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_parallelism_alone_throttles(roomy: Bench) -> None:
    """The surplus is deleted, highest index first among equals, and 0 leaves none."""
    roomy.job("train", completions=6, parallelism=6)
    roomy.run(5)
    roomy.edit_job("train", parallelism=4)
    roomy.run(5)
    assert roomy.running_indexes() == [0, 1, 2, 3]
    roomy.edit_job("train", parallelism=0)
    roomy.run(5)
    assert roomy.pods() == []
    assert "Suspended" not in roomy.true_conditions("train")


@pytest.mark.parametrize(("policy", "replaced"), [("Failed", False), ("TerminatingOrFailed", True)])
def test_replacement_waits_for_the_end_where_it_is_asked_to(
    roomy: Bench, policy: str, replaced: bool
) -> None:
    """podReplacementPolicy decides whether old and new may run side by side."""
    told = {"sigterm-seconds": "25"}
    roomy.job("train", podReplacementPolicy=policy, told=told)
    roomy.run(5)
    roomy.store.delete("pods", "research", roomy.pods()[0]["metadata"]["name"])
    roomy.run(15)
    assert (len(roomy.pods()) == 2) is replaced
    roomy.run(60)
    assert [pod["status"]["phase"] for pod in roomy.pods()].count("Running") == 1


def test_a_deadline_ends_the_job_and_suspension_resets_it(roomy: Bench) -> None:
    """activeDeadlineSeconds counts from the last start."""
    roomy.job("train", activeDeadlineSeconds=60)
    roomy.run(50)
    roomy.edit_job("train", suspend=True)
    roomy.run(50)
    roomy.edit_job("train", suspend=False)
    roomy.run(50)
    assert roomy.true_conditions("train") == {}
    roomy.run(15)
    assert roomy.true_conditions("train")["Failed"] == "DeadlineExceeded"


def test_a_finished_job_goes_after_its_ttl(roomy: Bench) -> None:
    """With its pods, and not before."""
    roomy.job("train", ttlSecondsAfterFinished=100, told={"run-seconds": "10"})
    roomy.run(100)
    assert roomy.store.get("jobs.batch", "research", "train") is not None
    roomy.run(30)
    assert roomy.store.get("jobs.batch", "research", "train") is None
    assert roomy.pods() == []


def test_a_non_indexed_job_counts_completions(roomy: Bench) -> None:
    """No index anywhere, the same arithmetic."""
    roomy.job("work", completionMode="NonIndexed", completions=3, parallelism=2, told={"run-seconds": "5"})
    roomy.run(60)
    status = roomy.status("work")
    assert status["succeeded"] == 3
    assert "completedIndexes" not in status
    assert roomy.true_conditions("work")["Complete"] == "CompletionsReached"
    assert "hostname" not in roomy.pods()[0]["spec"]


def test_a_work_queue_ends_with_its_first_success_and_its_last_pod(roomy: Bench) -> None:
    """Without completions: after one success nothing new starts, and the rest may finish."""
    roomy.job("work", completionMode="NonIndexed", completions=None, parallelism=3)
    roomy.run(5)
    names = [pod["metadata"]["name"] for pod in roomy.pods()]
    roomy.kubelets.finish("research", names[0])
    roomy.run(5)
    assert roomy.status("work")["active"] == 2
    for name in names[1:]:
        roomy.kubelets.finish("research", name)
    roomy.run(5)
    assert "Complete" in roomy.true_conditions("work")


def test_a_success_policy_ends_the_job_early(roomy: Bench) -> None:
    """The leader's success is enough; the others are stopped and not counted as failures."""
    policy = {"rules": [{"succeededIndexes": "0"}]}
    roomy.job("train", completions=3, parallelism=3, successPolicy=policy)
    roomy.run(5)
    roomy.end_index(0, 0)
    roomy.run(5)
    assert roomy.true_conditions("train") == {
        "SuccessCriteriaMet": "SuccessPolicy",
        "Complete": "SuccessPolicy",
    }
    assert "failed" not in roomy.status("train")


def test_restarts_in_place_count_towards_the_limit(roomy: Bench) -> None:
    """restartPolicy OnFailure."""
    told = {"run-seconds": "1", "exit-code": "1"}
    roomy.job("train", backoffLimit=2, told=told, pod={"restartPolicy": "OnFailure"})
    roomy.run(90)
    assert roomy.true_conditions("train")["Failed"] == "BackoffLimitExceeded"


def test_a_job_managed_by_another_controller_is_left_alone(roomy: Bench) -> None:
    """spec.managedBy."""
    roomy.job("theirs", managedBy="kueue.x-k8s.io/multikueue")
    roomy.run(5)
    assert roomy.pods() == []


def test_deleting_a_job_deletes_its_pods(roomy: Bench) -> None:
    """Background propagation, finalizers and all."""
    roomy.job("train", completions=3, parallelism=3)
    roomy.run(5)
    roomy.store.delete("jobs.batch", "research", "train")
    roomy.run(10)
    assert roomy.pods() == []


def test_suspension_leaves_events(roomy: Bench) -> None:
    """Suspended and Resumed leave events that people can read."""
    roomy.job("train", suspend=True)
    roomy.run(1)
    roomy.edit_job("train", suspend=False)
    roomy.run(1)
    events = [(event["reason"], event["involvedObject"]["name"]) for event in roomy.store.list("events")]
    assert sorted(events) == [("Resumed", "train"), ("Suspended", "train")]


def test_many_pods_are_made_five_hundred_at_a_time(roomy: Bench) -> None:
    """At most 500 creations a synchronisation, one a second."""
    roomy.job("sweep", completions=2000, parallelism=2000, suspend=False, cpu="1m")
    roomy.run(0.5)
    assert len(roomy.pods()) == 500
    roomy.run(4)
    assert len(roomy.pods()) == 2000


def test_many_pods_are_deleted_five_hundred_at_a_time(roomy: Bench) -> None:
    """Throttling goes in steps; suspension does not."""
    roomy.job("sweep", completions=1200, parallelism=1200, cpu="1m")
    roomy.run(10)
    roomy.edit_job("sweep", parallelism=0)
    roomy.run(0.5)
    assert roomy.status("sweep")["active"] == 700
    roomy.edit_job("sweep", suspend=True)
    roomy.run(0.5)
    assert "active" not in roomy.status("sweep")


def test_without_indexes_replacement_waits_just_as_well(roomy: Bench) -> None:
    """podReplacementPolicy Failed: a pod on its way out still holds its place."""
    told = {"sigterm-seconds": "25"}
    roomy.job("work", completionMode="NonIndexed", podReplacementPolicy="Failed", told=told)
    roomy.run(5)
    roomy.store.delete("pods", "research", roomy.pods()[0]["metadata"]["name"])
    roomy.run(15)
    assert len(roomy.pods()) == 1
    assert roomy.status("work")["terminating"] == 1
