"""Creating, replacing, patching and deleting, as the API server's registry does it.

Each method checks, fills in, validates, and hands the result to the store; under dryRun=All it stops
before the store and answers with what would be there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from sandbox.kube import patching
from sandbox.kube.admission import admit_node, with_default_tolerations
from sandbox.kube.apply import Manager, apply, track_update, with_ownership
from sandbox.kube.bodies import APPLY, JSON_PATCH, MERGE_PATCH, decode_patch
from sandbox.kube.defaults import fill
from sandbox.kube.errors import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from sandbox.kube.lifecycle import same
from sandbox.kube.resources import Resource
from sandbox.kube.routes import ApiRequest
from sandbox.kube.schema import conform, conform_applied
from sandbox.kube.store import Store, timestamp
from sandbox.kube.validation import decode_secret, validate_create, validate_update

Object = dict[str, Any]
Answer = tuple[int, Object]
"""HTTP status and object."""


class Writer:
    """The writing half of one cluster's API. Raises ApiError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, asked: ApiRequest, body: Object) -> Answer:
        """POST to a collection."""
        resource = asked.resource
        obj = self._decoded(asked, body)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        _check_namespace(asked, metadata)
        if not metadata.get("name") and not metadata.get("generateName"):
            cause = Cause("required", "metadata.name", "name or generateName is required")
            raise invalid(resource.kind, resource.group, "", [cause])
        drafted = self._draft(asked, obj)
        tracked = track_update(None, drafted, Manager(asked.manager), timestamp(self._store.world.now))
        return 201, self._insert(asked, tracked)

    def _draft(self, asked: ApiRequest, obj: Object) -> Object:
        resource = asked.resource
        if resource.namespaced and self._store.get("namespaces", None, asked.namespace) is None:
            raise not_found("namespaces", asked.namespace)
        if resource.has_status and resource.key != "nodes":
            obj = {key: value for key, value in obj.items() if key != "status"}
        if resource.key == "nodes":
            obj = admit_node(obj)
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        drafted = self._store.draft(resource.key, {**obj, "metadata": metadata})
        causes = validate_create(resource, drafted)
        if causes:
            raise invalid(resource.kind, resource.group, drafted["metadata"]["name"], causes)
        return drafted

    def _insert(self, asked: ApiRequest, drafted: Object) -> Object:
        if not asked.dry_run:
            return self._store.insert(asked.resource.key, drafted)
        name = drafted["metadata"]["name"]
        if self._store.get(asked.resource.key, asked.namespace, name) is not None:
            raise already_exists(asked.resource.key, name)
        return drafted

    def replace(self, asked: ApiRequest, body: Object) -> Answer:
        """PUT of an object, or of its status."""
        resource = asked.resource
        new = self._decoded(asked, body)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name"):
            raise bad_request(
                f"the name of the object ({asked.name} based on URL) was undeterminable: name must be provided"
            )
        _check_name(asked, metadata)
        _check_namespace(asked, metadata)
        old = self._store.get(resource.key, asked.namespace, asked.name)
        if old is None:
            if resource.create_unconditionally and not asked.subresource:
                metadata.pop("resourceVersion", None)
                return self.create(replace(asked, name=""), new)
            raise not_found(resource.key, asked.name)
        if not metadata.get("resourceVersion") and not resource.unconditional_update:
            cause = Cause("invalid", "metadata.resourceVersion", "must be specified for an update", 0)
            raise invalid(resource.plural, resource.group, asked.name, [cause])
        if metadata.get("uid") not in (None, "", old["metadata"]["uid"]):
            raise conflict(resource.key, asked.name, _uid_precondition(asked, metadata["uid"], old))
        return 200, self._update(asked, old, new)

    def _update(self, asked: ApiRequest, old: Object, new: Object) -> Object:
        new = self._prepared(asked, old, new)
        return self._store_update(
            asked, old, track_update(old, new, _manager(asked), timestamp(self._store.world.now))
        )

    def _prepared(self, asked: ApiRequest, old: Object, new: Object) -> Object:
        """The new object with what this way of writing may not change taken from the old one; validated."""
        resource = asked.resource
        if new["metadata"].get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
            raise conflict(resource.key, asked.name)
        kept = {"namespace": asked.namespace} if resource.namespaced else {}
        new = {**new, "metadata": {**new["metadata"], **kept, "name": asked.name}}
        if asked.subresource == "status":
            status = new.get("status") or {}
            metadata = {
                **new["metadata"],
                **{name: old["metadata"].get(name) for name in ("ownerReferences", "finalizers")},
            }
            metadata = {name: value for name, value in metadata.items() if value is not None}
            new = {**old, "metadata": metadata, "status": status}
        elif resource.has_status:
            new = {**new, "status": old.get("status", {})}
        if resource.key == "namespaces":
            finalizers = (new if asked.subresource == "finalize" else old)["spec"].get("finalizers")
            new = {**new, "spec": {"finalizers": finalizers or []}}
        new = fill(resource.key, new)
        if resource.key == "pods":
            new = with_default_tolerations(new)
        causes = validate_update(resource, new, old, asked.subresource)
        if causes:
            raise invalid(resource.kind, resource.group, asked.name, causes)
        return new

    def _store_update(self, asked: ApiRequest, old: Object, new: Object) -> Object:
        if not asked.dry_run:
            return self._store.update(asked.resource.key, new)
        revised = self._store.revised(asked.resource.key, old, new)
        return old if same(revised, old) else revised

    def patch(self, asked: ApiRequest, raw: bytes, content_type: str) -> Answer:
        """PATCH of an object, or of its status."""
        kind = content_type.partition(";")[0].strip()
        _check_patch_options(asked, kind)
        body = decode_patch(raw, kind)
        old = self._store.get(asked.resource.key, asked.namespace, asked.name)
        if kind == APPLY:
            return self._apply(asked, old, body)
        if old is None:
            raise not_found(asked.resource.key, asked.name)
        new = _patched(asked, old, body, kind)
        _check_name(asked, new.get("metadata") or {})
        return 200, self._update(asked, old, new)

    def _apply(self, asked: ApiRequest, old: Object | None, body: Object) -> Answer:
        config = self._decoded(asked, body)
        metadata = config.setdefault("metadata", {})
        if "managedFields" in (body.get("metadata") or {}):
            raise bad_request("metadata.managedFields must be nil")
        _check_name(asked, metadata)
        _check_namespace(asked, metadata)
        metadata["name"] = asked.name
        manager = Manager(asked.manager, "Apply", asked.subresource)
        now = timestamp(self._store.world.now)
        if old is None:
            if asked.subresource:
                raise not_found(asked.resource.key, asked.name)
            if metadata.get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {metadata['uid']}, "
                    "and no existing object was found"
                )
                raise conflict(asked.resource.key, asked.name, why)
            drafted = self._draft(replace(asked, verb="create"), conform(asked.resource, config))
            bare = {"apiVersion": drafted["apiVersion"], "kind": drafted["kind"], "metadata": {}}
            owners = apply(bare, config, manager, force=True)[1]
            return 201, self._insert(asked, with_ownership(drafted, owners, None, now))
        force = asked.flag("force")
        new, owners = apply(old, config, manager, force=force)
        new = self._prepared(asked, old, conform(asked.resource, new))
        return 200, self._store_update(asked, old, with_ownership(new, owners, old, now))

    def _decoded(self, asked: ApiRequest, body: Object) -> Object:
        """The body as the decoder sees it: the right kind, known fields, right types."""
        resource = asked.resource
        applied = asked.verb == "patch"
        _check_kind(resource, body, required=applied)
        if applied:
            obj = conform_applied(resource, body)
        else:
            obj = conform(resource, body, strict=asked.query.get("fieldValidation") == "Strict")
        obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
        return decode_secret(obj) if resource.key == "secrets" else obj


def _manager(asked: ApiRequest) -> Manager:
    return Manager(asked.manager, "Update", asked.subresource)


def _patched(asked: ApiRequest, old: Object, body: Any, kind: str) -> Object:
    resource = asked.resource
    if kind == JSON_PATCH:
        new = patching.json_patch(old, body)
    elif kind == MERGE_PATCH:
        new = patching.merge(old, body)
    else:
        new = patching.strategic(old, body)
    try:
        new = conform(resource, new, strict=asked.query.get("fieldValidation") == "Strict")
    except ApiError as error:
        why = error.message.partition(": ")[2]
        cause = Cause("invalid", "patch", why, json.dumps(new, separators=(",", ":")))
        raise invalid("", "", "", [cause]) from None
    return decode_secret(new) if resource.key == "secrets" else new


def _check_patch_options(asked: ApiRequest, kind: str) -> None:
    causes = []
    if kind == APPLY and not asked.query.get("fieldManager"):
        causes.append(Cause("required", "fieldManager", "is required for apply patch"))
    if kind != APPLY and "force" in asked.query:
        causes.append(Cause("forbidden", "force", "may not be specified for non-apply patch"))
    if causes:
        raise invalid("PatchOptions", "meta.k8s.io", "", causes)


def _check_kind(resource: Resource, body: Object, *, required: bool) -> None:
    kind, version = body.get("kind") or "", body.get("apiVersion") or ""
    if required and not (kind and version):
        raise bad_request(f"invalid object type: {version.rpartition('/')[0]}/, Kind={kind}")
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
            f"converting (v1.{kind}) to ({resource.group or 'core'}.{resource.kind}): unknown conversion"
        )
    if version and version != resource.api_version:
        raise bad_request(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: no kind '
            f'"{resource.kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )


def _check_name(asked: ApiRequest, metadata: Object) -> None:
    name = metadata.get("name") or asked.name
    if name != asked.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({asked.name})"
        )


def _check_namespace(asked: ApiRequest, metadata: Object) -> None:
    if not asked.resource.namespaced:
        return
    if metadata.get("namespace") not in (None, "", asked.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = asked.namespace


def _uid_precondition(asked: ApiRequest, uid: str, old: Object) -> str:
    place = "/".join(filter(None, (asked.resource.plural, old["metadata"].get("namespace"), asked.name)))
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {old['metadata']['uid']}"
    )
