"""The start asks each cluster for every verb of the shipped ClusterRole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot import permissions
from bot.terminal import SECTIONS
from config.settings import load_settings
from fleet.errors import BadInput
from fleet.kube.connection import connect
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.world import World
from tests.builders import T0

SETTINGS = """
clusters:
  - {name: home, kubeconfig: ./home, governed: [research]}
  - {name: away, kubeconfig: ./away, governed: [research, lab]}
"""
RULES: list[dict[str, Any]] = yaml.safe_load(
    (files("config") / "deploy" / "clusterrole.yaml").read_text(encoding="utf-8")
)["rules"]
Require = Callable[..., None]


@pytest.fixture
def require(tmp_path: Path) -> Iterator[Require]:
    """Asks two clusters in which our user has these rules; the second one may be down."""
    host = Host()
    clusters: list[Cluster] = []

    def ask(home: list[dict[str, Any]], away: list[dict[str, Any]], *, down: bool = False) -> None:
        world = host.call(lambda: World(T0))
        for name, rules in (("home", home), ("away", away)):
            cluster = Cluster(world, host, name, users={"quartermaster": rules}, controllers=())
            (tmp_path / name).write_text(json.dumps(cluster.kubeconfig("quartermaster")))
            clusters.append(cluster)
        clusters[-1].api.down = down
        path = tmp_path / "quartermaster.yaml"
        path.write_text(SETTINGS)
        connections = {name: connect(tmp_path / name, None, False, name) for name in ("home", "away")}
        permissions.require(load_settings(path, SECTIONS), connections)

    yield ask
    for cluster in clusters:
        cluster.close()
    host.close()


def without(resource: str, verb: str) -> list[dict[str, Any]]:
    """The shipped rules but for one verb of one resource."""
    return [
        {**rule, "resources": [each], "verbs": [v for v in rule["verbs"] if (each, v) != (resource, verb)]}
        for rule in RULES
        for each in rule["resources"]
    ]


def test_the_shipped_role_is_enough(require: Require) -> None:
    """Nothing is missing; the Lease is asked for in the home cluster alone."""
    require(RULES, [rule for rule in RULES if rule["resources"] != ["leases"]])


def test_what_is_missing_is_named_with_its_cluster_and_namespaces(require: Require) -> None:
    """Only what is missing; a verb that is used in governed namespaces, in each of them."""
    with pytest.raises(BadInput) as caught:
        require(RULES, without("jobs", "delete"))

    assert str(caught.value) == (
        "In cluster away our user may not delete jobs.batch in research, delete jobs.batch in lab. "
        "Bind config/deploy/clusterrole.yaml to it."
    )


def test_what_is_watched_is_asked_for_everywhere(require: Require) -> None:
    """A role that holds in the governed namespace alone does not let us meter the fleet."""
    bound = [{**rule, "namespaces": ["research"]} if "pods" in rule["resources"] else rule for rule in RULES]
    with pytest.raises(BadInput, match="may not list pods, watch pods, list nodes"):
        require(bound, RULES)


def test_a_cluster_that_does_not_answer_does_not_hold_up_the_others(require: Require) -> None:
    """The guard starts for what it can reach."""
    require(RULES, [], down=True)
