"""Giving machines back: idle ones, and those that are of no use."""

from dataclasses import replace

from fleet.model import L_RUN
from scaler.events import MachineFailed
from tests.builders import offer, pod, resources
from tests.scaler.fakes import LABELS, REGIONS, House, waiting


def test_a_pod_that_lands_between_cordon_and_end_keeps_its_node_row_28():
    """Row 28: looked at again under the cordon, and uncordoned."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    house.bind(waiting(1)[0], "node-i-0001")
    house.tick()
    assert house.nodes.patched[-1] == ("node-i-0001", None)
    assert len(house.machines.live()) == 1


def test_a_cordoned_node_that_pending_pods_need_is_uncordoned_before_anything_is_bought():
    """What is there is used first."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    house.view.put(*waiting(1, cpu="2"))
    house.tick()
    assert house.nodes.patched[-1] == ("node-i-0001", None)
    assert len(house.machines.requests) == 1


def test_only_our_own_nodes_go_and_protected_ones_stay():
    """A node that we did not buy is never cordoned, nor one that is marked to be kept."""
    from tests.builders import node

    house = House()
    (one,) = waiting(1)
    house.view.put(one, node("theirs", provider_id="aws:///us-west-2a/i-foreign", unschedulable=True))
    house.tick()
    house.join()
    house.view.drop(one)
    ours = house.view.nodes["node-i-0001"]
    house.view.put(replace(ours, labels={**ours.labels, "quartermaster.dev/do-not-disrupt": "true"}))
    for _ in range(5):
        house.tick(minutes=10)
    assert house.nodes.patched == []
    assert len(house.machines.live()) == 1


def test_idle_nodes_go_a_share_at_a_time():
    """29 of 30 idle: a rate limit, not a veto."""
    house = House()
    pods = waiting(30)
    house.view.put(*pods)
    house.tick()
    house.join()
    house.tick()
    for one in pods:
        house.view.drop(one)
    house.tick()
    house.tick(minutes=2)
    assert len(house.nodes.patched) == 3
    house.tick()
    assert len(house.machines.live()) == 27
    for _ in range(25):
        house.tick()
    assert house.machines.live() == []


def test_a_machine_that_never_joins_is_ended_told_and_its_offer_left_alone():
    """It bills and is of no use; the next try is elsewhere."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    house.tick(minutes=16)
    house.tick()
    house.tick()
    (event,) = house.notifier.of(MachineFailed)
    assert (event.machine, event.reason) == ("i-0001", "it did not join in time")
    assert [len(house.machines.live(region)) for region in REGIONS[:2]] == [0, 1]


def test_gpus_that_never_appear_end_the_machine_row_10():
    """Row 10: node Ready, GPU allocatable 0 for ever."""
    gpu = offer(
        "g5.xlarge", price="1.006", allocatable=resources("3920m", "14Gi", gpus=1, pods=58), family="G"
    )
    house = House(gpu, replace(gpu, region="us-east-1", zone="us-east-1a"))
    house.view.put(*waiting(1, cpu="1", gpus=1))
    house.tick()
    house.join()
    node = house.view.nodes["node-i-0001"]
    house.view.put(replace(node, allocatable=replace(node.allocatable, gpus=0)))
    house.tick()
    house.tick(minutes=5)
    assert len(house.machines.live()) == 1
    house.tick(minutes=6)
    house.tick()
    house.tick()
    assert [m.region for m in house.machines.live()] == ["us-east-1"]
    assert house.notifier.of(MachineFailed)[0].reason == "its GPUs did not appear in time"


def test_idle_machines_of_a_stopped_run_go_at_once_and_all_together():
    """What they cost past the pause counts against the cap: no idle time, no share a tick; boots are cut short."""
    house = House()
    pods = waiting(30)
    house.view.put(*pods)
    house.tick()
    house.join()
    house.tick()
    for place, one in enumerate(pods):
        house.bind(one, f"node-i-{place + 1:04d}")
    house.view.put(pod("late", cpu="3", unschedulable=True, labels=LABELS))
    house.tick()
    assert len(house.machines.live()) == 31
    house.budget.stopped["r1"] = "The run r1 is paused"
    house.view.pods = {}
    house.tick()
    assert len(house.machines.live()) == 30, "the one that boots is dropped, the others are cordoned"
    assert len(house.nodes.patched) == 30
    house.tick()
    assert house.machines.live() == []


def test_a_stopped_runs_machine_that_another_run_uses_stays():
    """Bystanders are safe."""
    house = House()
    (one,) = waiting(1)
    house.view.put(one)
    house.tick()
    house.join()
    house.tick()
    other = pod("other", cpu="1", labels=LABELS | {L_RUN: "r2"})
    house.view.drop(one)
    house.bind(other, "node-i-0001")
    house.budget.stopped["r1"] = "The run r1 is paused"
    for _ in range(3):
        house.tick(minutes=5)
    assert len(house.machines.live()) == 1
    assert house.nodes.patched == []
