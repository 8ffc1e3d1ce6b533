"""What the Machines port promises, over every provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.errors import (
    BadInput,
    NoCapacity,
    NotOffered,
    QuotaExceeded,
    Refused,
    SubnetFull,
    Throttled,
    Unavailable,
)
from fleet.model import CapacityType
from fleet.ports import LaunchRequest
from fleet.values import Money
from tests.builders import T0
from tests.contracts.clouds import PROVIDERS, Provider


@pytest.fixture(params=list(PROVIDERS))
def provider(request) -> Iterator[Provider]:
    """A provider with its world."""
    with PROVIDERS[request.param]() as made:
        yield made


def request(count: int = 2, token: str = "hold-1", **more: Any) -> LaunchRequest:
    """A request for small machines of the steady pool."""
    fields: dict[str, Any] = {
        "token": token,
        "offer_key": "k",
        "provider": "aws",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "instance_type": "m5.xlarge",
        "capacity_type": CapacityType.ON_DEMAND,
        "count": count,
        "pool": "steady",
        "cluster": "home",
        "tags": {"quartermaster.dev/run": "abc12"},
    }
    return LaunchRequest(**(fields | more))


def bought(provider: Provider) -> int:
    """How many machines were ever bought, whoever asks."""
    return len(provider.cloud.machines())


def test_machines_of_another_installation_are_never_ours(provider):
    """Two that share an account, a region and even the cluster's name see their own machines only."""
    theirs = provider.again(lambda: "uid-other")
    kept = {one.id for one in theirs.launch(request(1, token="theirs")).instances}
    ours = {one.id for one in provider.machines.launch(request(2)).instances}
    provider.pass_(seconds=120)
    assert {one.id for one in provider.machines.describe()} == ours
    assert {one.id for one in theirs.describe()} == kept


def test_what_is_bought_is_listed_at_once_and_stays(provider):
    """Bought machines are listed before the provider lists them, and once only afterwards."""
    result = provider.machines.launch(request(3))
    ids = {one.id for one in result.instances}
    assert (len(ids), result.shortfall) == (3, None)
    assert {one.id for one in provider.machines.describe()} == ids
    provider.pass_(seconds=60)
    listed = provider.machines.describe()
    assert sorted(one.id for one in listed) == sorted(ids)
    for one in listed:
        assert (one.provider, one.region, one.zone, one.instance_type) == (
            "aws",
            "us-west-2",
            "us-west-2a",
            "m5.xlarge",
        )
        assert (one.capacity_type, one.state, one.live, one.launched, one.ended) == (
            CapacityType.ON_DEMAND,
            "running",
            True,
            T0,
            None,
        )
        assert one.tags["quartermaster.dev/run"] == "abc12"
        assert one.tags["quartermaster.dev/cluster"] == "home"
        assert one.tags["quartermaster.dev/hold"] == "hold-1"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeated_request_never_buys_twice(provider, restarted):
    """The same token returns its first result, also in another process, minutes later, or after the end."""
    first = provider.machines.launch(request(3))
    provider.pass_(minutes=5)
    port = provider.again() if restarted else provider.machines
    second = port.launch(request(3))
    assert {one.id for one in second.instances} == {one.id for one in first.instances}
    assert bought(provider) == 3
    port.terminate("us-west-2", [one.id for one in first.instances])
    third = port.launch(request(3))
    assert {one.id for one in third.instances} == {one.id for one in first.instances}
    assert bought(provider) == 3


def test_a_lost_reply_is_found_again(provider):
    """Where the answer never came, the machines were bought: the repeated request tells which."""
    provider.do(setattr, provider.cloud.faults, "lost_replies", 1)
    with pytest.raises(Unavailable):
        provider.machines.launch(request(2))
    assert bought(provider) == 2
    again = provider.again().launch(request(2))
    assert len(again.instances) == 2
    assert bought(provider) == 2


def test_a_token_for_something_else_is_what_it_bought_or_a_conflict(provider):
    """Another request under a used token buys nothing: what the token bought is the result."""
    first = provider.machines.launch(request(2))
    provider.pass_(seconds=30)
    other = provider.machines.launch(request(2, instance_type="p5.48xlarge"))
    assert {one.id for one in other.instances} == {one.id for one in first.instances}
    assert {one.instance_type for one in other.instances} == {"m5.xlarge"}
    assert bought(provider) == 2


def test_a_used_token_whose_machines_are_not_listed_yet(provider):
    """Right after the purchase it has to be asked again; then what it bought is found, never bought a second time."""
    provider.machines.launch(request(2))
    port, other = provider.again(), request(2, instance_type="p5.48xlarge")
    with pytest.raises(Unavailable):
        port.launch(other)
    provider.pass_(seconds=30)
    assert len(port.launch(other).instances) == 2
    assert bought(provider) == 2


def test_all_or_nothing(provider):
    """Where the minimum is the count, three of five is none, and NoCapacity."""
    with pytest.raises(NoCapacity):
        provider.machines.launch(request(5, instance_type="p5.48xlarge", minimum=5))
    assert bought(provider) == 0


def test_some_of_many(provider):
    """Without a minimum what there is comes, and the rest is a typed shortfall."""
    result = provider.machines.launch(request(5, instance_type="p5.48xlarge"))
    assert len(result.instances) == 3
    assert isinstance(result.shortfall, NoCapacity)
    with pytest.raises(NoCapacity):
        provider.machines.launch(request(1, "hold-2", instance_type="p5.48xlarge"))


def test_each_reason_has_its_type(provider):
    """No such type in the zone, no quota, no addresses: what to do next differs, so the types do."""
    machines = provider.machines
    with pytest.raises(NotOffered):
        machines.launch(request(1, "h1", zone="us-west-2b", instance_type="p5.48xlarge"))
    with pytest.raises(QuotaExceeded):
        machines.launch(request(17, "h2", minimum=17))
    with pytest.raises(SubnetFull):
        machines.launch(request(2, "h3", pool="tight", minimum=2))
    with pytest.raises(BadInput):
        machines.launch(request(1, "h4", zone="eu-west-1a", region="eu-west-1"))
    assert bought(provider) == 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [("RequestLimitExceeded", Throttled), ("UnauthorizedOperation", Refused), ("InternalError", Unavailable)],
)
def test_other_refusals_have_theirs(provider, code, kind):
    """Throttling, permissions and the provider's own trouble; the same request then succeeds."""
    provider.do(provider.cloud.fail_next, "RunInstances", code)
    with pytest.raises(kind):
        provider.machines.launch(request(1))
    assert len(provider.machines.launch(request(1)).instances) == 1


def test_ended_machines_are_listed_as_ended(provider):
    """Ending shows with its time; ending again is fine; others live on."""
    first, second = provider.machines.launch(request(2)).instances
    provider.pass_(minutes=10)
    provider.machines.terminate("us-west-2", [first.id])
    provider.machines.terminate("us-west-2", [first.id])
    provider.pass_(minutes=2)
    states = {one.id: one for one in provider.machines.describe()}
    assert not states[first.id].live
    assert states[first.id].ended is not None
    assert abs((states[first.id].ended - T0).total_seconds() - 600) <= 1
    assert states[second.id].live


def test_ending_what_nobody_knows_is_fine(provider):
    """An id of another life does not keep the others from ending."""
    (one,) = provider.machines.launch(request(1)).instances
    provider.pass_(minutes=1)
    provider.machines.terminate("us-west-2", ["i-00000000deadbeef0", one.id])
    provider.machines.terminate("us-west-2", ["i-00000000deadbeef0"])
    provider.machines.terminate("us-west-2", [])
    assert not provider.machines.describe()[0].live


def test_ending_what_was_bought_a_moment_ago(provider):
    """Either it ends at once, or it is said that it has to be tried again; it never bills on unnoticed."""
    (one,) = provider.machines.launch(request(1)).instances
    try:
        provider.machines.terminate("us-west-2", [one.id])
    except Unavailable:
        provider.pass_(seconds=30)
        provider.machines.terminate("us-west-2", [one.id])
    provider.pass_(seconds=60)
    assert not provider.machines.describe()[0].live


def test_others_machines_are_not_ours(provider):
    """Machines without our clusters' tag are never listed."""
    provider.machines.launch(request(1))
    client = provider.machines._clients.ec2("us-west-2")
    client.run_instances(
        ImageId="ami-us-west-2",
        InstanceType="m5.xlarge",
        MinCount=1,
        MaxCount=1,
        SubnetId="subnet-us-west-2a",
    )
    provider.pass_(minutes=1)
    assert bought(provider) == 2
    assert len(provider.machines.describe()) == 1


def test_machines_of_all_regions_are_listed(provider):
    """Regions are one list."""
    provider.machines.launch(request(1, "h1"))
    provider.machines.launch(request(2, "h2", region="us-east-1", zone="us-east-1b"))
    provider.pass_(minutes=1)
    assert sorted(one.zone for one in provider.machines.describe()) == [
        "us-east-1b",
        "us-east-1b",
        "us-west-2a",
    ]


def test_many_machines_are_all_listed(provider):
    """More machines than fit on the provider's page."""
    for number in range(8):
        zone = "ab"[number % 2]
        provider.machines.launch(request(2, f"h{number}", zone=f"us-west-2{zone}"))
    provider.pass_(minutes=1)
    assert len(provider.machines.describe()) == 16


def test_spot_machines_say_when_they_are_taken_back(provider):
    """The notice names the machine before it ends; then it has ended."""
    result = provider.machines.launch(
        request(2, pool="cheap", capacity_type=CapacityType.SPOT, max_price=Money.usd("0.192"))
    )
    first = result.instances[0]
    provider.pass_(minutes=1)
    assert {one.capacity_type for one in provider.machines.describe()} == {CapacityType.SPOT}
    assert provider.machines.interruptions() == ()
    provider.do(provider.cloud.interrupt, first.id)
    assert provider.machines.interruptions() == (first.id,)
    provider.pass_(minutes=3)
    assert provider.machines.interruptions() == ()
    assert {one.id: one.live for one in provider.machines.describe()}[first.id] is False


def test_a_spot_price_above_ours_is_no_capacity(provider):
    """A highest price below the market buys nothing."""
    with pytest.raises(NoCapacity):
        provider.machines.launch(
            request(1, pool="cheap", capacity_type=CapacityType.SPOT, max_price=Money.usd("0.01"))
        )
    assert bought(provider) == 0
