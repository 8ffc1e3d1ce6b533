"""Block Kit's limits: at the limit accepted, one over refused, with the pointer of the culprit."""

from __future__ import annotations

import pytest

from sandbox.slack.limits import check_blocks, check_view, text_total


def plain(text):
    """A plain_text object."""
    return {"type": "plain_text", "text": text}


def button(text="Go", **more):
    """A button."""
    return {"type": "button", "text": plain(text), "action_id": more.pop("action_id", text[:200]), **more}


def actions(*elements):
    """An actions block."""
    return {"type": "actions", "elements": list(elements)}


def select(count, **option):
    """A static_select with this many options."""
    options = [{"text": plain("o"), "value": str(n), **option} for n in range(count)]
    return {"type": "static_select", "action_id": "s", "options": options}


def cell(text="x"):
    """A cell of a table."""
    return {"type": "raw_text", "text": text}


def confirm(**parts):
    """A confirm object."""
    return {"title": plain("Sure?"), "text": plain("Really."), **parts}


AT_AND_OVER = [
    (lambda n: {"type": "section", "text": plain("x" * n)}, 3000, "/text/text"),
    (lambda n: {"type": "section", "fields": [plain("x")] * n}, 10, "/fields"),
    (lambda n: {"type": "section", "fields": [plain("x" * n)]}, 2000, "/fields/0/text"),
    (lambda n: {"type": "header", "text": plain("x" * n)}, 150, "/text/text"),
    (lambda n: {"type": "context", "elements": [plain("x")] * n}, 10, "/elements"),
    (lambda n: actions(*(button(str(i)) for i in range(n))), 25, "/elements"),
    (lambda n: actions(button("x" * n)), 75, "/elements/0/text/text"),
    (lambda n: actions(button(value="x" * n)), 2000, "/elements/0/value"),
    (lambda n: actions(button(url="x" * n)), 3000, "/elements/0/url"),
    (lambda n: actions(button(action_id="x" * n)), 255, "/elements/0/action_id"),
    (lambda n: actions(button(confirm=confirm(title=plain("x" * n)))), 100, "/elements/0/confirm/title/text"),
    (lambda n: actions(button(confirm=confirm(text=plain("x" * n)))), 300, "/elements/0/confirm/text/text"),
    (lambda n: actions(button(confirm=confirm(deny=plain("x" * n)))), 30, "/elements/0/confirm/deny/text"),
    (lambda n: {"type": "divider", "block_id": "x" * n}, 255, "/block_id"),
    (lambda n: actions(select(n)), 100, "/elements/0/options"),
    (lambda n: actions(select(1, value="x" * n)), 150, "/elements/0/options/0/value"),
    (lambda n: actions(select(1, text=plain("x" * n))), 75, "/elements/0/options/0/text/text"),
    (lambda n: {"type": "image", "image_url": "x" * n, "alt_text": "a"}, 3000, "/image_url"),
    (lambda n: {"type": "image", "image_url": "x", "alt_text": "x" * n}, 2000, "/alt_text"),
    (lambda n: {"type": "table", "rows": [[]] * n}, 100, "/rows"),
    (lambda n: {"type": "table", "rows": [[{"type": "raw_text", "text": "x"}] * n]}, 20, "/rows/0"),
    (lambda n: {"type": "data_table", "caption": "c", "rows": [[cell()]] * (n + 1)}, 100, "/rows"),
    (lambda n: {"type": "markdown", "text": "x" * n}, 12_000, ""),
]


@pytest.mark.parametrize(("build", "limit", "where"), AT_AND_OVER)
def test_at_the_limit_and_one_over(build, limit, where):
    """Each length and count of Slack's reference."""
    assert check_blocks([build(limit)]) == []
    [problem] = check_blocks([build(limit + 1)])
    pointer = f"/blocks/0{where}" if where else "/blocks"
    assert problem.endswith(f"[json-pointer:{pointer}]")
    assert str(limit) in problem or str(limit + 1) in problem


def test_fifty_blocks_on_a_message_and_a_hundred_in_a_modal():
    """The number of blocks depends on where they are."""
    dividers = [{"type": "divider"}] * 51
    assert check_blocks(dividers) == ["no more than 50 items allowed [json-pointer:/blocks]"]
    assert check_blocks(dividers, "modal") == []


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([{"type": "divider", "block_id": "a"}, {"type": "divider", "block_id": "a"}], "/blocks/1/block_id"),
        ([actions(button("A", action_id="x"), button("B", action_id="x"))], "/blocks/0/elements/1/action_id"),
        ([{"type": "sectoin"}], "/blocks/0/type"),
        ([{"type": "header", "text": plain("")}], "/blocks/0/text/text"),
        ([{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], "/blocks/0/text/type"),
        ([{"type": "section"}], "/blocks/0"),
        ([actions(button(style="green"))], "/blocks/0/elements/0/style"),
        ([{"type": "image", "image_url": "https://x"}], "/blocks/0"),
        ([{"type": "alert", "text": plain("x")}], "/blocks/0/type"),
        ("text", "/blocks"),
    ],
)
def test_what_is_not_block_kit(blocks, problem):
    """Duplicates, unknown types, empty and missing parts are named by their pointer."""
    assert [each for each in check_blocks(blocks) if each.endswith(f"[json-pointer:{problem}]")]


def test_a_modal_with_an_input_needs_a_submit():
    """And its title fits in 24 characters."""
    entry = {"type": "input", "label": plain("L"), "element": {"type": "plain_text_input"}}
    view = {"type": "modal", "title": plain("x" * 25), "blocks": [entry]}
    assert check_view(view) == [
        "must be less than 25 characters [json-pointer:/view/title/text]",
        "missing required field: submit [json-pointer:/view]",
    ]


def test_all_text_counts_towards_the_total():
    """Sections, fields, buttons and headers alike."""
    blocks = [{"type": "header", "text": plain("12345")}, actions(button("678", value="no text"))]
    assert text_total(blocks) == 8
