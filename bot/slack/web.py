"""Slack's Web API, narrowed to what we use, its failures as three types that say what to do next."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.error import URLError

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookClient

EVENT_TYPE = "quartermaster_message"
TIMEOUT = 5
"""seconds for one call; the deciding thread waits for it"""
PAGES = 10
"""pages of history that are searched for a key"""


class SlackDown(Exception):
    """No answer, or a 5xx: whether it was done is not known."""


class SlackThrottled(Exception):
    """429. `retry_after` is in seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"retry after {retry_after} s")
        self.retry_after = retry_after


class SlackRefused(Exception):
    """Slack said no. `code` is its error word."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code = code


def web_client(token: str, base_url: str = "") -> WebClient:
    """A client that never repeats a call by itself: whether a post may be repeated is the outbox's decision."""
    address = base_url.rstrip("/") + "/" if base_url else WebClient.BASE_URL
    client = WebClient(token=token, base_url=address, timeout=TIMEOUT, retry_handlers=[])
    if base_url:
        client.proxy = None
    return client


def _metadata(key: str) -> dict[str, Any]:
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key}}


class SlackWeb:
    """The calls of the outbox and of identity, typed."""

    def __init__(self, client: WebClient) -> None:
        self.client = client

    def post(self, channel: str, key: str, body: Mapping[str, Any], *, thread_ts: str = "") -> str:
        """Post a message that can be found again by its key; returns its ts."""
        answer = _call(
            lambda: self.client.chat_postMessage(
                channel=channel,
                thread_ts=thread_ts or None,
                metadata=_metadata(key),
                unfurl_links=False,
                unfurl_media=False,
                **body,
            )
        )
        return str(answer["ts"])

    def update(self, channel: str, ts: str, key: str, body: Mapping[str, Any]) -> None:
        """Edit a message of ours; it keeps its key."""
        _call(lambda: self.client.chat_update(channel=channel, ts=ts, metadata=_metadata(key), **body))

    def whisper(self, channel: str, person: str, body: Mapping[str, Any], *, thread_ts: str = "") -> None:
        """A message that one person sees, in a channel or thread."""
        _call(
            lambda: self.client.chat_postEphemeral(
                channel=channel, user=person, thread_ts=thread_ts or None, **body
            )
        )

    def respond(self, response_url: str, body: Mapping[str, Any]) -> None:
        """Answer a command or click by its response_url (5 times, 30 minutes)."""
        hook = WebhookClient(response_url, timeout=TIMEOUT, retry_handlers=[])
        hook.proxy = None if self.client.proxy is None else hook.proxy
        try:
            answer = hook.send(**body, response_type="ephemeral", replace_original=False)
        except (URLError, OSError, http.client.HTTPException) as error:
            raise SlackDown(str(error)) from error
        if answer.status_code == 429:
            raise SlackThrottled(_retry_after(answer.headers))
        if answer.status_code >= 500:
            raise SlackDown(f"HTTP {answer.status_code}")
        if answer.status_code != 200:
            raise SlackRefused(answer.body[:100] or str(answer.status_code))

    def find(self, channel: str, key: str, *, thread_ts: str, since: datetime) -> str:
        """The ts of our message with this key, "" where there is none.

        A public channel can be written to without being in it, but not read: there it is joined first.
        """
        try:
            return self._search(channel, key, thread_ts=thread_ts, since=since)
        except SlackRefused as error:
            if error.code != "not_in_channel":
                raise
        _call(lambda: self.client.conversations_join(channel=channel))
        return self._search(channel, key, thread_ts=thread_ts, since=since)

    def _search(self, channel: str, key: str, *, thread_ts: str, since: datetime) -> str:
        cursor: str | None = None
        oldest = f"{since.timestamp():.6f}"
        for _ in range(PAGES):
            answer = self._history(channel, thread_ts, oldest, cursor)
            for message in answer.get("messages", []):
                if message.get("metadata", {}).get("event_payload", {}).get("key") == key:
                    return str(message["ts"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return ""

    def _history(self, channel: str, thread_ts: str, oldest: str, cursor: str | None) -> dict[str, Any]:
        more: dict[str, Any] = {
            "channel": channel,
            "limit": 200,
            "cursor": cursor,
            "include_all_metadata": True,
        }
        if thread_ts:
            return _call(lambda: self.client.conversations_replies(ts=thread_ts, **more))
        return _call(lambda: self.client.conversations_history(oldest=oldest, **more))

    def user(self, user_id: str) -> dict[str, Any]:
        """users.info of one person."""
        user: dict[str, Any] = _call(lambda: self.client.users_info(user=user_id))["user"]
        return user

    def own(self) -> dict[str, Any]:
        """auth.test: who we are, and in which team."""
        return _call(self.client.auth_test)


def _call(request: Callable[[], SlackResponse]) -> dict[str, Any]:
    try:
        answer = request().data
    except SlackApiError as error:
        raise _typed(error) from error
    except (URLError, OSError, http.client.HTTPException, SlackClientError, json.JSONDecodeError) as error:
        raise SlackDown(f"{type(error).__name__}: {error}") from error
    return answer if isinstance(answer, dict) else {}


def _typed(error: SlackApiError) -> Exception:
    response = error.response
    status = getattr(response, "status_code", 0)
    data = getattr(response, "data", None)
    code = data.get("error", "") if isinstance(data, dict) else ""
    if status == 429 or code in ("ratelimited", "rate_limited"):
        return SlackThrottled(_retry_after(getattr(response, "headers", {})))
    if status >= 500 or not code or code in ("internal_error", "fatal_error", "service_unavailable"):
        return SlackDown(f"HTTP {status} {code}".strip())
    needed = f" (needs {data['needed']})" if isinstance(data, dict) and data.get("needed") else ""
    return SlackRefused(code, f"{code}{needed}")


def _retry_after(headers: Mapping[str, Any]) -> float:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            first = value[0] if isinstance(value, list) else value
            return float(first) if str(first).isdigit() else 1.0
    return 1.0
