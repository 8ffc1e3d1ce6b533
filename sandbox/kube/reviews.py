"""SelfSubjectAccessReview: a caller asks what it may do; nothing is stored."""

from __future__ import annotations

from typing import Any

from sandbox.kube.access import Access, Attributes
from sandbox.kube.errors import ApiError

Object = dict[str, Any]
PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def review(access: Access, user: str, asked: Object) -> Object:
    """The review with its status."""
    spec = asked.get("spec") or {}
    wanted = spec.get("resourceAttributes") or {}
    resource, subresource = wanted.get("resource", ""), wanted.get("subresource", "")
    attributes = Attributes(
        user=user,
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=f"{resource}/{subresource}" if subresource else resource,
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
    try:
        access.authorize(attributes)
        allowed = True
    except ApiError:
        allowed = False
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed},
    }
