"""AWS' codes to the types that decide what happens next."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from fleet.clouds.aws_errors import translated, typed
from fleet.errors import (
    Conflict,
    NoCapacity,
    NotFound,
    NotOffered,
    QuotaExceeded,
    Refused,
    SubnetFull,
    Throttled,
    Unavailable,
)

TABLE = {
    NoCapacity: "InsufficientInstanceCapacity InsufficientHostCapacity UnfulfillableCapacity "
    "InsufficientCapacity ReservationCapacityExceeded SpotMaxPriceTooLow",
    NotOffered: "Unsupported InvalidInstanceType",
    QuotaExceeded: "VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded "
    "MaxFleetCountExceeded VolumeLimitExceeded",
    SubnetFull: "InsufficientFreeAddressesInSubnet",
    Throttled: "RequestLimitExceeded Throttling ThrottlingException ThrottlingThing TooManyRequestsException "
    "EC2ThrottledException LimitExceededException",
    Refused: "UnauthorizedOperation AuthFailure AuthFailure.ServiceLinkedRoleCreationNotPermitted "
    "AccessDenied AccessDeniedException InvalidAMIID.NotFound InvalidParameterValue "
    "InvalidLaunchTemplateId.NotFound InvalidUserData.Malformed PendingVerification Blocked OptInRequired "
    "InvalidSubnetID.NotFound ExpiredToken SomethingElse",
    Conflict: "IdempotentParameterMismatch",
    NotFound: "InvalidInstanceID.NotFound",
    Unavailable: "InternalError ServiceUnavailable Unavailable DataUnavailableException",
}


@pytest.mark.parametrize(
    ("kind", "code"), [(kind, code) for kind, codes in TABLE.items() for code in codes.split()]
)
def test_each_code_has_its_type(kind, code):
    """The type follows the code, and keeps it."""
    error = typed(code, "the words", place="us-west-2")
    assert type(error) is kind
    assert error.code == code
    assert str(error) == f"us-west-2: the words ({code})"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InsufficientWidgetCapacity", "none left"),
        ("Client.Odd", "We currently do not have sufficient capacity in the Availability Zone you requested"),
    ],
)
def test_an_unknown_code_about_capacity_is_capacity(code, message):
    """Another zone may do: the product goes on instead of stopping."""
    assert type(typed(code, message)) is NoCapacity


def test_an_unknown_5xx_is_unavailable():
    """The service's own trouble is no verdict on the request."""
    assert type(typed("Strange", "oops", status=503)) is Unavailable


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (NoCredentialsError(), Refused),
        (EndpointConnectionError(endpoint_url="http://x"), Unavailable),
        (ReadTimeoutError(endpoint_url="http://x"), Unavailable),
        (ConnectionClosedError(endpoint_url="http://x"), Unavailable),
        (ParamValidationError(report="no"), Refused),
        (
            ClientError(
                {"Error": {"Code": "Odd", "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": 500}},
                "RunInstances",
            ),
            Unavailable,
        ),
    ],
)
def test_what_boto3_raises_is_translated(raised, kind):
    """Credentials, connections and parameters have their types too."""
    with pytest.raises(kind, match="here"), translated("here"):
        raise raised
