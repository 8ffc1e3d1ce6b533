"""The product on a real control plane, under the ClusterRole that we ship: one experiment from launch to end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from fleet.values import Money
from tests.controlplane.harness import ControlPlane
from tests.controlplane.stage import REGIONS, SECRETS, Stage, until

pytestmark = pytest.mark.service("control-plane")

DOTA = """
name: dota
image: acme/dota:1
resources: {cpu: 100, memory: 200Gi}
roles:
  ps: {replicas: 1, command: [python, ps.py]}
  worker: {replicas: 2, min_replicas: 1, command: [python, worker.py]}
  game: {replicas: 2, command: [python, game.py]}
success: [worker]
limits: {max_cost: 40}
"""


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    """A running serve; the first region has three machines."""
    made = Stage(control_plane, namespace, tmp_path)
    (tmp_path / "experiments/dota.yaml").write_text(DOTA)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_an_experiment_from_its_launch_to_its_end(stage, control_plane):
    """Launched by click, overflowed, scaled, paused by its cap, resumed by approval, done, machines given back."""
    run = launch(stage)
    overflow(stage)
    scale(stage)
    paused(stage, run, trip(stage))
    resume(stage, run)
    complete(stage, run)
    refused = [e for e in control_plane.audited("product") if e["responseStatus"].get("code") == 403]
    faults = [line for line in stage.log() if line.get("event") == "fault"]
    healthy, ready = stage.health("/healthz"), stage.health("/readyz")

    assert refused == []
    assert faults == []
    assert healthy == (200, {"ok": True})
    assert ready[0] == 200
    assert ready[1]["needs"] == {"lease": True, "cluster home": True}
    assert ready[1]["notes"]["slack"] == "connected"
    ends_cleanly(stage)
    keeps_secrets(stage)


def launch(stage: Stage) -> str:
    """The plan first, with nothing bought; then three Jobs. Returns the run."""
    stage.say("U1ADA", "/exp launch dota")
    until(lambda: [text for text in stage.texts() if "dota" in text], "a card")
    assert stage.jobs() == []
    assert not stage.live_machines()
    stage.click("U1ADA", "Launch", "dota")
    until(lambda: len(stage.jobs()) == 3, "three Jobs")
    stage.hears("is launched on home")
    stage.hears("launched dota (")
    found = re.search(r"launched dota \((\w+)\)", " ".join(stage.thread("dota")))
    assert found is not None
    return found[1]


def overflow(stage: Stage) -> None:
    """Five pods want a machine each; the first region has three."""
    until(lambda: stage.running() == {"ps": 1, "worker": 2, "game": 2}, "five pods that run", 60)
    assert stage.live_machines() == {REGIONS[0]: 3, REGIONS[1]: 2}
    assert sorted(stage.nodes().values()) == sorted([REGIONS[0]] * 3 + [REGIONS[1]] * 2)
    stage.hears(f"overflows: {REGIONS[0]} has no room")


def scale(stage: Stage) -> None:
    """One worker more: one machine more."""
    stage.say("U1ADA", "/exp scale dota worker=3")
    until(lambda: stage.running()["worker"] == 3, "a third worker", 60)
    assert sum(stage.live_machines().values()) == 6
    stage.hears("from 2 to 3")


def trip(stage: Stage) -> Money:
    """The team's lead leaves it ten seconds of these six machines beside the minute that is billed anyway."""
    spent, burn = Money.usd(str(round(float(stage.spent()), 2))), Money.usd("55.04") * 6
    limit = spent + burn.over(timedelta(seconds=70))
    stage.say("U5GRA", f"/exp caps set vision-total {limit.exact()}")
    stage.hears("set the cap vision-total", about="set the cap")
    return limit


def paused(stage: Stage, run: str, limit: Money) -> None:
    """Announced, then verified: nothing active, nothing terminating; its machines go, and the cap was kept."""
    stage.hears("paused, verified after")
    jobs = stage.jobs()

    assert any("is being paused by the guard" in text for text in stage.thread("dota"))
    assert "CountdownArmed" in stage.events()
    assert len(jobs) == 3
    for job in jobs:
        assert job["spec"]["suspend"] is True
        assert job["metadata"]["labels"]["quartermaster.dev/run"] == run
        assert (job["status"].get("active", 0), job["status"].get("terminating", 0)) == (0, 0)
    assert stage.pods() == []
    until(lambda: not stage.live_machines(), "machines given back while paused", 40)
    until(lambda: not stage.nodes(), "no node while paused", 40)
    assert stage.spent() <= limit.fraction_of(Money.usd(1))


def resume(stage: Stage, run: str) -> None:
    """Somebody who may approves on the card of the pause: it runs again, on new machines."""
    stage.click("U5GRA", "Approve", "paused, verified after")
    stage.hears(f"({run}) runs again")
    until(lambda: stage.running() == {"ps": 1, "worker": 3, "game": 2}, "six pods again", 60)
    assert all(job["spec"]["suspend"] is False for job in stage.jobs())
    assert any("Grace approved" in text for text in stage.texts())


def complete(stage: Stage, run: str) -> None:
    """The workers finish: so does the run; nothing of it burns."""
    stage.finish()
    stage.hears(f"dota ({run}) is done")
    until(lambda: not stage.live_machines(), "machines given back", 40)
    until(lambda: not stage.nodes(), "no node left", 40)
    assert not stage.running()


def ends_cleanly(stage: Stage) -> None:
    """SIGTERM: exit code 0 within seconds, the Lease given up."""
    began = time.monotonic()
    code = stage.product.stop()
    lease = stage.plane.request(
        "GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{stage.namespace}"
    )

    assert code == 0
    assert time.monotonic() - began < 5
    assert not lease["spec"].get("holderIdentity")
    assert "stopped" in [line["event"] for line in stage.log()]


def keeps_secrets(stage: Stage) -> None:
    """Not one of the secrets it was given is in the log, nor the addresses that answer for it."""
    text = stage.product.log.read_text()
    secrets = {**SECRETS, **{f"token of {name}": token for name, token in stage.plane.tokens.items()}}

    assert len(stage.log()) > 10
    assert [name for name, secret in secrets.items() if secret in text] == []
    assert "/response/response" not in text
