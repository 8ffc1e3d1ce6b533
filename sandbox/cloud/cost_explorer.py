"""Cost Explorer's GetCostAndUsage over the bill: a day late, in pages, estimated at first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sandbox.cloud.bill import Bill, midnight
from sandbox.cloud.bill_filters import expression, group_keys
from sandbox.cloud.codec import AwsError
from sandbox.cloud.costs import decimal
from sandbox.cloud.paging import fingerprint, position_of, token_for

_PAGE = 50
"""rows (groups, or periods without groups) a page"""
_COSTS = frozenset({"UnblendedCost", "AmortizedCost", "NetUnblendedCost", "NetAmortizedCost", "BlendedCost"})
"""the same here: there are no reservations and no discounts"""
_METRICS = _COSTS | {"UsageQuantity"}
_HISTORY_MONTHS = 14
_DIGITS = 10


@dataclass(frozen=True)
class Row:
    """One amount of the answer. `keys` () where nothing is grouped or nothing was found."""

    start: datetime
    end: datetime
    keys: tuple[str, ...]
    amount: Fraction
    quantity: Fraction


class CostExplorer:
    """Answers about one bill. `calls` counts pages: each costs a cent."""

    def __init__(self, bill: Bill) -> None:
        self._bill = bill
        self.calls = 0

    def get_cost_and_usage(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Amounts a period (and group), one page."""
        self.calls += 1
        periods = self._periods(request)
        metrics = list(request.get("Metrics", ()))
        wrong = [metric for metric in metrics if metric not in _METRICS]
        if wrong or not metrics:
            raise AwsError("ValidationException", f"Metrics must be some of {', '.join(sorted(_METRICS))}.")
        rows = [row for start, end in periods for row in self._rows(start, end, request)]
        question = fingerprint(request, "NextPageToken")
        begin = self._begin(request, question)
        answer: dict[str, Any] = {
            "ResultsByTime": self._results(
                rows[begin : begin + _PAGE], metrics, bool(request.get("GroupBy"))
            ),
            "GroupDefinitions": list(request.get("GroupBy", ())),
            "DimensionValueAttributes": [],
        }
        if begin + _PAGE < len(rows):
            answer["NextPageToken"] = token_for(begin + _PAGE, question)
        return answer

    @staticmethod
    def _begin(request: Mapping[str, Any], question: str) -> int:
        token = str(request.get("NextPageToken") or "")
        if not token:
            return 0
        position, asked = position_of(token, "InvalidNextTokenException")
        if asked != question:
            raise AwsError("RequestChangedException", "Your request parameters changed between pages.")
        return position

    def _results(self, rows: list[Row], metrics: list[str], grouped: bool) -> list[dict[str, Any]]:
        results: dict[datetime, dict[str, Any]] = {}
        for row in rows:
            period = {"Start": f"{row.start:%Y-%m-%d}", "End": f"{row.end:%Y-%m-%d}"}
            entry = results.setdefault(
                row.start,
                {"TimePeriod": period, "Total": {}, "Groups": [], "Estimated": self._bill.estimated(row.end)},
            )
            values = {metric: _value(row, metric) for metric in metrics}
            if not grouped:
                entry["Total"] = values
            elif row.keys:
                entry["Groups"].append({"Keys": list(row.keys), "Metrics": values})
        return list(results.values())

    def _rows(self, start: datetime, end: datetime, request: Mapping[str, Any]) -> list[Row]:
        activated = self._bill.spec.tags
        keys = group_keys(list(request.get("GroupBy", ())), activated)
        keep = expression(request.get("Filter"), activated)
        sums: dict[tuple[str, ...], tuple[Fraction, Fraction]] = {}
        for item in self._bill.items(start, end):
            if keep(item):
                key = tuple(read(item) for read in keys)
                amount, quantity = sums.get(key, (Fraction(0), Fraction(0)))
                sums[key] = (amount + item.amount, quantity + item.quantity)
        if not sums:
            return [Row(start, end, (), Fraction(0), Fraction(0))]
        return [Row(start, end, key, *found) for key, found in sorted(sums.items())]

    def _periods(self, request: Mapping[str, Any]) -> list[tuple[datetime, datetime]]:
        first, last = _span(request.get("TimePeriod") or {})
        granularity = str(request.get("Granularity") or "")
        if granularity not in ("DAILY", "MONTHLY"):
            raise AwsError("ValidationException", "Granularity must be DAILY or MONTHLY.")
        today = self._bill.world.now.date()
        if first > today:
            raise AwsError("ValidationException", "Start date cannot be in the future.")
        if (today.year - first.year) * 12 + today.month - first.month > _HISTORY_MONTHS:
            raise AwsError("ValidationException", "You haven't enabled historical data beyond 14 months.")
        if self._bill.spec.new_account and self._bill.edge() <= self._bill.opened:
            raise AwsError(
                "DataUnavailableException", "Data is not available. Please try to adjust the time period."
            )
        return _split(first, last, granularity)


def _span(given: Mapping[str, Any]) -> tuple[date, date]:
    try:
        first, last = date.fromisoformat(str(given["Start"])), date.fromisoformat(str(given["End"]))
    except (KeyError, ValueError):
        raise AwsError("ValidationException", "TimePeriod needs Start and End like 2026-11-06.") from None
    if first >= last:
        raise AwsError("ValidationException", "Start date (and hour) should be before end date (and hour)")
    return first, last


def _split(first: date, last: date, granularity: str) -> list[tuple[datetime, datetime]]:
    periods = []
    at = first
    while at < last:
        following = at + timedelta(days=1)
        if granularity == "MONTHLY":
            following = (at.replace(day=1) + timedelta(days=32)).replace(day=1)
        until = min(following, last)
        periods.append((midnight(at), midnight(until)))
        at = until
    return periods


def _value(row: Row, metric: str) -> dict[str, str]:
    if metric in _COSTS:
        return {"Amount": decimal(row.amount, _DIGITS), "Unit": "USD"}
    return {"Amount": decimal(row.quantity, _DIGITS), "Unit": "N/A"}
