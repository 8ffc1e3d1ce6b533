"""Quantities in canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kube.errors import ApiError
from sandbox.kube.quantities import canonical, parse

SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("0.5", "500m"),
        (2, "2"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e9", "1e9"),
        ("1e3", "1e3"),
        ("100M", "100M"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1", "-1"),
        ("512Ki", "512Ki"),
        ("+1", "1"),
        (".5", "500m"),
        ("16Gi", "16Gi"),
    ],
)
def test_canonical_forms(given_, wanted):
    """As a real API server stores them."""
    assert canonical(given_) == wanted


@pytest.mark.parametrize(
    "text", ["1K", "1e3Gi", "1_000", "inf", "", "Gi", "1 Gi", "１", "1.2.3", True, None, []]
)
def test_what_is_no_quantity(text):
    """400, whatever the kind of nonsense."""
    with pytest.raises(ApiError) as caught:
        parse(text)
    assert caught.value.code == 400


@given(st.integers(-(10**6), 10**6), st.sampled_from(SUFFIXES))
def test_the_canonical_form_is_the_same_amount(number, suffix):
    """And canonical already."""
    text = f"{number}{suffix}"
    found = canonical(text)

    assert parse(found)[0] == parse(text)[0]
    assert canonical(found) == found
