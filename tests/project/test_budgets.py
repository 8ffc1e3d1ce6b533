"""The size budgets of the design, without exemptions: a file that grows past them is split by meaning."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bot", "guard", "scaler", "launcher", "config", "fleet", "sandbox", "rehearsal", "benchmarks")
MODULE_LINES = 400
FUNCTION_LINES = 50
ARGUMENTS = 6
FORBIDDEN_NAMES = {"utils.py", "util.py", "common.py", "helpers.py", "helper.py", "misc.py"}


def python_files() -> list[Path]:
    """Every tracked or new Python file of the product and its tests."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


FILES = python_files()


def test_there_are_files_to_measure():
    """An empty list would pass everything."""
    assert len(FILES) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_keeps_its_budget(path):
    """Lines a module, lines a function, arguments a function, and no attic names."""
    source = path.read_text(encoding="utf-8")
    product = path.relative_to(ROOT).parts[0] in PACKAGES
    problems = []
    if path.name in FORBIDDEN_NAMES:
        problems.append(f"{path.name} says nothing about its content")
    if source.count("\n") > MODULE_LINES:
        problems.append(f"{source.count(chr(10))} lines (budget {MODULE_LINES})")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            problems += function_problems(node, product)

    assert problems == []


def function_problems(node: ast.FunctionDef | ast.AsyncFunctionDef, product: bool) -> list[str]:
    """What is too long or takes too much in one function."""
    problems = []
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > FUNCTION_LINES:
        problems.append(f"{node.name}:{node.lineno} has {length} lines (budget {FUNCTION_LINES})")
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    counted = [argument for argument in given if argument.arg not in ("self", "cls")]
    if product and len(counted) > ARGUMENTS:
        problems.append(f"{node.name}:{node.lineno} takes {len(counted)} arguments (budget {ARGUMENTS})")
    return problems
