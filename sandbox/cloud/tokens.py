"""Client tokens: the same request again returns its first result, another request is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.cloud.codec import AwsError

LENGTH = 64


@dataclass
class _Use:
    fingerprint: str
    result: Any = None


@dataclass
class Tokens:
    """All tokens of an account. They belong to a region and an action."""

    uses: dict[tuple[str, str, str], _Use] = field(default_factory=dict)

    def first_result(self, region: str, action: str, request: Mapping[str, Any]) -> Any:
        """The first result of the token, None where there is none yet.

        AwsError IdempotentParameterMismatch where the token came with another request before, also with
        one that failed for want of capacity.
        """
        token = str(request.get("ClientToken", ""))
        if len(token) > LENGTH or not token.isascii():
            raise AwsError("InvalidParameterValue", f"The client token exceeds {LENGTH} ASCII characters.")
        use = self.uses.get((region, action, token)) if token else None
        if use is None:
            return None
        if use.fingerprint != _fingerprint(request):
            raise AwsError(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        return use.result

    def claim(self, region: str, action: str, request: Mapping[str, Any]) -> None:
        """From here on the token belongs to this request, whatever becomes of it."""
        token = str(request.get("ClientToken", ""))
        if token:
            self.uses.setdefault((region, action, token), _Use(_fingerprint(request)))

    def keep(self, region: str, action: str, request: Mapping[str, Any], result: Any) -> None:
        """The request's first result."""
        token = str(request.get("ClientToken", ""))
        if token:
            self.uses[region, action, token] = _Use(_fingerprint(request), result)


def _fingerprint(request: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in request.items() if k != "DryRun"}, sort_keys=True, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
