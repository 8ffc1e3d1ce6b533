"""Reading request bodies: JSON or YAML, with the API server's answers to what is neither."""

from __future__ import annotations

import json
from typing import Any

import yaml

from sandbox.kube.errors import ApiError, bad_request, unsupported_media_type

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_YAML = "application/yaml"
_ACCEPTED = (_JSON, _YAML, "application/vnd.kubernetes.protobuf")


def decode_object(raw: bytes, content_type: str, kind: str) -> Object:
    """An object of a POST or PUT. ApiError 415 for another format, 400 for what cannot be read."""
    media = content_type.partition(";")[0].strip()
    if media not in ("", _JSON, _YAML, "application/octet-stream"):
        raise unsupported_media_type(_ACCEPTED)
    prefix = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
    try:
        found = yaml.safe_load(raw) if media == _YAML else json.loads(raw)
    except (ValueError, yaml.YAMLError) as error:
        text = raw[:100].decode("utf-8", "replace") or "<empty>"
        why = "unexpected end of JSON input" if not raw else str(error)
        raise bad_request(f"{prefix}json parse error: {why} ({text})") from None
    if not isinstance(found, dict):
        raise bad_request(f"{prefix}json parse error: json: cannot unmarshal into Go value of type struct")
    return found


def decode_patch(raw: bytes, kind: str) -> Any:
    """The body of a PATCH by its content type. ApiError 415 for another one, 400 for what cannot be read."""
    if kind not in (MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, APPLY):
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    try:
        found = yaml.safe_load(raw) if kind == APPLY else json.loads(raw)
    except (ValueError, yaml.YAMLError) as error:
        why = "unexpected end of JSON input" if "Expecting" in str(error) else str(error)
        raise bad_request(f"error decoding patch: {why}") from None
    if kind != JSON_PATCH and not isinstance(found, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return found


def decode_options(raw: bytes) -> Object:
    """The DeleteOptions of a DELETE; none is fine."""
    if not raw.strip():
        return {}
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise bad_request(f"json parse error: {error}") from None
    return found if isinstance(found, dict) else {}
