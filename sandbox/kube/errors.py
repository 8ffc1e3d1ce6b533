"""Errors of the Kubernetes API: what a Status object says, worded as the API server words it.

Source of codes, reasons and sentences: k8s.io/apimachinery/pkg/api/errors and the answers of a real
1.36 API server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CAUSES = {
    "required": ("FieldValueRequired", "Required value"),
    "invalid": ("FieldValueInvalid", "Invalid value"),
    "unsupported": ("FieldValueNotSupported", "Unsupported value"),
    "duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "forbidden": ("FieldValueForbidden", "Forbidden"),
    "too long": ("FieldValueTooLong", "Too long"),
    "too many": ("FieldValueTooMany", "Too many"),
    "not found": ("FieldValueNotFound", "Not found"),
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field. `kind` is a key of the field error types (`required`, `invalid`…)."""

    kind: str
    field: str
    detail: str = ""
    value: object = None

    @property
    def reason(self) -> str:
        """CamelCase cause reason."""
        return _CAUSES[self.kind][0]

    @property
    def sentence(self) -> str:
        """Without the field: `Invalid value: "x": must …`."""
        title = _CAUSES[self.kind][1]
        parts = [title]
        if self.kind in ("invalid", "unsupported", "duplicate", "not found"):
            parts.append(_shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class ApiError(Exception):
    """An answer of the API that is not a success. `code` is the HTTP status, `reason` CamelCase."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.metadata: dict[str, Any] = {}
        self.retry_after = retry_after
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def status(self) -> dict[str, Any]:
        """The Status object."""
        found: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            found["reason"] = self.reason
        if self.details:
            found["details"] = self.details
        found["code"] = self.code
        return found


def _named(resource: str, name: str) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: str, name: str) -> ApiError:
    """404 for an object; `resource` is the plural with its group."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', _named(resource, name))


def no_such_path() -> ApiError:
    """404 for a path that the server does not serve."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: str, name: str) -> ApiError:
    """409 on create."""
    return ApiError(409, "AlreadyExists", f'{resource} "{name}" already exists', _named(resource, name))


def conflict(resource: str, name: str, why: str = "") -> ApiError:
    """409 on update: a resourceVersion or uid that is no longer the object's."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, _named(resource, name))


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422; `kind` is the object's kind (Job), group its API group ("" for core)."""
    qualified = f"{kind}.{group}" if group else kind
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.sentence}" for cause in causes))
    listed = sentences[0] if len(sentences) == 1 else "[" + ", ".join(sentences) + "]"
    details = {"name": name, "group": group, "kind": kind}
    found: dict[str, Any] = {key: value for key, value in details.items() if value}
    found["causes"] = [
        {"reason": cause.reason, "message": cause.sentence, "field": cause.field} for cause in causes
    ]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', found)


def forbidden(resource: str, name: str, why: str) -> ApiError:
    """403 by admission or authorisation."""
    named = f'{resource} "{name}"' if name else resource
    return ApiError(403, "Forbidden", f"{named} is forbidden: {why}", _named(resource, name))


def unauthorized() -> ApiError:
    """401: no token, or one that nobody has."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the version is no longer in the event window."""
    return ApiError(410, "Expired", message)


def too_many_requests(message: str, retry_after: int) -> ApiError:
    """429 with Retry-After in seconds."""
    return ApiError(429, "TooManyRequests", message, retry_after=retry_after)


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415, naming what would be accepted."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )
