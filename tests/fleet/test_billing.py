"""The bill, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.billing import COMPUTE, CostExplorer
from fleet.errors import BadInput, Refused, Throttled, Unavailable
from fleet.ports import BilledDay
from fleet.values import Money
from tests.fleet.clouds.stubbed import StubbedAws

USAGE = {
    "Dimensions": {"Key": "RECORD_TYPE", "Values": ["Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"]}
}
REQUEST: dict[str, Any] = {
    "TimePeriod": {"Start": "2026-11-06", "End": "2026-11-08"},
    "Granularity": "DAILY",
    "Metrics": ["UnblendedCost"],
    "Filter": USAGE,
    "GroupBy": [{"Type": "DIMENSION", "Key": "SERVICE"}, {"Type": "DIMENSION", "Key": "REGION"}],
}


@pytest.fixture
def aws() -> Iterator[StubbedAws]:
    """AWS, which must have been asked all that the test expects."""
    made = StubbedAws()
    yield made
    made.done()


def page(
    day: str, *groups: tuple[str, str, str], token: str = "", estimated: bool = False, unit: str = "USD"
) -> dict[str, Any]:
    """A page with one day."""
    result = {
        "TimePeriod": {"Start": day, "End": "2026-11-09"},
        "Groups": [
            {"Keys": [first, region], "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": unit}}}
            for first, region, amount in groups
        ],
        "Estimated": estimated,
    }
    return {"ResultsByTime": [result], **({"NextPageToken": token} if token else {})}


def answers(aws: StubbedAws, *pages: dict[str, Any], request: dict[str, Any] = REQUEST) -> None:
    """The next pages, each asked for with the token of the one before."""
    token = ""
    for one in pages:
        aws.stub("ce", "us-east-1").add_response(
            "get_cost_and_usage", one, {**request, **({"NextPageToken": token} if token else {})}
        )
        token = one.get("NextPageToken", "")


def test_all_pages_of_all_days(aws):
    """The last day is included although Cost Explorer's end is not; estimates are marked; amounts are exact."""
    answers(
        aws,
        page("2026-11-06", (COMPUTE, "us-west-2", "12.3456784999"), token="t1"),
        page("2026-11-06", ("AWS Lambda", "us-east-1", "0.0000015"), token="t2"),
        page("2026-11-07", (COMPUTE, "us-west-2", "-0.5"), estimated=True),
    )
    assert CostExplorer(aws).days("2026-11-06", "2026-11-07") == (
        BilledDay("2026-11-06", COMPUTE, "us-west-2", {}, Money(12_345_678), False),
        BilledDay("2026-11-06", "AWS Lambda", "us-east-1", {}, Money(2), False),
        BilledDay("2026-11-07", COMPUTE, "us-west-2", {}, Money(-500_000), True),
    )


def test_by_tag(aws):
    """Tag groups come as key$value; untagged cost has no value; only compute is asked for."""
    tag = "quartermaster.dev/experiment"
    request = {
        **REQUEST,
        "Filter": {"And": [USAGE, {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE]}}]},
        "GroupBy": [{"Type": "TAG", "Key": tag}, {"Type": "DIMENSION", "Key": "REGION"}],
    }
    answers(
        aws,
        page("2026-11-06", (f"{tag}$dota", "r", "1"), (f"{tag}$", "r", "2"), (f"{tag}$a$b", "r", "3")),
        request=request,
    )
    lines = CostExplorer(aws).days("2026-11-06", "2026-11-07", group_by_tag=tag)
    assert [(line.tags[tag], line.service, line.amount) for line in lines] == [
        ("dota", COMPUTE, Money.usd(1)),
        ("", COMPUTE, Money.usd(2)),
        ("a$b", COMPUTE, Money.usd(3)),
    ]


def test_pages_have_a_budget(aws):
    """Each page costs a cent: a question that needs more than its budget is refused."""
    answers(aws, page("2026-11-06", token="a"), page("2026-11-06", token="b"))
    with pytest.raises(Refused, match=r"more than 2 pages, which cost \$0\.01 each"):
        CostExplorer(aws, page_budget=2).days("2026-11-06", "2026-11-07")


def test_a_page_that_comes_again_is_no_bill(aws):
    """A token that repeats would be paid for until the budget ends."""
    answers(aws, page("2026-11-06", token="a"), page("2026-11-06", token="a"))
    with pytest.raises(Unavailable, match="same page again"):
        CostExplorer(aws).days("2026-11-06", "2026-11-07")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("LimitExceededException", Throttled),
        ("DataUnavailableException", Unavailable),
        ("BillExpirationException", Unavailable),
        ("AccessDeniedException", Refused),
    ],
)
def test_errors_are_typed(aws, code, kind):
    """No data yet, too many calls and no permission are different things."""
    aws.stub("ce", "us-east-1").add_client_error("get_cost_and_usage", code, "words", 400)
    with pytest.raises(kind, match="words"):
        CostExplorer(aws).days("2026-11-06", "2026-11-07")


@pytest.mark.parametrize(
    ("first", "last"),
    [("2026-11-07", "2026-11-05"), ("yesterday", "2026-11-05"), ("2026-13-01", "2026-11-05")],
)
def test_days_that_are_none(aws, first, last):
    """Nothing is asked for, and nothing paid."""
    with pytest.raises(BadInput):
        CostExplorer(aws).days(first, last)


@pytest.mark.parametrize(
    ("amount", "unit", "kind"),
    [("1", "CNY", Refused), ("many", "USD", Unavailable), ("NaN", "USD", Unavailable)],
)
def test_amounts_that_are_none(aws, amount, unit, kind):
    """Another currency and no number never become dollars."""
    answers(aws, page("2026-11-06", (COMPUTE, "r", amount), unit=unit))
    with pytest.raises(kind):
        CostExplorer(aws).days("2026-11-06", "2026-11-07")
