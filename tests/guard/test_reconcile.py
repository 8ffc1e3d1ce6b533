"""The bill beside the ledger: drift by region, and every difference by name."""

from __future__ import annotations

from fleet.ports import BilledDay
from fleet.values import Money
from guard.meter import Account, Line
from guard.reconcile import compare, percent

EC2 = "Amazon Elastic Compute Cloud - Compute"


def billed(amount: str, region: str = "us-west-2", service: str = EC2, estimated: bool = False) -> BilledDay:
    """A line of the bill."""
    return BilledDay("2026-11-06", service, region, {}, Money.usd(amount), estimated)


def metered(
    amount: str, kind: str = "pod", region: str = "us-west-2", provider: str = "aws", flags: str = ""
) -> Line:
    """A line of the ledger."""
    account = Account(kind, provider, "home", region, "m5.xlarge", "", "", "", "")
    return Line("i-1", "p", account, 0, 1, 1, "1/1", Money.usd(amount).micros, "list", flags)


def test_regions_are_compared_and_differences_named():
    """Billed 100 + 20, metered 99 + 20.6: drift -0.33 %; what is in it is named."""
    found = compare(
        "2026-11-06",
        [
            billed("100"),
            billed("20", "us-east-1"),
            billed("3", service="EC2 - Other"),
            billed("0", service="Tax"),
        ],
        [
            metered("90"),
            metered("9", "unjoined"),
            metered("20", region="us-east-1", flags="estimated"),
            metered("0.6", "unjoined", "us-east-1", flags="minimum"),
            metered("55", provider="onprem"),
        ],
    )
    assert (found.billed, found.metered, found.drift_percent) == (Money.usd(120), Money.usd("119.6"), "-0.33")
    assert found.regions == (
        ("us-east-1", Money.usd(20), Money.usd("20.6")),
        ("us-west-2", Money.usd(100), Money.usd(99)),
    )
    assert {d.name: d.amount for d in found.differences} == {
        "unjoined machines": Money.usd(9),
        "60-second minimum": Money.usd("0.6"),
        "estimated price": Money.usd(20),
        "unmetered: EC2 - Other": Money.usd(-3),
    }


def test_bill_that_is_not_there_says_so():
    """No lines is no bill, not a bill of nothing."""
    found = compare("2026-11-06", [], [metered("5")])
    assert found.note == "the bill of this day is not there yet"
    assert found.drift_percent == "n/a"


def test_one_estimated_line_makes_the_day_estimated():
    """It is read again until none is."""
    assert compare("2026-11-06", [billed("1"), billed("1", estimated=True)], []).estimated


def test_percent_is_signed_and_rounded_half_up():
    """To two decimals; of nothing there is no percentage."""
    assert [percent(1, 800), percent(-1, 800), percent(0, 0), percent(5, 0)] == [
        "+0.13",
        "-0.13",
        "+0.00",
        "n/a",
    ]
    assert percent(-1, 1_000_000) == "+0.00"
