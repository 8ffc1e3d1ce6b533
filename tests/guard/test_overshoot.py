"""A ghost that grows as fast as it can: holds refuse before the cap, and the pause comes in time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.ports import HoldKind, Scope
from fleet.values import Money
from guard.events import PauseVerified
from guard.settings import GuardSettings
from tests.builders import pod
from tests.guard.fakes import labels
from tests.guard.lab import Lab, hold

RUN = Scope(cluster="home", team="vision", person="U1", experiment="dota", run="abcde")


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("countdown", [1, 15])
@pytest.mark.parametrize(("limit", "growth"), [("500", 400), ("500", 40), ("60", 40)])
def test_nothing_is_spent_past_the_cap_however_fast_it_grows(limit, growth, countdown, declared):
    """Up to 400 machines of $3.60/h a minute, each behind a hold; machines end five minutes after the pause.

    With a declared end the launch holds the whole cap, and still cannot grow past what can be stopped in time.
    """
    lab = Lab(settings=GuardSettings(countdown=timedelta(minutes=countdown)))
    span = lab.settings.span
    lab.tick()
    lab.cap("run-abcde", limit)
    rate = Money.usd("3.60")
    amount = limit if declared else rate.over(span).exact()
    launch = hold("launch-abcde", amount, burn=rate, payload={"rolling": not declared})
    assert lab.guard.budget.hold(launch, lab.now).granted
    lab.run()
    bought, refused_at, ends = 1, None, None
    for _ in range(60 * 24):
        for _ in range(growth):
            if not buy(lab, f"g{bought}", rate, span):
                refused_at = refused_at or lab.now
                break
            assert not lab.notifier.of(PauseVerified), "bought after the pause"
            bought += 1
        lab.pass_time(minutes=1)
        if lab.notifier.of(PauseVerified):
            ends = ends or lab.now + timedelta(minutes=5)
            if lab.now >= ends:
                break
    for name in list(lab.machines.listed):
        lab.machines.end(name, lab.now)
        lab.view.drop(name.removeprefix("i-"))
    lab.pass_time(minutes=10)
    spent = lab.guard.run_costs("abcde", lab.now).spent
    assert refused_at is not None
    assert Money.usd(limit) * 70 < spent * 100 <= Money.usd(limit) * 100
    assert lab.guard.verify_ledger() == ()


def buy(lab: Lab, name: str, rate: Money, span: timedelta) -> bool:
    """One machine more with a pod on it, where the budget allows it."""
    request = hold(
        f"h-{name}",
        rate.over(span).exact(),
        kind=HoldKind.PURCHASE,
        burn=rate,
        scope=Scope(
            cluster="home", region="us-west-2", team="vision", person="U1", experiment="dota", run="abcde"
        ),
        draws_on=("launch-abcde",),
        payload={"rolling": True},
    )
    if not lab.guard.budget.hold(request, lab.now).granted:
        return False
    lab.machine(name)
    lab.view.put(pod(f"{name}-pod", gpus=8, node=name, phase="Running", scheduled=lab.now, labels=labels()))
    lab.guard.budget.settle(request.id, lab.now, burn=rate, result={"instances": [f"i-{name}"]})
    return True
