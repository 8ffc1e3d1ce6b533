"""What our user may do in a cluster, asked of the cluster itself before anything is begun there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.kube.connection import Connection

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Permission:
    """A verb on a resource (`pods/log` with its subresource), in a namespace or everywhere."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    """"" = everywhere, or a resource that has no namespace"""

    def __str__(self) -> str:
        """`patch jobs.batch in research`."""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {what}" + (f" in {self.namespace}" if self.namespace else "")


def missing(connection: Connection, wanted: Iterable[Permission]) -> tuple[Permission, ...]:
    """Those that the cluster does not grant us, in the order asked.

    Raises Unavailable where it does not answer, NotFound or Refused where it cannot be asked.
    """
    return tuple(permission for permission in wanted if not _allowed(connection, permission))


def _allowed(connection: Connection, wanted: Permission) -> bool:
    resource, _, subresource = wanted.resource.partition("/")
    attributes = {
        "verb": wanted.verb,
        "group": wanted.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": wanted.namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = json.loads(connection.request("POST", _REVIEWS, None, review))
    return bool(answer["status"]["allowed"])
