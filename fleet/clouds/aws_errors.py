"""What AWS answered, as the types of `fleet.errors`: a table of codes, then rules for what is not in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)

from fleet.errors import (
    Conflict,
    NoCapacity,
    NotFound,
    NotOffered,
    OutsideError,
    QuotaExceeded,
    Refused,
    SubnetFull,
    Throttled,
    Unavailable,
)

log = structlog.get_logger(__name__)

CODES: dict[str, type[OutsideError]] = {
    "InsufficientInstanceCapacity": NoCapacity,
    "InsufficientHostCapacity": NoCapacity,
    "InsufficientReservedInstanceCapacity": NoCapacity,
    "InsufficientCapacity": NoCapacity,
    "InsufficientCapacityOnHost": NoCapacity,
    "UnfulfillableCapacity": NoCapacity,
    "ReservationCapacityExceeded": NoCapacity,
    "SpotMaxPriceTooLow": NoCapacity,
    "Unsupported": NotOffered,
    "InvalidInstanceType": NotOffered,
    "VcpuLimitExceeded": QuotaExceeded,
    "InstanceLimitExceeded": QuotaExceeded,
    "MaxSpotInstanceCountExceeded": QuotaExceeded,
    "SpotInstanceCountExceeded": QuotaExceeded,
    "MaxFleetCountExceeded": QuotaExceeded,
    "VolumeLimitExceeded": QuotaExceeded,
    "InsufficientFreeAddressesInSubnet": SubnetFull,
    "RequestLimitExceeded": Throttled,
    "RequestThrottled": Throttled,
    "RequestThrottledException": Throttled,
    "TooManyRequestsException": Throttled,
    "EC2ThrottledException": Throttled,
    "PriorRequestNotComplete": Throttled,
    "BandwidthLimitExceeded": Throttled,
    "LimitExceededException": Throttled,
    "SlowDown": Throttled,
    "IdempotentParameterMismatch": Conflict,
    "IdempotentInstanceTerminated": Conflict,
    "InvalidInstanceID.NotFound": NotFound,
    "InternalError": Unavailable,
    "InternalFailure": Unavailable,
    "ServiceUnavailable": Unavailable,
    "Unavailable": Unavailable,
    "DataUnavailableException": Unavailable,
    "BillExpirationException": Unavailable,
    "RequestChangedException": Unavailable,
    "RequestExpired": Refused,
    "OptInRequired": Refused,
    "PendingVerification": Refused,
    "Blocked": Refused,
}
_REFUSED = re.compile(
    r"Unauthor|AuthFailure|AccessDenied|Invalid|Missing|Malformed|SignatureDoesNotMatch|Expired"
)


def typed(code: str, message: str, *, status: int = 400, place: str = "") -> OutsideError:
    """The error for a code; `place` (region, call) goes into its sentence.

    An unknown code that speaks of capacity counts as NoCapacity and is logged: another offer may do.
    """
    text = f"{place}: {message} ({code})" if place else f"{message} ({code})"
    kind = CODES.get(code)
    if kind is None and code.startswith("Throttling"):
        kind = Throttled
    if kind is None and _REFUSED.search(code):
        kind = Refused
    if kind is None and ("capacity" in code.lower() or "sufficient capacity" in message.lower()):
        log.warning("unknown capacity error", code=code, message=message, place=place)
        kind = NoCapacity
    if kind is None:
        kind = Unavailable if status >= 500 else Refused
    return kind(text, code=code)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turns what boto3 raises inside into typed errors."""
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
        raise typed(
            str(details.get("Code", "")), str(details.get("Message", "")), status=status, place=place
        ) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise Refused(f"{place}: no AWS credentials: {error}", code=type(error).__name__) from error
    except (ConnectionError, HTTPClientError) as error:
        raise Unavailable(f"{place}: AWS does not answer: {error}", code=type(error).__name__) from error
    except BotoCoreError as error:
        raise Refused(f"{place}: {error}", code=type(error).__name__) from error
