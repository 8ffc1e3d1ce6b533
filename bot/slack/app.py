"""The Bolt app: it takes in commands and clicks, writes them down, acknowledges, and does nothing else.

Listeners run in the thread that reads the socket (`process_before_response`): one INSERT, then the ack. An
exception after an ack loses the ack, and long work on Bolt's pool would starve later acks, so neither exists.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from slack_bolt import Ack, App, BoltResponse
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient

from bot.inbox import Inbox
from fleet.errors import Unavailable

log = structlog.get_logger(__name__)
COMMAND = "/exp"
NOT_RECORDED = (
    "This could not be written down (the database does not answer), so nothing was done. Try again."
)
_KEPT = {
    "command": ("command", "text", "user_id", "team_id", "channel_id", "response_url", "trigger_id"),
    "action": ("user", "team", "channel", "container", "actions", "response_url", "trigger_id", "is_enterprise_install"),
}  # fmt: skip


def build_app(client: WebClient, inbox: Inbox) -> App:
    """The app over a client (which carries token and address). Makes no call by itself."""
    logger = logging.getLogger("slack")
    logger.setLevel(
        logging.ERROR
    )  # Bolt warns that the client's token stands beside `authorize`: it is meant to
    app = App(
        logger=logger,
        client=client,
        authorize=_authorize(client),
        request_verification_enabled=False,
        process_before_response=True,
        listener_executor=ThreadPoolExecutor(max_workers=2, thread_name_prefix="slack-listener"),
    )
    logger.setLevel(logging.WARNING)

    @app.command(COMMAND)
    def _command(ack: Ack, body: dict[str, Any]) -> None:
        _take(inbox, "command", body, ack)

    # Last, and for everything: a button of an older version must get an answer, not a warning triangle.
    @app.action(re.compile(".*"))
    def _action(ack: Ack, body: dict[str, Any]) -> None:
        _take(inbox, "action", body, ack)

    @app.error
    def _error(error: Exception, body: dict[str, Any]) -> BoltResponse:
        log.error("listener failed", error=str(error), kind=body.get("type") or body.get("command"))
        return BoltResponse(status=200, body=NOT_RECORDED)

    return app


def _authorize(client: WebClient) -> Any:
    """One workspace, one token: no auth.test on the way to an ack."""

    def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
        return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token=client.token)

    return authorize


def _take(inbox: Inbox, kind: str, body: Mapping[str, Any], ack: Ack) -> None:
    """Write it down, then ack; where it cannot be written down, say so in the ack."""
    kept = {name: body[name] for name in _KEPT[kind] if name in body}
    try:
        inbox.put(kind, _key(kind, body), kept)
    except Unavailable as error:
        log.error("inbox does not take", error=str(error), kind=kind)
        ack(NOT_RECORDED)
        return
    ack()


def _key(kind: str, body: Mapping[str, Any]) -> str:
    """What makes it the same command or click again: its trigger id, unique per invocation."""
    trigger = body.get("trigger_id")
    if trigger:
        return f"{kind}:{trigger}"
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
    return f"{kind}:{digest}"
