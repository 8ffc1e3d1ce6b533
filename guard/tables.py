"""The guard's tables. Money is integer micro-dollars, time is integer microseconds since the epoch, UTC."""

from __future__ import annotations

from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

MIGRATIONS = Migrations("guard")
ACCOUNT_COLUMNS = (
    "kind",
    "provider",
    "cluster",
    "region",
    "instance_type",
    "team",
    "owner",
    "experiment",
    "run",
)
_ACCOUNT = ", ".join(f"{name} TEXT NOT NULL" for name in ACCOUNT_COLUMNS)


@MIGRATIONS()
def create_observations_and_lines(db: SqliteUtils) -> None:
    """Facts as seen (append-only), the closed lines they lead to, and running totals by day."""
    db.execute(
        "CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER NOT NULL, "
        "kind TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, seen INTEGER NOT NULL, "
        "payload TEXT NOT NULL) STRICT"
    )
    for act in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER observations_no_{act.lower()} BEFORE {act} ON observations "
            "BEGIN SELECT RAISE(ABORT, 'observations are append-only'); END"
        )
    db.execute(
        "CREATE TABLE lines (id INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER NOT NULL, "
        f"machine TEXT NOT NULL, subject TEXT NOT NULL, {_ACCOUNT}, started INTEGER NOT NULL, "
        "ended INTEGER NOT NULL, hourly INTEGER NOT NULL, share TEXT NOT NULL, amount INTEGER NOT NULL, "
        "source TEXT NOT NULL, flags TEXT NOT NULL) STRICT"
    )
    db.execute("CREATE INDEX lines_started ON lines (started)")
    db.execute("CREATE INDEX lines_machine ON lines (machine, started)")
    db.execute(
        f"CREATE TABLE ledger_days (day TEXT NOT NULL, {_ACCOUNT}, amount INTEGER NOT NULL, "
        "estimated INTEGER NOT NULL, "
        f"PRIMARY KEY (day, {', '.join(ACCOUNT_COLUMNS)})) STRICT, WITHOUT ROWID"
    )
    db.execute("CREATE INDEX ledger_days_run ON ledger_days (run)")
    db.execute("CREATE TABLE machines (key TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT")
    db.execute(
        "CREATE TABLE marks (name TEXT PRIMARY KEY, at INTEGER NOT NULL, batch INTEGER NOT NULL) STRICT"
    )


@MIGRATIONS()
def create_caps_and_holds(db: SqliteUtils) -> None:
    """Caps, approvals on top of them, and money set aside."""
    db.execute(
        "CREATE TABLE caps (name TEXT PRIMARY KEY, dimension TEXT NOT NULL, scope_kind TEXT NOT NULL, "
        "scope_value TEXT NOT NULL, amount INTEGER NOT NULL, window TEXT NOT NULL, zone TEXT NOT NULL, "
        "kill INTEGER NOT NULL, raised_by TEXT NOT NULL, set_by TEXT NOT NULL, set_at INTEGER NOT NULL) STRICT"
    )
    db.execute(
        "CREATE TABLE approvals (request TEXT PRIMARY KEY, cap TEXT NOT NULL, amount INTEGER NOT NULL, "
        "approver TEXT NOT NULL, approver_name TEXT NOT NULL, own INTEGER NOT NULL, granted INTEGER NOT NULL, "
        "expires INTEGER NOT NULL, window_start INTEGER, lapsed INTEGER NOT NULL DEFAULT 0) STRICT"
    )
    db.execute(
        "CREATE TABLE holds (id TEXT PRIMARY KEY, kind TEXT NOT NULL, cluster TEXT NOT NULL, "
        "region TEXT NOT NULL, team TEXT NOT NULL, person TEXT NOT NULL, experiment TEXT NOT NULL, "
        "run TEXT NOT NULL, amount INTEGER NOT NULL, drawn INTEGER NOT NULL, remaining INTEGER NOT NULL, "
        "running INTEGER NOT NULL DEFAULT 0, "
        "base INTEGER NOT NULL, rolling INTEGER NOT NULL, burn INTEGER NOT NULL, reason TEXT NOT NULL, "
        "payload TEXT NOT NULL, draws TEXT NOT NULL, state TEXT NOT NULL, result TEXT NOT NULL, "
        "granted INTEGER NOT NULL, settled INTEGER, released INTEGER, note TEXT NOT NULL) STRICT"
    )
    db.execute("CREATE INDEX holds_live ON holds (remaining) WHERE remaining > 0")
    db.execute("CREATE INDEX holds_open ON holds (state, kind)")
    db.execute("CREATE INDEX holds_run ON holds (run, state)")


@MIGRATIONS()
def create_history(db: SqliteUtils) -> None:
    """What fired, which countdowns run, which requests are open, where runs stand."""
    db.execute(
        "CREATE TABLE firings (cap TEXT NOT NULL, window_start INTEGER NOT NULL, threshold TEXT NOT NULL, "
        "at INTEGER NOT NULL, "
        "PRIMARY KEY (cap, window_start, threshold)) STRICT, WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE countdowns (cap TEXT PRIMARY KEY, request TEXT NOT NULL, armed INTEGER NOT NULL, "
        "deadline INTEGER NOT NULL, belt INTEGER NOT NULL) STRICT"
    )
    db.execute(
        "CREATE TABLE requests (id TEXT PRIMARY KEY, cap TEXT NOT NULL, window_start INTEGER, "
        "cause TEXT NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL, suggested INTEGER NOT NULL, "
        "created INTEGER NOT NULL, state TEXT NOT NULL, answered_by TEXT NOT NULL, answered INTEGER) STRICT"
    )
    db.execute("CREATE INDEX requests_open ON requests (cap, state)")
    db.execute(
        "CREATE TABLE guard_runs (run TEXT PRIMARY KEY, cluster TEXT NOT NULL, experiment TEXT NOT NULL, "
        "owner TEXT NOT NULL, team TEXT NOT NULL, first_seen INTEGER NOT NULL, state TEXT NOT NULL, "
        "since INTEGER NOT NULL, cause TEXT NOT NULL, cycle INTEGER NOT NULL, unpaused INTEGER NOT NULL, "
        "again_at INTEGER, burn INTEGER NOT NULL) STRICT"
    )
