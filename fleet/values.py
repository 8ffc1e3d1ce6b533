"""Exact values: money in integer micro-dollars, resources in integers, Kubernetes quantities.

No float ever decides about money. A rate is Money per hour; what an interval costs is computed with
integers and floored once, so that sums over shares of the same interval can be made exact (see
`guard.meter`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import total_ordering

from fleet.errors import BadInput

MICROS = 1_000_000
HOUR = timedelta(hours=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


@total_ordering
@dataclass(frozen=True, slots=True)
class Money:
    """US dollars in integer micro-dollars. Also used for a rate, then per hour."""

    micros: int

    @classmethod
    def usd(cls, text: str | int | Decimal) -> Money:
        """Money from dollars written as text, int or Decimal (never float); at most six decimals.

        Raises BadInput for anything else: `1.000,00`, `NaN`, `1e400`, seven decimals.
        """
        cleaned = str(text).strip().removeprefix("$").replace("_", "")
        if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", cleaned):
            cleaned = cleaned.replace(",", "")
        scale = 1
        match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)([kKmM])", cleaned)
        if match:
            cleaned, scale = match[1], {"k": 1_000, "m": 1_000_000}[match[2].lower()]
        try:
            # Decimal would also read the digits of other scripts, which a reader may not.
            amount = Decimal(cleaned if cleaned.isascii() else "NaN") * scale * MICROS
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount != amount.to_integral_value() or abs(amount) >= 2**62:
            raise BadInput(
                f"{text!r} is not an amount of dollars.", hint="Write it like 1204.18, $1,204.18 or 1.5k."
            )
        return cls(int(amount))

    @classmethod
    def zero(cls) -> Money:
        """No dollars."""
        return cls(0)

    @classmethod
    def total(cls, parts: Iterable[Money]) -> Money:
        """The sum of the parts; zero for none."""
        return cls(sum(part.micros for part in parts))

    def __add__(self, other: Money) -> Money:
        return Money(self.micros + other.micros)

    def __sub__(self, other: Money) -> Money:
        return Money(self.micros - other.micros)

    def __mul__(self, factor: int) -> Money:
        return Money(self.micros * factor)

    def __neg__(self) -> Money:
        return Money(-self.micros)

    def __lt__(self, other: Money) -> bool:
        return self.micros < other.micros

    def __bool__(self) -> bool:
        return self.micros != 0

    def times(self, ratio: Fraction) -> Money:
        """This times an exact ratio, floored to the micro-dollar."""
        return Money(self.micros * ratio.numerator // ratio.denominator)

    def over(self, duration: timedelta) -> Money:
        """What this hourly rate costs over the duration, floored to the micro-dollar."""
        return Money(self.micros * _microseconds(duration) // _MICROSECONDS_PER_HOUR)

    def lasts(self, rate: Money) -> timedelta | None:
        """How long this amount lasts at an hourly rate; None for a rate of zero or less."""
        if rate.micros <= 0:
            return None
        seconds = max(0, self.micros) * 3600 // rate.micros
        return timedelta(seconds=min(seconds, 3_153_600_000))

    def fraction_of(self, whole: Money) -> Fraction:
        """This as an exact fraction of the whole; zero of zero is one (a cap of 0 is used up)."""
        if whole.micros <= 0:
            return Fraction(1)
        return Fraction(self.micros, whole.micros)

    def __str__(self) -> str:
        """`$1,204.18` below ten thousand, `$12.4k`, `$1.03M` above; always with the sign first."""
        sign, micros = ("-", -self.micros) if self.micros < 0 else ("", self.micros)
        dollars = Decimal(micros) / MICROS
        if dollars >= 999_950:  # what would round to $1000.0k
            return f"{sign}${dollars / 1_000_000:.2f}M"
        if dollars >= 10_000:
            return f"{sign}${dollars / 1_000:.1f}k"
        return f"{sign}${dollars:,.2f}"

    def exact(self) -> str:
        """All six decimals, for exports and audits: `1204.180000`."""
        sign, micros = ("-", -self.micros) if self.micros < 0 else ("", self.micros)
        return f"{sign}{micros // MICROS}.{micros % MICROS:06d}"


def _microseconds(duration: timedelta) -> int:
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


@dataclass(frozen=True, slots=True)
class Resources:
    """What a pod asks for or a node offers: exact integers. `gpus` are whole devices."""

    millicores: int = 0
    memory: int = 0
    """bytes"""
    gpus: int = 0
    pods: int = 0
    """pod slots: 1 for a pod, the kubelet's maximum for a node"""

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.millicores + other.millicores,
            self.memory + other.memory,
            self.gpus + other.gpus,
            self.pods + other.pods,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.millicores - other.millicores,
            self.memory - other.memory,
            self.gpus - other.gpus,
            self.pods - other.pods,
        )

    def __mul__(self, count: int) -> Resources:
        return Resources(self.millicores * count, self.memory * count, self.gpus * count, self.pods * count)

    def fits_in(self, other: Resources) -> bool:
        """True where every dimension of this is at most the other's."""
        return (
            self.millicores <= other.millicores
            and self.memory <= other.memory
            and self.gpus <= other.gpus
            and self.pods <= other.pods
        )

    def maximum(self, other: Resources) -> Resources:
        """The larger of both in every dimension (init containers against main containers)."""
        return Resources(
            max(self.millicores, other.millicores),
            max(self.memory, other.memory),
            max(self.gpus, other.gpus),
            max(self.pods, other.pods),
        )


# Kubernetes quantities: k8s.io/apimachinery/pkg/api/resource/quantity.go. A signed decimal number and
# one suffix: n u m, none, k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent. Nothing else: no `1K`, no
# `1e3Gi`, no `1_000`, no `inf`, no digits outside ASCII.
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)", re.ASCII
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_MAX_QUANTITY = 2**63 - 1


def parse_quantity(text: str) -> Fraction:
    """A Kubernetes quantity as an exact fraction of its base unit (cores, bytes, devices).

    Raises BadInput where the API server would refuse it. Values beyond 2**63 - 1 are capped there, as
    the API server does.
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadInput(
            f"{text!r} is not a Kubernetes quantity.", hint="Write it like 500m, 2, 1.5Gi or 128M."
        )
    number, suffix = match.groups()
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        exponent = int(suffix[1:])
        if abs(exponent) > 400:
            raise BadInput(f"{text!r} is not a Kubernetes quantity: its exponent is out of range.")
        value = Fraction(Decimal(number)) * Fraction(10) ** exponent
    else:
        value = Fraction(Decimal(number)) * _SUFFIXES[suffix]
    return max(min(value, Fraction(_MAX_QUANTITY)), Fraction(-_MAX_QUANTITY))


def parse_millicores(text: str) -> int:
    """A CPU quantity in millicores, rounded up as the scheduler does. Raises BadInput."""
    return _ceil(parse_quantity(text) * 1000)


def parse_bytes(text: str) -> int:
    """A memory or storage quantity in bytes, rounded up. Raises BadInput."""
    return _ceil(parse_quantity(text))


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


_DURATION = re.compile(r"(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+)s)?", re.ASCII)


def parse_duration(text: str | int) -> timedelta:
    """`90m`, `1h30m`, `2d`, `45s`, or whole seconds. Raises BadInput."""
    cleaned = re.sub(r"(?<=h)(\d+)$", r"\1m", str(text).strip())
    if cleaned.isascii() and cleaned.isdigit():
        return timedelta(seconds=int(cleaned))
    match = _DURATION.fullmatch(cleaned)
    if not cleaned or match is None:
        raise BadInput(f"{text!r} is not a duration.", hint="Write it like 45s, 90m, 1h30m or 2d.")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def is_due(moment: datetime | None, now: datetime, longest: timedelta) -> bool:
    """Whether a moment has come that was set at most `longest` ahead; None has come.

    One that lies further ahead than it can have been set shows a clock that was set back: waiting for it would last
    for as long as the clock was set back.
    """
    return moment is None or not timedelta(0) < moment - now <= longest


def format_duration(duration: timedelta) -> str:
    """`45 s`, `12 m`, `3 h 12 m`, `2 d 4 h`: the two largest units, for people."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "-" + format_duration(-duration)
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, secs = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (secs, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), 3)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(shown) or "0 s"


def utc(text: str) -> datetime:
    """An RFC 3339 time as aware UTC; raises BadInput where it has no zone or is no time."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise BadInput(f"{text!r} is not a time.", hint="Write it like 2026-11-06T17:00:00Z.") from None
    if moment.tzinfo is None:
        raise BadInput(f"{text!r} has no time zone.", hint=f"Write it like {text}Z.")
    return moment.astimezone(UTC)


def rfc3339(moment: datetime) -> str:
    """A UTC time as Kubernetes writes it, with microseconds only where there are some."""
    moment = moment.astimezone(UTC)
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if moment.microsecond else "%Y-%m-%dT%H:%M:%SZ"
    return moment.strftime(form)
