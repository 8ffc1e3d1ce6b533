"""Limits of Block Kit elements (buttons, menus, inputs) and of the objects inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_OPTION_LIMITS = {
    "static_select": 100,
    "multi_static_select": 100,
    "overflow": 5,
    "checkboxes": 10,
    "radio_buttons": 10,
}
_OTHER_INPUTS = (
    "plain_text_input",
    "number_input",
    "email_text_input",
    "url_text_input",
    "datepicker",
    "timepicker",
    "datetimepicker",
    "users_select",
    "multi_users_select",
    "channels_select",
    "conversations_select",
    "multi_conversations_select",
    "rich_text_input",
)


class Report:
    """Collects problems with JSON pointers, in Slack's words."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, problem: str, at: str) -> None:
        """Note a problem at a JSON pointer."""
        self.messages.append(f"{problem} [json-pointer:{at}]")

    def length(self, value: Any, limit: int, at: str) -> None:
        """A string of at most `limit` characters."""
        if not isinstance(value, str):
            self.add("must be a string", at)
        elif len(value) > limit:
            self.add(f"must be less than {limit + 1} characters", at)

    def at_most(self, items: Any, limit: int, at: str) -> None:
        """A list of at most `limit` items."""
        if not isinstance(items, list):
            self.add("must be an array", at)
        elif len(items) > limit:
            self.add(f"no more than {limit} items allowed", at)

    def required_list(self, owner: dict[str, Any], name: str, limit: int, at: str) -> list[Any]:
        """A list with at least one and at most `limit` items; empty where it is not one."""
        items = owner.get(name)
        if not isinstance(items, list) or not items:
            self.add(f"missing required field: {name}", at)
            return []
        self.at_most(items, limit, f"{at}/{name}")
        return items


def check_text(value: Any, limit: int, at: str, report: Report, *, plain: bool = False) -> None:
    """A text object with 1 to `limit` characters; `plain` where only plain_text is allowed."""
    allowed = ("plain_text",) if plain else ("plain_text", "mrkdwn")
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        report.add("missing required field: text", at)
        return
    if value.get("type") not in allowed:
        report.add(f"unsupported type: {value.get('type')}", f"{at}/type")
    if not value["text"]:
        report.add("must be more than 0 characters", f"{at}/text")
    report.length(value["text"], limit, f"{at}/text")


def check_element(element: Any, at: str, report: Report) -> None:
    """An interactive element, or an image as an accessory."""
    kind = element.get("type") if isinstance(element, dict) else None
    if kind in _OPTION_LIMITS:
        check: Callable[[dict[str, Any], str, Report], None] = _options
    elif kind in _OTHER_INPUTS:
        check = _input
    elif kind == "button":
        check = _button
    elif kind == "image":
        check = _image
    else:
        report.add(f"unsupported type: {kind}", f"{at}/type")
        return
    report.length(element.get("action_id", ""), 255, f"{at}/action_id")
    check(element, at, report)
    if element.get("confirm") is not None:
        _confirm(element["confirm"], f"{at}/confirm", report)


def _button(element: dict[str, Any], at: str, report: Report) -> None:
    check_text(element.get("text"), 75, f"{at}/text", report, plain=True)
    report.length(element.get("value", ""), 2000, f"{at}/value")
    report.length(element.get("url", ""), 3000, f"{at}/url")
    if element.get("style", "primary") not in ("primary", "danger"):
        report.add("must be one of: primary, danger", f"{at}/style")


def _image(element: dict[str, Any], at: str, report: Report) -> None:
    if not element.get("alt_text"):
        report.add("missing required field: alt_text", at)


def _input(element: dict[str, Any], at: str, report: Report) -> None:
    if element.get("placeholder") is not None:
        check_text(element["placeholder"], 150, f"{at}/placeholder", report, plain=True)
    if element["type"] == "plain_text_input":
        report.length(element.get("initial_value", ""), 3000, f"{at}/initial_value")


def _options(element: dict[str, Any], at: str, report: Report) -> None:
    _input(element, at, report)
    options = element.get("options")
    if options is None and element.get("option_groups"):
        options = [option for group in element["option_groups"] for option in group.get("options", ())]
    if not isinstance(options, list) or not options:
        report.add("missing required field: options", at)
        return
    report.at_most(options, _OPTION_LIMITS[element["type"]], f"{at}/options")
    for index, option in enumerate(options):
        pointer = f"{at}/options/{index}"
        if not isinstance(option, dict):
            report.add("must be an object", pointer)
            continue
        check_text(option.get("text"), 75, f"{pointer}/text", report)
        report.length(option.get("value"), 150, f"{pointer}/value")


def _confirm(confirm: Any, at: str, report: Report) -> None:
    if not isinstance(confirm, dict):
        report.add("must be an object", at)
        return
    check_text(confirm.get("title"), 100, f"{at}/title", report, plain=True)
    check_text(confirm.get("text"), 300, f"{at}/text", report)
    for name in ("confirm", "deny"):
        if name in confirm:
            check_text(confirm[name], 30, f"{at}/{name}", report, plain=True)
