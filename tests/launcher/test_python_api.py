"""Experiments in Python."""

import json

import pytest
import yaml

from fleet.errors import BadInput
from launcher.python_api import Experiment


def build():
    experiment = Experiment("dota-a3c", image="acme/a3c:1")
    experiment.add_role("ps", replicas=2, cpu=8, memory="32Gi", spot="never")
    return experiment.add_role("worker", replicas=16, cpu=24, memory="64Gi")


def test_a_dry_run_prints_what_a_launch_would_create():
    """The same objects as from YAML, Jobs suspended."""
    documents = list(yaml.safe_load_all(build().run(mode="dry")))
    assert [d["kind"] for d in documents] == ["Service", "Job", "Job"]
    assert documents[2]["spec"]["completions"] == 16
    assert documents[1]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "8"


def test_kube_hands_the_spec_to_the_transport():
    """The module needs no socket of its own."""
    sent = []

    def transport(text):
        sent.append(json.loads(text))
        return "launched"

    answer = build().run(mode="kube", transport=transport)
    assert answer == "launched"
    assert sent[0]["roles"]["ps"]["resources"] == {"cpu": "8", "memory": "32Gi"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: e.add_role("ps"), "twice"),
        (lambda e: e.add_role("game", replica=3).run(mode="dry"), "Did you mean 'replicas'"),
        (lambda e: e.add_role("Game").run(mode="dry"), "role name"),
        (lambda e: e.run(mode="docker"), "no mode"),
        (lambda e: e.run(mode="kube"), "transport"),
    ],
)
def test_mistakes_get_one_sentence(change, said):
    """As in YAML."""
    with pytest.raises(BadInput, match=said):
        change(build())
