"""Prometheus' query API: instant and range queries over what simulated exporters would have told it.

A subset of PromQL (`promql`); whatever else is answered with the real error's form. Faults: `down`
(everything answers 503), `missing` (metrics that are not there), `warnings` (said with every answer).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sandbox.promql import QueryError, Selector, parse, parse_duration
from sandbox.promql_eval import Vector, evaluate, select
from sandbox.series import SCRAPE_SECONDS, Hints, Labels, Series, Source, Span
from sandbox.world import World

_MOST_POINTS = 11_000
Sample = tuple[float, str]


class Prometheus:
    """One server; it is asked about moments of the world."""

    def __init__(self, world: World, sources: Iterable[Source] = ()) -> None:
        self._world = world
        self.sources: list[Source] = list(sources)
        self.down = False
        self.missing: set[str] = set()
        self.warnings: list[str] = []

    def read(self, name: str, after: float, until: float, hints: Hints) -> Iterable[Series]:
        """Series of one metric with scrapes in (after, until]; none after the present."""
        if name in self.missing:
            return
        until = min(until, self._world.now.timestamp())
        found: dict[tuple[tuple[str, str], ...], list[Span]] = {}
        for source in self.sources:
            for series in source.series(name, after, until, hints):
                found.setdefault(tuple(sorted(series.labels.items())), []).extend(series.spans)
        for labels, spans in found.items():
            yield Series(dict(labels), tuple(sorted(spans)))

    def app(self) -> web.Application:
        """The HTTP side."""
        application = web.Application(middlewares=[self._guarded])
        router = application.router
        for path in ("/-/ready", "/-/healthy", "/"):
            router.add_get(path, self._ready)
        for path, handler in (
            ("/api/v1/query", self._query),
            ("/api/v1/query_range", self._query_range),
            ("/api/v1/series", self._series),
        ):
            router.add_get(path, handler)
            router.add_post(path, handler)
        router.add_get("/api/v1/label/__name__/values", self._names)
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.down:
            return web.Response(status=503, text="Service Unavailable")
        try:
            answer: web.StreamResponse = await handler(request)
        except QueryError as error:
            status = 422 if error.kind == "execution" else 400
            body = {"status": "error", "errorType": error.kind, "error": str(error)}
            return web.json_response(body, status=status)
        return answer

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.Response(text="Prometheus Server is Ready.\n")

    def _answer(self, data: object) -> web.Response:
        body: dict[str, object] = {"status": "success", "data": data}
        if self.warnings:
            body["warnings"] = self.warnings
        return web.json_response(body)

    async def _query(self, request: web.Request) -> web.Response:
        asked = await _parameters(request)
        at = self._moment(asked, "time")
        try:
            expression = parse(asked.get("query", ""))
        except QueryError as error:
            raise QueryError(f'invalid parameter "query": {error}', error.kind) from None
        if isinstance(expression, Selector) and expression.window is not None:
            return self._answer({"resultType": "matrix", "result": self._raw(expression, at)})
        value = evaluate(expression, self.read, at)
        if isinstance(value, float):
            return self._answer({"resultType": "scalar", "result": _sample(at, value)})
        result = [{"metric": labels, "value": _sample(at, number)} for labels, number in _unique(value)]
        return self._answer({"resultType": "vector", "result": result})

    def _raw(self, selector: Selector, at: float) -> list[dict[str, object]]:
        """A bare range selector gives the samples themselves."""
        until = at - selector.offset
        found: list[dict[str, object]] = []
        for series in select(selector, self.read, at):
            values = [
                _sample(first + number * SCRAPE_SECONDS, value)
                for first, count, value in series.samples(until - (selector.window or 0), until)
                for number in range(count)
            ]
            if values:
                metric = {"__name__": selector.name, **series.labels}
                found.append({"metric": metric, "values": values})
        return found

    async def _query_range(self, request: web.Request) -> web.Response:
        asked = await _parameters(request)
        start, end, step = self._moment(asked, "start"), self._moment(asked, "end"), _step(asked)
        if end < start:
            raise QueryError('invalid parameter "end": end timestamp must not be before start time')
        if (end - start) / step > _MOST_POINTS:
            raise QueryError(
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)"
            )
        try:
            expression = parse(asked.get("query", ""))
        except QueryError as error:
            raise QueryError(f'invalid parameter "query": {error}', error.kind) from None
        lines: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
        for number in range(int((end - start) / step) + 1):
            at = start + number * step
            value = evaluate(expression, self.read, at)
            vector: Vector = [({}, value)] if isinstance(value, float) else value
            for labels, amount in _unique(vector):
                lines.setdefault(tuple(sorted(labels.items())), []).append(_sample(at, amount))
        result = [{"metric": dict(labels), "values": values} for labels, values in lines.items()]
        return self._answer({"resultType": "matrix", "result": result})

    async def _series(self, request: web.Request) -> web.Response:
        asked = await _parameters(request)
        expression = parse(asked.get("match[]", ""))
        if not isinstance(expression, Selector):
            raise QueryError('invalid parameter "match[]": parse error: unexpected expression')
        end = self._moment(asked, "end")
        start = self._moment(asked, "start") if "start" in asked else end - 3600.0
        wide = Selector(expression.name, expression.matchers, max(end - start, SCRAPE_SECONDS))
        found = [{"__name__": wide.name, **series.labels} for series in select(wide, self.read, end)]
        return self._answer(found)

    async def _names(self, _request: web.Request) -> web.Response:
        names = {name for source in self.sources for name in source.names()} - self.missing
        return self._answer(sorted(names))

    def _moment(self, asked: Mapping[str, str], name: str) -> float:
        """A parameter as Unix seconds; now where it is not given."""
        text = asked.get(name, "")
        if not text:
            return self._world.now.timestamp()
        try:
            return float(text)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise QueryError(
                f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp'
            ) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


async def _parameters(request: web.Request) -> dict[str, str]:
    """Query string, and form fields of a POST."""
    found = {name: str(value) for name, value in request.query.items()}
    if request.method == "POST":
        found |= {name: str(value) for name, value in (await request.post()).items()}
    return found


def _step(asked: Mapping[str, str]) -> float:
    text = asked.get("step", "")
    try:
        step = float(text)
    except ValueError:
        try:
            step = parse_duration(text)
        except QueryError:
            raise QueryError(f'invalid parameter "step": cannot parse "{text}" to a valid duration') from None
    if not step > 0:
        raise QueryError(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. '
            "Try a positive integer"
        )
    return step


def _sample(at: float, value: float) -> Sample:
    return (at, _written(value))


def _written(value: float) -> str:
    """As Go writes a float64 in 'f' format."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _unique(vector: Vector) -> list[tuple[Labels, float]]:
    """A result may not hold the same labels twice."""
    seen = {tuple(sorted(labels.items())) for labels, _ in vector}
    if len(seen) < len(vector):
        raise QueryError("vector cannot contain metrics with the same labelset", "execution")
    return vector
