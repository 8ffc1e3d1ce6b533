"""The provider's bill: Cost Explorer, by UTC day, gross of credits and refunds.

It arrives a day late and is estimated for days after that. Every page costs $0.01 and boto3 has no
paginator for it, so pages are read by hand and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_errors import translated
from fleet.errors import BadInput, Refused, Unavailable
from fleet.ports import BilledDay
from fleet.values import MICROS, Money

METRIC = "UnblendedCost"
USAGE = ("Usage", "DiscountedUsage", "SavingsPlanCoveredUsage")
"""RECORD_TYPEs that are use; credits, refunds, tax and fees are none, and would hide a difference."""
COMPUTE = "Amazon Elastic Compute Cloud - Compute"
PAGE_BUDGET = 50


class CostExplorer:
    """The `Billing` port over GetCostAndUsage. `page_budget` is the most pages one question may cost."""

    def __init__(self, clients: AwsClients, page_budget: int = PAGE_BUDGET) -> None:
        self._clients = clients
        self._page_budget = page_budget

    def days(self, first: str, last: str, *, group_by_tag: str = "") -> tuple[BilledDay, ...]:
        """Lines of the UTC days first..last (inclusive), all pages, one a day, service and region.

        Cost Explorer groups by two things at most: with `group_by_tag` the lines are a day, tag value
        and region of EC2 compute alone; untagged cost has the value "". Raises BadInput for days that
        are none, Refused where the pages exceed the budget, Unavailable where there is no bill yet.
        """
        start, end = _day(first), _day(last) + timedelta(days=1)
        if end <= start:
            raise BadInput(f"The bill from {first} to {last} has no days.")
        request: dict[str, Any] = {
            "TimePeriod": {"Start": start.isoformat(), "End": end.isoformat()},
            "Granularity": "DAILY",
            "Metrics": [METRIC],
            "Filter": _filter(group_by_tag),
            "GroupBy": [
                {"Type": "TAG", "Key": group_by_tag}
                if group_by_tag
                else {"Type": "DIMENSION", "Key": "SERVICE"},
                {"Type": "DIMENSION", "Key": "REGION"},
            ],
        }
        return tuple(
            line
            for page in self._pages(request)
            for period in page.get("ResultsByTime", ())
            for line in _lines(period, group_by_tag)
        )

    def _pages(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        token = ""
        for _ in range(self._page_budget):
            with translated("Cost Explorer"):
                page: Mapping[str, Any] = self._clients.cost_explorer().get_cost_and_usage(
                    **request, **({"NextPageToken": token} if token else {})
                )
            yield page
            following = str(page.get("NextPageToken") or "")
            if not following:
                return
            if following == token:
                raise Unavailable("Cost Explorer gives the same page again.", code="InvalidNextToken")
            token = following
        raise Refused(
            f"The bill has more than {self._page_budget} pages, which cost $0.01 each; ask for fewer days.",
            code="PageBudget",
        )


def _filter(group_by_tag: str) -> dict[str, Any]:
    usage = {"Dimensions": {"Key": "RECORD_TYPE", "Values": list(USAGE)}}
    if not group_by_tag:
        return usage
    return {"And": [usage, {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE]}}]}


def _lines(period: Mapping[str, Any], group_by_tag: str) -> Iterator[BilledDay]:
    day = str(period["TimePeriod"]["Start"])[:10]
    estimated = bool(period.get("Estimated"))
    for group in period.get("Groups", ()):
        first, region = (str(key) for key in group["Keys"])
        tags = {group_by_tag: first.partition("$")[2]} if group_by_tag else {}
        yield BilledDay(
            day=day,
            service=COMPUTE if group_by_tag else first,
            region=region,
            tags=tags,
            amount=_amount(group["Metrics"][METRIC]),
            estimated=estimated,
        )


def _amount(metric: Mapping[str, Any]) -> Money:
    unit, text = str(metric.get("Unit", "USD")), str(metric.get("Amount", ""))
    if unit != "USD":
        raise Refused(f"The bill is in {unit}; only US dollars are understood.", code="Currency")
    try:
        micros = (Decimal(text) * MICROS).to_integral_value(ROUND_HALF_EVEN)
    except InvalidOperation:
        raise Unavailable(f"Cost Explorer gives {text!r} as an amount.", code="Amount") from None
    if not micros.is_finite():
        raise Unavailable(f"Cost Explorer gives {text!r} as an amount.", code="Amount")
    return Money(int(micros))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is not a day.", hint="Write it like 2026-11-06.") from None
