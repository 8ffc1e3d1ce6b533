"""What a Kubernetes API answered, as the types of `fleet.errors`."""

from __future__ import annotations

import json
import re
from typing import Any

from fleet.errors import Conflict, Expired, NotFound, OutsideError, Refused, Throttled, Unavailable

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?:.*? in the namespace "(?P<namespace>[^"]*)")?',
    re.DOTALL,
)


def error_of(status: int, body: bytes, cluster: str, retry_after: str | None = None) -> OutsideError:
    """The typed error for an answer that is not 2xx (`body` is a Status object, or any text)."""
    document = _document(body)
    reason = str(document.get("reason") or "")
    message = str(
        document.get("message") or body[:300].decode("utf-8", "replace").strip() or f"HTTP {status}"
    )
    if status == 429:
        return Throttled(
            f"{cluster}: {message}", code=reason or "429", retry_after=_seconds(document, retry_after)
        )
    if status == 403:
        return Refused(_forbidden(cluster, message), code=reason or "Forbidden")
    if status == 401:
        return Refused(
            f"{cluster} does not accept our credentials: {message}.", code=reason or "Unauthorized"
        )
    code = reason or str(status)
    text = f"{cluster}: {message}"
    kinds: dict[int, type[OutsideError]] = {404: NotFound, 409: Conflict, 410: Expired}
    if status in kinds:
        return kinds[status](text, code=code)
    return Unavailable(text, code=code) if status >= 500 or status == 408 else Refused(text, code=code)


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _seconds(document: dict[str, Any], header: str | None) -> float | None:
    details = document.get("details")
    value = header or (details.get("retryAfterSeconds") if isinstance(details, dict) else None)
    try:
        return float(value) if value else None
    except ValueError:
        return None


def _forbidden(cluster: str, message: str) -> str:
    """One sentence that names the missing verb, resource and namespace (quota and policy texts stay)."""
    match = _FORBIDDEN.search(message)
    if match is None:
        return f"{cluster} forbids it: {message}."
    resource = match["resource"] + (f".{match['group']}" if match["group"] else "")
    place = f"in namespace {match['namespace']}" if match["namespace"] else "in all namespaces"
    return (
        f"{cluster}: {match['user']} may not {match['verb']} {resource} {place}; "
        f"give its role the verb {match['verb']!r} on {resource}."
    )
