"""What people asked is written before it is acknowledged, and handled once."""

from __future__ import annotations

import threading

from bot.inbox import Inbox
from bot.tables import MIGRATIONS
from fleet.db import Database
from tests.builders import T0


def make(database: Database) -> Inbox:
    """An inbox over a database."""
    return Inbox(database, lambda: T0, lambda: None)


def test_the_same_envelope_twice_is_one_request():
    """bolt-python#868: idempotent by its trigger, never dropped by a retry header."""
    inbox = make(Database(":memory:", [MIGRATIONS]))

    assert inbox.put("command", "command:1.2.3", {"text": "ls"})
    assert not inbox.put("command", "command:1.2.3", {"text": "ls"})
    assert len(inbox.pending()) == 1
    assert inbox.accepted == 2


def test_what_was_not_handled_is_there_after_a_restart(tmp_path):
    """hermes-agent#100408: a click just before the process died."""
    path = tmp_path / "x.db"
    first = make(Database(path, [MIGRATIONS]))
    first.put("action", "action:1", {"a": 1})
    second = make(Database(path, [MIGRATIONS]))
    (inbound,) = second.pending()
    second.handled(inbound, T0, "ok")

    assert inbound.payload == {"a": 1}
    assert not second.waiting()


def test_what_was_begun_and_not_ended_is_known_after_a_restart(tmp_path):
    """A launch that is under way is then the click's own, and not somebody else's who was faster."""
    path = tmp_path / "x.db"
    first = make(Database(path, [MIGRATIONS]))
    first.put("action", "action:1", {})
    (fresh,) = first.pending()
    first.begin(fresh, T0)
    (inbound,) = make(Database(path, [MIGRATIONS])).pending()

    assert not fresh.again
    assert inbound.again


def test_a_handled_row_keeps_no_reply_address():
    """What was asked stays in the journal; the payload goes."""
    database = Database(":memory:", [MIGRATIONS])
    inbox = make(database)
    inbox.put("command", "k", {"response_url": "http://secret"})
    inbox.handled(inbox.pending()[0], T0, "ok")

    assert "secret" not in str(database.rows("SELECT * FROM inbox"))


def test_many_threads_put_without_losing_any(tmp_path):
    """The socket's threads write while the loop reads."""
    inbox = make(Database(tmp_path / "x.db", [MIGRATIONS]))

    def put(start: int) -> None:
        for number in range(start, start + 25):
            inbox.put("command", str(number), {})

    threads = [threading.Thread(target=put, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(inbox.pending()) == inbox.accepted == 100
