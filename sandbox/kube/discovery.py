"""What the API says about itself: versions, groups, resources, health."""

from __future__ import annotations

from typing import Any

from sandbox.kube.resources import RESOURCES, Resource

Object = dict[str, Any]

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.8",
    "compiler": "gc",
    "platform": "linux/amd64",
}
HEALTH = ("/healthz", "/livez", "/readyz")
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_POD_SUBRESOURCES = (
    ("pods/binding", "Binding", "", ["create"]),
    ("pods/eviction", "Eviction", "policy", ["create"]),
    ("pods/log", "Pod", "", ["get"]),
)


def document(path: str) -> Object | None:
    """The discovery document at a path; None where there is none."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        groups = sorted({resource.group for resource in RESOURCES if resource.group})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups]}
    served = {resource.prefix for resource in RESOURCES}
    if path in served:
        return _resources(path)
    if path.startswith("/apis/") and path.count("/") == 2 and any(p.startswith(path + "/") for p in served):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(path.removeprefix("/apis/"))}
    return None


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(prefix: str) -> Object:
    found: list[Object] = []
    for resource in RESOURCES:
        if resource.prefix == prefix:
            found += _entries(resource)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": prefix.removeprefix("/apis/").removeprefix("/api/"),
        "resources": sorted(found, key=lambda entry: str(entry["name"])),
    }


def _entries(resource: Resource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": [verb for verb in _VERBS if verb != "deletecollection" or resource.key != "namespaces"],
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    found = [entry]
    shared = {"singularName": "", "namespaced": resource.namespaced}
    if resource.has_status:
        found.append(
            {**shared, "name": f"{resource.plural}/status", "kind": resource.kind, "verbs": _STATUS_VERBS}
        )
    if resource.key == "pods":
        for name, kind, group, verbs in _POD_SUBRESOURCES:
            found.append({**shared, "name": name, "kind": kind, "verbs": verbs} | _grouped(group))
    return found


def _grouped(group: str) -> Object:
    return {"group": group, "version": "v1"} if group else {}
