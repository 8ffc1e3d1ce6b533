"""What the Lease port promises, over every Kubernetes API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from fleet.errors import NotFound
from fleet.kube.lease import KubeLease
from fleet.model import Ref
from tests.builders import T0

DURATION = timedelta(seconds=60)


@pytest.fixture
def contender(objects, namespace):
    """Makes a contender for the lease of this test."""
    return lambda name: KubeLease(objects, namespace, "quartermaster", name, DURATION)


def test_one_holds_it_and_renews(contender):
    """The first has it, keeps it by renewing, and its epoch stays."""
    first, second = contender("a"), contender("b")
    assert first.acquire(T0)
    epoch = first.epoch
    assert not second.acquire(T0 + timedelta(seconds=30))
    assert (second.holder, first.holder) == ("a", "a")
    assert first.acquire(T0 + timedelta(seconds=50))
    assert not second.acquire(T0 + timedelta(seconds=100))
    assert first.epoch == epoch


def test_silence_passes_it_on(contender):
    """After its duration another takes it with a higher epoch, and the old holder is refused from then on."""
    first, second = contender("a"), contender("b")
    first.acquire(T0)
    assert not second.acquire(T0 + DURATION - timedelta(microseconds=1))
    assert second.acquire(T0 + DURATION)
    assert second.epoch > first.epoch
    assert not first.acquire(T0 + DURATION + timedelta(seconds=1))
    assert first.holder == "b"


def test_a_release_needs_no_waiting(contender):
    """A clean stop gives it up at once; releasing twice, or what another has, does nothing."""
    first, second = contender("a"), contender("b")
    first.acquire(T0)
    first.release()
    assert second.acquire(T0 + timedelta(seconds=1))
    first.release()
    assert not first.acquire(T0 + timedelta(seconds=2))
    assert second.acquire(T0 + timedelta(seconds=3))


def test_the_epoch_grows_with_every_change(contender):
    """Also where a lease passes back to a holder of before."""
    first, second = contender("a"), contender("b")
    epochs = []
    for number, holder in enumerate([first, second] * 3):
        assert holder.acquire(T0 + number * timedelta(hours=1))
        epochs.append(holder.epoch)
    assert epochs == sorted(set(epochs))


def test_a_double_of_the_same_name_is_noticed(contender):
    """A process that starts again under its name need not wait, and its stale double is refused."""
    old, new = contender("a"), contender("a")
    assert old.acquire(T0)
    assert new.acquire(T0 + timedelta(seconds=1))
    assert new.epoch > old.epoch
    assert not old.acquire(T0 + timedelta(seconds=2))
    assert new.acquire(T0 + timedelta(seconds=3))


@pytest.mark.parametrize("state", ["absent", "expired"])
def test_of_many_at_once_one_wins(contender, state):
    """Eight that try at the same moment: one has it, whoever was fastest."""
    if state == "expired":
        contender("before").acquire(T0 - timedelta(hours=1))
    contenders = [contender(f"c{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda one: one.acquire(T0), contenders))
    assert sum(won) == 1
    winner = contenders[won.index(True)]
    assert winner.acquire(T0 + timedelta(seconds=1))


def test_a_lease_that_was_deleted_is_made_again(contender, objects, namespace):
    """Somebody's kubectl delete costs at most one turn."""
    first = contender("a")
    first.acquire(T0)
    where = Ref("any", "coordination.k8s.io/v1", "Lease", namespace, "quartermaster")
    objects.delete(where)
    with pytest.raises(NotFound):
        objects.get(where)
    assert first.acquire(T0 + timedelta(seconds=1))


def test_times_keep_their_microseconds(contender, objects, namespace):
    """renewTime is a MicroTime: six digits, also where they are zero."""
    contender("a").acquire(T0)
    where = Ref("any", "coordination.k8s.io/v1", "Lease", namespace, "quartermaster")
    spec = objects.get(where)["spec"]
    assert spec["renewTime"] == "2026-11-06T17:00:00.000000Z"
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 60)
