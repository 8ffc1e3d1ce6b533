"""What we say, durable: queued in the database, sent in order per channel, found again before it is said twice.

A post carries its key in the message's metadata. Where the process died (or the line broke) between sending
and recording, the channel's history is searched for that key first. Edits of one card are coalesced.
Ephemerals cannot be found again, so they are sent at most twice. While Slack is away, all of it waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from bot.messages.model import Message
from bot.slack.blocks import Page, render
from bot.slack.web import SlackDown, SlackRefused, SlackThrottled, SlackWeb
from fleet.db import Database
from fleet.values import rfc3339, utc

log = structlog.get_logger(__name__)

EDIT_EVERY = timedelta(seconds=10)
"""chat.update is limited to about 50 a minute; a card that changes faster shows its latest state"""
BACK_OFF = timedelta(seconds=60)
WHISPERS = 2
"""how often an ephemeral may be sent where its first outcome is not known"""
UNDELIVERABLE = frozenset(
    {"channel_not_found", "not_in_channel", "is_archived", "restricted_action", "message_not_found",
     "cant_update_message", "edit_window_closed", "user_not_in_channel", "thread_not_found"}
)  # fmt: skip
TOO_MUCH = frozenset({"invalid_blocks", "msg_blocks_too_long", "msg_too_long", "invalid_blocks_format"})


@dataclass(frozen=True, slots=True)
class Whisper:
    """To whom an ephemeral goes. `response_url` is tried first: it works where the bot is not a member."""

    person: str
    channel: str
    response_url: str = ""
    thread_ts: str = ""


class Outbox:
    """The Chat port over Slack. `post`, `update` and `whisper` only write; `flush` sends."""

    def __init__(self, database: Database, web: SlackWeb, *, fallback_channel: str = "") -> None:
        self._db = database
        self._web = web
        self._fallback = fallback_channel
        self._failures = 0
        self._down_until: datetime | None = None

    @property
    def reachable(self) -> bool:
        """Whether the last call got an answer."""
        return self._failures == 0

    def post(self, *, key: str, channel: str, message: Message, thread: str = "", now: datetime) -> None:
        """Queue a message once a key; a card that is known already is edited. `thread` is the root's key."""
        known = self._row(key)
        if known is not None:
            if message.card:
                self.update(key=key, message=message, now=now)
            return
        root = self._row(thread) if thread else None
        place = root["channel"] if root else channel
        with self._db.transaction():
            for number, page in enumerate(render(message)):
                page_key = key if number == 0 else f"{key}/{number + 1}"
                page_thread = thread if root else (key if number else "")
                self._insert(page_key, place, page_thread, page, now)

    def update(self, *, key: str, message: Message, now: datetime) -> None:
        """Queue an edit; a newer one takes the place of one that is still waiting. Unknown keys are ignored."""
        known = self._row(key)
        body = _body(render(message)[0])
        if known is None or known["body"] == body:
            return
        edited = utc(known["edited_at"]) + EDIT_EVERY if known["edited_at"] else now
        with self._db.transaction() as connection:
            connection.execute("UPDATE chat_messages SET body = ? WHERE key = ?", (body, key))
            waiting = connection.execute(
                "UPDATE outbox SET body = ? WHERE key = ? AND op = 'post' AND state = 'queued'", (body, key)
            )
            if waiting.rowcount == 0:
                connection.execute(
                    "INSERT INTO outbox (key, op, channel, body, queued_at, not_before) VALUES (?, 'edit', ?, ?, ?, ?) "
                    "ON CONFLICT (key, op) DO UPDATE SET body = excluded.body, state = 'queued'",
                    (key, known["channel"], body, rfc3339(now), rfc3339(max(now, edited))),
                )

    def whisper(self, *, key: str, to: Whisper, message: Message, now: datetime) -> None:
        """Queue a message that only one person sees."""
        target = {
            "person": to.person,
            "response_url": to.response_url,
            "thread_ts": to.thread_ts,
        }
        with self._db.transaction() as connection:
            for number, page in enumerate(render(message)[:5]):
                connection.execute(
                    "INSERT INTO outbox (key, op, channel, target, body, queued_at, not_before) "
                    "VALUES (?, 'whisper', ?, ?, ?, ?, ?) ON CONFLICT (key, op) DO NOTHING",
                    (
                        f"{key}/{number}",
                        to.channel,
                        json.dumps(target),
                        _body(page),
                        rfc3339(now),
                        rfc3339(now),
                    ),
                )

    def waiting(self) -> int:
        """Messages not delivered yet."""
        row = self._db.row("SELECT count(*) AS n FROM outbox WHERE state != 'failed'")
        return int(row["n"]) if row else 0

    def next_due(self) -> datetime | None:
        """When `flush` should run again; None where nothing waits."""
        row = self._db.row(
            "SELECT min(o.not_before) AS due FROM outbox o LEFT JOIN chat_messages m ON m.key = o.key "
            "WHERE o.state != 'failed' AND (o.op != 'edit' OR m.ts != '')"
        )
        if row is None or row["due"] is None:
            return None
        due = utc(row["due"])
        return max(due, self._down_until) if self._down_until else due

    def flush(self, now: datetime) -> int:
        """Send what is due, in order per channel; returns how many went out. Never raises for Slack's sake."""
        if self._down_until and now < self._down_until:
            return 0
        sent = 0
        blocked: set[tuple[str, str]] = set()
        for row in self._db.rows("SELECT * FROM outbox WHERE state != 'failed' ORDER BY id"):
            lane = (row["channel"], "edit" if row["op"] == "edit" else "post")
            if lane in blocked or (row["op"] == "edit" and self._unsent(row["key"])):
                continue
            if utc(row["not_before"]) > now:
                if row["op"] != "edit":
                    blocked.add(lane)
                continue
            try:
                self._send(row, now)
                sent += 1
                self._failures, self._down_until = 0, None
            except SlackThrottled as error:
                self._delay(row, now + timedelta(seconds=error.retry_after), lane=True)
                blocked.add(lane)
            except SlackDown as error:
                self._slack_is_down(row, error, now)
                break
            except SlackRefused as error:
                self._refused(row, error, now)
        return sent

    def _send(self, row: Mapping[str, Any], now: datetime) -> None:
        if row["op"] == "post":
            self._send_post(row)
        elif row["op"] == "edit":
            known = self._row(row["key"])
            assert known is not None
            self._web.update(known["channel"], known["ts"], row["key"], json.loads(row["body"]))
            self._done(row, edited_at=rfc3339(now))
        else:
            self._send_whisper(row)

    def _send_post(self, row: Mapping[str, Any]) -> None:
        known = self._row(row["key"])
        assert known is not None
        root = self._row(known["thread"]) if known["thread"] else None
        thread_ts = root["ts"] if root and root["channel"] == row["channel"] else ""
        ts = ""
        if row["state"] == "sending":
            ts = self._said_already(row, thread_ts)
        if not ts:
            self._mark_sending(row)
            ts = self._web.post(row["channel"], row["key"], json.loads(row["body"]), thread_ts=thread_ts)
        self._done(row, ts=ts, channel=row["channel"])

    def _said_already(self, row: Mapping[str, Any], thread_ts: str) -> str:
        """Its ts where an earlier attempt got through; where nobody lets us look, rather twice than never."""
        since = utc(row["queued_at"]) - timedelta(hours=1)
        try:
            return self._web.find(row["channel"], row["key"], thread_ts=thread_ts, since=since)
        except SlackRefused as error:
            log.warning("history refused", key=row["key"], channel=row["channel"], code=error.code)
            return ""

    def _send_whisper(self, row: Mapping[str, Any]) -> None:
        if row["attempts"] >= WHISPERS:
            self._done(row)
            return
        self._mark_sending(row)
        target = json.loads(row["target"])
        body = json.loads(row["body"])
        if target["response_url"]:
            try:
                self._web.respond(target["response_url"], body)
                self._done(row)
                return
            except SlackRefused as error:
                log.info("response_url refused", key=row["key"], code=error.code)
        self._web.whisper(row["channel"], target["person"], body, thread_ts=target["thread_ts"])
        self._done(row)

    def _mark_sending(self, row: Mapping[str, Any]) -> None:
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE id = ?", (row["id"],)
            )

    def _done(self, row: Mapping[str, Any], **fields: str) -> None:
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM outbox WHERE id = ? AND body = ?", (row["id"], row["body"]))
            for name, value in fields.items():
                connection.execute(f"UPDATE chat_messages SET {name} = ? WHERE key = ?", (value, row["key"]))

    def _delay(self, row: Mapping[str, Any], until: datetime, *, lane: bool = False) -> None:
        """Later. With `lane` everything behind it in its channel, too: it could not go out before."""
        with self._db.transaction() as connection:
            # Refused means: not done. It is again what it was: `queued`, so that no history is searched for it, or
            # `sending`, where an attempt before this one may have got through.
            connection.execute(
                "UPDATE outbox SET state = ?, not_before = ?, "
                "attempts = CASE WHEN op = 'whisper' THEN attempts - 1 ELSE attempts END WHERE id = ?",
                (row["state"], rfc3339(until), row["id"]),
            )
            if lane:
                connection.execute(
                    "UPDATE outbox SET not_before = ? WHERE channel = ? AND (op = 'edit') = ? AND state = 'queued' "
                    "AND not_before < ?",
                    (rfc3339(until), row["channel"], row["op"] == "edit", rfc3339(until)),
                )

    def _slack_is_down(self, row: Mapping[str, Any], error: SlackDown, now: datetime) -> None:
        self._failures += 1
        wait = min(timedelta(seconds=2 ** min(self._failures, 6)), BACK_OFF)
        self._down_until = now + wait
        log.warning("chat does not answer", key=row["key"], error=str(error), retry_in=wait.total_seconds())

    def _refused(self, row: Mapping[str, Any], error: SlackRefused, now: datetime) -> None:
        """A message that is refused for good must not stop the ones behind it, and must not vanish unseen."""
        body = json.loads(row["body"])
        if error.code in TOO_MUCH and body.get("blocks"):
            self._replace(row, {"text": body["text"]}, row["channel"], now)
        elif row["op"] == "post" and error.code in UNDELIVERABLE and row["channel"] != self._fallback != "":
            note = (
                f"(Meant for channel {row['channel']}, which answered {error.code}: invite the bot there.) "
            )
            self._replace(row, {**body, "text": note + body["text"]}, self._fallback, now)
        elif error.code in UNDELIVERABLE | TOO_MUCH or row["op"] == "whisper":
            with self._db.transaction() as connection:
                connection.execute(
                    "UPDATE outbox SET state = 'failed', error = ? WHERE id = ?", (error.code, row["id"])
                )
        else:
            self._delay(row, now + BACK_OFF)
        log.error("chat refused", key=row["key"], channel=row["channel"], code=error.code, detail=str(error))

    def _replace(self, row: Mapping[str, Any], body: Any, channel: str, now: datetime) -> None:
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE outbox SET body = ?, channel = ?, state = 'queued', not_before = ? WHERE id = ?",
                (json.dumps(body, sort_keys=True), channel, rfc3339(now), row["id"]),
            )
            connection.execute("UPDATE chat_messages SET channel = ? WHERE key = ?", (channel, row["key"]))

    def _insert(self, key: str, channel: str, thread: str, page: Page, now: datetime) -> None:
        body, moment = _body(page), rfc3339(now)
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT INTO chat_messages (key, channel, thread, body, queued_at) VALUES (?, ?, ?, ?, ?)",
                (key, channel, thread, body, moment),
            )
            connection.execute(
                "INSERT INTO outbox (key, op, channel, body, queued_at, not_before) "
                "VALUES (?, 'post', ?, ?, ?, ?)",
                (key, channel, body, moment, moment),
            )

    def _unsent(self, key: str) -> bool:
        known = self._row(key)
        return known is None or not known["ts"]

    def _row(self, key: str) -> dict[str, Any] | None:
        return self._db.row("SELECT * FROM chat_messages WHERE key = ?", (key,))


def _body(page: Page) -> str:
    return json.dumps({"text": page.text, "blocks": list(page.blocks)}, sort_keys=True)
