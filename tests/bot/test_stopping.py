"""Pausing, resuming, killing and caps: a person's way and the guard's are the same, and told in the thread."""

from __future__ import annotations

import re

import pytest

from bot.operations.scale import ScaleOrder, scale
from bot.operations.stop import pause
from fleet.errors import Unavailable
from tests.bot.conftest import DOTA, Lab, buttons_of


@pytest.fixture
def running(lab: Lab) -> Lab:
    """dota runs."""
    lab.say("U1ADA", "/exp launch dota --yes")
    lab.go(minutes=4)
    return lab


def until_thread_says(lab: Lab, words: str, minutes: int = 180) -> list[str]:
    """Move on until the run's thread has the words."""
    for _ in range(minutes // 2):
        texts = lab.thread("dota")
        if any(words in text for text in texts):
            return texts
        lab.go(minutes=2)
    raise AssertionError(f"never said {words!r}: {lab.thread('dota')}")


def phases(lab: Lab) -> list[str]:
    """Phases of the pods."""
    return [pod["status"]["phase"] for pod in lab.objects("pods")]


def test_a_pause_is_said_when_it_is_true_and_a_resume_undoes_it(running):
    """Paused means that no pod is active or terminating."""
    assert "is pausing" in running.say("U1ADA", "/exp pause dota --reason lunch")
    running.go(minutes=1)
    texts = running.thread("dota")
    stopped = phases(running)
    running.click("U1ADA", "Resume", "is paused, verified")
    running.go(minutes=5)

    assert any("is being paused by Ada. lunch." in text for text in texts)
    assert any("is paused, verified" in text for text in texts)
    assert "Running" not in stopped
    assert phases(running).count("Running") == 5


def test_nothing_is_resumed_while_the_lease_is_not_surely_ours(running, monkeypatch):
    """The home API hides the Lease: a pause goes on, a resume is refused in words, and works again later."""
    lease = running.built.service.reign._lease

    def silent(now):
        raise Unavailable(f"No answer at {now}.")

    with monkeypatch.context() as patched:
        patched.setattr(lease, "acquire", silent)
        running.go(minutes=2)
        running.say("U1ADA", "/exp pause dota --reason lunch")
        running.go(minutes=1)
        refused = running.say("U1ADA", "/exp resume dota")
        stopped = phases(running)
    running.go(minutes=2)
    running.say("U1ADA", "/exp resume dota")
    running.go(minutes=5)

    assert "Running" not in stopped
    assert "not sure that this process may still decide" in refused
    assert phases(running).count("Running") == 5


def test_only_the_owner_a_lead_or_staff_may_stop_it(running):
    """A researcher of another team is told who can."""
    answer = running.say("U2IVO", "/exp pause dota")

    assert answer.endswith("is not yours to change: Ada or Grace, operators and admins can.")
    assert phases(running).count("Running") == 5


def test_a_kill_ends_it_for_good_and_its_machines_go(running):
    """The record stays, the bill ends."""
    running.say("U3OPS", "/exp kill dota --reason wrong-data")
    running.go(minutes=10)

    assert any("was killed by Oskar" in text for text in running.thread("dota"))
    assert running.objects("pods") == []
    assert running.objects("nodes") == []
    assert "killed" in running.say("U1ADA", "/exp status dota")


def test_a_kill_of_what_is_done_changes_nothing(lab):
    """It says that there is nothing to kill, and the run stays done."""
    (lab.folder / "experiments/dota.yaml").write_text(DOTA.replace("7200", "120"))
    lab.say("U1ADA", "/exp launch dota --yes")
    lab.go(minutes=12)
    answer = lab.say("U1ADA", "/exp kill dota")

    assert answer == f"The run dota ({running_id(lab)}) is done: there is nothing to kill."
    assert "is done" in lab.say("U1ADA", "/exp status dota")


def test_a_scale_that_is_taken_up_after_a_crash_says_what_it_changed(running):
    """The Job has its new size by then; the answer tells the old one all the same, and the size is changed once."""
    house = running.built.service.desk._house
    ada = house.directory.by_chat_id("U1ADA")
    order = ScaleOrder("dota", "worker", 8, "r-1")
    now = running.host.call(lambda: running.world.now)
    first, again = (scale(house, ada, order, now) for _ in range(2))

    assert first.sentence == again.sentence
    assert again.sentence.endswith("worker scales from 4 to 8.")


def test_a_pause_that_is_taken_up_after_a_crash_is_its_own(running):
    """Whoever asked is told that it pauses, not that somebody was faster."""
    house = running.built.service.desk._house
    ada = house.directory.by_chat_id("U1ADA")
    now = running.host.call(lambda: running.world.now)
    first = pause(house, ada, "dota", "lunch", now)
    again = pause(house, ada, "dota", "lunch", now, again=True)

    assert again == first


def test_scaling_checks_the_money_first(running):
    """What does not fit is refused with the cap's name; what fits is done and told."""
    assert (
        running.say("U1ADA", "/exp scale dota worker=8")
        == "dota (" + running_id(running) + "): worker scales from 4 to 8."
    )
    running.go(minutes=5)
    running.say("U3OPS", "/exp caps set vision-month 20")
    refused = running.say("U1ADA", "/exp scale dota worker=64")

    assert phases(running).count("Running") == 9
    assert "was not scaled to 64" in refused
    assert "vision-month" in refused


def running_id(lab: Lab) -> str:
    """The run's id."""
    return str(lab.objects("jobs.batch")[0]["metadata"]["labels"]["quartermaster.dev/run"])


def test_overflow_goes_to_the_next_region(running):
    """The first region has one big machine; the rest comes from the second."""
    running.say("U1ADA", "/exp scale dota worker=20")
    running.go(minutes=6)
    regions = {
        node["metadata"]["labels"]["topology.kubernetes.io/region"] for node in running.objects("nodes")
    }

    assert regions == {"us-west-2", "us-east-1"}
    assert phases(running).count("Running") == 21


def test_the_guard_alerts_pauses_in_time_and_resumes_by_approval(running):
    """Nobody clicks: paused below the cap. A lead approves: it goes on, and the buttons are gone."""
    running.say("U3OPS", "/exp caps set vision-month 1.20")
    texts = until_thread_says(running, "is paused, verified")
    caps = running.say("U1ADA", "/exp caps vision-month")
    refused = running.click("U4EVE", "Approve", "is paused, verified")
    own = running.click("U1ADA", "Approve", "is paused, verified")
    approved = running.click("U5GRA", "Approve", "is paused, verified")
    running.go(minutes=6)

    assert any("Team vision has spent" in str(m["blocks"]) for m in running.everything() if "blocks" in m)
    assert any("by the guard" in text for text in texts)
    assert "$1.1" in caps
    assert "read-only for you" in refused
    assert "for your own work" in own
    assert approved.startswith("Grace approved")
    assert phases(running).count("Running") == 5
    assert not any(action == "guard.approve" for m in running.everything() for action, _, _ in buttons_of(m))


def test_why_says_what_stands_in_the_way(lab):
    """A paused run: by what; a pending one: for what."""
    lab.say("U1ADA", "/exp launch dota --yes")
    lab.go(seconds=40)
    pending = lab.say("U1ADA", "/exp why dota")
    lab.go(minutes=4)
    lab.say("U1ADA", "/exp pause dota")
    lab.go(minutes=1)
    paused = lab.say("U1ADA", "/exp why dota")

    assert "5 pods wait for m5.4xlarge" in pending
    assert "is paused" in paused


def test_costs_and_ledger_are_there_to_ask(running):
    """The ledger recomputes to the micro-dollar."""
    assert "was spent from" in running.say("U1ADA", "/exp costs --by team")
    assert (
        running.say("U1ADA", "/exp ledger verify")
        == "The ledger agrees with its observations to the micro-dollar."
    )


def test_the_digest_comes_at_its_time(running):
    """In the zone of the settings (UTC here), to the fleet's channel, once."""
    running.go(minutes=40)
    running.stop()
    running.start()
    running.go(minutes=2)

    told = [message["text"] for message in running.everything("C0")]
    assert len(told) == 1
    assert re.match(r"\$0\.\d\d was spent from Thu 5 Nov 17:30 UTC to Fri 6 Nov 17:30 UTC", told[0])
