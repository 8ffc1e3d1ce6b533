"""What the wheel carries: every file of the packages that is not Python is named in the package data."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def data_files() -> list[str]:
    """Tracked and new files of the packages that are no Python."""
    tops = sorted({name.split(".")[0] for name in SETUPTOOLS["packages"]})
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *tops],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.splitlines() if not name.endswith(".py")]


def is_shipped(name: str) -> bool:
    """Whether setuptools takes it: a pattern of its package, or of all, matches its path in the package."""
    path = PurePosixPath(name)
    folder = next(p for p in path.parents if str(p).replace("/", ".") in SETUPTOOLS["packages"])
    package = str(folder).replace("/", ".")
    inside = path.relative_to(folder)
    patterns = [*SETUPTOOLS["package-data"]["*"], *SETUPTOOLS["package-data"].get(package, [])]
    return any(len(PurePosixPath(p).parts) == len(inside.parts) and inside.match(p) for p in patterns)


def test_every_data_file_is_in_the_wheel():
    """Manifests, stories, the page and the instance types are read from the installed package."""
    found = data_files()

    assert {"config/deploy/clusterrole.yaml", "sandbox/cloud/types.json.gz"} <= set(found)
    assert [name for name in found if not is_shipped(name)] == []
