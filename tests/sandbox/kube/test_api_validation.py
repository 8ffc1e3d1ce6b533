"""What the API refuses of new objects: causes and sentences are those of a real 1.36 API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.kube.serving import JOBS, LEASES, MAPS, PODS, SERVICES, config_map, container, job, pod

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"


def with_container(**more):
    """A pod whose only container is special."""
    return pod("x", containers=[container(**more)])


def resources(**more):
    """A pod whose container asks for something special."""
    return with_container(resources=more)


CREATIONS: list[tuple[str, Any, str]] = [
    (
        PODS,
        pod("Bad_Name"),
        f'Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": {SUBDOMAIN}',
    ),
    (PODS, pod("a" * 254), "must be no more than 253 characters"),
    (PODS, pod(""), 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'),
    (
        PODS,
        pod("x", labels={"a": "b c"}),
        'metadata.labels: Invalid value: "b c": a valid label must be an empty',
    ),
    (PODS, pod("x", labels={"-x": "y"}), 'metadata.labels: Invalid value: "-x": name part must consist of'),
    (PODS, pod("x", labels={"k": "v" * 64}), "must be no more than 63 bytes"),
    (PODS, pod("x", containers=[]), 'Pod "x" is invalid: spec.containers: Required value'),
    (PODS, with_container(image=""), 'Pod "x" is invalid: spec.containers[0].image: Required value'),
    (PODS, with_container(name="C_"), f'spec.containers[0].name: Invalid value: "C_": {LABEL}'),
    (
        PODS,
        pod("x", containers=[container(), container()]),
        'spec.containers[1].name: Duplicate value: "main"',
    ),
    (
        PODS,
        resources(requests={"cpu": "-1"}),
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        PODS,
        resources(limits={"nvidia.com/gpu": "0.5"}),
        'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    (
        PODS,
        resources(requests={"nvidia.com/gpu": "1"}),
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        PODS,
        resources(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
        'Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
    ),
    (
        PODS,
        resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
        'Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        PODS,
        with_container(env=[{"name": "A=B", "value": "1"}]),
        "a valid environment variable name must consist",
    ),
    (
        PODS,
        with_container(volumeMounts=[{"name": "v", "mountPath": "/"}]),
        'volumeMounts[0].name: Not found: "v"',
    ),
    (
        PODS,
        pod("x", restartPolicy="Sometimes"),
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ),
    (
        PODS,
        pod("x", tolerations=[{"key": "a", "operator": "Like"}]),
        'spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"',
    ),
    (PODS, pod("x", nodeSelector={"a": "c d"}), 'spec.nodeSelector: Invalid value: "c d"'),
    (PODS, pod("x", hostname="Also_"), f'spec.hostname: Invalid value: "Also_": {LABEL}'),
    (
        JOBS,
        job("x", template={"restartPolicy": "Always"}),
        'Job.batch "x" is invalid: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (
        JOBS,
        job("x", parallelism=-1),
        'Job.batch "x" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal to 0',
    ),
    (
        JOBS,
        job("x", completionMode="Indexed", completions=5, parallelism=100_001),
        "must be less than or equal to 100000 when completion mode is Indexed",
    ),
    (
        JOBS,
        job("x", completionMode="Foo"),
        'spec.completionMode: Unsupported value: "Foo": supported values: "NonIndexed", "Indexed"',
    ),
    (JOBS, job("a" * 64), "must be no more than 63 bytes"),
    (
        JOBS,
        job("a" * 62, completionMode="Indexed", completions=200),
        f"will not able to create pod with invalid DNS label: {'a' * 62}-199",
    ),
    (
        JOBS,
        job("x", backoffLimitPerIndex=1),
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
    ),
    (
        JOBS,
        job("x", completionMode="Indexed", completions=3, maxFailedIndexes=2),
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    ),
    (
        JOBS,
        job(
            "x",
            template={"restartPolicy": "OnFailure"},
            podFailurePolicy={
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
        ),
        'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
    ),
    (
        JOBS,
        job("x", completionMode="Indexed", completions=200_000, parallelism=1, backoffLimitPerIndex=1),
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
    ),
    (JOBS, job("x", selector={"matchLabels": {"q": "r"}}), "`selector` not auto-generated"),
    (JOBS, job("x", managedBy="Foo_"), 'must be a domain-prefixed path (such as "acme.io/foo")'),
    (
        JOBS,
        job("x", podReplacementPolicy="TerminatingOrFailed", podFailurePolicy={"rules": []}),
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
    ),
    (SERVICES, {"metadata": {"name": "a.b"}, "spec": {"clusterIP": "None"}}, "must not contain dots"),
    (SERVICES, {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}, "spec.ports: Required value"),
    (
        SERVICES,
        {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 0}]}},
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    (
        MAPS,
        config_map("x", **{"a b": "1"}),
        'data[a b]: Invalid value: "a b": a valid config key must consist',
    ),
    (MAPS, config_map("x", a="b" * (1 + (1 << 20))), "Too long: may not be more than 1048576 bytes"),
    (
        LEASES,
        {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
        (
            'Lease.coordination.k8s.io "l" is invalid: [spec.leaseDurationSeconds: Invalid value: 0: must be greater '
            "than 0, spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]"
        ),
    ),
    (
        "/api/v1/nodes",
        {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "Never"}]}},
        'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule"',
    ),
    (
        "/api/v1/namespaces/research/events",
        {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}},
        'involvedObject.namespace: Invalid value: "default": does not match event.namespace',
    ),
    (
        MAPS,
        {"metadata": {"name": "x", "finalizers": ["nodomain"]}},
        'metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor',
    ),
    (
        MAPS,
        {"metadata": {"name": "x", "annotations": {"a": "b" * (1 << 18)}}},
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    ),
]


@pytest.mark.parametrize(("path", "manifest", "sentence"), CREATIONS, ids=range(len(CREATIONS)))
def test_an_invalid_object_is_refused_in_the_servers_words(served, path, manifest, sentence):
    """422 Invalid with one cause a mistake, and nothing is created."""
    before = served.do(lambda: served.store.version)
    code, status = served.call("POST", path, manifest)

    assert (code, status["reason"], status["code"], status["kind"]) == (422, "Invalid", 422, "Status")
    assert sentence in status["message"]
    assert all(cause["field"] and cause["reason"] for cause in status["details"]["causes"])
    assert served.do(lambda: served.store.version) == before
