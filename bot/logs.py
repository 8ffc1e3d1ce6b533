"""JSON logs on stderr, one line an event, with decision and run ids, and without secrets.

What looks like a token is taken out of the finished line, wherever in it it stands; values under names like
`token` or `authorization` are taken out whatever they look like.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

REDACTED = "[redacted]"
_PATTERNS = (
    re.compile(r"xox[a-z]-[A-Za-z0-9-]+"),
    re.compile(r"xapp-[A-Za-z0-9-]+"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"),
    re.compile(r"(?<=hooks\.slack\.com/)[\w/-]+"),
    re.compile(r"(?i)(?<=\bbearer )[^\s\"'\\,]{8,}"),
    re.compile(r"(?i)(?<=\bbasic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    re.compile(r"(?i)(?<=ticket=)[^\s\"'&\\]+"),
    re.compile(r"(?<=/response/)[^\s\"'\\]+"),
)
_PAIR = re.compile(
    r"(?i)((?:[\w-]*(?:token|secret|password|authorization|credential|api[_-]?key)[\w-]*)"
    r"(?:\\?[\"'])?\s*[:=]\s*(?:\\?[\"'])?)(?!\[redacted\]|null\b|\{|\[)([^\s\"'\\,}]+)"
)


def redact(line: str) -> str:
    """The line without anything that looks like a secret."""
    for pattern in _PATTERNS:
        line = pattern.sub(REDACTED, line)
    return _PAIR.sub(lambda match: match[1] + REDACTED, line)


def _render(logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
    rendered = structlog.processors.JSONRenderer(sort_keys=True, default=str)(logger, name, event)
    return redact(rendered if isinstance(rendered, str) else rendered.decode())


def setup(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Everything that is logged, ours and the libraries', goes the same way."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("urllib3", "botocore", "boto3", "slack_sdk", "slack_bolt", "websocket"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
