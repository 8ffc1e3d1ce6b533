"""Slash text as people meant it: what phones and Slack do to it is undone before it is split into words."""

from __future__ import annotations

import re
import shlex

from fleet.errors import BadInput

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'", "′": "'"})
_SPACES = re.compile(r"[\u00a0\u2000-\u200a\u202f\u3000\t\r\n]")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00ad]")
_DASHES = re.compile(r"(?<!\S)[—–―−]{1,2}(\w+)")
_SINGLE = re.compile(r"(?<!\S)'([^'\"]*)'(?!\S)")
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
_CHANNEL = re.compile(r"<#([CGD][A-Z0-9]+)(?:\|[^>]*)?>")
_MAIL = re.compile(r"<mailto:([^|>]*)(?:\|[^>]*)?>")
_LINK = re.compile(r"<((?:https?|ftp)://[^|>]*)(?:\|([^>]*))?>")


def clean(text: str) -> str:
    """Undo smart dashes, quotes and spaces, Slack's links and mentions, and its three escapes."""
    text = _SPACES.sub(" ", _INVISIBLE.sub("", text))
    text = _USER.sub(r"\1", _CHANNEL.sub(r"\1", _MAIL.sub(r"\1", text)))
    text = _LINK.sub(_unlink, text)
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return _DASHES.sub(_hyphens, text).translate(_QUOTES).strip()


def _unlink(match: re.Match[str]) -> str:
    url, label = match[1], match[2]
    return label if label and url.removesuffix("/") in (f"http://{label}", f"https://{label}") else url


def _hyphens(match: re.Match[str]) -> str:
    """`—gpus` and `–gpus` are `--gpus`; `–n` is `-n`; `−5` is `-5`."""
    follows = match[1]
    return ("--" if len(follows) > 1 and not follows[0].isdigit() else "-") + follows


def words(text: str) -> list[str]:
    """The words of a slash command. An apostrophe (`it's`) is a letter, not an open quotation.

    Raises BadInput where a quotation is not closed.
    """
    lexer = shlex.shlex(_SINGLE.sub(r'"\1"', clean(text)), posix=True)
    lexer.whitespace_split = True
    lexer.commenters, lexer.quotes, lexer.escape = "", '"', ""
    try:
        return list(lexer)
    except ValueError:
        raise BadInput(
            "A quotation is not closed.", where="/exp", hint='Put a " at its end, or leave both out.'
        ) from None
