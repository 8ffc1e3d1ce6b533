"""Failed pods: retries and their delays, limits, failure policies, and how a Job ends by them."""

from __future__ import annotations

import re
from typing import Any

from tests.sandbox.kube.bench import Bench


def test_failures_are_retried_with_growing_delays_until_the_limit(roomy: Bench) -> None:
    """10 s, 20 s, then BackoffLimitExceeded; a failure never sets the completion time."""
    roomy.job("train", backoffLimit=2, told={"run-seconds": "0.5", "exit-code": "1"})
    roomy.run(9)
    assert len(roomy.pods()) == 1
    roomy.run(8)
    assert len(roomy.pods()) == 2
    roomy.run(11)
    assert len(roomy.pods()) == 2
    roomy.run(20)
    status = roomy.status("train")
    assert status["failed"] == 3
    failed = {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert roomy.true_conditions("train") == failed
    assert "completionTime" not in status


def test_a_failed_job_takes_its_other_pods_along(roomy: Bench) -> None:
    """FailureTarget at once, Failed when the last pod has ended, and all of them count as failed."""
    told = {"sigterm-seconds": "8"}
    roomy.job("train", completions=3, parallelism=3, backoffLimit=0, told=told)
    roomy.run(5)
    roomy.end_index(0, 1)
    roomy.run(3)
    assert roomy.true_conditions("train") == {"FailureTarget": "BackoffLimitExceeded"}
    assert roomy.status("train")["terminating"] == 2
    roomy.run(10)
    assert list(roomy.true_conditions("train")) == ["FailureTarget", "Failed"]
    assert roomy.status("train")["failed"] == 3


PER_INDEX: dict[str, Any] = {"backoffLimitPerIndex": 1, "backoffLimit": None}


def test_an_index_fails_on_its_own(roomy: Bench) -> None:
    """backoffLimitPerIndex: the others go on, and the Job fails with FailedIndexes at the end."""
    roomy.job("train", completions=3, parallelism=3, **PER_INDEX)
    roomy.run(5)
    roomy.end_index(1, 1)
    roomy.run(20)
    pod = next(
        p for p in roomy.pods() if p["spec"]["hostname"] == "train-1" and p["status"]["phase"] == "Running"
    )
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    roomy.end_index(1, 1)
    roomy.run(5)
    assert roomy.status("train")["failedIndexes"] == "1"
    assert roomy.running_indexes() == [0, 2]
    assert roomy.true_conditions("train") == {}
    roomy.end_index(0, 0)
    roomy.end_index(2, 0)
    roomy.run(5)
    assert roomy.true_conditions("train")["Failed"] == "FailedIndexes"
    assert roomy.status("train")["completedIndexes"] == "0,2"


def test_too_many_failed_indexes_end_the_job(roomy: Bench) -> None:
    """maxFailedIndexes."""
    roomy.job(
        "train", completions=5, parallelism=5, maxFailedIndexes=1, backoffLimitPerIndex=0, backoffLimit=None
    )
    roomy.run(5)
    roomy.end_index(0, 1)
    roomy.end_index(3, 1)
    roomy.run(5)
    assert roomy.true_conditions("train")["Failed"] == "MaxFailedIndexesExceeded"
    assert roomy.status("train")["failedIndexes"] == "0,3"


POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}


def test_the_failure_policy_fails_the_job_on_an_exit_code(roomy: Bench) -> None:
    """FailJob ends everything with the rule's words."""
    roomy.job("train", completions=3, parallelism=3, podFailurePolicy=POLICY, **PER_INDEX)
    roomy.run(5)
    roomy.end_index(1, 42)
    roomy.run(5)
    assert roomy.true_conditions("train")["Failed"] == "PodFailurePolicy"
    message = roomy.status("train")["conditions"][-1]["message"]
    words = r"Container main for pod research/train-1-\w{5} failed with exit code 42 matching FailJob rule at index 0"
    assert re.fullmatch(words, message)


def test_the_failure_policy_fails_an_index_on_an_exit_code(roomy: Bench) -> None:
    """FailIndex does not wait for the index' limit."""
    roomy.job("train", completions=3, parallelism=3, podFailurePolicy=POLICY, **PER_INDEX)
    roomy.run(5)
    roomy.end_index(1, 3)
    roomy.run(30)
    assert roomy.status("train")["failedIndexes"] == "1"
    assert roomy.running_indexes() == [0, 2]


def test_a_lost_node_s_pods_are_replaced_and_not_counted(bench: Bench) -> None:
    """The pods of a deleted node fail with DisruptionTarget; Ignore keeps the limit whole."""
    bench.node("n0", cpu="4")
    bench.job(
        "train",
        completions=2,
        parallelism=2,
        podFailurePolicy=POLICY,
        backoffLimitPerIndex=0,
        backoffLimit=None,
    )
    bench.run(5)
    bench.node("n1", cpu="4")
    bench.store.delete("nodes", None, "n0")
    bench.run(100)
    assert set(bench.nodes_of().values()) == {"n1"}
    assert bench.running_indexes() == [0, 1]
    assert "failed" not in bench.status("train")
    counts = bench.pods()[0]["metadata"]["annotations"]
    assert counts["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert counts["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"
