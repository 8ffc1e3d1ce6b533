"""What a Slack client does to text between the keyboard and the app."""

from __future__ import annotations

import re

from sandbox.slack.state import State

_MENTION = re.compile(r"(?<![\w&@.])@([a-z0-9][\w.-]*[\w]|[a-z0-9])")
_CHANNEL = re.compile(r"(?<![\w&#])#([a-z0-9][\w-]*)")
_LINK = re.compile(r"https?://[^\s<>|]*[^\s<>|.,;:!?)'\"]")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")


def smarten(text: str) -> str:
    """Dashes and quotes as a Mac or a phone writes them."""
    text = text.replace("--", "—").replace("...", "…")
    text = re.sub(r'(^|[\s(\[=])"', r"\1“", text).replace('"', "”")
    return re.sub(r"(^|[\s(\[=])'", r"\1‘", text).replace("'", "’")


def escape_entities(text: str) -> str:
    """The three characters that have a meaning in Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def encode(state: State, text: str) -> str:
    """Mentions, channels, addresses and links in Slack's markup, everything else escaped.

    Text that already holds such markup (`<@U1|ada>`, picked from a client's menu) is left as it is.
    """
    pieces = re.split(r"(<(?:@|#|!|https?:|mailto:)[^<>]*>)", text)
    return "".join(piece if index % 2 else _encode_plain(state, piece) for index, piece in enumerate(pieces))


def without_names(text: str) -> str:
    """Mentions as messages have them: the id alone (`<@U1>`), where commands get `<@U1|ada>`."""
    return re.sub(r"<@(\w+)\|[^<>]*>", r"<@\1>", text)


def _encode_plain(state: State, text: str) -> str:
    done = []
    for index, piece in enumerate(re.split(f"({_LINK.pattern}|{_MAIL.pattern})", escape_entities(text))):
        if index % 2:
            done.append(f"<{piece}>" if piece.startswith("http") else f"<mailto:{piece}|{piece}>")
        else:
            with_people = _MENTION.sub(lambda found: _mention(state, found), piece)
            done.append(_CHANNEL.sub(lambda found: _channel(state, found), with_people))
    return "".join(done)


def _mention(state: State, found: re.Match[str]) -> str:
    name = found[1]
    for person in state.people.values():
        if person.name == name:
            return f"<@{person.id}|{person.name}>"
    for group in state.usergroups.values():
        if group.handle == name:
            return f"<!subteam^{group.id}|@{group.handle}>"
    return f"<!{name}>" if name in ("here", "channel", "everyone") else found[0]


def _channel(state: State, found: re.Match[str]) -> str:
    for channel in state.channels.values():
        if channel.name == found[1] and channel.kind == "public":
            return f"<#{channel.id}|{channel.name}>"
    return found[0]
