"""YAML as people mean it: every trap of YAML 1.1 has a test, and every error has a file and line."""

from __future__ import annotations

import pytest
from pydantic import Field

from config.fields import Dollars, Duration, Strict
from config.source import parse_yaml, validate
from fleet.errors import BadInput
from fleet.values import Money


class Inner(Strict):
    """A nested model."""

    speed: int = 1


class Outer(Strict):
    """A model with what settings have."""

    name: str
    price: Dollars = Money(0)
    every: Duration | None = None
    inner: Inner = Field(default_factory=Inner)
    items: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("010", "010"),
        ("22:22", "22:22"),
        ("1e3", 1000.0),
        ("1e-4", 0.0001),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("~", None),
        ("'12'", "12"),
        ("2026-01-01", "2026-01-01"),
        ("3.10", 3.1),
        (".inf", ".inf"),
    ],
)
def test_plain_scalars_are_read_by_the_core_rules(text, value):
    """PyYAML #173 and the Norway problem: what looks like text is text, what looks like a number is one."""
    assert parse_yaml(f"a: {text}", "x.yaml").data == {"a": value}


def test_the_source_text_of_a_scalar_is_kept():
    """An environment variable 3.10 must not become 3.1."""
    assert parse_yaml("env: {V: 3.10}", "x.yaml").text(("env", "V")) == "3.10"


def test_a_key_twice_names_both_lines():
    """PyYAML #165: the last one won silently."""
    with pytest.raises(BadInput, match=r"x\.yaml:3: The key 'a' is there twice, on lines 1 and 3\."):
        parse_yaml("a: 1\nb: 2\na: 3\n", "x.yaml")


def test_a_tab_is_named():
    """Tabs are the commonest broken YAML."""
    with pytest.raises(BadInput, match="Indent with spaces, not tabs"):
        parse_yaml("a:\n\tb: 1\n", "x.yaml")


def test_two_documents_are_refused():
    """A settings file is one document."""
    with pytest.raises(BadInput, match="more than one document"):
        parse_yaml("a: 1\n---\nb: 2\n", "x.yaml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: x\npriec: 3\n", "x.yaml:2: priec is not a setting that exists. Did you mean 'price'?"),
        ("price: 3\n", "x.yaml:1: name is missing. Add `name: …`."),
        (
            "name: x\ninner:\n  sped: 3\n",
            "x.yaml:3: inner.sped is not a setting that exists. Did you mean 'speed'?",
        ),
        (
            "name: x\nitems:\n  - {speed: 1}\n  - {sped: 2}\n",
            "x.yaml:4: items.1.sped is not a setting that exists. Did you mean 'speed'?",
        ),
        (
            "name: x\ninner: {speed: fast}\n",
            "x.yaml:2: inner.speed: it must be a whole number (given: 'fast').",
        ),
        (
            "name: x\nprice: 1.000,00\n",
            "x.yaml:2: price: '1.000,00' is not an amount of dollars. Write it like 1204.18, $1,204.18 or 1.5k.",
        ),
        (
            "name: x\nevery: soon\n",
            "x.yaml:2: every: 'soon' is not a duration. Write it like 45s, 90m, 1h30m or 2d.",
        ),
        ("name: x\nitems: one\n", "x.yaml:2: items: it must be a list (given: 'one')."),
        ("name: x\ninner:\n", "x.yaml:2: inner: it must be a mapping."),
        ("- a\n", "x.yaml:1: The file must be a mapping, not a list."),
    ],
)
def test_a_bad_value_gets_one_sentence(text, sentence):
    """What, where, why, and what to type instead."""
    with pytest.raises(BadInput) as caught:
        validate(parse_yaml(text, "x.yaml"), Outer)

    assert sentence == str(caught.value)


def test_good_values_are_typed():
    """Money and durations come out as values."""
    found = validate(parse_yaml("name: x\nprice: 1.5k\nevery: 1h30\n", "x.yaml"), Outer)

    assert Money.usd(1500) == found.price
    assert found.every is not None
    assert found.every.total_seconds() == 5400
