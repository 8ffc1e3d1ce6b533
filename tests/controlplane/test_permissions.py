"""The shipped ClusterRole on a real API server: with a verb less, one sentence names it, before anything is begun."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from bot.permissions import wanted
from bot.terminal import SECTIONS
from config.settings import load_settings
from fleet.errors import NotFound, Refused
from fleet.kube.connection import Connection, connect
from fleet.kube.objects import KubeObjects, collection_path
from fleet.kube.permissions import Permission, missing
from fleet.model import Ref
from tests.controlplane.harness import SHIPPED_ROLE, ControlPlane
from tests.controlplane.stage import Stage, until

pytestmark = pytest.mark.service("control-plane")

RULES: list[dict[str, Any]] = yaml.safe_load(SHIPPED_ROLE.read_text(encoding="utf-8"))["rules"]
KINDS = {
    "pods": ("v1", "Pod"),
    "pods/log": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "events": ("v1", "Event"),
    "services": ("v1", "Service"),
    "configmaps": ("v1", "ConfigMap"),
    "jobs": ("batch/v1", "Job"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
}
GRANTED = [(resource, verb) for rule in RULES for resource in rule["resources"] for verb in rule["verbs"]]
_numbers = itertools.count(1)


def without(*taken: tuple[str, str]) -> list[dict[str, Any]]:
    """The shipped rules without some (resource, verb)."""
    return [
        {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": verbs}
        for rule in RULES
        for resource in rule["resources"]
        if (verbs := [verb for verb in rule["verbs"] if (resource, verb) not in taken])
    ]


@pytest.fixture
def limited(control_plane: ControlPlane) -> Iterator[Callable[..., Connection]]:
    """A connection of a user with the shipped rules but for some verbs."""
    bound: list[str] = []

    def make(*taken: tuple[str, str]) -> Connection:
        name = f"limited-{next(_numbers)}"
        control_plane.define(name, without(*taken))
        control_plane.bind("restricted", name)
        bound.append(name)
        return connect(control_plane.kubeconfig("restricted"), None, False, "home")

    yield make
    for name in bound:
        control_plane.unbind("restricted", name)


def attempt(connection: Connection, resource: str, verb: str, namespace: str) -> None:
    """What the product does with this verb, on an object that is not there."""
    objects = KubeObjects(connection)
    version, kind = KINDS[resource]
    inside = "" if kind in ("Node", "Namespace") else namespace
    ref = Ref("home", version, kind, inside, "nothing")
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "nothing", "namespace": inside}}
    acts: dict[str, Callable[[], object]] = {
        "list": lambda: objects.list(version, kind, inside),
        "watch": lambda: connection.request(
            "GET", collection_path(version, kind, inside), {"watch": "1", "timeoutSeconds": "1"}
        ),
        "get": lambda: objects.logs(ref) if resource == "pods/log" else objects.get(ref),
        "create": lambda: objects.create(manifest, dry_run=True),
        "patch": lambda: objects.merge_patch(ref, {"metadata": {"labels": {"a": "b"}}}),
        "delete": lambda: objects.delete(ref),
    }
    acts[verb]()


@pytest.mark.parametrize(("resource", "verb"), GRANTED, ids=[f"{verb}-{name}" for name, verb in GRANTED])
def test_a_missing_verb_is_one_sentence_that_names_it(limited, namespace, resource, verb):
    """Every verb of the role in turn: the adapter's error says who may not do what, and what to grant."""
    connection = limited((resource, verb))
    group = KINDS[resource][0].rpartition("/")[0]
    asked = [Permission(v, r, KINDS[r][0].rpartition("/")[0], namespace) for r, v in GRANTED]
    until(lambda: missing(connection, asked) == (Permission(verb, resource, group, namespace),), "the role")
    with pytest.raises(Refused) as caught:
        attempt(connection, resource, verb, namespace)
    what = f"{resource}.{group}" if group else resource

    assert str(caught.value).startswith(f"home: restricted may not {verb} {what} in ")
    assert str(caught.value).endswith(f"give its role the verb {verb!r} on {what}.")
    assert str(caught.value).count("; ") == 1


def test_with_the_whole_role_nothing_is_refused(limited, namespace):
    """The same acts: done, or about something that is not there."""
    connection = limited()
    asked = [Permission(v, r, KINDS[r][0].rpartition("/")[0], namespace) for r, v in GRANTED]
    until(lambda: missing(connection, asked) == (), "the role")
    codes = set()
    for resource, verb in GRANTED:
        try:
            attempt(connection, resource, verb, namespace)
        except (NotFound, Refused) as error:
            codes.add(error.code)

    # Invalid: what is created here is not a whole object.
    assert codes == {"NotFound", "Invalid"}


def test_the_start_is_refused_where_verbs_are_missing(control_plane, limited, namespace, tmp_path):
    """serve ends with 2 and one sentence with all of them; nothing was written, bought or answered."""
    connection = limited(("jobs", "patch"), ("nodes", "list"), ("leases", "create"))
    stage = Stage(control_plane, namespace, tmp_path)
    try:
        (tmp_path / "kubeconfig").write_text(control_plane.kubeconfig("restricted").read_text())
        asked = tuple(wanted(settings := load_settings(stage.settings, SECTIONS), settings.core.clusters[0]))
        until(lambda: len(missing(connection, asked)) == 3, "the role")
        stage.product.start()
        until(lambda: not stage.product.pid, "the end of serve")
        code = stage.product.stop()
    finally:
        stage.close()

    assert code == 2
    assert stage.product.log.read_text() == (
        "In cluster home our user may not list nodes, patch jobs.batch in "
        f"{namespace}, create leases.coordination.k8s.io in kube-system. Bind config/deploy/clusterrole.yaml to it.\n"
    )
    assert not (tmp_path / "data").exists()
