"""Pages: opaque tokens that belong to one question, as AWS gives them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sandbox.cloud.codec import AwsError

T = TypeVar("T")


def fingerprint(request: Mapping[str, Any], *without: str) -> str:
    """The question without its page."""
    plain = {key: value for key, value in request.items() if key not in without}
    text = json.dumps(plain, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def token_for(position: int, question: str = "") -> str:
    """An opaque token for the page that begins after a position."""
    return base64.urlsafe_b64encode(f"{position}:{question}".encode()).decode()


def position_of(token: str, code: str) -> tuple[int, str]:
    """(position, question) of a token; AwsError with the code where it is none."""
    try:
        position, _, question = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
        return int(position), question
    except (ValueError, binascii.Error):
        raise AwsError(code, "The specified pagination token is not valid.") from None


def page_size(request: Mapping[str, Any], default: int, *, least: int = 1, most: int = 1000) -> int:
    """MaxResults; AwsError where it is out of range."""
    size = request.get("MaxResults")
    if size is None:
        return default
    if not least <= int(size) <= most:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value from {least} to {most}.",
        )
    return int(size)


def paged(
    found: Sequence[T], request: Mapping[str, Any], size: int, *, code: str = "InvalidNextToken"
) -> tuple[list[T], str | None]:
    """One page by NextToken, and the token of the next one."""
    start = position_of(str(request["NextToken"]), code)[0] if request.get("NextToken") else 0
    page = list(found[start : start + size])
    return page, token_for(start + size) if start + size < len(found) else None
