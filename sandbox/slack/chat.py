"""chat.* and reactions.add."""

from __future__ import annotations

from typing import Any

from sandbox.slack.call import Call, Method
from sandbox.slack.errors import SlackError
from sandbox.slack.limits import TOTAL_TEXT, check_blocks, text_total
from sandbox.slack.spec import Channel
from sandbox.slack.state import Message

_TEXT_CUT = 40_000
_UPDATE_TEXT = 4_000


def message_content(call: Call) -> dict[str, Any]:
    """The checked `text`, `blocks` and `metadata` of a post; raises SlackError as Slack would."""
    text = call.text("text")
    blocks = call.decoded("blocks", "invalid_blocks_format")
    content: dict[str, Any] = {"text": text[:_TEXT_CUT]}
    if blocks is not None:
        check_message_blocks(blocks)
        content["blocks"] = [with_ids(block, call.state.next_id) for block in blocks]
    attachments = call.decoded("attachments", "invalid_attachments")
    if attachments:
        content["attachments"] = attachments
    if not text and not blocks and not attachments:
        raise SlackError("no_text")
    metadata = call.decoded("metadata", "invalid_metadata_format")
    if metadata is not None:
        if not isinstance(metadata, dict) or not {"event_type", "event_payload"} <= set(metadata):
            raise SlackError("invalid_metadata_schema")
        content["metadata"] = metadata
    return content


def check_message_blocks(blocks: Any) -> None:
    """Refuse blocks that Slack refuses on a message."""
    problems = check_blocks(blocks)
    if problems:
        messages = [f"[ERROR] {problem}" for problem in problems]
        raise SlackError("invalid_blocks", errors=problems, response_metadata={"messages": messages})
    if text_total(blocks) > TOTAL_TEXT:
        raise SlackError("msg_blocks_too_long")


def with_ids(block: dict[str, Any], next_id: Any) -> dict[str, Any]:
    """The block with the ids Slack makes up where the app gave none."""
    block = {**block, "block_id": block.get("block_id") or next_id("b")}
    if block.get("elements") and block["type"] == "actions":
        block["elements"] = [
            {**each, "action_id": each.get("action_id") or next_id("a")} for each in block["elements"]
        ]
    if isinstance(block.get("accessory"), dict) and block["accessory"].get("type") != "image":
        accessory = block["accessory"]
        block["accessory"] = {**accessory, "action_id": accessory.get("action_id") or next_id("a")}
    return block


def target(call: Call) -> Channel:
    """The conversation to post to: an id, a #name, or a person's id for a direct message."""
    wanted = call.text("channel", required=True)
    state = call.state
    person = state.people.get(wanted)
    if person is not None:
        if person.kind in ("deactivated", "bot"):
            raise SlackError("channel_not_found")
        return state.direct_channel(wanted)
    try:
        channel = state.channel(wanted)
    except KeyError as error:
        raise SlackError("channel_not_found") from error
    inside = state.app_is_in(channel)
    if channel.kind != "public" and not inside:
        raise SlackError("channel_not_found")
    if channel.archived:
        raise SlackError("is_archived")
    if not inside and "chat:write.public" not in state.manifest.scopes:
        raise SlackError("not_in_channel")
    return channel


def app_message(call: Call, content: dict[str, Any]) -> Message:
    """The content signed by the app."""
    app = call.state.spec.app
    return {
        "user": app.bot_user,
        "bot_id": app.bot_id,
        "app_id": app.id,
        "team": call.state.spec.team.id,
        **content,
    }


def _post(call: Call) -> dict[str, Any]:
    channel = target(call)
    content = message_content(call)
    thread_ts = call.text("thread_ts")
    if thread_ts and call.flag("reply_broadcast"):
        content["subtype"] = "thread_broadcast"
    message = call.state.add_message(channel, app_message(call, content), thread_ts)
    answer = {"ok": True, "channel": channel.id, "ts": message["ts"], "message": message}
    if len(call.text("text")) > _TEXT_CUT:
        answer["warning"] = "message_truncated"
    return answer


def _own(call: Call, refusal: str) -> tuple[Channel, str, Message]:
    channel = call.conversation()
    if channel.archived:
        raise SlackError("is_archived")
    ts = call.text("ts", required=True)
    message = call.state.messages[channel.id].get(ts)
    if message is None:
        raise SlackError("message_not_found")
    if message.get("bot_id") != call.state.spec.app.bot_id or message.get("subtype") == "tombstone":
        raise SlackError(refusal)
    return channel, ts, message


def _update(call: Call) -> dict[str, Any]:
    channel, ts, message = _own(call, "cant_update_message")
    if len(call.text("text")) > _UPDATE_TEXT:
        raise SlackError("msg_too_long")
    content = message_content(call)
    if "blocks" in content and not content["blocks"]:
        content["blocks"] = None
    if content["text"] != message.get("text"):
        content["edited"] = {"user": call.state.spec.app.bot_user, "ts": call.state.next_ts()}
    changed = call.state.change_message(channel, ts, content)
    return {"ok": True, "channel": channel.id, "ts": ts, "text": changed["text"], "message": changed}


def _delete(call: Call) -> dict[str, Any]:
    channel, ts, _message = _own(call, "cant_delete_message")
    call.state.remove_message(channel, ts)
    return {"ok": True, "channel": channel.id, "ts": ts}


def _post_ephemeral(call: Call) -> dict[str, Any]:
    channel = target(call)
    user = call.text("user", required=True)
    person = call.state.people.get(user)
    if person is None or not person.active or user not in channel.members:
        raise SlackError("user_not_in_channel")
    content = message_content(call)
    content.pop("metadata", None)
    thread_ts = call.text("thread_ts")
    if thread_ts:
        content["thread_ts"] = thread_ts
    message = call.state.add_ephemeral(user, channel.id, app_message(call, content))
    return {"ok": True, "message_ts": message["ts"]}


def _permalink(call: Call) -> dict[str, Any]:
    channel = call.conversation()
    ts = call.text("message_ts", required=True)
    if ts not in call.state.messages[channel.id]:
        raise SlackError("message_not_found")
    link = f"{call.state.address}/archives/{channel.id}/p{ts.replace('.', '')}"
    return {"ok": True, "channel": channel.id, "permalink": link}


def _react(call: Call) -> dict[str, Any]:
    channel = call.conversation()
    ts = call.text("timestamp", required=True)
    message = call.state.messages[channel.id].get(ts)
    if message is None:
        raise SlackError("message_not_found")
    name = call.text("name", required=True).strip(":")
    user = call.state.spec.app.bot_user
    reactions: list[dict[str, Any]] = [dict(each) for each in message.get("reactions", ())]
    known = next((each for each in reactions if each["name"] == name), None)
    if known is None:
        reactions.append({"name": name, "users": [user], "count": 1})
    elif user in known["users"]:
        raise SlackError("already_reacted")
    else:
        known.update(users=[*known["users"], user], count=known["count"] + 1)
    call.state.change_message(channel, ts, {"reactions": reactions})
    return {"ok": True}


METHODS = {
    "chat.postMessage": Method(_post, 4, ("chat:write",), mutating=True),
    "chat.update": Method(_update, 3, ("chat:write",), mutating=True),
    "chat.delete": Method(_delete, 3, ("chat:write",), mutating=True),
    "chat.postEphemeral": Method(_post_ephemeral, 4, ("chat:write",), mutating=True),
    "chat.getPermalink": Method(_permalink, 4),
    "reactions.add": Method(_react, 3, ("reactions:write",), mutating=True),
}
