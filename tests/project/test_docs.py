"""The documentation is current: links lead somewhere, examples load, and nothing that exists goes unsaid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from bot.__main__ import cli
from bot.commands.registry import VERBS
from bot.health import Meters
from bot.reference import REGIONS, WHO, filled
from bot.settings_table import sections, settings_of
from bot.terminal import SECTIONS
from config.settings import Settings, settings_from
from config.source import parse_yaml, validate
from launcher.load import parse_experiment
from rehearsal.format import Fault, Invariant, Scenario, load_scenario

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = ROOT / "README.md"
AGENTS = ROOT / "AGENTS.md"
CONFIGURATION = ROOT / "docs/configuration.md"
EXPERIMENT_PAGES = (README, ROOT / "docs/experiments.md")
TAKEN_WITH_A_CALL = {"ec2:CreateTags", "iam:PassRole"}
"""what RunInstances needs for the tags and the instance profile in it"""


def name_of(path: Path) -> str:
    """A path as the tests' ids show it."""
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    """A page."""
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str = "yaml") -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(path), re.DOTALL | re.MULTILINE)


def code(path: Path) -> str:
    """Everything on a page that is written as code, fenced or inline."""
    text = text_of(path)
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", text)])


def links(path: Path) -> list[str]:
    """Relative targets of links and images."""
    text = re.sub(r"^```.*?^```", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    found = [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'src="([^"]+)"', text)]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def loaded(text: str) -> Settings:
    """Settings from an example, as `serve --check` reads them."""
    return settings_from(parse_yaml(text, "example.yaml"), SECTIONS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page):
    """Files, images and headings that are linked exist."""
    broken = []
    for target in links(page):
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)

    assert broken == []


def test_every_page_is_linked():
    """From the README every page of docs/ is one click away, from the list of decisions each decision."""
    for start, pages in (
        (README, ROOT.glob("docs/*.md")),
        (ROOT / "docs/decisions/README.md", ROOT.glob("docs/decisions/0*.md")),
    ):
        linked = {(start.parent / target.partition("#")[0]).resolve() for target in links(start)}
        assert [name_of(page) for page in pages if page not in linked] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_on_the_pages_exist(page):
    """What is written as `quartermaster VERB`, `/exp VERB` or `make TARGET` can be typed."""
    known = set(cli().commands)
    targets = set(re.findall(r"^(\w+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    typed = set(re.findall(r"(?m)(?:^|&& )quartermaster ([a-z]+)", code(page)))
    asked = set(re.findall(r"/exp ([a-z]+)", code(page)))
    made = set(re.findall(r"(?m)(?:^|&& )make ([a-z]+)", code(page)))

    assert typed - known == set()
    assert asked - {verb.name.split()[0] for verb in VERBS} == set()
    assert made - targets == set()


def test_generated_parts_are_current():
    """Every region is on some page, and `python -m bot.reference docs/*.md` would change nothing."""
    generated = [page for page in PAGES if "<!-- begin " in text_of(page)]
    found = {name for page in generated for name in re.findall(r"<!-- begin ([\w-]+) -->", text_of(page))}

    assert found == set(REGIONS)
    assert [name_of(page) for page in generated if filled(text_of(page)) != text_of(page)] == []


def test_every_verb_says_who_may_and_how():
    """Verbs that act say who may use them, and every verb has an example."""
    assert {verb.name for verb in VERBS if verb.acts} == set(WHO)
    assert [verb.name for verb in VERBS if not verb.examples] == []


def test_every_setting_says_what_it_means():
    """A field of a settings model has its meaning right below it."""
    silent = [f"{path}.{s.name}" for path, model in sections() for s in settings_of(model) if not s.meaning]

    assert silent == []


def test_every_environment_variable_is_documented():
    """The table names exactly what config/environment.py reads."""
    read = set(re.findall(r"QM_[A-Z_]+[A-Z_]", text_of(ROOT / "config/environment.py")))
    told = set(re.findall(r"`(QM_[A-Z_]+)", text_of(CONFIGURATION)))

    assert told == read


def test_every_metric_is_documented():
    """The series of /metrics and the table have the same names."""
    told = set(re.findall(r"`(quartermaster_\w+)`", text_of(ROOT / "docs/operating.md")))
    families = [family.name for family in Meters().registry.collect()]

    assert len(families) > 5
    assert [name for name in families if not {name, f"{name}_total"} & told] == []


def test_the_readme_settings_load():
    """The configuration from zero is one cluster, one region and one cap, and can be used as it stands."""
    (example,) = [block for block in blocks(README) if block.startswith("# quartermaster.yaml")]
    core = loaded(example).core

    assert [len(core.clusters), len(core.pools[0].regions), len(core.caps)] == [1, 1, 1]
    assert len(example.splitlines()) <= 35


def test_the_complete_example_loads_and_is_complete():
    """It uses every section and every key of the core."""
    (example,) = [block for block in blocks(CONFIGURATION) if block.startswith("# quartermaster.yaml")]
    settings = loaded(example)

    assert set(parse_yaml(example, "x").data) == {*SECTIONS, *type(settings.core).model_fields}


@pytest.mark.parametrize("page", EXPERIMENT_PAGES, ids=name_of)
def test_documented_experiments_load(page):
    """Blocks that describe an experiment are experiments."""
    found = [block for block in blocks(page) if re.search(r"^image:", block, re.MULTILINE)]

    assert found
    assert all(parse_experiment(block, "example.yaml").name for block in found)


def test_shipped_and_documented_scenarios_load():
    """Stories in the package and the small scenario of the docs are valid scenarios."""
    stories = sorted((ROOT / "rehearsal/stories").glob("*.yaml"))
    documented = [block for block in blocks(ROOT / "docs/scenarios.md") if "\nworld:" in block]

    assert stories
    assert documented
    assert all(load_scenario(path)[0].name == path.stem for path in stories)
    assert all(validate(parse_yaml(block, "docs.yaml"), Scenario).steps for block in documented)


def keys(model: type[BaseModel]) -> set[str]:
    """Every key of a model and of the models in it, as it is written."""
    found = set()
    for name, field in model.model_fields.items():
        found.add(field.alias or name)
        found |= {key for each in models_in(field.annotation) for key in keys(each)}
    return found


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models that an annotation holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def test_everything_a_scenario_can_say_is_documented():
    """Keys of the world, the steps and the expectations, kinds of faults, invariants."""
    written = code(ROOT / "docs/scenarios.md")
    words = keys(Scenario) | {*get_args(Fault.model_fields["kind"].annotation), *get_args(Invariant)}

    assert len(words) > 40
    assert sorted(word for word in words if not re.search(rf"(?<![\w-]){word}(?![\w-])", written)) == []


def test_the_iam_policy_allows_what_the_code_calls():
    """The policy's actions are those of the adapters' calls, no more and no fewer, and the page explains each."""
    source = "".join(text_of(path) for path in [*ROOT.glob("fleet/clouds/*.py"), ROOT / "fleet/billing.py"])
    calls = set(re.findall(r'get_paginator\("(\w+)"\)', source))
    calls |= set(re.findall(r"\.((?:run|terminate)_instances|get_cost_and_usage)\(", source))
    service = {"get_products": "pricing", "get_cost_and_usage": "ce"}
    needed = {f"{service.get(c, 'ec2')}:{c.title().replace('_', '')}" for c in calls} | TAKEN_WITH_A_CALL
    policy = json.loads(text_of(ROOT / "config/deploy/iam-policy.json"))
    allowed = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        allowed |= {actions} if isinstance(actions, str) else set(actions)

    assert allowed == needed
    assert [action for action in allowed if f"`{action}`" not in text_of(ROOT / "docs/operating.md")] == []


def test_pages_stay_readable():
    """The README below 250 lines, AGENTS within 100, pictures below 200 KB."""
    assert len(text_of(README).splitlines()) < 250
    assert len(text_of(AGENTS).splitlines()) <= 100
    heavy = [name_of(p) for p in (ROOT / "docs/images").iterdir() if p.stat().st_size > 200_000]
    assert heavy == []


def test_the_canonical_examples_exist():
    """Every path that AGENTS.md and DEVELOPERS.md name is there (brought ones excepted)."""
    for page in (AGENTS, ROOT / "DEVELOPERS.md"):
        named = re.findall(r"`((?:\.?\w[\w.-]*/)+[\w.-]*|\w+\.(?:py|md|toml|lock|yaml))`", text_of(page))
        brought = (".venv/", ".services/")
        gone = [path for path in named if not path.startswith(brought) and not _exists(path)]

        assert named
        assert gone == []


def _exists(path: str) -> bool:
    """At the root, or (for a short name in a table of the map) anywhere in the product."""
    return (ROOT / path).exists() or any(ROOT.glob(f"*/{path}")) or any(ROOT.glob(f"*/*/{path}"))


def test_the_changelog_keeps_its_form():
    """Keep a Changelog: versions as second headings, the newest first, known kinds of change below them."""
    text = text_of(ROOT / "CHANGELOG.md")
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))

    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "[Unreleased]"
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert len(re.findall(r"^- ", text, re.MULTILINE)) > 3
