"""Logs are JSON and hold no secret, whoever logs and wherever in the line it stands."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from bot.logs import redact, setup

SECRETS = [
    "xoxb-1234-5678-abcDEF",
    "xapp-1-A012-345-abc",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "Bearer eyJhbGciOi.J9.abc-def",
    "authorization: Basic dXNlcjpwYXNz",
    '"verification_token": "Gs7hF2kLmQ"',
    "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG",
    "{'password': 'hunter2hunter2'}",
    '{\\"client_secret\\": \\"abcdef0123\\"}',
    "wss://wss.slack.com/link/?ticket=abc-def-012",
    "https://hooks.slack.com/commands/T1/2/abcdefgh",
]


@pytest.fixture
def log():
    """The log's lines, and everything put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    setup("INFO", stream)
    yield stream
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.parametrize("line", SECRETS)
def test_what_looks_like_a_secret_is_taken_out(line):
    """Tokens by their form, values by their name."""
    shown = redact(f"before {line} after")
    secret = line.replace('\\"', '"').strip("\"'{}").split()[-1].split("=")[-1].split("/")[-1].strip("\"'")

    assert "[redacted]" in shown
    assert secret not in shown
    assert shown.startswith("before ")


@pytest.mark.parametrize("line", ["run 6n4p8 paused", "token: null", "d-4f2a9c81d3aa", "the bearer is ok"])
def test_what_is_no_secret_stays(line):
    """A log that hides everything tells nothing."""
    assert redact(line) == line


def test_every_line_is_json_with_its_ids(log):
    """Ours and the libraries' go the same way; what is bound to a line stands in it."""
    structlog.get_logger("bot").info("asked", request="r-1", decision="d-1")
    logging.getLogger("some.library").warning("token is %s", "xoxb-1-2-3")
    ours, theirs = (json.loads(line) for line in log.getvalue().splitlines())

    assert (ours["event"], ours["request"], ours["decision"], ours["level"]) == (
        "asked",
        "r-1",
        "d-1",
        "info",
    )
    assert theirs["event"] == "token is [redacted]"


def test_an_exception_is_one_line_without_secrets(log):
    """The traceback is part of the JSON."""
    try:
        raise ValueError("bad token xoxb-1-2-3")
    except ValueError:
        structlog.get_logger("bot").exception("fault")
    (line,) = log.getvalue().splitlines()

    assert "ValueError" in json.loads(line)["exception"]
    assert "xoxb-1" not in line
