"""Errors are sentences for people and types for the program."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.errors import BadInput, OutsideError, QuartermasterError, Throttled


def test_bad_input_is_one_sentence():
    """Where, what and why, what to type instead."""
    error = BadInput("There is no pool 'gpu'.", where="settings.yaml:12", hint="Write one of: aws, rack.")
    assert str(error) == "settings.yaml:12: There is no pool 'gpu'. Write one of: aws, rack."
    assert str(BadInput("Too long.")) == "Too long."


@pytest.mark.parametrize(
    "name",
    [
        "NoCapacity",
        "NotOffered",
        "QuotaExceeded",
        "SubnetFull",
        "Throttled",
        "Refused",
        "NotFound",
        "Conflict",
        "Expired",
        "Unavailable",
    ],
)
def test_outside_errors_carry_the_code(name):
    """Every type keeps what the other side called it, and none is the kind of another."""
    kind = getattr(errors, name)
    error = kind("no", code="Raw.Code")
    assert (error.code, str(error)) == ("Raw.Code", "no")
    assert kind.__mro__[1:3] == (OutsideError, QuartermasterError)


def test_throttled_may_not_know_how_long():
    """Retry-After is optional."""
    assert Throttled("wait").retry_after is None
    assert Throttled("wait", retry_after=2.5).retry_after == 2.5
