"""The settings file: complete, typed, with references that exist."""

from __future__ import annotations

import pytest

from config.fields import Duration, Strict
from config.people import PeopleDirectory
from config.settings import settings_from
from config.source import parse_yaml
from fleet.errors import BadInput
from fleet.ports import Scope
from fleet.values import Money, parse_duration

GOOD = """\
clusters:
  - {name: home, kubeconfig: ./kubeconfig, governed: [research]}
pools:
  - name: aws
    cluster: home
    provider: aws
    regions:
      - {name: us-west-2, image: ami-1, zones: [{name: us-west-2a, subnet: subnet-1}]}
    instance_types: [m5.xlarge]
  - {name: rack, cluster: home, provider: onprem, selector: {rack: a}, price_per_hour: "1.20"}
teams: [{name: vision, channel: C1}]
people:
  - {id: U1, name: Ada, team: vision, roles: [lead], approval_limit: 5000}
  - {id: U2, name: Ivo, team: vision}
caps:
  - {name: vision-month, scope: {team: vision}, limit: 20k, raised_by: [lead]}
guard: {tick: 30s}
"""


class GuardSection(Strict):
    """A section as a package would own it."""

    tick: Duration = parse_duration("60s")


def load(text: str):
    """Settings from text with one section."""
    return settings_from(parse_yaml(text, "qm.yaml"), {"guard": GuardSection})


def test_a_whole_file_becomes_values():
    """Pools, caps and sections are typed values."""
    settings = load(GOOD)

    assert [pool.name for pool in settings.pools()] == ["aws", "rack"]
    assert settings.pools()[1].hourly == Money.usd("1.20")
    assert settings.core.caps[0].scope.pair == ("team", "vision")
    assert settings.section("guard", GuardSection).tick.total_seconds() == 30
    assert settings.home.name == "home"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("cluster: home\n", "cluster: hom\n"), "qm.yaml:5: There is no cluster 'hom'. Known: home."),
        (("scope: {team: vision}", "scope: {team: vison}"), "There is no team 'vison'. Known: vision."),
        (("scope: {team: vision}", "scope: {team: vision, fleet: true}"), "a cap has exactly one scope"),
        (
            ("raised_by: [lead]", "raised_by: [operator]"),
            "Nobody in people: could approve more for the cap vision-month",
        ),
        (
            ("guard: {tick: 30s}", "gaurd: {tick: 30s}"),
            "gaurd is not a setting that exists. Did you mean 'guard'?",
        ),
        (
            ("guard: {tick: 30s}", "guard: {tikc: 30s}"),
            "guard.tikc is not a setting that exists. Did you mean 'tick'?",
        ),
        (("id: U2", "id: U1"), "people has the id 'U1' twice."),
        ((', price_per_hour: "1.20"', ""), "an onprem pool needs selector"),
        (("kubeconfig: ./kubeconfig, ", ""), "give either kubeconfig: PATH or in_cluster: true"),
        (("limit: 20k", "limit: -1"), "an amount cannot be below zero"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(change, sentence):
    """Every mistake is one BadInput that says what and where."""
    with pytest.raises(BadInput) as caught:
        load(GOOD.replace(*change))

    assert sentence in str(caught.value)


def test_approvers_are_leads_of_that_team_within_their_limit():
    """A lead approves for the own team up to the limit; a researcher never; another team's lead neither."""
    people = PeopleDirectory(load(GOOD).core.people)

    assert [p.id for p in people.approvers(Scope(team="vision"), Money.usd(5000))] == ["U1"]
    assert people.approvers(Scope(team="vision"), Money.usd(5001)) == ()
    assert people.approvers(Scope(team="speech"), Money.usd(1)) == ()
    assert not people.by_chat_id("U9").known
    assert people.by_kubernetes_name("u2").name == "Ivo"
