"""The bot's own tables: what came in, and what goes out."""

from __future__ import annotations

from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

MIGRATIONS = Migrations("bot")


@MIGRATIONS()
def create_inbox(db: SqliteUtils) -> None:
    """Commands and clicks as they came, each once, until they are handled."""
    db.execute(
        "CREATE TABLE inbox (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, "
        "payload TEXT NOT NULL, received_at TEXT NOT NULL, begun_at TEXT, handled_at TEXT, outcome TEXT) STRICT"
    )
    db.execute("CREATE INDEX inbox_open ON inbox (id) WHERE handled_at IS NULL")


@MIGRATIONS()
def create_outbox(db: SqliteUtils) -> None:
    """`chat_messages`: where each message stands. `outbox`: what is still to be sent, in order."""
    db.execute(
        "CREATE TABLE chat_messages (key TEXT PRIMARY KEY, channel TEXT NOT NULL, thread TEXT NOT NULL, "
        "ts TEXT NOT NULL DEFAULT '', body TEXT NOT NULL, queued_at TEXT NOT NULL, edited_at TEXT) STRICT"
    )
    db.execute(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, key TEXT NOT NULL, op TEXT NOT NULL, channel TEXT NOT NULL, "
        "target TEXT NOT NULL DEFAULT '{}', body TEXT NOT NULL, queued_at TEXT NOT NULL, not_before TEXT NOT NULL, "
        "state TEXT NOT NULL DEFAULT 'queued', attempts INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '', "
        "UNIQUE (key, op)) STRICT"
    )


@MIGRATIONS()
def create_cards(db: SqliteUtils) -> None:
    """Which message a later event edits: a request's card, a cap's countdown, a run's purchases."""
    db.execute(
        "CREATE TABLE cards (subject TEXT PRIMARY KEY, key TEXT NOT NULL, sentence TEXT NOT NULL, "
        "data TEXT NOT NULL DEFAULT '{}') STRICT"
    )
    db.execute("CREATE TABLE told (key TEXT PRIMARY KEY, told_at TEXT NOT NULL) STRICT")
