"""Who may write: held, not known, lost."""

from __future__ import annotations

from datetime import timedelta

from bot.reign import Reign, Standing
from fleet.errors import Unavailable
from tests.builders import T0


class Held:
    """A lease that answers what the test says."""

    def __init__(self) -> None:
        self.answers: list[bool | Exception] = []
        self.epoch = 1
        self.holder = "me"
        self.released = False

    def acquire(self, now):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def release(self):
        self.released = True


def standings(*answers, epochs=()):
    """How a reign stands after each answer."""
    lease = Held()
    reign = Reign(lease, timedelta(seconds=60))
    found = []
    for index, answer in enumerate(answers):
        lease.answers = [answer]
        lease.epoch = epochs[index] if epochs else 1
        found.append(reign.renew(T0 + timedelta(seconds=index)))
    return found, reign


def test_a_silent_api_stops_purchases_only():
    """Metering and pausing go on; nothing new is bought until it is known again."""
    found, reign = standings(True, Unavailable("no answer"))

    assert found == [Standing.HELD, Standing.UNKNOWN]
    assert (reign.writes, reign.buys) == (True, False)


def test_it_buys_again_when_the_lease_is_renewed():
    """The API is back."""
    found, reign = standings(True, Unavailable("no answer"), True)

    assert found[-1] is Standing.HELD
    assert reign.buys


def test_somebody_elses_lease_ends_writing():
    """Another holder while we thought it ours."""
    found, reign = standings(True, False)

    assert found == [Standing.HELD, Standing.LOST]
    assert not reign.writes


def test_another_epoch_ends_writing_even_under_our_name():
    """Between two renewals somebody else held it: what we decided meanwhile may be wrong."""
    found, _ = standings(True, True, epochs=(1, 3))

    assert found == [Standing.HELD, Standing.LOST]


def test_waiting_for_a_lease_is_not_losing_it():
    """A standby waits, also while the API does not answer."""
    found, reign = standings(False, Unavailable("no answer"), False, True)

    assert found == [Standing.WAITING] * 3 + [Standing.HELD]
    assert reign.writes


def test_nothing_stands_against_buying_while_it_was_renewed_lately():
    """Half of the duration is not over: the API is not asked."""
    _, reign = standings(True)

    assert reign.refusal(T0 + timedelta(seconds=29)) == ""


def test_a_hold_late_in_a_long_step_renews_first():
    """The step began long ago: what was sure then need not be so now."""
    _, reign = standings(True)
    reign._lease.answers = [True, False]

    assert reign.refusal(T0 + timedelta(seconds=31)) == ""
    assert reign.refusal(T0 + timedelta(seconds=62)).startswith("me holds the Lease")
    assert reign.standing is Standing.LOST


def test_a_clock_set_back_renews_first_too():
    """The last renewal lies in the future: nothing follows from it."""
    _, reign = standings(True)
    reign._lease.answers = [Unavailable("no answer")]

    assert "not sure" in reign.refusal(T0 - timedelta(seconds=31))
    assert not reign.buys
