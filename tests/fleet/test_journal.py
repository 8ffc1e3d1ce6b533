"""Persist → act → verify → announce, and what a crash at any point leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet.db import Database
from fleet.errors import BadInput, Unavailable
from fleet.journal import MIGRATIONS, STOPS, Journal, NewDecision, Patience, Verdict
from fleet.model import Decision
from tests.builders import T0


class Crash(BaseException):
    """The process dies here."""


class Recorder:
    """A handler whose outside world remembers what was done, and which can fail or die at any step."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.done: set[str] = set()
        self.told: set[str] = set()
        self.dies: set[tuple[str, str]] = set()
        self.raises: list[Exception] = []
        self.verdicts: list[Verdict] = []
        self.silent = 0

    def _at(self, step: str, when: str) -> None:
        if (step, when) in self.dies:
            self.dies.discard((step, when))
            raise Crash

    def act(self, decision: Decision, now: Any) -> dict[str, Any]:
        """Do it once, however often it is asked."""
        self.calls.append("act")
        self._at("act", "before")
        if self.raises:
            raise self.raises.pop(0)
        self.done.add(decision.id)
        self._at("act", "after")
        return {"count": len(self.done)}

    def verify(self, decision: Decision, now: Any) -> Verdict:
        """Ask the world."""
        self.calls.append("verify")
        if self.silent:
            self.silent -= 1
            raise Unavailable("no answer")
        self._at("verify", "before")
        verdict = self.verdicts.pop(0) if self.verdicts else Verdict.YES
        assert verdict is not Verdict.YES or decision.id in self.done
        self._at("verify", "after")
        return verdict

    def announce(self, decision: Decision, now: Any) -> None:
        """Tell people once."""
        self.calls.append("announce")
        self._at("announce", "before")
        self.told.add(decision.id)
        self._at("announce", "after")


def found(book: Journal, decision: Decision) -> Decision:
    """The decision as it stands in the database."""
    stands = book.get(decision.id)
    assert stands is not None
    return stands


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NEW = NewDecision("pause", "pause:run1", "U1", "run1", ("over its cap",), {"run": "run1"})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database file."""
    opened = Database(tmp_path / "q.db", [MIGRATIONS])
    yield opened
    opened.close()


def journal(database: Database, handler: Recorder, patience: Patience | None = None) -> Journal:
    """A journal as it is after a start of the process."""
    made = Journal(database)
    made.register("pause", handler, patience)
    return made


def test_a_decision_is_carried_out_in_order(database):
    """It is recorded first, then acted, verified and announced, with its result and every step's time."""
    handler = Recorder()
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    assert decision.state == "decided"
    assert handler.calls == []
    (moved,) = book.advance(T0 + timedelta(seconds=1))
    assert (moved.state, moved.result) == ("announced", {"count": 1})
    assert handler.calls == ["act", "verify", "announce"]
    steps = book.steps(decision.id)
    assert [step["step"] for step in steps] == ["decided", "acted", "verified", "announced"]
    assert [step["at"] for step in steps] == ["2026-11-06T17:00:00Z"] + ["2026-11-06T17:00:01Z"] * 3
    assert book.unfinished() == ()


def test_a_key_decides_once(database):
    """The same key again is the same decision, whatever else is asked; its id does not depend on the time."""
    book = journal(database, Recorder())
    first = book.decide(NEW, T0)
    again = book.decide(NewDecision("kill", NEW.key, "U2", "other", (), {}), T0 + timedelta(hours=1))
    assert again == first
    assert len(book.history()) == 1
    assert first.id == Journal(Database(":memory:", [MIGRATIONS])).decide(NEW, T0 + timedelta(days=1)).id


@pytest.mark.parametrize("step", ["act", "verify", "announce"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_step_ends_in_the_same_place(database, step, when):
    """After a restart the step that was under way is taken again, those before it are not, and all is done once."""
    handler = Recorder()
    handler.dies.add((step, when))
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    with pytest.raises(Crash):
        book.advance(T0)
    again = journal(database, handler)
    again.advance(T0 + timedelta(minutes=1))
    after = again.get(decision.id)
    assert after is not None
    assert after.state == "announced"
    assert handler.done == handler.told == {decision.id}
    order = ["act", "verify", "announce"]
    assert handler.calls == [*order[: order.index(step) + 1], *order[order.index(step) :]]


@pytest.mark.parametrize("written", range(4))
def test_a_crash_between_a_step_and_its_record(database, monkeypatch, written):
    """Where the process dies while a step is being recorded, the record is whole or absent."""
    handler = Recorder()
    book = journal(database, handler)
    book.decide(NEW, T0)
    original, count = Journal._note, iter(range(10))

    def note(self: Journal, *args: Any) -> None:
        original(self, *args)
        if next(count) == written:
            raise Crash

    monkeypatch.setattr(Journal, "_note", note)
    if written < 3:
        with pytest.raises(Crash):
            book.advance(T0)
    monkeypatch.setattr(Journal, "_note", original)
    again = journal(database, handler)
    again.advance(T0)
    (decision,) = again.history()
    assert decision.state == "announced"
    assert [step["step"] for step in again.steps(decision.id)] == [
        "decided",
        "acted",
        "verified",
        "announced",
    ]


def test_not_yet_is_asked_again(database):
    """While the world is not there yet, only verifying is repeated."""
    handler = Recorder()
    handler.verdicts = [Verdict.NOT_YET, Verdict.NOT_YET]
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    assert [moved.state for moved in book.advance(T0)] == ["acted"]
    assert book.advance(T0) == ()
    assert [moved.state for moved in book.advance(T0)] == ["announced"]
    assert handler.calls == ["act", "verify", "verify", "verify", "announce"]
    assert found(book, decision).result == {"count": 1}


def test_a_failed_verdict_ends_it(database):
    """What the world says cannot become true is failed, and not announced as done."""
    handler = Recorder()
    handler.verdicts = [Verdict.FAILED]
    book = journal(database, handler)
    book.decide(NEW, T0)
    assert [moved.state for moved in book.advance(T0)] == ["failed"]
    assert book.advance(T0) == ()
    assert "announce" not in handler.calls


def test_an_outside_error_is_tried_again_for_two_hours(database):
    """Each failed attempt is noted with its code; the one after two hours is the last, and is undone."""
    handler = Recorder()
    given_up: list[str] = []
    handler.raises = [Unavailable("no answer", code="503")] * 200
    book = Journal(database)
    book.register("pause", handler, given_up=lambda decision, reason, now: given_up.append(reason))
    decision = book.decide(NEW, T0)
    for minute in range(0, 120, 2):
        book.advance(T0 + minute * MINUTE)
    assert (found(book, decision).state, found(book, decision).attempts) == ("decided", 60)
    book.advance(T0 + 120 * MINUTE)
    assert found(book, decision).state == "failed"
    assert given_up == ["Given up after 2 h: no answer"]
    assert "no answer" in found(book, decision).result["error"]
    errors = [step for step in book.steps(decision.id) if step["step"] == "error"]
    assert len(errors) == 61
    assert errors[0]["detail"] == {"error": "no answer", "code": "503"}


def test_an_outside_error_that_passes_is_forgotten(database):
    """One failure delays the decision by one tick."""
    handler = Recorder()
    handler.raises = [Unavailable("no answer")]
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    assert book.advance(T0) == ()
    assert [moved.state for moved in book.advance(T0 + SECOND)] == []
    assert [moved.state for moved in book.advance(T0 + 2 * SECOND)] == ["announced"]
    after = found(book, decision)
    assert (after.attempts, after.failing_since, after.next_try) == (0, None, None)


def test_an_answer_that_is_not_yet_ends_the_counting(database):
    """Two hours count from the first failure in a row: a world that answers, and is not there yet, is no failure."""
    handler = Recorder()
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    handler.raises = [Unavailable("no answer")]
    book.advance(T0)
    handler.verdicts = [Verdict.NOT_YET]
    book.advance(T0 + MINUTE)
    assert (found(book, decision).state, found(book, decision).failing_since) == ("acted", None)


def test_what_is_done_is_verified_for_as_long_as_it_takes(database):
    """An API that is down for a day after the act is no reason to take the decision for failed."""
    handler = Recorder()
    handler.verdicts = [Verdict.NOT_YET]
    book = journal(database, handler)
    decision = book.decide(NEW, T0)
    book.advance(T0)
    handler.silent = 24
    for hour in range(24):
        book.advance(T0 + timedelta(hours=hour))
        assert found(book, decision).state == "acted"
    assert [moved.state for moved in book.advance(T0 + timedelta(hours=24))] == ["announced"]


def test_waits_double_up_to_the_slowest_and_survive_a_restart(database):
    """Two seconds, four, eight … a minute; a process that starts anew keeps to what the last one found."""
    handler = Recorder()
    handler.raises = [Unavailable("no answer")] * 1000
    decision = journal(database, handler).decide(NEW, T0)
    tries = []
    for second in range(400):
        before = len(handler.calls)
        journal(database, handler).advance(T0 + second * SECOND)
        if len(handler.calls) > before:
            tries.append(second)
    waits = [later - earlier for earlier, later in pairwise(tries)]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert found(journal(database, handler), decision).failing_since == T0


def test_a_clock_set_back_does_not_make_it_wait(database):
    """A wait that is longer than any wait of ours is over."""
    handler = Recorder()
    handler.raises = [Unavailable("no answer")]
    book = journal(database, handler)
    book.decide(NEW, T0)
    book.advance(T0)
    assert [moved.state for moved in book.advance(T0 - timedelta(hours=1))] == ["announced"]


def test_what_ends_the_spending_is_never_given_up(database):
    """A pause is asked for again every fifteen seconds, for days if need be."""
    handler = Recorder()
    handler.raises = [Unavailable("no answer")] * 3
    book = journal(database, handler, STOPS)
    decision = book.decide(NEW, T0)
    for days in (0, 1, 9):
        book.advance(T0 + timedelta(days=days))
        assert found(book, decision).state == "decided"
    assert STOPS.wait(1000) == timedelta(seconds=15)
    assert [moved.state for moved in book.advance(T0 + timedelta(days=9, seconds=15))] == ["announced"]


def test_our_own_refusal_fails_at_once(database):
    """What can never work is not tried twenty times."""
    handler = Recorder()
    handler.raises = [BadInput("There is no such run.")]
    book = journal(database, handler)
    book.decide(NEW, T0)
    assert [(moved.state, moved.result["error"]) for moved in book.advance(T0)] == [
        ("failed", "There is no such run.")
    ]


def test_one_decision_that_fails_does_not_stop_the_others(database):
    """Decisions are carried out oldest first, each for itself."""
    handler = Recorder()
    handler.raises = [Unavailable("no answer")]
    book = journal(database, handler)
    first = book.decide(NEW, T0)
    second = book.decide(
        NewDecision("pause", "pause:run2", "guard", "run2", (), {}), T0 + timedelta(seconds=1)
    )
    assert [moved.id for moved in book.advance(T0)] == [second.id]
    assert [open_.id for open_ in book.unfinished()] == [first.id]


def test_kinds_without_a_handler_wait(database):
    """A decision whose handler is not registered (yet) stays open and untouched; kinds can be chosen."""
    book = Journal(database)
    book.decide(NEW, T0)
    assert book.advance(T0) == ()
    handler = Recorder()
    book.register("pause", handler)
    assert book.advance(T0, kinds=("kill",)) == ()
    assert [moved.state for moved in book.advance(T0, kinds=("pause",))] == ["announced"]


def test_history_is_latest_first_by_subject_and_kind(database):
    """What was decided about a run can be read back with its reasons and payload."""
    book = journal(database, Recorder())
    book.decide(NEW, T0)
    later = book.decide(
        NewDecision("resume", "r", "U2", "run1", ("approved",), {"n": 1}), T0 + timedelta(hours=1)
    )
    assert [d.kind for d in book.history(subject="run1")] == ["resume", "pause"]
    assert book.history(kind="pause")[0].reasons == ("over its cap",)
    assert book.history(subject="run1", limit=1) == (later,)
    assert book.history(subject="nobody") == ()


def test_a_decision_that_faults_does_not_keep_the_others_back(database):
    """A fault of ours in one handler is bounded by the process; the pause behind it is carried out."""
    journal = Journal(database)
    faults: list[str] = []

    def bounded(work: Callable[[], None]) -> None:
        try:
            work()
        except KeyError as error:
            faults.append(str(error))

    broken = Recorder()
    broken.raises = [KeyError("wording")]
    journal.boundary = bounded
    journal.register("alert", broken)
    journal.register("pause", Recorder())
    for kind in ("alert", "pause"):
        journal.decide(NewDecision(kind, f"{kind}:1", "guard", "r1", ("because",), {}), T0)

    assert [decision.kind for decision in journal.advance(T0)] == ["pause"]
    assert faults == ["'wording'"]
