"""Reading and changing objects of one cluster, always with an explicit content type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fleet.errors import BadInput, Conflict, Expired, NotFound, Refused
from fleet.kube.connection import APPLY_PATCH, JSON, MERGE_PATCH, Connection
from fleet.model import Ref
from fleet.ports import Manifest

PAGE = 500
# fmt: off
_CLUSTER_KINDS = frozenset({
    "APIService", "ClusterRole", "ClusterRoleBinding", "CSIDriver", "CSINode",
    "CustomResourceDefinition", "IngressClass", "MutatingWebhookConfiguration", "Namespace", "Node",
    "PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration", "ClusterQueue", "Cohort", "ResourceFlavor",
    "WorkloadPriorityClass",
})
# fmt: on
_IRREGULAR = {"Endpoints": "endpoints"}
_NO_LOG_YET = ("ContainerCreating", "PodInitializing", "is waiting to start", "does not have a host assigned")


Items = list[dict[str, Any]]


class KubeObjects:
    """The `Objects` port over one connection. Raises the types of `fleet.errors`."""

    def __init__(self, connection: Connection) -> None:
        self.cluster = connection.name
        self._connection = connection

    def get(self, ref: Ref) -> dict[str, Any]:
        """The object; NotFound where it is not there, or (with a uid in `ref`) where another has its name."""
        found = self._json("GET", _path_of(ref))
        if ref.uid and found.get("metadata", {}).get("uid") != ref.uid:
            raise NotFound(f"{self.cluster}: {ref} is gone; another object has its name.", code="NotFound")
        return found

    def list(self, api_version: str, kind: str, namespace: str = "", labels: str = "") -> Items:
        """All objects of a kind (all pages); `labels` is a label selector, no namespace means all."""
        query = {"labelSelector": labels} if labels else {}
        return self._all_pages(collection_path(api_version, kind, namespace), query, api_version, kind)

    def events(self, namespace: str, name: str) -> Items:
        """Events about the object of this name."""
        query = {"fieldSelector": f"involvedObject.name={name}"}
        return self._all_pages(collection_path("v1", "Event", namespace), query, "v1", "Event")

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> dict[str, Any]:
        """Create; Conflict where the name is taken."""
        api_version, kind, namespace, _ = _identity(manifest)
        path = collection_path(api_version, kind, namespace)
        return self._json("POST", path, _dry({}, dry_run), manifest, JSON)

    def apply(self, manifest: Manifest, *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply with force under a field manager."""
        api_version, kind, namespace, name = _identity(manifest)
        if not name:
            raise BadInput(f"A {kind} without metadata.name cannot be applied.")
        path = f"{collection_path(api_version, kind, namespace)}/{quote(name, safe='')}"
        query = _dry({"fieldManager": manager, "force": "true"}, dry_run)
        return self._json("PATCH", path, query, manifest, APPLY_PATCH)

    def merge_patch(self, ref: Ref, patch: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """JSON merge patch; with metadata.resourceVersion in the patch: Conflict where it moved on."""
        query = _dry({"fieldManager": "quartermaster"}, dry_run)
        return self._json("PATCH", _path_of(ref), query, patch, MERGE_PATCH)

    def delete(self, ref: Ref, *, grace_seconds: int | None = None, propagation: str = "Background") -> None:
        """Delete; a missing object is fine, and so is another one that has the name of `ref`'s uid."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if ref.uid:
            options["preconditions"] = {"uid": ref.uid}
        try:
            self._connection.request("DELETE", _path_of(ref), None, options)
        except NotFound:
            return
        except Conflict:
            if not ref.uid:
                raise

    def evict(self, ref: Ref) -> None:
        """Evict a pod; Throttled where a PodDisruptionBudget refuses, a missing pod is fine."""
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
        }
        if ref.uid:
            body["deleteOptions"] = {"preconditions": {"uid": ref.uid}}
        try:
            self._connection.request("POST", f"{_path_of(ref)}/eviction", None, body)
        except NotFound:
            return
        except Conflict:
            if not ref.uid:
                raise

    def logs(self, ref: Ref, *, container: str = "", tail: int = 100) -> str:
        """Last lines of a pod's log; "" where its container has not started yet."""
        query = {"tailLines": str(tail)} | ({"container": container} if container else {})
        try:
            data = self._connection.request("GET", f"{_path_of(ref)}/log", query)
        except Refused as error:
            if error.code == "BadRequest" and any(words in str(error) for words in _NO_LOG_YET):
                return ""
            raise
        return data.decode("utf-8", "replace")

    def _all_pages(self, path: str, query: Mapping[str, str], api_version: str, kind: str) -> Items:
        for attempt in (1, 2, 3):
            try:
                return self._pages(path, query, api_version, kind)
            except Expired:
                # The list took longer than the server keeps its pages: start over.
                if attempt == 3:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, path: str, query: Mapping[str, str], api_version: str, kind: str) -> Items:
        found: Items = []
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = self._json("GET", path, {**query, "limit": str(PAGE), **more})
            # Items of a list carry neither apiVersion nor kind.
            found += [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or ()]
            token = str(page.get("metadata", {}).get("continue") or "")
            if not token:
                return found

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._connection.request(method, path, query, body, content_type))
        return found


def collection_path(api_version: str, kind: str, namespace: str = "") -> str:
    """The URL path of a kind's collection: `/apis/batch/v1/namespaces/research/jobs`."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind not in _CLUSTER_KINDS else ""
    return f"{root}{scope}/{plural(kind)}"


def plural(kind: str) -> str:
    """The resource name of a kind, as API servers and CRD generators form it."""
    if kind in _IRREGULAR:
        return _IRREGULAR[kind]
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _path_of(ref: Ref) -> str:
    if not ref.name:
        raise BadInput(f"A {ref.kind} without a name cannot be reached.")
    return f"{collection_path(ref.api_version, ref.kind, ref.namespace)}/{quote(ref.name, safe='')}"


def _identity(manifest: Manifest) -> tuple[str, str, str, str]:
    meta = manifest.get("metadata") or {}
    api_version, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
    if not api_version or not kind:
        raise BadInput("An object needs apiVersion and kind.")
    namespace = str(meta.get("namespace") or "")
    if not namespace and kind not in _CLUSTER_KINDS:
        raise BadInput(f"{kind} {meta.get('name', '')!r} needs metadata.namespace.")
    return api_version, kind, namespace, str(meta.get("name") or "")


def _dry(query: dict[str, str], dry_run: bool) -> dict[str, str]:
    return {**query, "dryRun": "All"} if dry_run else query
