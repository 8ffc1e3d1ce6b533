"""views.*: modals (a stack of three) and the Home tab."""

from __future__ import annotations

from typing import Any

from sandbox.slack.call import Call, Method
from sandbox.slack.chat import with_ids
from sandbox.slack.errors import SlackError
from sandbox.slack.limits import check_view
from sandbox.slack.state import OpenView, State

_STACK = 3


def checked_view(view: Any) -> dict[str, Any]:
    """The view, or SlackError invalid_arguments with pointers."""
    problems = check_view(view)
    if problems:
        messages = [f"[ERROR] {problem}" for problem in problems]
        raise SlackError("invalid_arguments", response_metadata={"messages": messages})
    checked: dict[str, Any] = view
    return checked


def open_view(state: State, person_id: str, view: dict[str, Any], previous: str = "") -> dict[str, Any]:
    """Show a view to somebody, on top of `previous`; returns the view as the API shows it."""
    view_id = state.next_id("V")
    root = state.views[previous].view["root_view_id"] if previous else view_id
    shown = _view_object(state, view, view_id)
    shown |= {"root_view_id": root, "previous_view_id": previous or None}
    state.views[view_id] = OpenView(person_id, shown)
    state.publish({"type": "views", "person": person_id})
    return shown


def update_view(state: State, view_id: str, view: dict[str, Any]) -> dict[str, Any]:
    """Replace what a view shows; the root and the previous view stay."""
    opened = state.views[view_id]
    kept = {key: opened.view[key] for key in ("root_view_id", "previous_view_id")}
    opened.view = _view_object(state, view, view_id) | kept
    opened.errors = {}
    state.publish({"type": "views", "person": opened.person})
    return opened.view


def close_view(state: State, view_id: str, *, whole_stack: bool = False) -> None:
    """Take a view from the screen, or all of its stack."""
    opened = state.views.get(view_id)
    if opened is None:
        return
    root = opened.view["root_view_id"]
    for other in list(state.views):
        if other == view_id or (whole_stack and state.views[other].view["root_view_id"] == root):
            del state.views[other]
    state.publish({"type": "views", "person": opened.person})


def _view_object(state: State, view: dict[str, Any], view_id: str) -> dict[str, Any]:
    app = state.spec.app
    return {
        "private_metadata": "",
        "callback_id": "",
        "clear_on_close": False,
        "notify_on_close": False,
        "external_id": "",
        "submit": None,
        "close": None,
        **view,
        "id": view_id,
        "team_id": state.spec.team.id,
        "app_id": app.id,
        "bot_id": app.bot_id,
        "app_installed_team_id": state.spec.team.id,
        "hash": f"{state.next_ts()}.{view_id}",
        "state": {"values": {}},
        "blocks": [with_ids(block, state.next_id) for block in view["blocks"]],
    }


def _given_view(call: Call) -> dict[str, Any]:
    return checked_view(call.decoded("view", "invalid_arguments"))


def _no_duplicate(call: Call, view: dict[str, Any], but: str = "") -> None:
    external = view.get("external_id")
    taken = {o.view["external_id"] for key, o in call.state.views.items() if key != but}
    if external and external in taken:
        raise SlackError("duplicate_external_id")


def _open(call: Call) -> dict[str, Any]:
    view = _given_view(call)
    if view["type"] != "modal":
        raise SlackError("invalid_arguments")
    _no_duplicate(call, view)
    person_id = call.state.triggers.exchange(call.text("trigger_id", required=True))
    return {"ok": True, "view": open_view(call.state, person_id, view)}


def _push(call: Call) -> dict[str, Any]:
    view = _given_view(call)
    _no_duplicate(call, view)
    person_id = call.state.triggers.exchange(call.text("trigger_id", required=True))
    stack = [o.view for o in call.state.views.values() if o.person == person_id and o.view["type"] == "modal"]
    if not stack:
        raise SlackError("not_found")
    if len(stack) >= _STACK:
        raise SlackError("push_limit_reached")
    return {"ok": True, "view": open_view(call.state, person_id, view, stack[-1]["id"])}


def _update(call: Call) -> dict[str, Any]:
    view_id, external = call.text("view_id"), call.text("external_id")
    if not view_id:
        view_id = next(
            (k for k, o in call.state.views.items() if external and o.view["external_id"] == external), ""
        )
    opened = call.state.views.get(view_id)
    if opened is None:
        raise SlackError("not_found")
    wanted = call.text("hash")
    if wanted and wanted != opened.view["hash"]:
        raise SlackError("hash_conflict")
    view = _given_view(call)
    _no_duplicate(call, view, but=view_id)
    return {"ok": True, "view": update_view(call.state, view_id, view)}


def _publish(call: Call) -> dict[str, Any]:
    view = _given_view(call)
    person = call.state.people.get(call.text("user_id", required=True))
    if person is None or not person.active:
        raise SlackError("user_not_found")
    if not call.state.manifest.home_tab:
        raise SlackError("not_enabled")
    if view["type"] != "home":
        raise SlackError("invalid_arguments")
    for view_id, opened in list(call.state.views.items()):
        if opened.person == person.id and opened.view["type"] == "home":
            return {"ok": True, "view": update_view(call.state, view_id, view)}
    return {"ok": True, "view": open_view(call.state, person.id, view)}


METHODS = {
    "views.open": Method(_open, 4, mutating=True),
    "views.push": Method(_push, 4, mutating=True),
    "views.update": Method(_update, 4, mutating=True),
    "views.publish": Method(_publish, 4, mutating=True),
}
