"""Approvals: bounded, expiring, by whom the settings allow; stale clicks say so and do nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.model import Person
from fleet.values import Money
from guard.caps import Window
from guard.events import (
    ApprovalGranted,
    ApprovalLapsed,
    BudgetAlert,
    CountdownArmed,
    PauseVerified,
    Resumed,
)
from tests.guard.fakes import ADA, BOB, LEA, OLA
from tests.guard.lab import Lab

STRANGER = Person("U9", "Mallory", known=False)


@pytest.fixture
def lab():
    """A run of Ada's on one $3.60/h machine under a cap of $100 for it."""
    lab = Lab()
    lab.tick()
    lab.cap("run-abcde", "100")
    lab.run()
    return lab


def until(lab: Lab, kind: type):
    """Tick until such an event was told; returns it."""
    for _ in range(3000):
        if lab.notifier.of(kind):
            return lab.notifier.of(kind)[-1]
        lab.pass_time(timedelta(minutes=1), minutes=1)
    raise AssertionError(f"no {kind.__name__}")


def allowed(lab: Lab) -> Money:
    """The limit with approvals."""
    return lab.guard.caps(lab.now)[0].allowed


def test_approval_cancels_the_countdown_and_expires(lab):
    """Lea adds the proposed $25 for 24 hours; nothing is paused; afterwards it lapses and a new countdown comes."""
    armed = until(lab, CountdownArmed)
    outcome = lab.guard.approve(armed.request, LEA, None, lab.now)
    assert outcome.ok
    assert outcome.sentence.startswith("Lea approved $25.00 more for run-abcde until 2026-11-08")
    assert (allowed(lab), lab.guard.caps(lab.now)[0].state) == (Money.usd(125), "alerted")
    assert lab.notifier.of(ApprovalGranted)[0].amount == Money.usd(25)
    lab.pass_time(timedelta(minutes=1), minutes=60)
    assert lab.workloads.calls == []
    until(lab, PauseVerified)
    assert len(lab.notifier.of(CountdownArmed)) == 2
    lab.pass_time(timedelta(minutes=10), hours=24)
    assert [event.approver for event in lab.notifier.of(ApprovalLapsed)] == ["Lea"]
    assert allowed(lab) == Money.usd(100)


def test_approval_ends_with_the_window(lab):
    """A daily cap at 22:00: the approval ends at midnight, not a day later."""
    lab.guard.remove_cap("run-abcde", "U3", lab.now)
    lab.cap("day", "20", "team", "vision", window=Window.DAY)
    lab.pass_time(timedelta(minutes=1), hours=5, minutes=5)
    armed = until(lab, CountdownArmed)
    lab.guard.approve(armed.request, LEA, Money.usd(50), lab.now)
    expires = lab.notifier.of(ApprovalGranted)[0].expires
    assert (expires.hour, expires.minute, expires.day) == (0, 0, 7)
    lab.pass_time(timedelta(minutes=1), hours=3)
    assert allowed(lab) == Money.usd(20)


def test_two_clicks_are_one_effect(lab):
    """The second says who was first."""
    armed = until(lab, CountdownArmed)
    assert lab.guard.approve(armed.request, LEA, Money.usd(25), lab.now).ok
    again = lab.guard.approve(armed.request, OLA, Money.usd(25), lab.now)
    assert again == type(again)(False, "Lea approved this already; nothing has changed.")
    assert allowed(lab) == Money.usd(125)


def test_a_click_that_is_taken_up_after_a_crash_is_told_what_it_did(lab):
    """Its answer was lost, not its effect: the same sentence, the same cap; to somebody else it is answered."""
    armed = until(lab, CountdownArmed)
    first = lab.guard.approve(armed.request, LEA, Money.usd(25), lab.now)
    again = lab.guard.approve(armed.request, LEA, Money.usd(25), lab.now, again=True)
    other = lab.guard.approve(armed.request, OLA, Money.usd(25), lab.now, again=True)
    assert again == first
    assert not other.ok
    assert allowed(lab) == Money.usd(125)


def test_approve_and_resume_from_the_card_of_the_pause(lab):
    """Paused by the cap; more is approved there; the run goes on in the same step."""
    paused = until(lab, PauseVerified)
    outcome = lab.guard.approve(paused.request, LEA, None, lab.now)
    assert outcome.ok
    assert "abcde is resumed." in outcome.sentence  # the fake cluster runs it at once
    assert lab.notifier.of(ApprovalGranted)[-1].resumed == ("abcde",)
    assert lab.workloads.calls[-1] == ("resume", "abcde")
    assert len(lab.notifier.of(Resumed)) == 1


def test_approval_that_is_too_small_says_what_is_missing(lab):
    """A dollar more does not fit a restart: refused with the least that would, and the request stays open."""
    paused = until(lab, PauseVerified)
    outcome = lab.guard.approve(paused.request, LEA, Money.usd(1), lab.now)
    assert not outcome.ok
    assert "does not make room to resume abcde: approve at least $" in outcome.sentence
    assert allowed(lab) == Money.usd(100)
    assert lab.guard.run_costs("abcde", lab.now).state == "paused"
    assert not lab.notifier.of(ApprovalGranted)

    least = Money.usd(outcome.sentence.split("at least $")[1].split()[0])
    assert not lab.guard.approve(paused.request, LEA, least - Money.usd(1), lab.now).ok
    assert "abcde is resumed." in lab.guard.approve(paused.request, LEA, least, lab.now).sentence


def test_a_resume_that_is_not_verified_is_not_said_to_be_done(lab):
    """The cluster still shows it paused: it is being resumed."""
    paused = until(lab, PauseVerified)
    lab.workloads.resume = lambda cluster, run, now: lab.workloads._status(run)
    outcome = lab.guard.approve(paused.request, LEA, None, lab.now)
    assert "abcde is being resumed." in outcome.sentence
    assert not lab.notifier.of(Resumed)


def test_a_refused_resume_names_the_part_of_the_cap_it_must_stay_in(lab):
    """What `caps` shows as left is more than a resume may use: the sentence says which part counts."""
    until(lab, PauseVerified)
    decision = lab.guard.requested_resume("abcde", "home", LEA, "", lab.now)
    assert "a resume must stay within 95 % of the cap: $0.00 of that is left" in decision.result["error"]


@pytest.mark.parametrize(
    ("person", "amount", "words"),
    [
        (STRANGER, "10", "Only people in the settings can approve."),
        (BOB, "10", "Bob cannot raise the cap run-abcde; Lea, Ola can."),
        (
            ADA,
            "51",
            "You cannot approve $51.00 for your own work (up to $50.00 once a window); Lea, Ola can.",
        ),
        (LEA, "5001", "Lea may approve up to $5,000.00 at a time, not $5,001.00; Ola can."),
        (
            LEA,
            "200000",
            "Lea may approve up to $5,000.00 at a time, not $200.0k; nobody can approve that much at once: Ola can up to $100.0k.",
        ),
        (LEA, "0", "$0.00 is no amount to approve; name one above zero."),
    ],
)
def test_who_may_not(lab, person, amount, words):
    """Refused in a sentence that names who can; nothing changes."""
    armed = until(lab, CountdownArmed)
    outcome = lab.guard.approve(armed.request, person, Money.usd(amount), lab.now)
    assert (outcome.ok, outcome.sentence) == (False, words)
    assert allowed(lab) == Money.usd(100)


def test_owner_may_approve_a_small_sum_once_a_window(lab):
    """$50 for oneself, the next one needs somebody else."""
    alert = until(lab, BudgetAlert)
    assert lab.guard.approve(alert.request, ADA, Money.usd(50), lab.now).ok
    armed = until(lab, CountdownArmed)
    outcome = lab.guard.approve(armed.request, ADA, Money.usd(50), lab.now)
    assert outcome.sentence == "You have approved for your own work once in this window; Lea, Ola can."


def test_raised_by_limits_who_may(lab):
    """A cap that only admins may raise: the team's lead may not."""
    lab.cap("run-abcde", "100", raised_by=("admin",))
    armed = until(lab, CountdownArmed)
    assert armed.raised_by == ("Ola",)
    assert not lab.guard.approve(armed.request, LEA, Money.usd(1), lab.now).ok
    assert lab.guard.approve(armed.request, OLA, Money.usd(25), lab.now).ok


def test_click_on_an_old_card_after_the_pause_does_nothing(lab):
    """The armed card is overtaken: the answer points to the card of the pause."""
    armed = until(lab, CountdownArmed)
    until(lab, PauseVerified)
    outcome = lab.guard.approve(armed.request, LEA, None, lab.now)
    assert not outcome.ok
    assert "abcde is paused already, answer on the card of the pause" in outcome.sentence
    assert allowed(lab) == Money.usd(100)


def test_click_after_the_window_rolled_over_does_nothing():
    """Yesterday's card cannot raise today's cap."""
    lab = Lab()
    lab.tick()
    lab.cap("day", "40", "team", "vision", window=Window.DAY)
    lab.run()
    alert = until(lab, BudgetAlert)
    lab.pass_time(timedelta(minutes=5), hours=3)
    outcome = lab.guard.approve(alert.request, LEA, None, lab.now)
    assert (
        outcome.sentence == "The window of the cap day has rolled over since, so there is nothing to approve."
    )


def test_unknown_request_and_removed_cap(lab):
    """A sentence each."""
    assert lab.guard.approve("r-0", LEA, None, lab.now).sentence == "There is no request r-0 here."
    alert = until(lab, BudgetAlert)
    lab.guard.remove_cap("run-abcde", "U3", lab.now)
    assert "is gone" in lab.guard.approve(alert.request, LEA, None, lab.now).sentence


def test_deny_lets_the_countdown_run(lab):
    """Denied: no more money, the pause comes when it was announced; a second answer changes nothing."""
    armed = until(lab, CountdownArmed)
    assert not lab.guard.deny(armed.request, BOB, lab.now).ok
    outcome = lab.guard.deny(armed.request, LEA, lab.now)
    assert outcome.ok
    assert f"The pause comes at {armed.deadline:%H:%M} UTC." in outcome.sentence
    assert not lab.guard.approve(armed.request, LEA, None, lab.now).ok
    until(lab, PauseVerified)


def test_another_cap_that_is_used_up_is_named(lab):
    """An approval lifts one cap: the answer says whose is still missing."""
    paused = until(lab, PauseVerified)
    lab.cap("team-vision", "50", "team", "vision")
    outcome = lab.guard.approve(paused.request, LEA, None, lab.now)
    assert "The cap team-vision (team vision) is used up too and needs its own approval." in outcome.sentence
    assert lab.notifier.of(ApprovalGranted)[-1].resumed == ()
    assert lab.guard.run_costs("abcde", lab.now).state == "paused"
