"""Experiment files: what is understood, and the one sentence that a mistake gets."""

import pytest

from fleet.errors import BadInput
from launcher.load import find_experiment, parse_experiment
from launcher.spec import Experiment

HELLO = """\
name: hello
image: acme/train:1
command: python train.py --lr 1e-3
resources: {cpu: 4, memory: 16Gi, gpu: 1}
limits: {max_cost: 40, max_hours: 8}
"""

DOTA = """\
name: dota-a3c
image: acme/a3c:1
checkpoint: {path: s3://ckpt/dota-a3c, grace: 120}
success: [worker]
env: {SHARED: 010}
roles:
  ps:     {replicas: 2,  command: [python, worker.py, --job-name=ps], ports: {tf: 2222}, resources: {cpu: 8, memory: 32Gi}, spot: never}
  worker: {replicas: 16, command: [python, worker.py], resources: {cpu: 24, memory: 64Gi}, retries: 10, env: {OWN: 3.10}}
  game:   {replicas: 16, image: "games:1", ports: {vnc: 5900}, resources: {cpu: 2, memory: 4Gi}, min_replicas: 4}
limits: {max_cost: 2000, max_hours: 72, max_cores: 1200}
"""


def test_a_lone_experiment_is_one_role_called_main():
    """A file without roles describes the role `main`."""
    roles = parse_experiment(HELLO, "hello.yaml").resolved()
    assert list(roles) == ["main"]
    assert (roles["main"].resources.cpu, roles["main"].resources.gpu) == ("4", 1)


def test_a_role_takes_from_the_experiment_what_it_leaves_out():
    """Image and environment come from the top; what the role says wins."""
    roles = parse_experiment(DOTA, "dota.yaml").resolved()
    assert roles["ps"].image == "acme/a3c:1"
    assert roles["game"].image == "games:1"
    assert roles["worker"].env == {"SHARED": "010", "OWN": "3.10"}
    assert roles["game"].elastic
    assert not roles["ps"].elastic


@pytest.mark.parametrize(
    "written", ["3.10", "no", "010", "22:22", "1e3", "true", "0x1F", '"quoted"', "1_000"]
)
def test_environment_values_keep_their_source_text(written):
    """What stands in the file arrives in the container, whatever YAML would make of it."""
    experiment = parse_experiment(HELLO + f"env: {{A: {written}}}\n", "e.yaml")
    assert experiment.env["A"] == written.strip('"')


@pytest.mark.parametrize(
    ("line", "place", "said"),
    [
        ("nmae: x", "e.yaml:6", "Did you mean 'name'?"),
        ("replicas: 0", "e.yaml:6", "greater than or equal to 1"),
        ("replicas: 0x1", "e.yaml:6", "replicas"),
        ("env: {A-B: x}", "e.yaml:6", "env"),
        ("env: {A: }", "e.yaml:6", "no value"),
        ("env: {QM_RUN: x}", "e.yaml", "QM_"),
        ("keep: no", "e.yaml:6", "not a duration"),
        ("keep: 0", "e.yaml:6", "no time"),
        ("min_replicas: 3", "e.yaml", "min_replicas"),
        ("volumes: {/data: s3://x}", "e.yaml:6", "pvc:NAME"),
        ("priority: urgent", "e.yaml:6", "'low', 'normal' or 'high'"),
        ("success: [worker]", "e.yaml", "main"),
        ("tags: {a: b c}", "e.yaml:6", "label value"),
        ("roles: {worker: {imag: x}}", "e.yaml", "image"),
    ],
)
def test_a_mistake_gets_one_sentence_with_its_line(line, place, said):
    """Every refused value names file and line and what would be right."""
    with pytest.raises(BadInput) as error:
        parse_experiment(HELLO + line + "\n", "e.yaml")
    assert str(error.value).startswith(place)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "quantity", ["1e3Gi", "1K", "1_000", "inf", "١", "true", ".07893E985.90504", "0", "-1"]
)
def test_a_quantity_that_the_api_refuses_is_refused(quantity):
    """CPU is what Kubernetes parses, and more than none."""
    with pytest.raises(BadInput, match=r"^e\.yaml:2: resources\.cpu"):
        parse_experiment(f"{{name: a, image: b,\nresources: {{cpu: {quantity}}}}}", "e.yaml")


@pytest.mark.parametrize("name", ["smokey.test", "サンプル", "-x", "x-", "A", "7up", "x" * 31, "my_exp"])
def test_a_bad_name_is_refused_never_rewritten(name):
    """The suggestion is only told."""
    with pytest.raises(BadInput, match="is not a usable experiment name"):
        parse_experiment(f"{{name: {name}, image: b}}", "e.yaml")


def test_a_plain_number_of_bytes_is_taken_for_a_forgotten_suffix():
    """`memory: 16` means 16 bytes to Kubernetes and never to a person."""
    with pytest.raises(BadInput, match="16Gi"):
        parse_experiment("{name: a, image: b, resources: {memory: 16}}", "e.yaml")


def test_what_stands_beside_roles_must_not_be_about_one_role():
    """A command at the top with roles below would be ambiguous."""
    with pytest.raises(BadInput, match="command stands beside roles"):
        parse_experiment(DOTA + "command: x\n", "e.yaml")


def test_a_spec_survives_its_json_form():
    """A stored run can be read back as the spec it was launched from."""
    from launcher.manifests import spec_hash, spec_json

    for text in (HELLO, DOTA):
        experiment = parse_experiment(text, "e.yaml")
        again = Experiment.model_validate_json(spec_json(experiment))
        assert spec_hash(again) == spec_hash(experiment)
        assert again.resolved() == experiment.resolved()


def test_an_experiment_is_found_by_name_with_a_suggestion(tmp_path):
    """The folder of the settings is searched by file name."""
    (tmp_path / "hello.yaml").write_text(HELLO)
    assert find_experiment(tmp_path, "hello").name == "hello"
    with pytest.raises(BadInput, match="Did you mean 'hello'"):
        find_experiment(tmp_path, "helo")
    with pytest.raises(BadInput, match="There is no experiment"):
        find_experiment(tmp_path, "../hello")
    (tmp_path / "other.yaml").write_text(HELLO)
    with pytest.raises(BadInput, match="same name"):
        find_experiment(tmp_path, "other")
