"""What is said is said once, in order, and not lost while Slack is away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bot.messages.model import Message, Text
from bot.slack.outbox import EDIT_EVERY, Outbox, Whisper
from bot.slack.web import SlackDown, SlackRefused, SlackThrottled
from bot.tables import MIGRATIONS
from fleet.db import Database
from tests.builders import T0


class Channels:
    """A Slack that keeps what is posted; `fail` holds what the next calls answer, `lose` carries them out first."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str, str, str]] = []
        self.edits: list[tuple[str, str]] = []
        self.whispers: list[tuple[str, str]] = []
        self.searches = 0
        self.unreadable: list[Exception] = []
        self.fail: list[Exception] = []
        self.lose = False

    def _answer(self) -> None:
        if self.fail and not self.lose:
            raise self.fail.pop(0)

    def _reply(self) -> None:
        if self.fail and self.lose:
            raise self.fail.pop(0)

    def post(self, channel: str, key: str, body: Any, *, thread_ts: str = "") -> str:
        self._answer()
        self.posted.append((channel, key, body["text"], thread_ts))
        self._reply()
        return f"ts{len(self.posted)}"

    def update(self, channel: str, ts: str, key: str, body: Any) -> None:
        self._answer()
        self.edits.append((ts, body["text"]))

    def whisper(self, channel: str, person: str, body: Any, *, thread_ts: str = "") -> None:
        self._answer()
        self.whispers.append((person, body["text"]))
        self._reply()

    def respond(self, response_url: str, body: Any) -> None:
        self._answer()
        self.whispers.append((response_url, body["text"]))
        self._reply()

    def find(self, channel: str, key: str, *, thread_ts: str, since: Any) -> str:
        self.searches += 1
        if self.unreadable:
            raise self.unreadable.pop(0)
        for number, entry in enumerate(self.posted, 1):
            if entry[:2] == (channel, key):
                return f"ts{number}"
        return ""


@pytest.fixture
def slack() -> Channels:
    """The other side."""
    return Channels()


@pytest.fixture
def database() -> Database:
    """The bot's tables."""
    return Database(":memory:", [MIGRATIONS])


@pytest.fixture
def outbox(database, slack) -> Outbox:
    """The outbox under test."""
    return Outbox(database, slack, fallback_channel="C0")


def texts(slack: Channels) -> list[str]:
    return [entry[2] for entry in slack.posted]


def test_messages_of_a_channel_arrive_in_order_and_threads_under_their_root(outbox, slack):
    """A thread is named by the key of its root."""
    outbox.post(key="root", channel="C1", message=Message("root"), now=T0)
    outbox.post(key="reply", channel="C9", message=Message("reply"), thread="root", now=T0)

    assert outbox.flush(T0) == 2
    assert slack.posted == [("C1", "root", "root", ""), ("C1", "reply", "reply", "ts1")]
    assert outbox.waiting() == 0


def test_a_key_is_said_once(outbox, slack):
    """Whoever is asked twice to say it says it once, before and after it was sent."""
    for _ in range(2):
        outbox.post(key="k", channel="C1", message=Message("once"), now=T0)
        outbox.flush(T0)

    assert texts(slack) == ["once"]


def test_a_card_posted_again_is_edited_in_place(outbox, slack):
    """The Chat port's promise for cards."""
    outbox.post(key="k", channel="C1", message=Message("1", card=True), now=T0)
    outbox.flush(T0)
    later = T0 + EDIT_EVERY
    outbox.post(key="k", channel="C1", message=Message("2", card=True), now=later)
    outbox.flush(later)

    assert texts(slack) == ["1"]
    assert slack.edits == [("ts1", "2")]


def test_edits_are_coalesced_and_the_latest_wins(outbox, slack):
    """chat.update is limited: a card that changes every second is edited every ten."""
    outbox.post(key="k", channel="C1", message=Message("0", card=True), now=T0)
    outbox.flush(T0)
    for second in range(1, 31):
        now = T0 + timedelta(seconds=second)
        outbox.update(key="k", message=Message(str(second), card=True), now=now)
        outbox.flush(now)
    outbox.flush(T0 + timedelta(seconds=40))

    assert len(slack.edits) <= 4
    assert slack.edits[-1] == ("ts1", "30")


def test_an_edit_of_what_is_not_sent_yet_changes_what_is_sent(outbox, slack):
    """No edit of a message that nobody has seen."""
    outbox.post(key="k", channel="C1", message=Message("old", card=True), now=T0)
    outbox.update(key="k", message=Message("new", card=True), now=T0)
    outbox.flush(T0)

    assert texts(slack) == ["new"]
    assert slack.edits == []


def test_an_edit_without_a_change_is_no_call(outbox, slack):
    """The countdown's card is told every tick, changed or not."""
    outbox.post(key="k", channel="C1", message=Message("same", card=True), now=T0)
    outbox.flush(T0)
    outbox.update(key="k", message=Message("same", card=True), now=T0 + EDIT_EVERY)
    outbox.flush(T0 + EDIT_EVERY)

    assert slack.edits == []


def test_a_lost_answer_is_looked_for_before_it_is_said_again(outbox, slack):
    """Posted, and the line broke: the key in the metadata finds it."""
    slack.fail, slack.lose = [SlackDown("no answer")], True
    outbox.post(key="k", channel="C1", message=Message("once"), now=T0)
    outbox.flush(T0)
    slack.lose = False
    outbox.flush(T0 + timedelta(minutes=2))

    assert texts(slack) == ["once"]
    assert slack.searches == 1
    assert outbox.waiting() == 0


def test_a_process_that_died_while_sending_looks_first(database, slack):
    """A new outbox over the same database finds what the dead one had posted."""
    first = Outbox(database, slack)
    first.post(key="k", channel="C1", message=Message("once"), now=T0)
    row = database.row("SELECT * FROM outbox")
    first._mark_sending(row)
    slack.post("C1", "k", {"text": "once"})

    Outbox(database, slack).flush(T0)
    Outbox(database, slack).update(key="k", message=Message("edited"), now=T0 + EDIT_EVERY)
    Outbox(database, slack).flush(T0 + EDIT_EVERY)

    assert texts(slack) == ["once"]
    assert slack.edits == [("ts1", "edited")]


@pytest.mark.parametrize("posted", [True, False])
def test_a_search_that_has_to_wait_is_made_before_it_is_said_again(outbox, slack, posted):
    """429 for the history says nothing about the post before it."""
    slack.fail, slack.lose = [SlackDown("no answer")], posted
    outbox.post(key="k", channel="C1", message=Message("once"), now=T0)
    outbox.flush(T0)
    slack.unreadable = [SlackThrottled(30), SlackThrottled(30)]
    for minutes in (2, 4, 6):
        outbox.flush(T0 + timedelta(minutes=minutes))

    assert texts(slack) == ["once"]
    assert slack.searches == 3
    assert outbox.waiting() == 0


def test_where_history_may_not_be_read_it_is_said_in_its_own_channel(outbox, slack):
    """Rather twice than never, and not in the fallback channel: the channel itself takes messages."""
    slack.fail = [SlackDown("no answer")]
    outbox.post(key="k", channel="C1", message=Message("alert"), now=T0)
    outbox.flush(T0)
    slack.unreadable = [SlackRefused("missing_scope")]
    outbox.flush(T0 + timedelta(minutes=2))

    assert slack.posted == [("C1", "k", "alert", "")]
    assert outbox.waiting() == 0


def test_nothing_is_lost_while_slack_is_away(outbox, slack):
    """Waiting grows to a minute; then everything comes, in order."""
    slack.fail = [SlackDown("connection refused")] * 3
    for number in range(5):
        outbox.post(key=str(number), channel="C1", message=Message(str(number)), now=T0)
    now = T0
    for _ in range(40):
        outbox.flush(now)
        now = outbox.next_due() or now

    assert texts(slack) == ["0", "1", "2", "3", "4"]
    assert outbox.reachable


def test_a_throttled_channel_waits_and_the_others_go_on(outbox, slack):
    """429 with Retry-After: obeyed, per channel, and no history is searched for what was not done."""
    slack.fail = [SlackThrottled(30)]
    outbox.post(key="a", channel="C1", message=Message("a"), now=T0)
    outbox.post(key="b", channel="C1", message=Message("b"), now=T0)
    outbox.post(key="c", channel="C2", message=Message("c"), now=T0)
    outbox.flush(T0)
    outbox.flush(T0 + timedelta(seconds=29))
    early = texts(slack)
    outbox.flush(T0 + timedelta(seconds=30))

    assert early == ["c"]
    assert texts(slack) == ["c", "a", "b"]
    assert slack.searches == 0


def test_three_hundred_alerts_in_a_burst_all_arrive(outbox, slack):
    """plaid#332: zero lost, delayed."""
    slack.fail = [SlackThrottled(1)] * 50
    for number in range(300):
        outbox.post(key=str(number), channel="C1", message=Message(str(number)), now=T0)
    now = T0
    while outbox.waiting():
        outbox.flush(now)
        now = outbox.next_due() or now

    assert texts(slack) == [str(number) for number in range(300)]


def test_a_channel_that_is_gone_does_not_swallow_the_message(outbox, slack):
    """goalert#2176: it goes to the fallback channel, with what is wrong and what to do."""
    slack.fail = [SlackRefused("is_archived")]
    outbox.post(key="k", channel="C1", message=Message("over budget"), now=T0)
    outbox.flush(T0)
    outbox.flush(T0)

    assert slack.posted[0][0] == "C0"
    assert "is_archived" in slack.posted[0][2]
    assert slack.posted[0][2].endswith("over budget")


def test_blocks_that_are_refused_leave_the_sentence(outbox, slack):
    """Wording is worth more than layout."""
    slack.fail = [SlackRefused("invalid_blocks")]
    outbox.post(key="k", channel="C1", message=Message("said", (Text("said"),)), now=T0)
    outbox.flush(T0)
    outbox.flush(T0)

    assert texts(slack) == ["said"]


def test_a_refusal_does_not_block_what_is_behind_it(outbox, slack):
    """An ephemeral for somebody who left is dropped; the alert behind it goes out."""
    slack.fail = [SlackRefused("user_not_in_channel")]
    outbox.whisper(key="w", to=Whisper("U1", "C1"), message=Message("psst"), now=T0)
    outbox.post(key="k", channel="C1", message=Message("alert"), now=T0)
    outbox.flush(T0)

    assert texts(slack) == ["alert"]
    assert outbox.waiting() == 0


def test_an_ephemeral_is_sent_at_most_twice(outbox, slack):
    """It cannot be found again, so a doubt is borne once."""
    slack.lose = True
    slack.fail = [SlackDown("no answer")] * 5
    outbox.whisper(key="w", to=Whisper("U1", "C1"), message=Message("psst"), now=T0)
    now = T0
    for _ in range(10):
        outbox.flush(now)
        now = outbox.next_due() or now

    assert len(slack.whispers) == 2
    assert outbox.waiting() == 0


def test_a_response_url_that_has_expired_becomes_an_ephemeral(outbox, slack):
    """The answer comes anyway."""
    slack.fail = [SlackRefused("expired_url")]
    to = Whisper("U1", "C1", response_url="http://r")
    outbox.whisper(key="w", to=to, message=Message("psst"), now=T0)
    outbox.flush(T0)

    assert slack.whispers == [("U1", "psst")]
