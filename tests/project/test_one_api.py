"""The product does not know which API, cloud or chat it talks to: nothing in its code asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("bot", "guard", "scaler", "launcher", "config", "fleet")
STAND_INS = re.compile(r"sandbox|kwok|rehears", re.IGNORECASE)
ALLOWED = {
    (
        "fleet/clock.py",
        "The sandbox's world at ",
    ),  # the Clock adapter that follows a world, chosen by an address
    ("bot/health.py", "127.0.0.1"),  # where we serve ourselves
}


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and string that is executed: no docstrings, no comments."""
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.alias):
            yield node.lineno, node.name


@pytest.mark.parametrize("package", PRODUCT)
def test_no_code_of_the_product_names_a_stand_in(package):
    """Only the Clock adapter knows that there are worlds; an address chooses it."""
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for number, word in words(ast.parse(path.read_text(encoding="utf-8"))):
            if STAND_INS.search(word) and (name, word) not in ALLOWED:
                found.append(f"{name}:{number}: {word!r}")

    assert found == []
