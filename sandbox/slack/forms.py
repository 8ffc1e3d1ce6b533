"""What a client does with a form before it sends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.slack.payloads import element_value


def form_inputs(view: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(block, element) of every input."""
    for block in view["blocks"]:
        if block["type"] == "input":
            element = block["element"]
            yield block, {**element, "action_id": element.get("action_id") or block["block_id"]}


def _given(block: dict[str, Any], element: dict[str, Any], values: Mapping[str, Any]) -> Any:
    for key in (element["action_id"], block["block_id"]):
        if key in values:
            return values[key]
    return initial_value(element)


def initial_value(element: dict[str, Any]) -> Any:
    """What the element holds before anybody touches it."""
    if "initial_option" in element:
        return element["initial_option"]["value"]
    if "initial_options" in element:
        return [option["value"] for option in element["initial_options"]]
    for key in ("initial_value", "initial_date", "initial_time", "initial_user", "initial_channel"):
        if key in element:
            return element[key]
    return ""


def form_errors(view: dict[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """block_id → what the client itself objects to."""
    errors = {}
    for block, element in form_inputs(view):
        value = _given(block, element, values)
        if not value and not block.get("optional"):
            errors[block["block_id"]] = "Please complete this required field."
        elif isinstance(value, str) and value:
            least, most = element.get("min_length", 0), element.get("max_length", 3000)
            if len(value) < least:
                errors[block["block_id"]] = f"Please enter at least {least} characters."
            elif len(value) > most:
                errors[block["block_id"]] = f"Please enter at most {most} characters."
    return errors


def form_state(view: dict[str, Any], values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`view.state.values`: block_id → action_id → what is in the field."""
    return {
        block["block_id"]: {
            element["action_id"]: {"type": element["type"]}
            | element_value(element, _given(block, element, values))
        }
        for block, element in form_inputs(view)
    }
