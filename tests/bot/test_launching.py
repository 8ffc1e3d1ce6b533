"""From the slash command to running pods, and what stands in between."""

from __future__ import annotations

import pytest

from bot.terminal import SECTIONS
from bot.wire import build
from config.settings import load_settings
from fleet.errors import BadInput
from tests.bot.conftest import SETTINGS, buttons_of


def test_a_launch_is_shown_before_anything_is_bought_and_started_by_a_click(lab):
    """Card, click, suspended Jobs, release, machines, thread."""
    assert lab.say("U1ADA", "/exp launch dota") == ""
    (card,) = lab.everything()
    shown, buttons = card["text"], [label for _, label, _ in buttons_of(card)]
    before = (lab.objects("jobs.batch"), list(lab.cloud.requests))
    lab.click("U1ADA", "Launch", "dota")
    lab.go(minutes=5)

    assert "$0.77/h now" in shown
    assert "cap of $50.00" in shown
    assert buttons == ["Launch", "Cancel"]
    assert before == ([], [])
    assert {pod["status"]["phase"] for pod in lab.objects("pods")} == {"Running"}
    _root, *replies = lab.thread("Ada launched dota")
    assert any("is launched on home" in text for text in replies)
    assert any("1 machine bought" in text for text in replies)


def test_a_button_carries_a_request_id_and_nothing_else(lab):
    """What is launched is looked up, not taken from the payload."""
    lab.say("U1ADA", "/exp launch dota")
    (card,) = lab.everything()

    values = {value for _, _, value in buttons_of(card)}
    assert len(values) == 1
    assert values.pop().startswith("r-")


def test_a_bystander_cannot_start_somebody_elses_launch(lab):
    """openab#1272: refused, told alone, and the card stays."""
    lab.say("U1ADA", "/exp launch dota")
    answer = lab.click("U2IVO", "Launch", "dota")

    assert answer == "The launch of dota is not yours to change: Ada or Grace, operators and admins can."
    assert lab.objects("jobs.batch") == []
    assert buttons_of(lab.everything()[0])


def test_an_operator_can(lab):
    """The settings give the role."""
    lab.say("U1ADA", "/exp launch dota")
    lab.click("U3OPS", "Launch", "dota")

    assert len(lab.objects("jobs.batch")) == 2
    assert lab.thread("Oskar launched dota")


def test_a_guest_is_refused_although_the_settings_list_them(lab):
    """Slack says who somebody is at the moment of the click."""
    answer = lab.say("U9GUS", "/exp launch dota")

    assert answer == "Guests cannot act here; ask a member of the team."
    assert lab.everything() == []


def test_an_unknown_caller_may_read_and_not_act(lab):
    """Design: unknown callers may read."""
    assert "read-only for you" in lab.say("U4EVE", "/exp launch dota")
    assert lab.say("U4EVE", "/exp ls") == "Nothing is running. Try: launch NAME, or help."


def test_two_clicks_are_one_launch(lab):
    """terraform-aws-sso-elevator#212: the second is told what happened, no red error."""
    lab.say("U1ADA", "/exp launch dota")
    ts = lab.everything()[0]["ts"]
    acts = [
        lab.host.call(lambda p=p: lab.slack.click(p, "C1", ts, "launch.start")) for p in ("U1ADA", "U3OPS")
    ]
    for act in acts:
        lab.host.run(lab.slack.settled(act), timeout=20)
    lab.go(seconds=2)

    assert len(lab.objects("jobs.batch")) == 2
    assert lab.whispers("U3OPS") == ["dota is running already."]


def test_cancel_takes_the_buttons_off(lab):
    """langchain-ai/open-swe#2033: controls give way to the decision."""
    lab.say("U1ADA", "/exp launch dota")
    lab.click("U1ADA", "Cancel", "dota")

    (card,) = lab.everything()
    assert card["text"] == "Ada cancelled the launch of dota."
    assert buttons_of(card) == []


def test_a_card_nobody_clicked_expires_without_a_click(lab):
    """hermes-agent#110821: its prices are old."""
    lab.say("U1ADA", "/exp launch dota")
    lab.go(minutes=66)

    (card,) = lab.everything()
    assert "withdrawn" in card["text"]
    assert buttons_of(card) == []


def test_what_does_not_fit_its_caps_has_no_launch_button(lab):
    """The card says which cap, what is left, and who can raise it."""
    lab.say("U3OPS", "/exp caps set vision-month 3")
    lab.say("U1ADA", "/exp launch dota")
    card = lab.everything()[-1]

    assert [label for _, label, _ in buttons_of(card)] == ["Cancel"]
    assert "vision-month" in card["text"]
    assert "Ada, Grace can raise it" in card["text"]


def test_a_typo_is_answered_with_a_line_to_copy_and_never_run(lab):
    """The guess is only said."""
    answer = lab.say("U1ADA", "/exp launhc dota")

    assert answer == "'launhc' is not something to ask. Did you mean: /exp launch dota"
    assert lab.everything() == []


def test_a_mistake_in_the_file_is_one_sentence_with_its_line(lab):
    """Nothing half-created stays behind."""
    bad = lab.folder / "experiments/bad.yaml"
    bad.write_text("name: bad\nimage: a:1\nresources: {cpu: 1, memory: 12}\n")
    answer = lab.say("U1ADA", "/exp launch bad")

    assert "bad.yaml:3" in answer
    assert lab.everything() == []
    assert lab.objects("jobs.batch") == []


def test_smart_dashes_from_a_phone_are_understood(lab):
    """kubebot#9."""
    answer = lab.say("U1ADA", "/exp launch dota —yes")

    assert answer.startswith("Ada launched dota")
    assert lab.thread("Ada launched dota")[0]


def test_nothing_is_launched_where_the_label_is_gone(lab):
    """Governed is listed and labelled: the label went between card and click, so nothing is created."""
    lab.say("U1ADA", "/exp launch dota")
    namespace = lab.host.call(lab.cluster.store.must_get, "namespaces", None, "research")
    bare = namespace | {"metadata": {**namespace["metadata"], "labels": {}}}
    lab.host.call(lab.cluster.store.update, "namespaces", bare)
    lab.go(minutes=1)
    answer = lab.click("U1ADA", "Launch", "dota")
    lab.go(minutes=1)

    assert lab.objects("jobs.batch") == []
    told = answer + " ".join(message["text"] for message in lab.everything())
    assert "kubectl label namespace research quartermaster.dev/governed=true" in told


def test_a_namespace_that_is_not_governed_is_refused_at_start(lab):
    """Told with file and line before anything is started."""
    lab.settings.write_text(
        SETTINGS.replace(
            "{experiments: ./experiments}", "{experiments: ./experiments, namespace: monitoring}"
        )
    )
    with pytest.raises(
        BadInput, match=r"quartermaster.yaml:\d+: Launches go to the namespace 'monitoring'.*research"
    ):
        build(load_settings(lab.settings, SECTIONS), lab.environment)
