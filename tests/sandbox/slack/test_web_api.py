"""The Web API through Slack's unmodified SDK: what it does, and what it refuses."""

from __future__ import annotations

import copy
import http.client
import time
import urllib.error
from datetime import timedelta

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookClient


def sdk(workspace, token="xoxb-sandbox"):
    """Slack's SDK without retries of its own."""
    return WebClient(token=token, base_url=workspace.api_url, timeout=5, retry_handlers=[])


def section(text, **more):
    """A section block."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def button(text, action_id, **more):
    """A button element."""
    return {
        "type": "button",
        "text": {"type": "plain_text", "text": text},
        "action_id": action_id,
        **more,
    }


def test_a_post_is_seen_with_a_timestamp_of_world_time(client, workspace, world):
    """ts is the world's time and never repeats, although the stepped world stands still."""
    first = client.chat_postMessage(channel="C1", text="one")
    second = client.chat_postMessage(channel="#experiments", text="two")

    assert float(first["ts"]) == world.now.timestamp()
    assert float(second["ts"]) > float(first["ts"])
    assert [m["text"] for m in workspace.messages("experiments")] == ["one", "two"]
    assert client.auth_test()["user_id"] == "U0QUARTERM"


def test_threads_count_their_replies(client, workspace):
    """A reply belongs to its root, stays out of the channel, and is found by conversations.replies."""
    root = client.chat_postMessage(channel="C1", text="card")["ts"]
    client.chat_postMessage(channel="C1", text="reply", thread_ts=root)

    assert [m["text"] for m in workspace.messages("C1")] == ["card"]
    assert workspace.messages("C1")[0]["reply_count"] == 1
    assert [m["text"] for m in client.conversations_replies(channel="C1", ts=root)["messages"]] == [
        "card",
        "reply",
    ]
    assert [m["text"] for m in client.conversations_history(channel="C1")["messages"]] == ["card"]


def test_metadata_is_shown_on_request_only(client):
    """A message is found again by its metadata, in pages."""
    for number in range(3):
        meta = {"event_type": "card", "event_payload": {"key": f"k{number}"}}
        client.chat_postMessage(channel="C1", text="x", metadata=meta)

    plain = client.conversations_history(channel="C1")["messages"]
    keys = [
        message["metadata"]["event_payload"]["key"]
        for page in client.conversations_history(channel="C1", include_all_metadata=True, limit=2)
        for message in page["messages"]
    ]
    assert all("metadata" not in message for message in plain)
    assert keys == ["k2", "k1", "k0"]


def test_an_update_edits_in_place_and_keeps_blocks_it_does_not_mention(client, workspace):
    """Text changes mark the message as edited; an empty list of blocks removes them."""
    ts = client.chat_postMessage(channel="C1", text="a", blocks=[section("hello")])["ts"]
    client.chat_update(channel="C1", ts=ts, text="b")
    kept = workspace.messages("C1")[0]["blocks"]
    client.chat_update(channel="C1", ts=ts, text="c", blocks=[])

    message = workspace.messages("C1")[0]
    assert kept[0]["text"]["text"] == "hello"
    assert (message["text"], "edited" in message, "blocks" in message) == ("c", True, False)


def test_what_cannot_be_updated(client, workspace, host, refused):
    """Others' messages, ephemerals and messages that are gone are refused."""
    host.call(workspace.say, "bob", "C1", "mine")
    theirs = workspace.messages("C1")[0]["ts"]
    private = client.chat_postEphemeral(channel="C1", user="U2", text="psst")["message_ts"]
    ours = client.chat_postMessage(channel="C1", text="a")["ts"]

    assert refused("chat.update", channel="C1", ts=theirs, text="x") == "cant_update_message"
    assert refused("chat.update", channel="C1", ts=private, text="x") == "message_not_found"
    assert refused("chat.update", channel="C1", ts=ours, text="x" * 4001) == "msg_too_long"
    assert refused("chat.delete", channel="C1", ts=theirs) == "cant_delete_message"
    client.chat_delete(channel="C1", ts=ours)
    assert refused("chat.update", channel="C1", ts=ours, text="x") == "message_not_found"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"channel": "C9", "text": "x"}, "channel_not_found"),
        ({"channel": "C3", "text": "x"}, "channel_not_found"),
        ({"channel": "C4", "text": "x"}, "is_archived"),
        ({"channel": "C1"}, "no_text"),
        ({"channel": "C1", "text": "x", "thread_ts": "1.000000"}, "thread_not_found"),
        ({"channel": "C1", "text": "x", "blocks": "[nonsense"}, "invalid_blocks_format"),
        ({"channel": "C1", "text": "x", "metadata": {"event_type": "a"}}, "invalid_metadata_schema"),
        ({"channel": "U5", "text": "x"}, "channel_not_found"),
    ],
)
def test_posts_slack_refuses(refused, arguments, code):
    """Where nobody may write, and content that is none."""
    assert refused("chat.postMessage", **arguments) == code


def test_public_channels_need_an_invitation_only_without_the_scope(make, manifest, client, refused):
    """chat:write.public lets the app write where it was not invited; reading still needs to be in."""
    assert client.chat_postMessage(channel="C2", text="hello")["ok"]
    assert refused("conversations.history", channel="C2") == "not_in_channel"
    less = copy.deepcopy(manifest)
    less["oauth_config"]["scopes"]["bot"].remove("chat:write.public")
    assert refused("chat.postMessage", sdk(make(manifest=less)), channel="C2", text="x") == "not_in_channel"


def test_a_public_channel_can_be_joined(client, refused):
    """From then on its history can be read; a private one needs an invitation."""
    assert client.conversations_join(channel="C2")["channel"]["is_member"]
    assert client.conversations_history(channel="C2")["ok"]
    assert refused("conversations.join", channel="C4") == "is_archived"
    assert refused("conversations.join", channel="C3") == "channel_not_found"


def test_long_text_is_cut(client, workspace):
    """At 40,000 characters, with a warning."""
    answer = client.chat_postMessage(channel="C1", text="x" * 40_001)
    assert answer["warning"] == "message_truncated"
    assert len(workspace.messages("C1")[0]["text"]) == 40_000


def test_blocks_over_a_limit_are_refused_with_a_pointer(client):
    """invalid_blocks says which and where; a total over 13,200 characters has its own code."""
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C1", text="x", blocks=[section("x" * 3001)])
    wanted = "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
    assert caught.value.response["error"] == "invalid_blocks"
    assert caught.value.response["response_metadata"]["messages"] == [f"[ERROR] {wanted}"]
    with pytest.raises(SlackApiError, match="msg_blocks_too_long"):
        client.chat_postMessage(channel="C1", text="x", blocks=[section("x" * 2700) for _ in range(5)])


def test_tokens(workspace, refused):
    """Unknown tokens, no token, and each token where the other belongs."""
    app, unknown, none = (sdk(workspace, token) for token in ("xapp-sandbox", "xoxb-who", None))
    assert refused("auth.test", unknown) == "invalid_auth"
    assert refused("auth.test", none) == "not_authed"
    assert refused("chat.postMessage", app, channel="C1", text="x") == "not_allowed_token_type"
    assert refused("apps.connections.open") == "not_allowed_token_type"
    assert refused("chat.postTelegram") == "unknown_method"
    assert app.apps_connections_open(app_token="xapp-sandbox")["url"].startswith("ws://127.0.0.1:")


def test_scopes_come_from_the_manifest(client):
    """What the manifest does not ask for is refused, saying what is needed and what there is."""
    with pytest.raises(SlackApiError) as caught:
        client.users_lookupByEmail(email="ada@lab.example")
    assert caught.value.response["error"] == "missing_scope"
    assert caught.value.response["needed"] == "users:read.email"
    assert "chat:write" in caught.value.response["provided"].split(",")


def test_people_and_groups(client, make, manifest):
    """Guests, external people, leavers and bots look like themselves; groups list their members."""
    users = {user["id"]: user for user in client.users_list()["members"]}
    assert (users["U1"]["is_admin"], users["U3"]["is_restricted"]) == (True, True)
    assert users["U4"]["team_id"] != users["U1"]["team_id"]
    assert (users["U5"]["deleted"], users["U0QUARTERM"]["is_bot"]) == (True, True)
    assert users["U2"]["tz_offset"] == 3600
    assert client.usergroups_users_list(usergroup="S1")["users"] == ["U1"]
    assert client.usergroups_list(include_users=True)["usergroups"][0]["users"] == ["U1"]
    more = copy.deepcopy(manifest)
    more["oauth_config"]["scopes"]["bot"].append("users:read.email")
    other = sdk(make(manifest=more))
    assert other.users_lookupByEmail(email="ada@lab.example")["user"]["id"] == "U1"
    with pytest.raises(SlackApiError, match="users_not_found"):
        other.users_lookupByEmail(email="gone@lab.example")


def test_conversations(client, workspace, host, refused):
    """Lists hide private channels the app is not in; direct messages are opened once."""
    listed = client.conversations_list(types="public_channel,private_channel", exclude_archived=True)
    assert [c["name"] for c in listed["channels"]] == ["experiments", "elsewhere"]
    assert refused("conversations.info", channel="C3") == "channel_not_found"
    host.call(workspace.invite, "quartermaster", "C3")
    assert client.conversations_info(channel="C3")["channel"]["is_private"]
    assert client.conversations_members(channel="C3")["members"] == ["U0QUARTERM", "U1"]
    direct = client.conversations_open(users="U1")["channel"]["id"]
    assert client.conversations_open(users=["U1"])["channel"]["id"] == direct
    client.chat_postMessage(channel="U1", text="hi")
    assert [m["text"] for m in host.call(workspace.direct_messages, "ada")] == ["hi"]


def test_ephemerals_are_for_one_person(client, workspace, refused):
    """Only that person sees it, and they have to be in the channel."""
    client.chat_postEphemeral(channel="C1", user="U1", text="for ada")
    assert [m["text"] for m in workspace.ephemerals("ada")] == ["for ada"]
    assert (workspace.ephemerals("bob"), workspace.messages("C1")) == ([], [])
    assert refused("chat.postEphemeral", channel="C1", user="U3", text="x") == "user_not_in_channel"


def test_reactions_and_permalinks(client, workspace):
    """A reaction is added once; a permalink leads to the page."""
    ts = client.chat_postMessage(channel="C1", text="a")["ts"]
    client.reactions_add(channel="C1", timestamp=ts, name="eyes")
    with pytest.raises(SlackApiError, match="already_reacted"):
        client.reactions_add(channel="C1", timestamp=ts, name="eyes")
    assert workspace.messages("C1")[0]["reactions"][0]["users"] == ["U0QUARTERM"]
    link = client.chat_getPermalink(channel="C1", message_ts=ts)["permalink"]
    assert link == f"{workspace.state.address}/archives/C1/p{ts.replace('.', '')}"


def test_an_upload_in_three_steps(client, workspace):
    """files_upload_v2 as it is: URL, bytes, complete; the file is in the thread."""
    root = client.chat_postMessage(channel="C1", text="report")["ts"]
    client.files_upload_v2(channel="C1", thread_ts=root, content="a,b\n1,2\n", filename="costs.csv")

    reply = workspace.thread("C1", root)[1]
    assert reply["files"][0]["name"] == "costs.csv"
    assert workspace.state.files[reply["files"][0]["id"]].content == b"a,b\n1,2\n"


def test_rate_limits_answer_429_with_retry_after(make):
    """About a post a second a channel; the SDK sees Retry-After."""
    workspace = make(rate_limits=True)
    client = sdk(workspace)

    def burst():
        for _ in range(5):
            client.chat_postMessage(channel="C1", text="x")

    with pytest.raises(SlackApiError, match="ratelimited") as caught:
        burst()
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "1"
    assert client.chat_postMessage(channel="C2", text="x")["ok"]


def test_planted_faults(client, workspace):
    """Down, throttled, failing and lost replies: each as the SDK sees it, and counted."""
    workspace.faults.down = True
    with pytest.raises(SlackApiError):
        client.auth_test()
    workspace.faults.down = False
    workspace.faults.throttled["chat.postMessage"] = 1
    with pytest.raises(SlackApiError, match="ratelimited"):
        client.chat_postMessage(channel="C1", text="not carried out")
    workspace.faults.lost_replies["*"] = 1
    with pytest.raises((http.client.HTTPException, urllib.error.URLError, ConnectionError)):
        client.chat_postMessage(channel="C1", text="carried out")
    assert [m["text"] for m in workspace.messages("C1")] == ["carried out"]
    assert workspace.calls["chat.postMessage"] == 2


@pytest.mark.parametrize(("moment", "done"), [("before", 0), ("after", 1)])
def test_a_hook_around_calls_that_change_something(client, workspace, host, moment, done):
    """It can end the connection before anything is done, or after; reading does not call it."""
    seen = []

    def hook(when, info):
        seen.append((when, info["method"]))
        return "drop" if when == moment else None

    host.call(workspace.on_request, hook)
    client.users_info(user="U1")
    with pytest.raises((http.client.HTTPException, urllib.error.URLError, ConnectionError)):
        client.chat_postMessage(channel="C1", text="x")
    assert seen[0] == ("before", "chat.postMessage")
    assert len(workspace.messages("C1")) == done


def test_the_journal_tells_all_of_it_and_no_token(client, workspace, tmp_path):
    """Calls and refusals are in the journal, in order, without credentials."""
    client.chat_postMessage(channel="C1", text="x", token="xoxb-sandbox")
    with pytest.raises(SlackApiError):
        client.chat_postMessage(channel="C9", text="x")
    workspace.write_journal(tmp_path / "journal.jsonl")
    text = (tmp_path / "journal.jsonl").read_text()
    calls = [(entry["method"], entry["error"]) for entry in workspace.journal if entry["kind"] == "call"]
    assert calls == [("chat.postMessage", ""), ("chat.postMessage", "channel_not_found")]
    assert "xoxb" not in text
    assert workspace.state.refusals[("chat.postMessage", "channel_not_found")] == 1


def modal(**more):
    """A small form."""
    return {
        "type": "modal",
        "callback_id": "form",
        "title": {"type": "plain_text", "text": "Launch"},
        "submit": {"type": "plain_text", "text": "Go"},
        "blocks": [
            {
                "type": "input",
                "block_id": "name",
                "label": {"type": "plain_text", "text": "Name"},
                "element": {"type": "plain_text_input", "action_id": "value"},
            }
        ],
        **more,
    }


def test_modals_need_a_fresh_trigger(client, workspace, host, world):
    """A trigger opens one view, within three real seconds."""
    trigger = host.call(workspace.state.triggers.issue, "U1")
    opened = client.views_open(trigger_id=trigger, view=modal())["view"]
    for wrong, code in ((trigger, "exchanged_trigger_id"), ("1.2.3", "invalid_trigger_id")):
        with pytest.raises(SlackApiError, match=code):
            client.views_open(trigger_id=wrong, view=modal())
    old = host.call(workspace.state.triggers.issue, "U1")
    workspace.state.triggers._monotonic = lambda: time.monotonic() + 3.1
    with pytest.raises(SlackApiError, match="expired_trigger_id"):
        client.views_open(trigger_id=old, view=modal())
    client.views_update(view_id=opened["id"], view=modal(callback_id="changed"))
    assert [view["callback_id"] for view in workspace.views("ada")] == ["changed"]
    with pytest.raises(SlackApiError, match="hash_conflict"):
        client.views_update(view_id=opened["id"], hash=opened["hash"], view=modal())


def test_views_slack_refuses(client, workspace, host, refused):
    """A title over 24 characters, a fourth form on the stack, a Home tab the manifest does not have."""
    issue = workspace.state.triggers.issue
    long = modal(title={"type": "plain_text", "text": "x" * 25})
    with pytest.raises(SlackApiError) as caught:
        client.views_open(trigger_id=host.call(issue, "U1"), view=long)
    answer: SlackResponse = caught.value.response
    assert answer["error"] == "invalid_arguments"
    assert "[json-pointer:/view/title/text]" in answer["response_metadata"]["messages"][0]
    client.views_open(trigger_id=host.call(issue, "U1"), view=modal())
    for _ in range(2):
        client.views_push(trigger_id=host.call(issue, "U1"), view=modal())
    assert refused("views.push", trigger_id=host.call(issue, "U1"), view=modal()) == "push_limit_reached"
    home = {"type": "home", "blocks": [section("hi")]}
    assert refused("views.publish", user_id="U1", view=home) == "not_enabled"


def test_a_response_url_works_five_times_within_half_an_hour(workspace, host, world):
    """The sixth use, and one after thirty minutes of world time, are refused with 404."""

    def fresh():
        url = workspace._responses.issue("U1", "C1")
        return workspace._responses.address(url)

    hook = WebhookClient(host.call(fresh))
    answers = [hook.send(text=f"answer {number}").status_code for number in range(6)]
    late = host.call(fresh)
    host.call(lambda: setattr(world, "_now", world.now + timedelta(minutes=31)))

    assert answers == [200] * 5 + [404]
    assert WebhookClient(late).send(text="late").body == '{"ok": false, "error": "expired_url"}'
    assert len(workspace.ephemerals("ada", "C1")) == 5
