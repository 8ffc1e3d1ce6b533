"""What somebody new is told: what to type next, who can, and only what that person may do."""

from __future__ import annotations

import pytest

from tests.bot.conftest import Lab


def test_one_cap_is_not_called_caps(lab: Lab) -> None:
    """The count agrees with its noun."""
    assert lab.say("U1ADA", "/exp caps").startswith("1 cap; the fullest is vision-month")


def test_what_is_not_a_verb_ends_with_what_to_type_next(lab: Lab) -> None:
    """Nothing is close to it, so help is named."""
    answer = lab.say("U1ADA", "/exp frobnicate")
    assert answer == "'frobnicate' is not something to ask. Type /exp help."


def test_a_cap_for_whom_nobody_knows_is_not_set(lab: Lab) -> None:
    """A typo would make a cap that never counts anything."""
    assert lab.say("U3OPS", "/exp caps set tiny 1 --scope team:visoin") == (
        "There is no team 'visoin'. Did you mean team:vision?"
    )
    assert "There is no person 'U7'." in lab.say("U3OPS", "/exp caps set tiny 1 --scope person:U7")
    assert "There is no cluster 'hom'. Did you" in lab.say(
        "U3OPS", "/exp caps set tiny 1 --scope cluster:hom"
    )
    assert "tiny" not in lab.say("U3OPS", "/exp caps")


def test_an_amount_below_zero_is_said_to_be_that(lab: Lab) -> None:
    """Not that there is no such option."""
    assert lab.say("U3OPS", "/exp caps set tiny -1").startswith("An amount cannot be below zero: -1.")
    assert lab.say("U3OPS", "/exp approve r-1 -$1.5k").startswith("An amount cannot be below zero: -$1.5k.")


def test_a_bare_command_does_not_hide_what_others_have(lab: Lab) -> None:
    """Oskar has no run; Ada's is paused."""
    lab.say("U1ADA", "/exp launch dota --yes")
    lab.go(minutes=4)
    lab.say("U1ADA", "/exp pause dota")
    lab.go(minutes=1)
    answer = lab.say("U3OPS", "/exp")
    assert answer.startswith("Nothing of yours is running; of others, dota (")
    assert ") is paused. Try: ls" in answer


@pytest.mark.parametrize(
    ("person", "able"),
    [
        (
            "U2IVO",
            "kill, caps, caps check, costs, approve (for your own run, up to $50.00 once a window), deny (for your own run), ledger verify.",
        ),
        (
            "U5GRA",
            "kill, caps, caps set (of vision), caps check, caps remove (of vision), costs, approve, deny, ledger verify.",
        ),
        (
            "U3OPS",
            "kill, caps, caps set, caps check, caps remove, costs, approve, deny, ledger verify.",
        ),
    ],
)
def test_whoami_lists_only_what_one_may_do(lab: Lab, person: str, able: str) -> None:
    """A member without a role sets no caps; a lead those of the team; an admin all. Help says the same."""
    lab.say(person, "/exp whoami")
    shown = lab.host.call(lab.slack.ephemerals, person)[-1]["blocks"]
    helped = (lab.say(person, "/exp help"), lab.host.call(lab.slack.ephemerals, person)[-1]["blocks"])

    assert str(shown).replace("&amp;", "&").count(able) == 1, shown
    assert ("caps set" in str(helped)) == ("caps set" in able)
