"""Slash text as people meant it."""

from __future__ import annotations

import pytest

from bot.slack.parse import clean, words
from fleet.errors import BadInput


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("launch —yes dota", ["launch", "--yes", "dota"]),
        ("get pods —namespace=x", ["get", "pods", "--namespace=x"]),
        ("scale dota –role worker 3", ["scale", "dota", "--role", "worker", "3"]),
        ("x –n 3", ["x", "-n", "3"]),
        ("x −5", ["x", "-5"]),
        ("a — b", ["a", "—", "b"]),
        ("pause dota --reason “eval first”", ["pause", "dota", "--reason", "eval first"]),
        ("x --option1=“q”", ["x", "--option1=q"]),
        ("pause dota --reason it's wrong", ["pause", "dota", "--reason", "it's", "wrong"]),
        ('pause dota --reason "it’s wrong"', ["pause", "dota", "--reason", "it's wrong"]),
        ("x 'my job'", ["x", "my job"]),
        ("launch\u00a0dota", ["launch", "dota"]),
        ("launch dota\u200b", ["launch", "dota"]),
        ("mail <mailto:me@gmail.com|me@gmail.com>", ["mail", "me@gmail.com"]),
        ("who <@U1ADA|ada> <#C1|ops>", ["who", "U1ADA", "C1"]),
        ("see <https://example.com/a?b=1|example>", ["see", "https://example.com/a?b=1"]),
        ("see <http://dota.yaml|dota.yaml>", ["see", "dota.yaml"]),
        ("x a&amp;b &lt;c&gt;", ["x", "a&b", "<c>"]),
        ("x &amp;lt;", ["x", "&lt;"]),
        ("x C:\\temp", ["x", "C:\\temp"]),
        ("", []),
    ],
)
def test_typing_habits_are_undone(typed, meant):
    """kubebot#9, errbot#1145, slackbot#86, bolt-js#66: what phones and Slack make of a line."""
    assert words(typed) == meant


def test_an_open_quotation_is_told():
    """One sentence, not `No closing quotation`."""
    with pytest.raises(BadInput, match="A quotation is not closed"):
        words('pause dota --reason "eval')


def test_free_text_keeps_its_dashes():
    """Only the start of a word is an option."""
    assert clean("pause dota --reason a—b") == "pause dota --reason a—b"
