"""A whole cluster: machines join with their token, a Job runs, users have what their rules give."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import urllib3
import yaml
from kubernetes import client
from kubernetes.config import kube_config

from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from tests.sandbox.kube.serving import JOBS, PODS, job

START = datetime(2026, 11, 6, 17, 0, tzinfo=UTC)
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


@pytest.fixture
def host():
    """A sandbox thread."""
    running = Host()
    yield running
    running.close()


@pytest.fixture
def http():
    """Connections."""
    pool = urllib3.PoolManager(retries=False)
    yield pool
    pool.clear()


def call(http, cluster, token, method, path, body=None):
    """One request; status and answer."""
    raw = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    response = http.request(method, cluster.address + path, body=raw, headers=headers, timeout=20)
    return response.status, response.json() if response.data.startswith(b"{") else response.data.decode()


def node(name):
    """What a machine posts when it joins."""
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": capacity, "allocatable": capacity}}


def test_a_job_runs_on_a_machine_that_joined(host, http):
    """From the POST of the Node to the completed Job and its log, in stepped time."""
    world = World(START)
    cluster = Cluster(world, host, "home")
    cluster.add_namespace("research", {"team": "vision"})
    assert call(http, cluster, cluster.join_token, "POST", "/api/v1/nodes", node("n1"))[0] == 201
    assert call(http, cluster, cluster.token("admin"), "POST", JOBS, job("j"))[0] == 201
    host.call(world.run_until, START + timedelta(seconds=60))

    pods = call(http, cluster, cluster.token("admin"), "GET", PODS)[1]["items"]
    assert [(p["spec"]["nodeName"], p["status"]["phase"]) for p in pods] == [("n1", "Running")]
    name = pods[0]["metadata"]["name"]
    host.call(cluster.kubelets.say, "research", name, "step 1")
    host.call(cluster.kubelets.say, "research", name, "step 2")
    log = call(http, cluster, cluster.token("admin"), "GET", f"{PODS}/{name}/log?tailLines=1")[1]
    assert log == "step 2\n"
    host.call(cluster.kubelets.finish, "research", name)
    host.call(world.run_until, START + timedelta(seconds=120))
    found = call(http, cluster, cluster.token("admin"), "GET", JOBS + "/j")[1]
    assert {c["type"] for c in found["status"]["conditions"] if c["status"] == "True"} >= {"Complete"}


def test_users_have_their_own_tokens_and_rules(host, http):
    """The machine may join and nothing more; a user of ours what its ClusterRole says."""
    cluster = Cluster(World(START), host, "home", users={"product": RULES}, controllers=())
    token = cluster.token("product")

    assert call(http, cluster, token, "GET", "/api/v1/pods")[0] == 200
    assert call(http, cluster, token, "GET", "/api/v1/nodes")[0] == 403
    assert call(http, cluster, cluster.join_token, "GET", "/api/v1/pods")[0] == 403
    assert len({cluster.token(user) for user in ("admin", "machine", "product")}) == 3
    for part in ("scheduler", "kubelets"):
        with pytest.raises(RuntimeError, match=f"Cluster home runs no {part}"):
            getattr(cluster, part)


def test_the_kubeconfig_is_read_by_the_official_client(host, tmp_path):
    """Plain values that are written as YAML."""
    cluster = Cluster(World(START), host, "home", controllers=())
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(cluster.kubeconfig()))
    api = kube_config.new_client_from_config(str(path))

    assert len(client.CoreV1Api(api).list_namespace().items) == 4


def test_the_world_knows_the_version_until_the_cluster_closes(host):
    """For a stepped world, which waits until caches have seen it."""
    world = World(START)
    cluster = Cluster(world, host, "home", controllers=())
    assert host.call(world.versions) == {cluster.address: cluster.store.version}

    cluster.close()
    assert host.call(world.versions) == {}


def test_two_clusters_are_apart(host, http):
    """Each has its own objects and tokens."""
    world = World(START)
    one, two = (Cluster(world, host, name, controllers=()) for name in ("one", "two"))
    one.add_namespace("research")

    assert call(http, two, two.token("admin"), "GET", "/api/v1/namespaces/research")[0] == 404
    assert call(http, two, one.token("admin"), "GET", "/api/v1/namespaces")[0] == 401


def test_an_unknown_controller_is_refused(host):
    """A misspelt name must not leave a cluster in which nothing happens."""
    with pytest.raises(ValueError, match="No such controllers: schedular"):
        Cluster(World(START), host, "home", controllers=("schedular",))
