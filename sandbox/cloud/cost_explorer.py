"""Cost Explorer's GetCostAndUsage, computed from what really ran: a day late, in pages, estimated at first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sandbox.cloud.codec import AwsError
from sandbox.cloud.costs import cost, decimal
from sandbox.cloud.region import Machine, Region
from sandbox.cloud.spec import CloudSpec
from sandbox.world import World

COMPUTE = "Amazon Elastic Compute Cloud - Compute"
_PAGE = 50
_METRICS = {
    "UnblendedCost",
    "AmortizedCost",
    "NetUnblendedCost",
    "NetAmortizedCost",
    "BlendedCost",
    "UsageQuantity",
}
_HISTORY_MONTHS = 14
Row = tuple[Machine, Fraction]


class CostExplorer:
    """The bill of the whole account."""

    def __init__(self, world: World, spec: CloudSpec, regions: Mapping[str, Region]) -> None:
        self._world = world
        self._spec = spec
        self._regions = regions
        self.calls = 0

    def get_cost_and_usage(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Amounts a period (and group), one page."""
        self.calls += 1
        periods = self._periods(request)
        metrics = list(request.get("Metrics", ()))
        if not metrics or set(metrics) - _METRICS:
            raise AwsError("ValidationException", f"Metrics must be some of {', '.join(sorted(_METRICS))}.")
        groups = list(request.get("GroupBy", ()))
        if len(groups) > 2:
            raise AwsError("ValidationException", "GroupBy takes at most two entries.")
        rows = [
            (start, end, keys, amounts)
            for start, end in periods
            for keys, amounts in self._amounts(start, end, groups, request.get("Filter"))
            or [((), Fraction(0))]
        ]
        return self._page(rows, request, metrics, groups)

    def _page(
        self, rows: list[Any], request: Mapping[str, Any], metrics: list[str], groups: list[Any]
    ) -> dict[str, Any]:
        token = str(request.get("NextPageToken") or "0")
        if not token.isdigit() or int(token) > len(rows):
            raise AwsError("InvalidNextTokenException", "The pagination token is invalid.")
        start = int(token)
        results: dict[tuple[datetime, datetime], dict[str, Any]] = {}
        for first, end, keys, amount in rows[start : start + _PAGE]:
            entry = results.setdefault((first, end), self._period(first, end))
            values = {
                m: {"Amount": decimal(amount, 10), "Unit": "USD" if m != "UsageQuantity" else "N/A"}
                for m in metrics
            }
            if groups and keys:
                entry["Groups"].append({"Keys": list(keys), "Metrics": values})
            elif not groups:
                entry["Total"] = values
        answer: dict[str, Any] = {
            "ResultsByTime": list(results.values()),
            "GroupDefinitions": groups,
            "DimensionValueAttributes": [],
        }
        if start + _PAGE < len(rows):
            answer["NextPageToken"] = str(start + _PAGE)
        return answer

    def _period(self, start: datetime, end: datetime) -> dict[str, Any]:
        final = end + timedelta(days=self._spec.final_after_days)
        return {
            "TimePeriod": {"Start": f"{start:%Y-%m-%d}", "End": f"{end:%Y-%m-%d}"},
            "Total": {},
            "Groups": [],
            "Estimated": self._world.now < final,
        }

    def _periods(self, request: Mapping[str, Any]) -> list[tuple[datetime, datetime]]:
        span = request.get("TimePeriod", {})
        try:
            first, last = date.fromisoformat(str(span["Start"])), date.fromisoformat(str(span["End"]))
        except (KeyError, ValueError):
            raise AwsError("ValidationException", "TimePeriod needs Start and End like 2026-11-06.") from None
        if first >= last:
            raise AwsError(
                "ValidationException", "Start date (and hour) should be before end date (and hour)"
            )
        today = self._world.now.date()
        if first > today:
            raise AwsError("ValidationException", "Start date cannot be in the future.")
        if (today - first).days > _HISTORY_MONTHS * 31:
            raise AwsError("ValidationException", "You haven't enabled historical data beyond 14 months.")
        granularity = request.get("Granularity")
        if granularity not in ("DAILY", "MONTHLY"):
            raise AwsError("ValidationException", "Granularity must be DAILY or MONTHLY.")
        return _split(first, last, granularity)

    def _amounts(
        self, start: datetime, end: datetime, groups: list[Any], keep: Mapping[str, Any] | None
    ) -> list[tuple[tuple[str, ...], Fraction]]:
        visible = min(end, self._bill_edge())
        totals: dict[tuple[str, ...], Fraction] = {}
        for region in self._regions.values():
            for machine in region.machines.values():
                if keep is not None and not _kept(machine, keep):
                    continue
                amount = cost(machine, region, start, visible) if visible > start else Fraction(0)
                if amount:
                    keys = tuple(self._key(machine, group) for group in groups)
                    totals[keys] = totals.get(keys, Fraction(0)) + amount
        return sorted(totals.items())

    def _bill_edge(self) -> datetime:
        """The end of the newest day that the bill knows."""
        edge = self._world.now - timedelta(hours=self._spec.bill_after_hours)
        return datetime(edge.year, edge.month, edge.day, tzinfo=UTC)

    def _key(self, machine: Machine, group: Mapping[str, Any]) -> str:
        name = str(group.get("Key"))
        if group.get("Type") == "TAG":
            value = machine.tags.get(name, "") if name in self._spec.bill_tags else ""
            return f"{name}${value}"
        return _dimension(machine, name)


def _split(first: date, last: date, granularity: str) -> list[tuple[datetime, datetime]]:
    periods = []
    at = first
    while at < last:
        following = (
            at + timedelta(days=1)
            if granularity == "DAILY"
            else (at.replace(day=1) + timedelta(days=32)).replace(day=1)
        )
        until = min(following, last)
        periods.append((_midnight(at), _midnight(until)))
        at = until
    return periods


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _dimension(machine: Machine, name: str) -> str:
    values: dict[str, Callable[[], str]] = {
        "SERVICE": lambda: COMPUTE,
        "REGION": lambda: machine.region,
        "INSTANCE_TYPE": lambda: machine.kind.name,
        "USAGE_TYPE": lambda: f"{'SpotUsage' if machine.spot else 'BoxUsage'}:{machine.kind.name}",
        "RECORD_TYPE": lambda: "Usage",
        "AZ": lambda: machine.zone,
        "PURCHASE_TYPE": lambda: "Spot Instances" if machine.spot else "On Demand Instances",
        "LINKED_ACCOUNT": lambda: "000000000000",
    }
    if name not in values:
        raise AwsError("ValidationException", f"The dimension {name!r} is not valid.")
    return values[name]()


def _kept(machine: Machine, keep: Mapping[str, Any]) -> bool:
    if "And" in keep:
        return all(_kept(machine, each) for each in keep["And"])
    if "Or" in keep:
        return any(_kept(machine, each) for each in keep["Or"])
    if "Not" in keep:
        return not _kept(machine, keep["Not"])
    if "Dimensions" in keep:
        return _dimension(machine, str(keep["Dimensions"]["Key"])) in keep["Dimensions"]["Values"]
    if "Tags" in keep:
        return machine.tags.get(str(keep["Tags"]["Key"]), "") in keep["Tags"]["Values"]
    raise AwsError("ValidationException", "The filter has no And, Or, Not, Dimensions or Tags.")
