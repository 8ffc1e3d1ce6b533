"""What a request asks for: path, verb and parameters, as the API server reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sandbox.kube.access import Attributes
from sandbox.kube.errors import Cause, bad_request, invalid, method_not_allowed, no_such_path
from sandbox.kube.resources import RESOURCES, Resource

_BY_PATH: dict[tuple[str, str], Resource] = {(r.prefix, r.plural): r for r in RESOURCES}
_SUBRESOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "pods": {"eviction": ("POST",), "binding": ("POST",), "log": ("GET",)},
    "namespaces": {"finalize": ("PUT",)},
}
_STATUS_METHODS = ("GET", "PUT", "PATCH")
_ON_COLLECTION = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_ON_OBJECT = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_TRUE = ("true", "1", "True", "t", "T", "TRUE")
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request for a resource. `verb` is as in RBAC; `name` "" = the collection."""

    user: str
    method: str
    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""
    """the User-Agent up to its slash: who manages fields where no fieldManager is given"""

    @property
    def mutating(self) -> bool:
        """It may change something."""
        return self.method != "GET" and not self.dry_run

    @property
    def dry_run(self) -> bool:
        """dryRun=All."""
        return self.query.get("dryRun") == "All"

    @property
    def manager(self) -> str:
        """The field manager."""
        return self.query.get("fieldManager") or self.agent or "unknown"

    def attributes(self) -> Attributes:
        """For authorisation."""
        plural = self.resource.plural
        return Attributes(
            user=self.user,
            verb=self.verb,
            group=self.resource.group,
            resource=f"{plural}/{self.subresource}" if self.subresource else plural,
            namespace=self.namespace,
            name=self.name,
        )

    def with_query(self, name: str, value: str) -> ApiRequest:
        """The same request with one parameter more."""
        return replace(self, query={**self.query, name: value})

    def flag(self, name: str) -> bool:
        """A boolean parameter; given without a value it is true, as in Go."""
        return name in self.query and self.query[name] in (*_TRUE, "")

    def integer(self, name: str) -> int | None:
        """A whole-number parameter; ApiError 400 where it is none."""
        text = self.query.get(name, "")
        if text == "":
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def check_options(self) -> None:
        """ApiError 422 for write options that are refused."""
        dry_run = self.query.get("dryRun", "")
        causes = []
        kind = _OPTIONS.get(self.verb, "DeleteOptions")
        if dry_run not in ("", "All"):
            causes.append(Cause("unsupported", "dryRun", 'supported values: "All"', [dry_run]))
        if len(self.query.get("fieldManager", "")) > 128:
            causes.append(Cause("too long", "fieldManager", "may not be more than 128 bytes"))
        if causes:
            raise invalid(kind, "meta.k8s.io", "", causes)


def parse(method: str, path: str, query: Mapping[str, str], user: str, agent: str) -> ApiRequest:
    """A path below /api or /apis as a request. ApiError 404 for one that is not served, 405 for a method."""
    parts = [part for part in path.split("/") if part]
    at = 2 if parts[0] == "api" else 3
    prefix, rest = "/" + "/".join(parts[:at]), parts[at:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and (prefix, rest[2]) in _BY_PATH:
        namespace, rest = rest[1], rest[2:]
    resource = _BY_PATH.get((prefix, rest[0])) if rest else None
    if resource is None or len(rest) > 3 or (bool(namespace) and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    verb = _verb(method, resource, name, namespace, subresource)
    if verb == "list" and query.get("watch", "") in _TRUE:
        verb = "watch"
    if resource.key == "namespaces" and name:
        namespace = name
    return ApiRequest(user, method, verb, resource, namespace, name, subresource, query, agent)


def _verb(method: str, resource: Resource, name: str, namespace: str, subresource: str) -> str:
    if subresource:
        if method not in _subresource_methods(resource, subresource):
            raise method_not_allowed()
        return _ON_OBJECT[method]
    verb = (_ON_OBJECT if name else _ON_COLLECTION).get(method)
    everywhere = not name and resource.namespaced and not namespace
    if (
        verb is None
        or (name and method == "POST")
        or (everywhere and method != "GET")
        or (verb == "deletecollection" and resource.key == "namespaces")
    ):
        raise method_not_allowed()
    return verb


def _subresource_methods(resource: Resource, subresource: str) -> tuple[str, ...]:
    if subresource == "status" and resource.has_status:
        return _STATUS_METHODS
    methods = _SUBRESOURCES.get(resource.key, {}).get(subresource)
    if methods is None:
        raise no_such_path()
    return methods
