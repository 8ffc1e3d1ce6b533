"""Money set aside: exact under concurrency, drawn, settled and released once."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from fleet.ports import HoldKind, Scope
from fleet.values import Money
from guard.reserves import RunBurn, what_remains
from tests.guard.lab import Lab, hold

RUN = Scope(cluster="home", team="vision", person="U1", experiment="dota", run="abcde")


@pytest.fixture
def lab():
    """A guard that has looked once and has a team cap of $1,000."""
    lab = Lab()
    lab.tick()
    lab.cap("team-vision", "1000", "team", "vision", raised_by=("lead",))
    return lab


def held(lab: Lab, name: str = "team-vision") -> Money:
    """What is held under a cap."""
    return next(status.held for status in lab.guard.caps(lab.now) if status.cap.name == name)


def test_of_two_that_fit_alone_exactly_one_is_granted(lab):
    """Two × 80 with 100 left (facts §6.3)."""
    budget = lab.guard.budget
    assert budget.hold(hold("first", "900"), lab.now).granted
    answers = [budget.hold(hold(name, "80"), lab.now).granted for name in ("a", "b")]
    assert answers == [True, False]


def test_refusal_names_every_cap_broadest_first_with_who_can_raise_it(lab):
    """What is left, how much is short, whose word is missing, and nothing is held."""
    lab.cap("fleet", "50", "fleet")
    answer = lab.guard.budget.hold(hold("x", "1200"), lab.now)
    assert not answer.granted
    assert [(m.cap, m.short, m.raised_by) for m in answer.misfits] == [
        ("fleet", Money.usd(1150), ("Ola",)),
        ("team-vision", Money.usd(200), ("Lea",)),
    ]
    assert "the cap fleet (fleet) has $50.00 left" in answer.reason
    assert held(lab) == Money(0)


def test_same_id_is_granted_once(lab):
    """Repeating a granted hold answers the same and holds nothing more; a refused one may ask again."""
    budget = lab.guard.budget
    assert budget.hold(hold("x", "400"), lab.now).granted
    assert budget.hold(hold("x", "400"), lab.now).granted
    assert held(lab) == Money.usd(400)
    assert not budget.hold(hold("y", "700"), lab.now).granted
    budget.release("x", lab.now, "not bought")
    assert budget.hold(hold("y", "700"), lab.now).granted


def test_check_changes_nothing(lab):
    """It says what `hold` would say."""
    assert lab.guard.budget.check(hold("x", "1000"), lab.now).granted
    assert not lab.guard.budget.check(hold("x", "1001"), lab.now).granted
    assert held(lab) == Money(0)


def test_cap_of_zero_means_zero(lab):
    """Nothing fits, not even a purchase of no dollars."""
    lab.cap("zero", "0", "person", "U1")
    assert not lab.guard.budget.hold(hold("x", "0.000001"), lab.now).granted
    answer = lab.guard.budget.hold(hold("y", "0"), lab.now)
    assert not answer.granted
    assert "used up" in answer.reason


def test_purchase_draws_on_its_launch_and_holds_only_the_rest(lab):
    """300 held for the launch; purchases of 200 and 200: the second holds 100 anew."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "300"), lab.now)
    for name in ("p1", "p2"):
        request = hold(name, "200", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",))
        assert budget.hold(request, lab.now).granted
    assert held(lab) == Money.usd(400)


def test_released_purchase_gives_back_what_it_drew(lab):
    """Not bought: the launch's hold is whole again, once."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "300"), lab.now)
    budget.hold(hold("p1", "200", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",)), lab.now)
    for _ in range(2):
        budget.release("p1", lab.now, "no capacity")
    assert held(lab) == Money.usd(300)
    assert [r.id for r in budget.unsettled(HoldKind.PURCHASE)] == []


def test_settled_purchase_becomes_part_of_the_runs_reserve(lab):
    """What it drew and what it held anew stay held for the run, and are used up by its spend."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "300"), lab.now)
    budget.hold(hold("p1", "400", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",)), lab.now)
    for _ in range(2):
        budget.settle("p1", lab.now, result={"instances": ["i-1"]})
    assert held(lab) == Money.usd(400)
    budget.follow({"abcde": RunBurn(Money.usd(150), Money.usd(10), placed=True)})
    assert held(lab) == Money.usd(250)


def test_partly_filled_purchase_keeps_only_its_part_of_the_rest(lab):
    """Two of four machines came: half of what was held beyond the launch is given back."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "100"), lab.now)
    request = hold("p1", "300", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",), burn=Money.usd(40))
    budget.hold(request, lab.now)
    budget.settle("p1", lab.now, burn=Money.usd(20))
    assert held(lab) == Money.usd(200)


def test_drawing_does_not_help_where_the_source_is_not_under_the_cap(lab):
    """A region's cap sees the whole purchase: the launch named no region."""
    lab.cap("west", "100", "region", "us-west-2")
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "500"), lab.now)
    scope = Scope(cluster="home", region="us-west-2", team="vision", run="abcde")
    answer = budget.hold(
        hold("p1", "150", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",), scope=scope), lab.now
    )
    assert [(m.cap, m.short) for m in answer.misfits] == [("west", Money.usd(50))]
    assert held(lab) == Money.usd(500)


def test_purchase_of_a_resumed_run_draws_on_its_resume(lab):
    """The launch's hold was released by the pause; the reserve of the run is used all the same."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "300"), lab.now)
    budget.release_run("abcde", lab.now, "paused")
    budget.hold(hold("resume-1", "300", kind=HoldKind.RESUME), lab.now)
    budget.hold(hold("p1", "200", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",)), lab.now)
    assert held(lab) == Money.usd(300)


def test_unsettled_holds_return_their_exact_request(lab):
    """Recovery repeats the payload that was stored before the call."""
    request = hold("p1", "5", kind=HoldKind.PURCHASE, payload={"request": {"count": 2}, "rolling": True})
    lab.guard.budget.hold(request, lab.now)
    assert lab.guard.budget.unsettled(HoldKind.PURCHASE) == (request,)
    lab.guard.budget.settle("p1", lab.now)
    assert lab.guard.budget.unsettled(HoldKind.PURCHASE) == ()


def test_fifty_threads_never_exceed_a_cap_and_lose_no_grant(tmp_path):
    """1,000 requests of $1 from 50 threads on a cap of $600, on a file: exactly 600 are granted."""
    lab = Lab(tmp_path / "qm.db")
    lab.tick()
    lab.cap("fleet", "600", "fleet")
    granted: list[str] = []

    def ask(worker: int) -> None:
        for number in range(20):
            name = f"{worker}-{number}"
            if lab.guard.budget.hold(hold(name, "1"), lab.now).granted:
                granted.append(name)

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = lab.database.row("SELECT COUNT(*) AS n, SUM(remaining) AS held FROM holds")
    assert len(granted) == 600
    assert rows == {"n": 600, "held": 600_000_000}
    lab.database.close()


ROW = {"amount": 100, "drawn": 0, "base": 10, "rolling": 0}
ROLLING = {**ROW, "rolling": 1}


@pytest.mark.parametrize(
    ("rows", "run", "left"),
    [
        ([ROW], RunBurn(Money(10), Money(5), True), [(100, 5)]),
        ([ROW], RunBurn(Money(70), Money(5), True), [(40, 5)]),
        ([ROW], RunBurn(Money(500), Money(5), True), [(5, 5)]),
        ([ROW], RunBurn(Money(10), Money(5), True, Money(20)), [(100, 25)]),
        ([ROW, {**ROW, "base": 60}], RunBurn(Money(130), Money(5), True), [(0, 0), (80, 5)]),
        ([{**ROW, "drawn": 30}], RunBurn(Money(20), Money(5), True), [(60, 5)]),
        ([ROLLING], RunBurn(Money(500), Money(60), False), [(100, 60)]),
        ([ROLLING], RunBurn(Money(500), Money(60), True), [(60, 60)]),
        ([ROLLING, ROW], RunBurn(Money(500), Money(900), False), [(900, 900), (0, 0)]),
    ],
)
def test_metered_spend_takes_the_place_of_a_reserve(rows, run, left):
    """Declared: dollar by dollar since it was granted. Rolling: burn × the span (here an hour)."""
    assert what_remains(rows, run, timedelta(hours=1)) == left


def test_what_runs_already_cannot_be_drawn_again(lab):
    """300 for the launch, 200 of it bought: the next 200 find 100 and must hold 100 anew."""
    budget = lab.guard.budget
    budget.hold(hold("launch-abcde", "300"), lab.now)
    budget.hold(hold("p1", "200", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",)), lab.now)
    budget.settle("p1", lab.now)
    budget.hold(hold("p2", "200", kind=HoldKind.PURCHASE, draws_on=("launch-abcde",)), lab.now)
    assert held(lab) == Money.usd(400)
    budget.settle("p2", lab.now)
    assert held(lab) == Money.usd(400)


def test_nothing_is_bought_while_the_guard_is_silent(lab):
    """Fail-safe: the heartbeat is older than five minutes, or there never was one."""
    late = lab.now + timedelta(minutes=5, seconds=1)
    answer = lab.guard.budget.hold(hold("x", "1"), late)
    assert not answer.granted
    assert "silent for 5 m 1 s" in answer.reason
    assert "has not looked yet" in Lab().guard.blocked(RUN, lab.now)


def test_restart_keeps_every_hold(tmp_path):
    """What is held is in the file, not in memory."""
    lab = Lab(tmp_path / "qm.db")
    lab.tick()
    lab.cap("fleet", "600", "fleet")
    lab.guard.budget.hold(hold("x", "599"), lab.now)
    lab.boot()
    assert not lab.guard.budget.hold(hold("y", "2"), lab.now).granted
    lab.database.close()
