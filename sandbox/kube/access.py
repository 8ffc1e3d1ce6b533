"""Who is calling, and whether RBAC rules let them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.kube.errors import ApiError, forbidden, unauthorized

Rule = Mapping[str, Any]
"""A rule as in a ClusterRole: verbs, apiGroups, resources, resourceNames, nonResourceURLs. With a key
`namespaces` it holds only there, as through a RoleBinding."""

ANONYMOUS = "system:anonymous"
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request asks for, as authorisation sees it. `resource` has its subresource: `jobs/status`."""

    user: str
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Access:
    """Tokens and rules of one cluster. A user without rules of its own is an administrator."""

    def __init__(self, tokens: Mapping[str, str], rules: Mapping[str, Iterable[Rule]] | None = None) -> None:
        self.tokens = dict(tokens)
        self.rules: dict[str, Sequence[Rule]] = {user: tuple(each) for user, each in (rules or {}).items()}

    def authenticate(self, authorization: str | None) -> str:
        """The user of an Authorization header; ApiError 401 for a token that nobody has."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        user = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def authorize(self, asked: Attributes) -> None:
        """ApiError 403 with the server's sentence where no rule allows it."""
        if self._allows(asked):
            return
        if asked.path:
            raise ApiError(
                403, "Forbidden", f'forbidden: User "{asked.user}" cannot {asked.verb} path "{asked.path}"'
            )
        place = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        plural = asked.resource.partition("/")[0]
        raise forbidden(
            f"{plural}.{asked.group}" if asked.group else plural,
            asked.name,
            f'User "{asked.user}" cannot {asked.verb} resource "{asked.resource}" '
            f'in API group "{asked.group}" {place}',
        )

    def _allows(self, asked: Attributes) -> bool:
        if asked.path and _opens(asked):
            return True
        if asked.user == ANONYMOUS:
            return False
        rules = self.rules.get(asked.user)
        return rules is None or any(_covers(rule, asked) for rule in rules)


def _opens(asked: Attributes) -> bool:
    if asked.path in _OPEN_PATHS:
        return True
    known = asked.user != ANONYMOUS
    return known and asked.path.split("/")[1:2] in [[prefix[1:]] for prefix in _DISCOVERY]


def _covers(rule: Rule, asked: Attributes) -> bool:
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(
            url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or ()
        )
    if not _has(rule.get("apiGroups"), asked.group) or not _has_resource(rule, asked.resource):
        return False
    names = rule.get("resourceNames")
    if names and asked.name not in names:
        return False
    namespaces = rule.get("namespaces")
    return not namespaces or asked.namespace in namespaces


def _has(listed: Iterable[str] | None, wanted: str) -> bool:
    return any(entry in ("*", wanted) for entry in listed or ())


def _has_resource(rule: Rule, wanted: str) -> bool:
    listed = rule.get("resources") or ()
    if _has(listed, wanted):
        return True
    subresource = wanted.partition("/")[2]
    return bool(subresource) and f"*/{subresource}" in listed
