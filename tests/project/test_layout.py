"""The project as a whole: packages placed and shipped, names that nobody else claims, words that do not belong."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"bot", "guard", "scaler", "launcher", "config", "fleet", "sandbox", "rehearsal", "benchmarks"}
BROAD_EXCEPT = {"bot/serve.py"}
"""The one place where a tick's boundary may catch everything."""


def tracked(*patterns: str) -> list[str]:
    """Files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return listed.stdout.splitlines()


def test_every_package_is_placed_and_shipped():
    """A folder with Python in it is either a package of the layers or tests; and setuptools ships it."""
    shipped = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {str(Path(f).parent).replace("/", ".") for f in tracked("*.py") if not f.startswith("tests/")}

    assert {name.split(".")[0] for name in found} == PACKAGES
    assert found == shipped


def test_every_top_level_package_is_in_the_import_contracts():
    """import-linter cannot be exhaustive over several roots, so this is."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = set(re.findall(r"\w+", parser["importlinter:contract:layers"]["layers"]))

    assert layers | {"sandbox"} == PACKAGES
    assert set(parser["importlinter"]["root_packages"].split()) == PACKAGES


def test_no_other_distribution_claims_our_names():
    """The names are plain: `config` on PyPI would overwrite ours silently."""
    owners = packages_distributions()

    for name in PACKAGES:
        assert set(owners.get(name, [])) <= {"quartermaster"}, name


def test_broad_excepts_stand_only_at_the_tick_boundary():
    """`except Exception` swallows what a guard must not swallow."""
    broad = set()
    for name in tracked("*.py"):
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and not name.startswith("tests/"):
                caught = ast.unparse(node.type) if node.type else "bare"
                if re.search(r"\b(Exception|bare)\b", caught):
                    broad.add(name)

    assert broad <= BROAD_EXCEPT


def test_the_environment_is_read_in_one_place():
    """`os.environ` elsewhere makes a decision depend on where it runs."""
    readers = {
        name
        for name in tracked("*.py")
        if not name.startswith("tests/")
        and re.search(r"os\.(environ|getenv)", (ROOT / name).read_text(encoding="utf-8"))
    }

    assert readers <= {"config/environment.py"}


def test_no_machine_paths_or_unfinished_places():
    """The repository speaks of the product only."""
    pattern = re.compile(
        r"(?<![\w.])/(work|root|home/\w+)/|\.\./shared|\b(TODO|FIXME|XXX)\b|NotImplementedError"
    )
    bad = []
    for name in tracked():
        path = ROOT / name
        if path.suffix in {".gz", ".png", ".lock", ".sum"} or name == "tests/project/test_layout.py":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.search(line):
                bad.append(f"{name}:{number}: {line.strip()[:100]}")

    assert bad == []


def test_the_lock_names_hashes_and_no_index():
    """Everything is pinned with hashes; where it comes from is the installer's business."""
    lock = (ROOT / "requirements.lock").read_text()
    pinned = re.findall(r"^[a-z0-9-]+(?:\[[a-z]+\])?==\S+", lock, re.MULTILINE)

    assert len(pinned) > 40
    assert lock.count("--hash=sha256:") >= len(pinned)
    assert "://" not in lock
