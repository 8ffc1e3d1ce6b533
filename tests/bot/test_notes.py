"""What people read where something that was decided could not be done."""

from bot.messages.notes import launch_failed, scale_failed
from config.people import PeopleDirectory
from launcher.events import LaunchFailed, ScaleFailed

REASON = "Given up after 2 h: the API is being upgraded."


def test_a_launch_that_was_undone_says_what_is_left_of_it():
    """Nothing is said to be gone that is not."""
    where = ("abcde", "dota", "U1", "vision", "C1", "")
    assert launch_failed(LaunchFailed(*where, REASON)).text == (
        f"dota (abcde) was not launched, and nothing of it was left behind: {REASON}"
    )
    assert launch_failed(LaunchFailed(*where, REASON, cleaned=False)).text == (
        f"dota (abcde) was not launched, and it is deleted when the cluster answers: {REASON}"
    )


def test_a_scale_that_was_given_up_says_whose_wish_it_was():
    """The role, the size, the person, and why."""
    event = ScaleFailed("abcde", "dota", "U1", "vision", "worker", 1200, "guard", REASON)
    assert scale_failed(event, PeopleDirectory([])).text == (
        "worker of dota (abcde) was not scaled to 1,200 as the guard asked; ask for it again when the cause is gone. "
        f"{REASON}"
    )
