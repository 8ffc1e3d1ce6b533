"""What a machine was told at its launch: one `key=value` a line; unknown keys are a boot script's business.

| key | value |
|---|---|
| endpoint | address of the cluster's API |
| token | bearer token with which the machine registers its Node |
| ca | the API's certificate: PEM, in base64 |
| insecure | `true`: the API's certificate is not verified |
| labels | `key=value,key=value` |
| taints | `key=value:effect,key:effect` |
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class CannotJoin(Exception):
    """What the machine was told can never lead it into a cluster."""


@dataclass(frozen=True)
class UserData:
    """What a machine was told. Taints are (key, value, effect)."""

    endpoint: str = ""
    token: str = ""
    ca: str = ""
    insecure: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()

    def tls(self) -> ssl.SSLContext | bool:
        """How the API's certificate is checked; CannotJoin where the given one is none."""
        if not self.endpoint.startswith("https:"):
            return True
        try:
            return _context(self.ca, self.insecure)
        except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
            raise CannotJoin(f"The certificate in the user data is none: {error}") from error


@lru_cache(maxsize=64)
def _context(ca: str, insecure: bool) -> ssl.SSLContext:
    if insecure:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if not ca:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(ca, validate=True).decode())


def read_user_data(text: str) -> UserData:
    """User data from their lines; CannotJoin where a kubelet would not start with them."""
    lines = {
        key.strip(): value.strip()
        for key, separator, value in (line.partition("=") for line in text.splitlines())
        if separator
    }
    if not lines.get("endpoint", "").startswith(("http://", "https://")):
        raise CannotJoin("The user data name no endpoint.")
    return UserData(
        lines["endpoint"].rstrip("/"),
        lines.get("token", ""),
        lines.get("ca", ""),
        lines.get("insecure") == "true",
        dict(_label(pair) for pair in lines.get("labels", "").split(",") if pair),
        tuple(_taint(each) for each in lines.get("taints", "").split(",") if each),
    )


def _label(pair: str) -> tuple[str, str]:
    key, separator, value = pair.partition("=")
    if not key or not separator:
        raise CannotJoin(f"{pair!r} is no label.")
    return key, value


def _taint(text: str) -> tuple[str, str, str]:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise CannotJoin(f"{text!r} is no taint.")
    return key, value, effect
