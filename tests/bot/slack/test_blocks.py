"""Messages become Block Kit within every limit, whatever is in them, and nothing is lost on the way."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.messages.model import (
    Button,
    Buttons,
    Confirm,
    Context,
    Fields,
    Header,
    Message,
    Table,
    Text,
)
from bot.slack import limits
from bot.slack.blocks import action_name, escape, render, size, trim

words = st.text(max_size=400)
long_words = st.one_of(words, st.text(min_size=1, max_size=40).map(lambda text: text * 200))
confirms = st.builds(Confirm, words, words, words, words)
buttons = st.builds(
    Button,
    action=st.sampled_from(["launch.start", "run.kill", "guard.approve"]),
    value=st.text(max_size=60),
    label=words,
    style=st.sampled_from(["", "primary", "danger"]),
    confirm=st.none() | confirms,
)
moments = st.datetimes(timezones=st.just(UTC)).filter(lambda moment: moment.year > 1970)
blocks = st.one_of(
    st.builds(Header, long_words),
    st.builds(Text, long_words, mention=st.sampled_from(["", "U1ADA", "<!here>"]), strong=st.booleans()),
    st.builds(Fields, st.lists(st.tuples(words, long_words | moments), max_size=25).map(tuple)),
    st.builds(
        Table,
        st.just(("A", "B")),
        st.lists(st.tuples(words, long_words), max_size=80).map(tuple),
        st.just(frozenset({1})),
    ),
    st.builds(Context, long_words),
    st.builds(Buttons, st.lists(buttons, min_size=1, max_size=30).map(tuple)),
)
messages = st.builds(Message, long_words, st.lists(blocks, max_size=30).map(tuple), card=st.booleans())


def check(page):
    """What Slack would say against a page."""
    assert len(page.text) <= limits.MESSAGE_TEXT
    assert len(page.blocks) <= 50
    assert sum(map(size, page.blocks)) <= 13_200
    seen = []
    for block in page.blocks:
        check_block(block)
        seen += [element["action_id"] for element in block.get("elements", ()) if "action_id" in element]
    assert len(seen) == len(set(seen))


def check_block(block):
    if block["type"] == "header":
        assert 0 < len(block["text"]["text"]) <= 150
    if block["type"] == "section":
        assert len(block.get("fields", [])) <= 10
        assert all(0 < len(entry["text"]) <= 2000 for entry in block.get("fields", []))
        assert 0 < len(block.get("text", {"text": "x"})["text"]) <= 3000
    if block["type"] == "context":
        assert 0 < len(block["elements"]) <= 10
    if block["type"] == "actions":
        assert 0 < len(block["elements"]) <= 25
        for element in block["elements"]:
            assert len(element["text"]["text"]) <= 75
            confirm = element.get("confirm")
            if confirm:
                assert len(confirm["title"]["text"]) <= 100
                assert len(confirm["text"]["text"]) <= 300
                assert max(len(confirm["confirm"]["text"]), len(confirm["deny"]["text"])) <= 30


@settings(max_examples=120, deadline=None)
@given(messages)
def test_every_page_is_within_slacks_limits(message):
    """50 blocks, 13,200 characters, and every length of the block reference."""
    pages = render(message)

    assert len(pages) == 1 or not message.card
    for page in pages:
        check(page)
        json.dumps(page.blocks)


@settings(max_examples=60, deadline=None)
@given(messages)
def test_no_button_is_ever_lost(message):
    """However long the rest is, what can be clicked stays."""
    wanted = [
        (b.action, b.value) for block in message.blocks if isinstance(block, Buttons) for b in block.buttons
    ]
    pages = render(message)
    found = [
        (action_name(element["action_id"]), element["value"])
        for page in pages
        for block in page.blocks
        if block["type"] == "actions"
        for element in block["elements"]
    ]

    if len(message.blocks) < 40:
        assert found == wanted


def test_a_long_table_is_split_over_messages_without_losing_a_row():
    """PerformanceMonitor#3618: the biggest alert is the one that must arrive."""
    rows = tuple((f"run-{n:04d}", "x" * 60) for n in range(600))
    pages = render(Message("600 runs.", (Table(("RUN", "WHAT"), rows),)))
    text = "".join(block["text"]["text"] for page in pages for block in page.blocks)

    assert len(pages) > 1
    assert all(row[0] in text for row in rows)


def test_a_card_stays_one_message_and_says_how_much_it_left_out():
    """A card is edited in place, so it may not become two."""
    rows = tuple((f"run-{n:04d}", "x" * 60) for n in range(600))
    (page,) = render(Message("600 runs.", (Table(("RUN", "WHAT"), rows), Header("H")), card=True))
    text = "".join(block["text"]["text"] for block in page.blocks)
    shown = sum(row[0] in text for row in rows)

    assert 0 < shown < 600
    assert f"… {600 - shown:,} lines omitted" in text


def test_what_people_wrote_is_neither_link_nor_call():
    """integrations/slack#1609: `<https://evil|ok>` is text; `@channel` wakes nobody."""
    text = escape("HashSet<Type> & <https://evil|ok> <!here> @channel")

    assert "<" not in text
    assert text.startswith("HashSet&lt;Type&gt; &amp; &lt;https://evil|ok&gt;")
    assert "@channel" not in text


def test_only_a_real_id_is_mentioned():
    """A mention that is no user id is left out: it could be a broadcast."""
    (page,) = render(Message("x", (Text("hello", mention="U1ADA"), Text("hello", mention="!here"))))

    assert [block["text"]["text"] for block in page.blocks] == ["<@U1ADA> hello", "hello"]


def test_trimming_never_cuts_an_escape_in_two():
    """`&am…` would show as garbage."""
    text = escape("a" * 96 + "&&&")

    assert trim(text, 100) == "a" * 96 + "…"


def test_a_backtick_cannot_end_a_table():
    """A name with a backtick stays inside the fixed-width block."""
    (page,) = render(Message("x", (Table(("A",), (("```evil",),)),)))

    assert page.blocks[0]["text"]["text"].count("```") == 2


def test_a_moment_is_shown_in_the_readers_zone():
    """Slack renders it for each reader; others see UTC."""
    at = datetime(2026, 11, 6, 17, 5, tzinfo=UTC)
    (page,) = render(Message("x", (Fields((("Pause at", at),)),)))

    shown = page.blocks[0]["fields"][0]["text"]
    assert (
        shown
        == f"*Pause at*\n<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|2026-11-06 17:05 UTC>"
    )
