"""What a run consists of in the cluster."""

import json

import pytest

from fleet.errors import BadInput
from fleet.model import L_EXPERIMENT, L_OWNER, L_ROLE, L_RUN, L_TEAM
from fleet.values import Resources
from launcher.load import parse_experiment
from launcher.manifests import render
from launcher.names import RUN_ALPHABET, RunIdentity, run_id
from launcher.planning import effective_requests
from launcher.settings import LauncherSettings

IDENTITY = RunIdentity("6n4p8", "research", "home", "U1", "Ada Lovelace", "vision")
SETTINGS = LauncherSettings(priority_classes={"high": "urgent"})
DOTA = """
name: dota-a3c
image: acme/a3c:1
checkpoint: {path: s3://ckpt/dota, grace: 120}
success: [worker]
roles:
  worker: {replicas: 4, command: "echo $(hostname)", resources: {cpu: 24, memory: 64Gi}, retries: 10}
  ps:     {replicas: 2, command: [python, ps.py, "$(X)"], ports: {tf: 2222}, resources: {cpu: 8, memory: 32Gi}, spot: never}
  game:   {replicas: 4, image: "games:1", ports: {vnc: 5900}, resources: {cpu: 2, memory: 4Gi}, min_replicas: 2}
limits: {max_cost: 2000, max_hours: 72}
"""
PONG = """
name: pong
image: acme/pong:1
command: [python, train.py, "--lr={lr}", "--net={net}"]
resources: {cpu: 4, memory: 8Gi}
sweep:
  params: {lr: [1e-4, 3e-4], seed: {range: [0, 20]}, net: [small, big]}
  max_parallel: 30
  max_failed: 20
limits: {max_cost: 300, max_hours: 48, max_cores: 80}
"""


def rendered(text, **changes):
    return render(parse_experiment(text, "e.yaml"), IDENTITY, SETTINGS)


def objects(text, kind):
    return {o["metadata"]["name"]: o for o in rendered(text).objects if o["kind"] == kind}


def env_of(job):
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {v["name"]: v.get("value") for v in container["env"]}


def test_roles_become_suspended_indexed_jobs_and_one_headless_service():
    """Nothing has pods before it is released, and names resolve before pods are ready."""
    jobs = objects(DOTA, "Job")
    assert list(jobs) == ["dota-a3c-6n4p8-ps", "dota-a3c-6n4p8-game", "dota-a3c-6n4p8-worker"]
    for job in jobs.values():
        spec = job["spec"]
        assert (spec["suspend"], spec["completionMode"], spec["podReplacementPolicy"]) == (
            True,
            "Indexed",
            "Failed",
        )
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 120
        assert spec["completions"] == spec["parallelism"]
    assert jobs["dota-a3c-6n4p8-worker"]["spec"]["backoffLimitPerIndex"] == 10
    service = objects(DOTA, "Service")["dota-a3c-6n4p8"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_everything_carries_who_it_belongs_to():
    """Jobs and pods carry experiment, run, role, owner and team; the display name is an annotation."""
    job = objects(DOTA, "Job")["dota-a3c-6n4p8-ps"]
    expected = {L_EXPERIMENT: "dota-a3c", L_RUN: "6n4p8", L_ROLE: "ps", L_OWNER: "U1", L_TEAM: "vision"}
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert expected.items() <= metadata["labels"].items()
        assert metadata["annotations"]["quartermaster.dev/owner-name"] == "Ada Lovelace"


def test_the_environment_defines_the_index_first_and_uses_it_afterwards():
    """The kubelet expands only what stands earlier in the list."""
    worker = objects(DOTA, "Job")["dota-a3c-6n4p8-worker"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["name"] == "QM_INDEX"
    assert "job-completion-index" in container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"]
    env = env_of(worker)
    assert env["QM_HOST_PS"] == "dota-a3c-6n4p8-ps-{index}.dota-a3c-6n4p8"
    assert env["QM_HOST_WORKER"] == "dota-a3c-6n4p8-worker-$(QM_INDEX).dota-a3c-6n4p8"
    assert env["QM_HOST_GAME"].startswith("dota-a3c-6n4p8-game-{index}.")
    assert (env["QM_RUN"], env["QM_ROLE"], env["QM_REPLICAS"]) == ("6n4p8", "worker", "4")
    assert "QM_REPLICAS" not in env_of(objects(DOTA, "Job")["dota-a3c-6n4p8-game"])


def test_user_text_that_looks_like_an_expansion_is_escaped():
    """`$(hostname)` is the user's shell's, not the kubelet's."""
    jobs = objects(DOTA, "Job")
    command = jobs["dota-a3c-6n4p8-worker"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["/bin/sh", "-ec", "echo $$(hostname)"]
    command = jobs["dota-a3c-6n4p8-ps"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-1] == "$$(X)"


def test_a_sweep_is_one_job_and_one_immutable_configmap():
    """80 trials, and max_cores lets 20 of them run at once: the plan says which limit binds."""
    result = rendered(PONG)
    (job,) = objects(PONG, "Job").values()
    (trials,) = objects(PONG, "ConfigMap").values()
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["maxFailedIndexes"]) == (
        80,
        20,
        20,
    )
    assert trials["immutable"] is True
    assert trials["data"]["79.sh"] == "exec python train.py --lr=0.0003 --net=big\n"
    mount = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][-1]
    assert mount["subPathExpr"] == "$(QM_TRIAL).sh"
    assert len(result.pods) == 20
    assert any("20 trials at once" in warning for warning in result.warnings)


def test_the_same_input_gives_the_same_bytes():
    """A retried launch renders exactly what the first one did."""
    assert json.dumps(rendered(DOTA).objects) == json.dumps(rendered(DOTA).objects)
    assert rendered(DOTA).spec_hash == rendered(DOTA).spec_hash != rendered(PONG).spec_hash


def test_run_ids_have_five_characters_without_vowels_and_come_from_the_request():
    """The same request is the same run."""
    ids = {run_id(f"request-{n}") for n in range(500)}
    assert len(ids) > 490
    assert all(len(i) == 5 and set(i) <= set(RUN_ALPHABET) for i in ids)
    assert run_id("r") == run_id("r") != run_id("r", 1)


def test_overrides_are_merged_last_and_cannot_unlabel_the_run():
    """The raw overlay reaches the template, except where the run would no longer be found."""
    text = 'name: a\nimage: b\noverrides: {metadata: {annotations: {x: "1"}}, spec: {hostNetwork: true}}\n'
    (job,) = objects(text, "Job").values()
    template = job["spec"]["template"]
    assert (template["metadata"]["annotations"]["x"], template["spec"]["hostNetwork"]) == ("1", True)
    for bad in (
        "{spec: {restartPolicy: Always}}",
        "{metadata: {labels: {quartermaster.dev/run: x}}}",
        "{x: 1}",
    ):
        with pytest.raises(BadInput, match="overrides"):
            rendered(f"name: a\nimage: b\noverrides: {bad}\n")


def test_gpus_spot_spread_and_priority_reach_the_template():
    """Each field of the spec has its place in the pod."""
    text = (
        "name: a\nimage: b\nresources: {cpu: 4, memory: 8Gi, gpu: 8, gpu_type: H100, shm: 1Gi}\nspot: require\n"
        "placement: {zone: same, spread: true}\npriority: high\nsidecars: {game: {image: g, ports: {vnc: 5900}}}\n"
    )
    (job,) = objects(text, "Job").values()
    spec = job["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert spec["nodeSelector"] == {"quartermaster.dev/gpu": "H100"}
    assert spec["priorityClassName"] == "urgent"
    assert spec["initContainers"][0]["restartPolicy"] == "Always"
    assert spec["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    (planned,) = rendered(text).pods
    assert planned.requests == Resources(4100, 8 * 2**30 + 128 * 2**20, 8, 1)
    assert planned.placement.node_affinity[0][0].values == ("spot",)
    assert planned.placement.pod_affinity[0].topology_key == "topology.kubernetes.io/zone"


def test_planned_requests_count_init_containers_and_sidecars_as_the_scheduler_does():
    """Row 6: init 7 + main 1 is 7; a sidecar of 2 and main 3 are 5."""

    def container(cpu, **more):
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    first = effective_requests({"initContainers": [container("7")], "containers": [container("1")]})
    second = effective_requests(
        {"initContainers": [container("2", restartPolicy="Always")], "containers": [container("3")]}
    )
    assert (first.millicores, second.millicores) == (7000, 5000)


def test_roles_that_do_not_fit_their_limits_are_refused():
    """max_cores below what the roles need together is a contradiction to be told before launch."""
    with pytest.raises(BadInput, match=r"need 120 cores together, and limits.max_cores is 100"):
        rendered(DOTA.replace("max_hours: 72", "max_hours: 72, max_cores: 100"))
