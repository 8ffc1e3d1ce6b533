"""The ledger: the same after a restart, fast totals, and every planted fault found by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fleet.errors import BadInput, Unavailable
from fleet.model import Price
from fleet.values import Money
from guard.caps import Window
from guard.meter import Observation
from guard.moments import micros
from tests.builders import T0, pod
from tests.guard.fakes import labels
from tests.guard.lab import Lab

HOUR = timedelta(hours=1)
COLUMNS = (
    "batch, machine, subject, kind, provider, cluster, region, instance_type, team, owner, experiment, run, "
    "started, ended, hourly, share, amount, source, flags"
)


@pytest.fixture
def lab():
    """Two hours of a run on a $3.60/h machine, with a second pod for the last half hour, ended."""
    lab = Lab()
    lab.tick()
    lab.machine("m")
    lab.view.put(pod("a", cpu="4", node="m", phase="Running", labels=labels(), scheduled=T0))
    lab.pass_time(minutes=90)
    lab.view.put(
        pod(
            "b",
            cpu="1",
            node="m",
            phase="Running",
            labels=labels("fghij", "games", "U4", "chess"),
            scheduled=lab.now,
        )
    )
    lab.pass_time(minutes=30)
    lab.machines.end("i-m", lab.now)
    lab.view.drop("m", "a", "b")
    lab.tick()
    return lab


def sums(lab: Lab, by: str) -> dict[str, Money]:
    """Costs since ever."""
    return {row.key: row.amount for row in lab.guard.costs(by=by, since=None, until=lab.now)}


def test_costs_by_every_dimension(lab):
    """4 of 8 cores for 2 h, 1 of 8 for half an hour, the rest to the run that the machine was bought for."""
    assert sums(lab, "run") == {"abcde": Money.usd("6.975"), "fghij": Money.usd("0.225")}
    assert sums(lab, "team") == {"vision": Money.usd("6.975"), "games": Money.usd("0.225")}
    assert sums(lab, "kind") == {"pod": Money.usd("3.825"), "idle": Money.usd("3.375")}
    assert sums(lab, "region") == {"us-west-2": Money.usd("7.20")}
    assert sums(lab, "instance-type") == {"p5.48xlarge": Money.usd("7.20")}
    assert sums(lab, "day") == {"2026-11-06": Money.usd("7.20")}
    with pytest.raises(BadInput, match="summed by 'colour'"):
        lab.guard.costs(by="colour", since=None, until=lab.now)


def test_costs_of_a_part_of_a_line(lab):
    """From 17:15 to 17:45: half an hour of a line that is an hour and a half long."""
    found = lab.guard.costs(by="team", since=T0 + HOUR / 4, until=T0 + 3 * HOUR / 4)
    assert [(row.key, row.amount) for row in found] == [("vision", Money.usd("1.80"))]


def test_verify_finds_nothing_in_a_right_ledger(lab):
    """No false alarm."""
    assert lab.guard.verify_ledger() == ()


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("UPDATE lines SET amount = amount + 1 WHERE subject = 'uid-b'", {"changed", "totals"}),
        ("DELETE FROM lines WHERE subject = 'uid-b'", {"missing", "totals"}),
        (
            f"INSERT INTO lines SELECT NULL, {COLUMNS} FROM lines WHERE subject = 'uid-b'",
            {"doubled", "totals"},
        ),
        (
            "UPDATE lines SET started = started + 1000000, ended = ended + 1000000 WHERE subject = 'uid-b'",
            {"shifted"},
        ),
        ("DELETE FROM lines WHERE started = (SELECT MIN(started) FROM lines)", {"gap", "totals"}),
        ("UPDATE lines SET run = 'other' WHERE subject = 'uid-b'", {"changed", "totals"}),
        ("UPDATE ledger_days SET amount = amount + 1 WHERE run = 'fghij'", {"totals"}),
    ],
)
def test_verify_names_each_planted_fault(lab, sql, kinds):
    """One micro-dollar, a line removed, doubled, shifted, a gap: each is what it is called."""
    with lab.database.transaction() as connection:
        connection.execute(sql)
    found = {fault.kind for fault in lab.guard.verify_ledger()}
    assert found - {"uneven"} == kinds


def test_verify_finds_a_changed_open_machine():
    """The open interval is checked as well."""
    lab = Lab()
    lab.tick()
    lab.machine("m")
    lab.pass_time(minutes=5)
    with lab.database.transaction() as connection:
        connection.execute("UPDATE machines SET state = replace(state, '3600000', '3600001')")
    assert [fault.kind for fault in lab.guard.verify_ledger()] == ["open"]


def test_observations_cannot_be_changed(lab):
    """What is kept for ever is append-only, by the database itself."""
    with pytest.raises(Exception, match="append-only"), lab.database.transaction() as connection:
        connection.execute("UPDATE observations SET at = 0")


def test_unchanged_look_writes_no_observation(lab):
    """Persisted on change only; the tick's mark moves on."""
    before = lab.database.row("SELECT COUNT(*) AS n FROM observations")
    report = lab.pass_time(minutes=10)
    assert report.observed == 0
    assert lab.database.row("SELECT COUNT(*) AS n FROM observations") == before
    assert lab.database.row("SELECT at FROM marks WHERE name = 'tick'") == {"at": micros(lab.now)}


def test_restart_goes_on_exactly():
    """A process that is replaced at every tick ends with the same lines as one that never was."""
    ledgers = []
    for restarts in (False, True):
        lab = Lab()
        lab.tick()
        lab.run(machines=2)
        for minute in range(30):
            lab.pass_time(minutes=1)
            if minute == 10:
                lab.prices.by_machine["i-abcde-0"] = Price(Money.usd("1.10"), "spot")
            if minute == 20:
                lab.view.drop("abcde-0-pod")
            if restarts:
                lab.boot()
        lab.machines.end("i-abcde-1", lab.now)
        lab.pass_time(minutes=5)
        ledgers.append(
            lab.database.rows(
                "SELECT machine, subject, started, ended, amount FROM lines ORDER BY machine, started, subject"
            )
        )
        assert lab.guard.verify_ledger() == ()
    # A restart prices machines anew at once, the running process at its next round: only that moment differs.
    assert {(row["machine"], row["subject"]) for row in ledgers[0]} == {
        (row["machine"], row["subject"]) for row in ledgers[1]
    }
    assert all(row["amount"] > 0 for rows in ledgers for row in rows)


def test_cap_windows_roll_over_in_their_zone():
    """A daily cap of Los Angeles counts from local midnight; the month of UTC goes on."""
    lab = Lab(start=datetime(2026, 11, 1, 5, 0, tzinfo=UTC))
    lab.tick()
    lab.cap("day", "1000", "team", "vision", window=Window.DAY, zone="America/Los_Angeles")
    lab.cap("month", "1000", "team", "vision", window=Window.MONTH)
    lab.machine("m")
    lab.pass_time(
        timedelta(minutes=10), hours=4
    )  # 09:00 UTC = 01:00 PST after the clocks went back at 02:00 PDT
    spent = {
        s.cap.name: (s.spent, s.window_end - s.window_start)
        for s in lab.guard.caps(lab.now)
        if s.window_end is not None and s.window_start is not None
    }
    assert spent == {
        "day": (Money.usd("7.20"), timedelta(hours=25)),
        "month": (Money.usd("14.40"), timedelta(days=30)),
    }


def test_cap_that_is_set_later_counts_what_was_spent_before():
    """A new cap sees the whole window, closed and open lines alike."""
    lab = Lab()
    lab.tick()
    lab.machine("m")
    lab.pass_time(hours=2)
    lab.cap("late", "1000", "team", "vision", window=Window.DAY, zone="America/New_York")
    assert lab.guard.caps(lab.now)[0].spent == Money.usd("7.20")


def test_correction_is_a_signed_line_beside_the_others(lab):
    """An adjustment never overwrites: it is a negative line, and verify knows it."""
    account = ["correction", "aws", "home", "us-west-2", "p5.48xlarge", "vision", "U1", "dota", "abcde"]
    at = micros(T0)
    facts = {"account": account, "started": at, "ended": at + 1, "amount": -1_000_000, "source": "bill"}
    state = lab.guard._state
    state.ledger.absorb([Observation("correction", "i-m", at, micros(lab.now), facts)], lab.now)
    assert sums(lab, "run")["abcde"] == Money.usd("5.975")
    assert lab.guard.verify_ledger() == ()


def test_full_disk_forgets_nothing(tmp_path):
    """A tick that cannot be written raises, blocks purchases, and the next one makes up for it."""
    lab = Lab(tmp_path / "qm.db")
    lab.tick()
    lab.machine("m")
    with lab.database.transaction() as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON observations BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    lab.now += timedelta(minutes=1)
    with pytest.raises(Unavailable, match="disk is full"):
        lab.tick()
    assert "cannot be written" in lab.guard._state.gate.refusal(
        lab.guard._state.cap_scope(lab.cap("c", "1", "fleet")), lab.now
    )
    with lab.database.transaction() as connection:
        connection.execute("DROP TRIGGER full")
    lab.pass_time(minutes=59)
    assert sums(lab, "run") == {"abcde": Money.usd("3.60")}
    assert lab.guard.verify_ledger() == ()
    lab.database.close()
