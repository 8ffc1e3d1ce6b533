"""Money, resources, Kubernetes quantities, durations and times: exact, and refusing what is not one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadInput
from fleet.values import (
    Money,
    Resources,
    format_duration,
    is_due,
    parse_bytes,
    parse_duration,
    parse_millicores,
    parse_quantity,
    rfc3339,
    utc,
)

MICROS = st.integers(-(10**15), 10**15)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1204.18", 1_204_180_000),
        ("$1,204.18", 1_204_180_000),
        ("1.5k", 1_500_000_000),
        ("2M", 2_000_000_000_000),
        ("0", 0),
        ("0.000001", 1),
        (" 7 ", 7_000_000),
        (3, 3_000_000),
        (Decimal("0.5"), 500_000),
        ("1_000", 1_000_000_000),
        ("-2.5", -2_500_000),
    ],
)
def test_dollars_are_read_exactly(text, micros):
    """Signs, thousands separators and k/M are understood, to the micro-dollar."""
    assert Money.usd(text).micros == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1.000,00",
        "1,00",
        "NaN",
        "inf",
        "1e400",
        "0.0000001",
        "1 000",
        "--1",
        "1k2",
        "5%",
        "١٢",
        "1e30",
    ],
)
def test_what_is_no_amount_is_refused(text):
    """Other locales, non-numbers, seven decimals and absurd sizes are one sentence with what to type."""
    with pytest.raises(BadInput) as caught:
        Money.usd(text)
    assert "1204.18" in str(caught.value)


@given(MICROS)
def test_exact_text_reads_back(micros):
    """`exact` loses nothing."""
    assert Money.usd(Money(micros).exact()).micros == micros


@given(MICROS, st.integers(1, 10**9), st.integers(1, 10**9))
def test_times_floors(micros, numerator, denominator):
    """A share is the floor of the exact product, so shares never sum to more than the whole."""
    ratio = Fraction(numerator, denominator)
    part = Money(micros).times(ratio).micros
    assert part <= micros * ratio < part + 1


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 10**9))
def test_cost_over_time_is_additive_to_a_micro_dollar(micros, first, second):
    """Cutting an interval in two loses at most one micro-dollar to the floor."""
    rate = Money(micros)
    one, two = timedelta(milliseconds=first), timedelta(milliseconds=second)
    whole = rate.over(one + two).micros
    assert 0 <= whole - (rate.over(one) + rate.over(two)).micros <= 1


def test_a_rate_over_an_hour_is_the_rate():
    """55.04 $/h for an hour is 55.04 $, for a second 0.015288 $ floored."""
    rate = Money.usd("55.04")
    assert rate.over(timedelta(hours=1)) == rate
    assert rate.over(timedelta(seconds=1)) == Money(15_288)


def test_lasts():
    """How long money lasts: exactly, for ever at no rate, not at all below zero, and never beyond a date's range."""
    assert Money.usd(100).lasts(Money.usd(50)) == timedelta(hours=2)
    assert Money.usd(100).lasts(Money.zero()) is None
    assert Money.usd(-5).lasts(Money.usd(1)) == timedelta(0)
    far = Money(2**62).lasts(Money(1))
    assert far is not None
    assert datetime(2026, 1, 1, tzinfo=UTC) + far


def test_fraction_of():
    """A cap of zero is used up by anything, and by nothing."""
    assert Money.usd(40).fraction_of(Money.usd(80)) == Fraction(1, 2)
    assert Money.zero().fraction_of(Money.zero()) == 1


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (1_204_180_000, "$1,204.18"),
        (12_400_000_000, "$12.4k"),
        (1_030_000_000_000, "$1.03M"),
        (-5_000_000, "-$5.00"),
        (0, "$0.00"),
        (9_999_990_000, "$9,999.99"),
        (999_949_000_000, "$999.9k"),
        (999_999_000_000, "$1.00M"),
    ],
)
def test_money_for_people(micros, text):
    """Short, with the sign first."""
    assert str(Money(micros)) == text


@given(MICROS, MICROS)
def test_money_is_ordered_and_adds(left, right):
    """Comparison and arithmetic are those of integers."""
    assert (Money(left) < Money(right)) == (left < right)
    assert Money(left) + Money(right) - Money(right) == Money(left)
    assert bool(Money(left)) == (left != 0)


QUANTITIES = [
    ("0", Fraction(0)),
    ("500m", Fraction(1, 2)),
    ("1.5Gi", Fraction(3, 2) * 2**30),
    ("128M", Fraction(128 * 10**6)),
    ("129e6", Fraction(129_000_000)),
    ("129E6", Fraction(129_000_000)),
    ("12E", min(Fraction(12 * 10**18), Fraction(2**63 - 1))),
    ("1Ei", Fraction(2**60)),
    ("1k", Fraction(1000)),
    ("1Ki", Fraction(1024)),
    ("5.", Fraction(5)),
    (".5", Fraction(1, 2)),
    ("+1", Fraction(1)),
    ("-1m", Fraction(-1, 1000)),
    ("1e-3", Fraction(1, 1000)),
    ("100n", Fraction(1, 10**7)),
    ("10u", Fraction(1, 10**5)),
    ("9223372036854775807", Fraction(2**63 - 1)),
    ("99999999999999999999", Fraction(2**63 - 1)),
]


@pytest.mark.parametrize(("text", "value"), QUANTITIES)
def test_quantities_are_read_as_kubernetes_reads_them(text, value):
    """All suffixes and exponents, capped at 2**63 - 1."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 ", " 1", "1K", "1ki", "1_000", "inf", "NaN", "1e3Gi", "1e", "1m5", "0x10", "1,5", "True",
        ".07893E985.90504", "1.2.3", "--1", "Gi", ".", "-", "٣", "1MI", "1g", "1 Gi", "1e99999", "1\n",
    ],
)  # fmt: skip
def test_quantities_that_kubernetes_refuses_are_refused(text):
    """The traps of other parsers: wrong case, underscores, digits of other scripts, two suffixes."""
    with pytest.raises(BadInput, match="Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [1, 1.5, True, None])
def test_quantities_are_text(value):
    """A number or a truth value is not a quantity; whoever reads YAML keeps the text."""
    with pytest.raises(BadInput):
        parse_quantity(value)


def test_rounding_is_up():
    """A part of a millicore or a byte is a whole one, as the scheduler counts."""
    assert parse_millicores("0.0001") == 1
    assert parse_millicores("1500m") == 1500
    assert parse_millicores("1u") == 1
    assert parse_bytes("0.5") == 1
    assert parse_bytes("1.5Ki") == 1536


AMOUNTS = st.builds(Resources, *[st.integers(0, 100)] * 4)


@given(AMOUNTS, AMOUNTS)
def test_resources_arithmetic(left, right):
    """Sums subtract back, the maximum holds both, and fitting is by every dimension."""
    assert left + right - right == left
    assert left.fits_in(left.maximum(right))
    assert right.fits_in(left.maximum(right))
    assert left.fits_in(left + right)
    assert left + left == left * 2
    smaller = [
        getattr(left, name) <= getattr(right, name) for name in ("millicores", "memory", "gpus", "pods")
    ]
    assert left.fits_in(right) == all(smaller)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45s", 45),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1h30", 5400),
        ("2d", 172_800),
        ("1d 2h", 93_600),
        ("60", 60),
        (7, 7),
    ],
)
def test_durations(text, seconds):
    """Units, whole seconds, and the minutes after an hour."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "1.5h", "-5m", "5 minutes", "1m1h", "1w", "٣s"])
def test_what_is_no_duration_is_refused(text):
    """Refused with what to type instead."""
    with pytest.raises(BadInput, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (720, "12 m"),
        (11_520, "3 h 12 m"),
        (187_200, "2 d 4 h"),
        (3601, "1 h"),
        (-60, "-1 m"),
    ],
)
def test_durations_for_people(seconds, text):
    """The two largest units next to each other."""
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_times_read_back(naive):
    """Times survive being written as Kubernetes writes them."""
    moment = naive.replace(tzinfo=UTC)
    assert utc(rfc3339(moment)) == moment


def test_times_need_a_zone():
    """A time without a zone is refused with the same time in UTC to type; other zones become UTC."""
    assert utc("2026-11-06T18:00:00+01:00") == datetime(2026, 11, 6, 17, tzinfo=UTC)
    with pytest.raises(BadInput, match=r"2026-11-06T17:00:00Z"):
        utc("2026-11-06T17:00:00")
    with pytest.raises(BadInput, match="not a time"):
        utc("yesterday")


@pytest.mark.parametrize(
    ("seconds", "due"),
    [(None, True), (-1, True), (0, True), (1, False), (60, False), (61, True), (3600, True)],
)
def test_a_moment_that_lies_further_ahead_than_it_can_have_been_set_is_due(seconds, due):
    """At most a minute ahead is waited for; more is a clock that was set back."""
    now = datetime(2026, 11, 6, 17, tzinfo=UTC)
    moment = None if seconds is None else now + timedelta(seconds=seconds)
    assert is_due(moment, now, timedelta(minutes=1)) is due
