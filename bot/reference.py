"""The tables of the reference pages, made from the models, verbs and meters that they describe.

`python -m bot.reference docs/*.md` rewrites what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`;
all other text is left as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import click
import yaml
from prometheus_client.metrics import MetricWrapperBase

from bot.__main__ import cli
from bot.commands.registry import VERBS
from bot.commands.verb import Verb
from bot.health import Meters
from bot.settings_table import settings_tables
from fleet.errors import BadInput

_REGION = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
READERS = "everybody, also people who are not in the settings"
OWNERS = "the run's owner, leads of its team, operators, admins"
WHO = {
    "launch": "everybody in `people:`; a launch card is answered by who asked, leads of the team, operators, admins",
    "scale": OWNERS,
    "pause": OWNERS,
    "resume": OWNERS,
    "kill": OWNERS,
    "caps set": "admins; leads for their own team, its people and its experiments",
    "caps remove": "admins; leads for their own team, its people and its experiments",
    "approve": "whom the cap's `raised_by` names, within their `approval_limit`; an owner for the own work "
    "up to `guard.self_approval`, once a window",
    "deny": "the owner, and whom the cap's `raised_by` names",
}
"""Who may use a verb that acts, as `bot.operations.rights` and the guard's approvals decide it."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def who(verb: Verb) -> str:
    """Who may use a verb."""
    return WHO[verb.name] if verb.acts else READERS


def verbs() -> str:
    """Every verb: both forms, options, who may, two examples."""
    return "\n".join(map(_verb, VERBS))


def _verb(verb: Verb) -> str:
    words = verb.help()
    given = [*verb.examples, *verb.examples][:2]
    examples = [f"/exp {given[0]}", f"quartermaster {given[1]}"] if given else []
    parts = [
        f"### {verb.name}\n\n{verb.summary}.\n\n",
        table(
            ("", ""),
            [
                ("in Slack", f"`/exp {verb.usage}`"),
                ("in a terminal", f"`quartermaster {verb.usage}`"),
                ("who may", who(verb)),
                *((f"`{flag}`", meaning) for flag, meaning in words.options),
            ],
        ),
        "\n```\n" + "\n".join(examples) + "\n```\n" if examples else "",
    ]
    return "".join(parts)


def terminal() -> str:
    """The commands that are no verbs: serve, replay, demo."""
    own = {verb.name.partition(" ")[0] for verb in VERBS}
    return "\n".join(_command(name, found) for name, found in cli().commands.items() if name not in own)


def _command(name: str, found: click.Command) -> str:
    words = " ".join([name, *(p.make_metavar(click.Context(found)) for p in found.params if _is_argument(p))])
    options = [p for p in found.params if isinstance(p, click.Option)]
    rows = [(f"`{_flag(option)}`", option.help or "") for option in options]
    return f"### {name}\n\n{found.help}\n\n`quartermaster {words}`\n\n" + table(("option", "what"), rows)


def _is_argument(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument)


def _flag(option: click.Option) -> str:
    if option.is_flag:
        return option.opts[0]
    kind = option.type
    value = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else option.metavar or "PATH"
    return f"{option.opts[0]} {value}"


def metrics() -> str:
    """Every series of /metrics."""
    found = [each for each in vars(Meters()).values() if isinstance(each, MetricWrapperBase)]
    return table(("series", "kind", "labels", "what"), map(_metric, found))


def _metric(wrapper: MetricWrapperBase) -> Sequence[str]:
    (family,) = wrapper.collect()
    suffix = "_total" if family.type == "counter" else ""
    return f"`{family.name}{suffix}`", family.type, ", ".join(wrapper._labelnames), family.documentation


def permissions() -> str:
    """The shipped ClusterRole, each rule beside the comment that says why."""
    text = (files("config") / "deploy" / "clusterrole.yaml").read_text(encoding="utf-8")
    rows: list[tuple[str, str, str]] = []
    why = ""
    for line in text.partition("rules:\n")[2].splitlines():
        if line.strip().startswith("#"):
            why = line.strip("# ")
            continue
        (rule,) = yaml.safe_load(line)
        resources = ", ".join(f"`{name}`" for name in rule["resources"])
        rows.append((why, resources, ", ".join(rule["verbs"])))
    return table(("why", "resources", "verbs"), rows)


REGIONS: Mapping[str, Callable[[], str]] = {
    "settings": settings_tables,
    "verbs": verbs,
    "terminal": terminal,
    "metrics": metrics,
    "permissions": permissions,
}


def filled(page: str) -> str:
    """The page with every region made anew. Raises BadInput for a region that nothing makes."""

    def region(match: re.Match[str]) -> str:
        if match[2] not in REGIONS:
            raise BadInput(
                f"Nothing makes the region {match[2]!r}.", hint=f"There are: {', '.join(REGIONS)}."
            )
        return f"{match[1]}\n{REGIONS[match[2]]()}\n{match[3]}"

    return _REGION.sub(region, page)


def main(paths: Sequence[str]) -> None:
    """Rewrite the pages."""
    for path in map(Path, paths):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
