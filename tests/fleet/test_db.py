"""The database: transactions, threads, processes, migrations, backups."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlite_utils.migrations import Migrations

from fleet.db import Database
from fleet.errors import BadInput, Unavailable

ROOT = Path(__file__).resolve().parents[2]


def migrations(*names: str) -> Migrations:
    """A group that makes one table a migration."""
    group = Migrations("things")
    for name in names:

        def apply(db, name=name):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT")

        apply.__name__ = name
        group()(apply)
    return group


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is."""
    return tmp_path / "quartermaster.db"


def test_an_older_database_is_migrated_and_a_newer_one_refused(path):
    """Pending migrations are applied; ones that this program does not know stop it with a sentence."""
    Database(path, [migrations("one")]).close()
    database = Database(path, [migrations("one", "two")])
    database.rows("SELECT * FROM two")
    database.close()
    with pytest.raises(BadInput, match=r"newer version \(it knows things: two\)"):
        Database(path, [migrations("one")])


def test_a_refused_migration_changes_nothing(path):
    """Where one group is refused, the groups before it are rolled back too."""
    Database(path, [migrations("one", "two")]).close()
    other = Migrations("others")

    @other()
    def add(db):
        db.execute("CREATE TABLE others (id INTEGER)")

    with pytest.raises(BadInput):
        Database(path, [other, migrations("one")])
    assert (
        sqlite3.connect(path).execute("SELECT name FROM sqlite_master WHERE name = 'others'").fetchall() == []
    )


def test_a_migration_that_fails_leaves_no_half(path):
    """All pending migrations are one transaction."""
    group = Migrations("things")

    @group()
    def good(db):
        db.execute("CREATE TABLE good (id INTEGER)")

    @group()
    def bad(db):
        db.execute("CREATE TABLE good (id INTEGER)")

    with pytest.raises(sqlite3.OperationalError):
        Database(path, [group])
    assert Database(path).rows("SELECT name FROM sqlite_master WHERE name = 'good'") == []


def test_four_processes_migrate_at_once(path):
    """Processes that start together all succeed, and each migration runs once."""
    program = (
        "import sys; from pathlib import Path; from fleet.db import Database; from fleet.journal import MIGRATIONS;"
        "sys.stdin.readline(); print(len(Database(Path(sys.argv[1]), [MIGRATIONS]).rows('SELECT * FROM decisions')))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60) for process in processes]
    assert [out.strip() for out, _ in results] == ["0"] * 4, results


def test_threads_reserve_exactly_what_there_is(path):
    """Forty threads that take from one limit inside transactions take exactly the limit, none is locked out."""
    database = Database(path, [migrations("taken")])
    granted: list[bool] = []

    def take() -> None:
        for _ in range(5):
            with database.transaction() as connection:
                (used,) = connection.execute("SELECT COALESCE(SUM(n), 0) FROM taken").fetchone()
                if used < 60:
                    connection.execute("INSERT INTO taken (n) VALUES (1)")
                granted.append(used < 60)

    threads = [threading.Thread(target=take) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(granted), len(granted)) == (60, 200)
    assert database.row("SELECT SUM(n) AS n FROM taken") == {"n": 60}
    database.close()


@pytest.mark.parametrize("where", ["file", "memory"])
def test_an_error_rolls_back_and_nested_transactions_join(path, where):
    """What an outer transaction rolls back takes the inner ones along."""
    database = Database(path if where == "file" else ":memory:", [migrations("things")])

    def fails_at_the_end() -> None:
        with database.transaction() as outer:
            outer.execute("INSERT INTO things (n) VALUES (1)")
            with database.transaction() as inner:
                inner.execute("INSERT INTO things (n) VALUES (2)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_at_the_end()
    assert database.rows("SELECT * FROM things") == []
    with database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES (3)")
    assert [row["n"] for row in database.rows("SELECT n FROM things")] == [3]
    database.close()


def test_a_reader_is_not_blocked_by_a_writer(path):
    """Another thread reads what was committed while a transaction is open."""
    database = Database(path, [migrations("things")])
    seen: list[int] = []
    with database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES (1)")
        reader = threading.Thread(target=lambda: seen.append(len(database.rows("SELECT * FROM things"))))
        reader.start()
        reader.join(5)
    assert seen == [0]
    assert len(database.rows("SELECT * FROM things")) == 1
    database.close()


def test_money_is_written_to_disk_before_it_counts(path):
    """WAL with synchronous=FULL, foreign keys on, strict tables refuse text for numbers."""
    database = Database(path, [migrations("things")])
    assert database.row("PRAGMA synchronous") == {"synchronous": 2}
    assert database.row("PRAGMA journal_mode") == {"journal_mode": "wal"}
    assert database.row("PRAGMA foreign_keys") == {"foreign_keys": 1}
    with pytest.raises(sqlite3.IntegrityError), database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES ('much')")
    database.close()


def test_a_backup_is_whole_and_separate(path, tmp_path):
    """An online copy has what was committed, and does not change any more."""
    database = Database(path, [migrations("things")])
    with database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES (1)")
    database.backup(tmp_path / "copy.db")
    with database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES (2)")
    copy = Database(tmp_path / "copy.db", [migrations("things")])
    assert [row["n"] for row in copy.rows("SELECT n FROM things")] == [1]
    copy.close()
    database.close()


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path):
    """A folder that is not there, and a file that is none of ours, are a sentence with the path."""
    with pytest.raises(Unavailable, match="cannot be opened"):
        Database(tmp_path / "absent" / "x.db", [migrations("one")])
    (tmp_path / "text.db").write_text("this is not a database, but long enough to be read as one " * 20)
    with pytest.raises(Unavailable, match=r"text\.db"):
        Database(tmp_path / "text.db", [migrations("one")])


def test_a_locked_database_is_unavailable(path, monkeypatch):
    """Another process that holds the write lock for too long is a typed error, and the next try works."""
    monkeypatch.setattr("fleet.db.BUSY_TIMEOUT_MS", 10)
    database = Database(path, [migrations("things")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"), database.transaction():
        pytest.fail("the lock is taken")
    other.execute("ROLLBACK")
    with database.transaction() as connection:
        connection.execute("INSERT INTO things (n) VALUES (1)")
    other.close()
    database.close()
