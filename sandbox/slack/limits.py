"""What Slack accepts as Block Kit: lengths, counts and required fields, reported as Slack reports them.

`check_blocks` and `check_view` return messages such as
`must be less than 3001 characters [json-pointer:/blocks/0/text/text]`; empty means accepted. Figures are
those of Slack's reference and of the validators in its SDKs; the total of 13,200 characters is undocumented
(slackapi/bolt-js#2509).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.slack.elements import Report, check_element, check_text

TOTAL_TEXT = 13_200
BLOCKS = {"message": 50, "modal": 100, "home": 100}
_MARKDOWN_TOTAL = 12_000


def check_blocks(blocks: Any, surface: str = "message", at: str = "/blocks") -> list[str]:
    """Problems of a list of blocks on a message, modal or home surface."""
    report = Report()
    if not isinstance(blocks, list):
        report.add("must be an array", at)
        return report.messages
    report.at_most(blocks, BLOCKS[surface], at)
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        pointer = f"{at}/{index}"
        if not isinstance(block, dict) or "type" not in block:
            report.add("missing required field: type", pointer)
            continue
        _check_block_id(block, seen, pointer, report)
        check = _BLOCKS.get(block["type"])
        if check is None or (block["type"] == "alert" and surface != "modal"):
            report.add(f"unsupported type: {block['type']}", f"{pointer}/type")
            continue
        check(block, pointer, report)
        _check_action_ids(block, pointer, report)
    _check_totals(blocks, at, report)
    return report.messages


def text_total(blocks: list[Any]) -> int:
    """Characters of all text in the blocks, as the undocumented total counts them."""

    def count(value: Any) -> int:
        if isinstance(value, dict):
            return sum(len(v) if k == "text" and isinstance(v, str) else count(v) for k, v in value.items())
        return sum(count(each) for each in value) if isinstance(value, list) else 0

    return count(blocks)


def check_view(view: Any) -> list[str]:
    """Problems of a modal or Home view."""
    report = Report()
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        report.add("missing required field: type", "/view")
        return report.messages
    if view["type"] == "modal":
        check_text(view.get("title"), 24, "/view/title", report, plain=True)
        for name in ("submit", "close"):
            if name in view:
                check_text(view[name], 24, f"/view/{name}", report, plain=True)
        has_input = any(isinstance(b, dict) and b.get("type") == "input" for b in view.get("blocks", ()))
        if has_input and "submit" not in view:
            report.add("missing required field: submit", "/view")
    report.length(view.get("private_metadata", ""), 3000, "/view/private_metadata")
    report.length(view.get("callback_id", ""), 255, "/view/callback_id")
    return report.messages + check_blocks(view.get("blocks"), view["type"], "/view/blocks")


def _check_block_id(block: dict[str, Any], seen: set[str], at: str, report: Report) -> None:
    block_id = block.get("block_id")
    if block_id is None:
        return
    report.length(block_id, 255, f"{at}/block_id")
    if block_id in seen:
        report.add(f"`block_id` value {block_id!r} must be unique", f"{at}/block_id")
    seen.add(block_id)


def _check_action_ids(block: dict[str, Any], at: str, report: Report) -> None:
    seen: set[str] = set()
    for index, element in enumerate(block.get("elements") or ()):
        action_id = element.get("action_id") if isinstance(element, dict) else None
        if action_id is None:
            continue
        if action_id in seen:
            report.add(f"`action_id` value {action_id!r} must be unique", f"{at}/elements/{index}/action_id")
        seen.add(action_id)


def _check_totals(blocks: list[Any], at: str, report: Report) -> None:
    known = [block for block in blocks if isinstance(block, dict)]
    markdown = sum(len(str(b.get("text", ""))) for b in known if b.get("type") == "markdown")
    if markdown > _MARKDOWN_TOTAL:
        report.add(f"must be less than {_MARKDOWN_TOTAL + 1} characters", at)
    if sum(1 for b in known if b.get("type") == "data_visualization") > 2:
        report.add("no more than 2 data_visualization blocks allowed", at)


def _section(block: dict[str, Any], at: str, report: Report) -> None:
    fields = block.get("fields")
    if block.get("text") is None and not fields:
        report.add("missing required field: text or fields", at)
    if block.get("text") is not None:
        check_text(block["text"], 3000, f"{at}/text", report)
    if fields is not None:
        report.at_most(fields, 10, f"{at}/fields")
        for index, each in enumerate(fields):
            check_text(each, 2000, f"{at}/fields/{index}", report)
    if block.get("accessory") is not None:
        check_element(block["accessory"], f"{at}/accessory", report)


def _header(block: dict[str, Any], at: str, report: Report) -> None:
    check_text(block.get("text"), 150, f"{at}/text", report, plain=True)


def _context(block: dict[str, Any], at: str, report: Report) -> None:
    elements = report.required_list(block, "elements", 10, at)
    for index, element in enumerate(elements):
        pointer = f"{at}/elements/{index}"
        if isinstance(element, dict) and element.get("type") == "image":
            _image(element, pointer, report)
        else:
            check_text(element, 3000, pointer, report)


def _actions(block: dict[str, Any], at: str, report: Report) -> None:
    for index, element in enumerate(report.required_list(block, "elements", 25, at)):
        check_element(element, f"{at}/elements/{index}", report)


def _image(block: dict[str, Any], at: str, report: Report) -> None:
    if not block.get("alt_text"):
        report.add("missing required field: alt_text", at)
    report.length(block.get("alt_text", ""), 2000, f"{at}/alt_text")
    if not block.get("image_url") and not block.get("slack_file"):
        report.add("missing required field: image_url", at)
    report.length(block.get("image_url", ""), 3000, f"{at}/image_url")


def _input(block: dict[str, Any], at: str, report: Report) -> None:
    check_text(block.get("label"), 2000, f"{at}/label", report, plain=True)
    if block.get("hint") is not None:
        check_text(block["hint"], 2000, f"{at}/hint", report, plain=True)
    check_element(block.get("element"), f"{at}/element", report)


def _markdown(block: dict[str, Any], at: str, report: Report) -> None:
    if not isinstance(block.get("text"), str) or not block["text"]:
        report.add("missing required field: text", at)


def _table(block: dict[str, Any], at: str, report: Report) -> None:
    rows = report.required_list(block, "rows", 100, at)
    for index, row in enumerate(rows):
        if not isinstance(row, list):
            report.add("must be an array", f"{at}/rows/{index}")
            continue
        report.at_most(row, 20, f"{at}/rows/{index}")


def _data_table(block: dict[str, Any], at: str, report: Report) -> None:
    if not block.get("caption"):
        report.add("missing required field: caption", at)
    rows = report.required_list(block, "rows", 101, at)
    if len(rows) == 1:
        report.add("no less than 2 items allowed", f"{at}/rows")
    for index, row in enumerate(rows):
        report.at_most(row, 20, f"{at}/rows/{index}")
        if isinstance(row, list) and isinstance(rows[0], list) and len(row) != len(rows[0]):
            report.add("must have as many cells as the header", f"{at}/rows/{index}")
    if text_total([block]) > 20_000:
        report.add("must be less than 20001 characters", at)


def _chart(block: dict[str, Any], at: str, report: Report) -> None:
    report.length(block.get("title", ""), 50, f"{at}/title")
    if not isinstance(block.get("chart"), dict) or block["chart"].get("type") not in (
        "line",
        "bar",
        "area",
        "pie",
    ):
        report.add("missing required field: chart", at)


def _alert(block: dict[str, Any], at: str, report: Report) -> None:
    check_text(block.get("text"), 200, f"{at}/text", report)


def _anything(_block: dict[str, Any], _at: str, _report: Report) -> None:
    """Dividers have no content; rich text is taken as it comes."""


_BLOCKS: dict[str, Callable[[dict[str, Any], str, Report], None]] = {
    "section": _section,
    "header": _header,
    "context": _context,
    "actions": _actions,
    "image": _image,
    "input": _input,
    "markdown": _markdown,
    "table": _table,
    "data_table": _data_table,
    "data_visualization": _chart,
    "alert": _alert,
    "divider": _anything,
    "rich_text": _anything,
}
