"""Resource quantities as the whole numbers the scheduler counts with, rounded up as it rounds them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sandbox.kube.quantities import parse


@lru_cache(maxsize=8192)
def amount(resource: str, quantity: str | int | float) -> int:
    """Millicores of `cpu`, whole units (bytes, devices) of anything else."""
    value = parse(quantity)[0] * (1000 if resource == "cpu" else 1)
    return -(-value.numerator // value.denominator)


def amounts(resources: Mapping[str, str | int | float] | None) -> dict[str, int]:
    """A `requests`, `capacity` or `allocatable` map as whole numbers."""
    return {name: amount(name, quantity) for name, quantity in (resources or {}).items()}
