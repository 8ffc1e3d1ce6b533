"""Quantities in the canonical form in which the API server stores them (apimachinery resource.Quantity)."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sandbox.kube.errors import bad_request

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([a-zA-Z]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LIMIT = 2**63 - 1


def parse(value: str | int | float) -> tuple[Fraction, str]:
    """The exact value and its format: `binary`, `decimal` or `exponent`. ApiError 400 where refused."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise bad_request("quantities must be strings or numbers")
    return _parse(str(value))


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[Fraction, str]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise bad_request(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = match.groups()
    if re.fullmatch(r"[eE][+-]?[0-9]{1,3}", suffix):
        scale, form = Fraction(10) ** int(suffix[1:]), "exponent"
    elif suffix in _DECIMAL:
        scale, form = Fraction(1000) ** (_DECIMAL.index(suffix) - 3), "decimal"
    elif suffix in _BINARY:
        scale, form = Fraction(1024) ** _BINARY.index(suffix), "binary"
    else:
        raise bad_request("unable to parse quantity's suffix")
    exact = Fraction(Decimal(number)) * scale
    bounded = max(min(exact, Fraction(_LIMIT)), Fraction(-_LIMIT))
    return bounded, form


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    value, form = _parse(text)
    if form == "binary" and abs(value) >= 1024:
        whole = -(-value.numerator // value.denominator)
        return _scaled(Fraction(whole), 1024, _BINARY, 0)
    if form == "exponent":
        return _exponent(value)
    nanos = -(-(value * 10**9).numerator // (value * 10**9).denominator)
    return _scaled(Fraction(nanos), 1000, _DECIMAL, 0)


def canonical(value: str | int | float) -> str:
    """`0.5` → `500m`, `1024Mi` → `1Gi`, `1.5Gi` → `1536Mi`, 2 → `2`."""
    parse(value)
    return _canonical(str(value))


def _scaled(whole: Fraction, base: int, suffixes: tuple[str, ...], start: int) -> str:
    number = int(whole)
    at = start
    if number == 0:
        return "0"
    while number % base == 0 and at + 1 < len(suffixes):
        number //= base
        at += 1
    return f"{number}{suffixes[at]}"


def _exponent(value: Fraction) -> str:
    number, exponent = int(value * 10**9), -9
    if number == 0:
        return "0"
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    return f"{number}e{exponent}" if exponent else str(number)
