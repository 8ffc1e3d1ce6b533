"""Who calls, from the Authorization header: the access key, the region and the service. Signatures are not checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sandbox.cloud.codec import AwsError
from sandbox.cloud.shapes import ACCOUNT

_SCOPE = re.compile(r"Credential=([^/,\s]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
_SERVICES = {"ec2": "ec2", "pricing": "pricing", "ce": "ce"}
_HOMES = {"pricing": ("us-east-1", "eu-central-1", "ap-south-1"), "ce": ("us-east-1",)}
"""services that have an endpoint in some regions only"""


@dataclass(frozen=True)
class Caller:
    """Who calls, and where."""

    key: str
    region: str
    service: str
    may: tuple[str, ...]

    def check(self, action: str) -> None:
        """AwsError where the caller's permissions do not hold the action."""
        wanted = f"{self.service}:{action}"
        if any(fnmatchcase(wanted, pattern) for pattern in self.may):
            return
        who = f"User: arn:aws:iam::{ACCOUNT}:user/{self.key} is not authorized to perform: {wanted}"
        if self.service == "ec2":
            raise AwsError(
                "UnauthorizedOperation", f"You are not authorized to perform this operation. {who}", 403
            )
        raise AwsError("AccessDeniedException", who)


def caller(header: str, credentials: Mapping[str, tuple[str, ...]]) -> Caller:
    """The caller; AwsError for unknown keys, and for services asked where they are not."""
    match = _SCOPE.search(header)
    if match is None:
        raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    key, region, service = match.groups()
    if key not in credentials:
        if service == "ec2":
            raise AwsError("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
        raise AwsError(
            "UnrecognizedClientException", "The security token included in the request is invalid."
        )
    if service not in _SERVICES:
        raise AwsError("UnknownOperationException", f"The service {service} is not offered here.")
    if service in _HOMES and region not in _HOMES[service]:
        raise AwsError(
            "InvalidSignatureException", f"Credential should be scoped to a valid region, not '{region}'."
        )
    return Caller(key, region, service, credentials[key])
