"""conversations.*, users.* and usergroups.*: who and what there is."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from sandbox.slack.call import ACCESS_SCOPE, Call, Method, page_of
from sandbox.slack.errors import SlackError
from sandbox.slack.spec import Channel, Person
from sandbox.slack.state import Message, State

_KIND_OF_TYPE = {"public_channel": "public", "private_channel": "private", "im": "im"}


def channel_object(state: State, channel: Channel) -> dict[str, Any]:
    """A conversation as the API shows it."""
    common = {"id": channel.id, "created": channel.created, "is_archived": channel.archived}
    if channel.kind == "im":
        user = next(m for m in channel.members if m != state.spec.app.bot_user)
        return {**common, "is_im": True, "user": user}
    return {
        **common,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": channel.kind == "public",
        "is_group": channel.kind == "private",
        "is_im": False,
        "is_mpim": False,
        "is_private": channel.kind == "private",
        "is_general": False,
        "is_shared": False,
        "is_ext_shared": any(state.people[m].kind == "external" for m in channel.members),
        "is_member": state.app_is_in(channel),
        "topic": {"value": channel.topic, "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0},
        "num_members": len(channel.members),
    }


def user_object(state: State, person: Person) -> dict[str, Any]:
    """A user as the API shows it."""
    bot = person.kind == "bot"
    offset = state.world.now.astimezone(ZoneInfo(person.zone)).utcoffset()
    profile = {"real_name": person.real_name, "display_name": person.name, "team": state.spec.team.id}
    if not bot and "users:read.email" in state.manifest.scopes:
        profile["email"] = person.email
    user: dict[str, Any] = {
        "id": person.id,
        "team_id": "T0EXTERNAL" if person.kind == "external" else state.spec.team.id,
        "name": person.name,
        "real_name": person.real_name,
        "deleted": person.kind == "deactivated",
        "profile": profile,
        "is_bot": bot,
        "is_app_user": False,
        "updated": 0,
    }
    if person.kind != "deactivated":
        user |= {
            "tz": person.zone,
            "tz_label": person.zone,
            "tz_offset": int(offset.total_seconds()) if offset else 0,
            "is_admin": person.kind in ("admin", "owner"),
            "is_owner": person.kind == "owner",
            "is_primary_owner": person.kind == "owner",
            "is_restricted": person.kind == "guest",
            "is_ultra_restricted": False,
        }
    if person.kind == "external":
        user["is_stranger"] = True
    return user


def _types(call: Call) -> list[str]:
    wanted = [t.strip() for t in (call.text("types") or "public_channel").split(",")]
    if not set(wanted) <= {*_KIND_OF_TYPE, "mpim"}:
        raise SlackError("invalid_types")
    kinds = [_KIND_OF_TYPE[t] for t in wanted if t in _KIND_OF_TYPE]
    for kind in kinds:
        call.need(f"{ACCESS_SCOPE[kind]}:read")
    return kinds


def _list(call: Call) -> dict[str, Any]:
    kinds = _types(call)
    state = call.state
    found = [c for c in state.channels.values() if c.kind in kinds]
    found = [c for c in found if c.kind == "public" or state.app_is_in(c)]
    if call.flag("exclude_archived"):
        found = [c for c in found if not c.archived]
    page, metadata = page_of(found, call, 100, 1000)
    channels = [channel_object(state, c) for c in page]
    return {"ok": True, "channels": channels, "response_metadata": metadata}


def _info(call: Call) -> dict[str, Any]:
    channel = call.conversation()
    call.need_access(channel, "read")
    return {"ok": True, "channel": channel_object(call.state, channel)}


def _members(call: Call) -> dict[str, Any]:
    channel = call.conversation()
    call.need_access(channel, "read")
    page, metadata = page_of(sorted(channel.members), call, 100, 1000)
    return {"ok": True, "members": page, "response_metadata": metadata}


def _open(call: Call) -> dict[str, Any]:
    given = call.arguments.get("users")
    users = (
        [str(u) for u in given] if isinstance(given, list) else call.text("users", required=True).split(",")
    )
    if len(users) != 1:
        call.need("mpim:write")
        raise SlackError("not_enough_users" if not users else "too_many_users")
    call.need("im:write")
    person = call.state.people.get(users[0].strip())
    if person is None:
        raise SlackError("user_not_found")
    if person.kind == "deactivated":
        raise SlackError("user_disabled")
    if person.kind == "bot":
        raise SlackError("cannot_dm_bot")
    return {"ok": True, "channel": channel_object(call.state, call.state.direct_channel(person.id))}


def _shown(call: Call, message: Message) -> Message:
    if call.flag("include_all_metadata"):
        return message
    return {key: value for key, value in message.items() if key != "metadata"}


def _between(call: Call, messages: list[Message]) -> list[Message]:
    oldest, latest = call.text("oldest") or "0", call.text("latest") or "9999999999"
    inclusive = call.flag("inclusive")
    return [
        m
        for m in messages
        if float(oldest) < float(m["ts"]) < float(latest) or (inclusive and m["ts"] in (oldest, latest))
    ]


def _readable(call: Call) -> Channel:
    channel = call.conversation()
    call.need_access(channel, "history")
    if not call.state.app_is_in(channel):
        raise SlackError("not_in_channel")
    return channel


def _history(call: Call) -> dict[str, Any]:
    channel = _readable(call)
    shown = [
        m
        for m in call.state.messages[channel.id].values()
        if m.get("thread_ts", m["ts"]) == m["ts"] or m.get("subtype") == "thread_broadcast"
    ]
    page, metadata = page_of(_between(call, shown)[::-1], call, 100, 999)
    return {
        "ok": True,
        "messages": [_shown(call, m) for m in page],
        "has_more": bool(metadata["next_cursor"]),
        "response_metadata": metadata,
    }


def _replies(call: Call) -> dict[str, Any]:
    channel = _readable(call)
    ts = call.text("ts", required=True)
    thread = call.state.replies(channel, ts)
    if not thread:
        raise SlackError("thread_not_found")
    root, rest = thread[:1], _between(call, thread[1:])
    page, metadata = page_of(root + rest, call, 1000, 1000)
    return {
        "ok": True,
        "messages": [_shown(call, m) for m in page],
        "has_more": bool(metadata["next_cursor"]),
        "response_metadata": metadata,
    }


def _user_info(call: Call) -> dict[str, Any]:
    person = call.state.people.get(call.text("user", required=True))
    if person is None:
        raise SlackError("user_not_found")
    return {"ok": True, "user": user_object(call.state, person)}


def _user_list(call: Call) -> dict[str, Any]:
    page, metadata = page_of(list(call.state.people.values()), call, 200, 1000)
    members = [user_object(call.state, person) for person in page]
    return {"ok": True, "members": members, "response_metadata": metadata}


def _lookup(call: Call) -> dict[str, Any]:
    email = call.text("email", required=True).lower()
    for person in call.state.people.values():
        if person.email and person.email.lower() == email and person.kind != "deactivated":
            return {"ok": True, "user": user_object(call.state, person)}
    raise SlackError("users_not_found")


def _usergroups(call: Call) -> dict[str, Any]:
    groups = []
    for group in call.state.usergroups.values():
        shown: dict[str, Any] = {
            "id": group.id,
            "team_id": call.state.spec.team.id,
            "is_usergroup": True,
            "name": group.name,
            "handle": group.handle,
            "date_delete": 0,
            "user_count": len(group.members),
        }
        if call.flag("include_users"):
            shown["users"] = list(group.members)
        groups.append(shown)
    return {"ok": True, "usergroups": groups}


def _usergroup_members(call: Call) -> dict[str, Any]:
    group = call.state.usergroups.get(call.text("usergroup", required=True))
    if group is None:
        raise SlackError("no_such_subteam")
    return {"ok": True, "users": list(group.members)}


def _join(call: Call) -> dict[str, Any]:
    channel = call.conversation()
    if channel.kind != "public":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    channel.members.add(call.state.spec.app.bot_user)
    call.state.publish({"type": "channels"})
    return {"ok": True, "channel": channel_object(call.state, channel)}


METHODS = {
    "conversations.list": Method(_list, 2),
    "conversations.info": Method(_info, 3),
    "conversations.members": Method(_members, 4),
    "conversations.open": Method(_open, 3, mutating=True),
    "conversations.join": Method(_join, 3, ("channels:join",), mutating=True),
    "conversations.history": Method(_history, 3),
    "conversations.replies": Method(_replies, 3),
    "users.info": Method(_user_info, 4, ("users:read",)),
    "users.list": Method(_user_list, 2, ("users:read",)),
    "users.lookupByEmail": Method(_lookup, 3, ("users:read.email",)),
    "usergroups.list": Method(_usergroups, 2, ("usergroups:read",)),
    "usergroups.users.list": Method(_usergroup_members, 2, ("usergroups:read",)),
}
