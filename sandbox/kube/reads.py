"""Reading: get, list in consistent pages, what a watch asks for, and logs."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.kube.errors import ApiError, Cause, bad_request, expired, invalid
from sandbox.kube.routes import ApiRequest
from sandbox.kube.selectors import parse_fields, parse_labels
from sandbox.kube.store import Objects, Store
from sandbox.kube.watches import Filter

Object = dict[str, Any]
Logs = Callable[[Object, str, int | None], str]
"""(pod, container, last lines or None for all) → text"""

_PAGES_KEPT = 8
_TOO_OLD_LIST = "The resourceVersion for the provided list is too old."
_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
_INCONSISTENT = -1


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a watch asks for. `version` None = every object first, from the present."""

    chosen: Filter
    version: int | None
    bookmarks: bool
    initial: bool
    timeout: float
    """real seconds"""


class Reader:
    """The reading half of one cluster's API. Raises ApiError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.logs: Logs | None = None
        """where the text of a container's log comes from; nothing was written without it"""
        self._pages: dict[tuple[str, int, str], Objects] = {}

    def get(self, asked: ApiRequest) -> bytes:
        """GET of one object, or of its status."""
        found = self._store.must_get(asked.resource.key, asked.namespace, asked.name)
        return msgspec.json.encode(found)

    def list(self, asked: ApiRequest) -> bytes:
        """GET of a collection: all of it, or pages that are one consistent view."""
        chosen = self.selection(asked)
        limit, token = asked.integer("limit") or 0, asked.query.get("continue", "")
        version = _list_version(asked, self._store.version)
        start = None
        if token:
            version, start = self._continued(token)
        at = self._store.version if version == _INCONSISTENT else version
        found = [obj for obj in self._objects(asked, at) if chosen.matches(obj)]
        if start is not None:
            found = [obj for obj in found if _key(obj) >= start]
        metadata: Object = {"resourceVersion": str(at)}
        if 0 < limit < len(found):
            metadata["continue"] = _token(at, _key(found[limit]))
            if not chosen.selects:
                metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return _list_body(asked, metadata, found)

    def _continued(self, token: str) -> tuple[int, tuple[str, str]]:
        version, start = _read_token(token)
        if version != _INCONSISTENT and not self._store.history.reaches_all(version):
            error = expired(_TOO_OLD_PAGE)
            error.metadata = {"continue": _token(_INCONSISTENT, start)}
            raise error
        return version, start

    def _objects(self, asked: ApiRequest, version: int) -> Objects:
        """All objects of the collection at a version; old ones are kept for the pages that follow."""
        resource, namespace = asked.resource.key, asked.namespace or None
        if version >= self._store.version:
            return self._store.list(resource, namespace)
        key = (resource, version, asked.namespace)
        if key not in self._pages:
            found = self._store.as_of(resource, version, namespace)
            if found is None:
                raise expired(_TOO_OLD_LIST)
            while len(self._pages) >= _PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = found
        return self._pages[key]

    def forget(self) -> None:
        """Forget old lists that were rebuilt for pages; after a compaction they are gone, too."""
        self._pages.clear()

    def selection(self, asked: ApiRequest) -> Filter:
        """The collection and selectors of a request."""
        return Filter(
            asked.resource,
            asked.namespace if asked.resource.namespaced and asked.namespace else None,
            parse_labels(asked.query.get("labelSelector", "")),
            parse_fields(asked.query.get("fieldSelector", ""), asked.resource),
        )

    def watch(self, asked: ApiRequest) -> WatchRequest:
        """The parameters of a watch."""
        _check_watch(asked)
        text = asked.query.get("resourceVersion", "")
        if text and not text.isdigit():
            raise ApiError(500, "", _bad_version(text))
        initial = asked.flag("sendInitialEvents")
        seconds = asked.integer("timeoutSeconds")
        return WatchRequest(
            chosen=self.selection(asked),
            version=int(text) if text not in ("", "0") and not initial else None,
            bookmarks=asked.flag("allowWatchBookmarks"),
            initial=initial,
            timeout=float(seconds) if seconds else 1800.0,
        )

    def log(self, asked: ApiRequest) -> str:
        """GET of pods/log: a container's text. ApiError 400 where it has not started."""
        tail = asked.integer("tailLines")
        pod = self._store.must_get("pods", asked.namespace, asked.name)
        containers = [each["name"] for each in pod["spec"].get("containers") or ()]
        prepared = [each["name"] for each in pod["spec"].get("initContainers") or ()]
        chosen = asked.query.get("container") or ""
        if not chosen and len(containers) + len(prepared) > 1:
            choice = f"a container name must be specified for pod {asked.name}, choose one of: "
            choice += f"[{' '.join(containers)}]"
            if prepared:
                choice += f" or one of the init containers: [{' '.join(prepared)}]"
            raise bad_request(choice)
        chosen = chosen or (containers[0] if containers else "")
        if chosen not in (*containers, *prepared):
            raise bad_request(f"container {chosen} is not valid for pod {asked.name}")
        if not pod["spec"].get("nodeName"):
            return ""
        if _waits(pod, chosen):
            raise bad_request(
                f'container "{chosen}" in pod "{asked.name}" is waiting to start: ContainerCreating'
            )
        return self.logs(pod, chosen, tail) if self.logs else ""


def _waits(pod: Object, container: str) -> bool:
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    own = next((each for each in statuses if each.get("name") == container), None)
    if own is None:
        return status.get("phase") == "Pending"
    return "waiting" in (own.get("state") or {})


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _token(version: int, start: tuple[str, str]) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(start)}
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        document = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = document["start"].partition("/")
        return int(document["rv"]), (namespace, name)
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def _list_body(asked: ApiRequest, metadata: Object, found: Objects) -> bytes:
    resource = asked.resource
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
    encode = msgspec.json.encode
    # Items carry no kind and apiVersion of their own.
    items = [encode({k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}) for obj in found]
    return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def _bad_version(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def _list_version(asked: ApiRequest, present: int) -> int:
    """The version at which to list. ApiError 400, 422, or 504 for one that is not there yet."""
    text, match = asked.query.get("resourceVersion", ""), asked.query.get("resourceVersionMatch", "")
    if asked.query.get("continue") and text not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    if match:
        _check_match(text, match)
    if text in ("", "0"):
        return present
    if not text.isdigit():
        raise bad_request(f"invalid resource version: {_bad_version(text)}")
    version = int(text)
    if version > present:
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        message = f"Timeout: Too large resource version: {version}, current: {present}"
        raise ApiError(504, "Timeout", message, details, retry_after=1)
    exact = match == "Exact" or (not match and asked.integer("limit"))
    return version if exact else present


def _check_match(text: str, match: str) -> None:
    field = "resourceVersionMatch"
    if not text:
        why = f"{field} is forbidden unless resourceVersion is provided"
        raise _list_options(Cause("forbidden", field, why))
    if match not in ("Exact", "NotOlderThan"):
        why = 'supported values: "Exact", "NotOlderThan", ""'
        raise _list_options(Cause("unsupported", field, why, match))
    if match == "Exact" and text == "0":
        raise _list_options(
            Cause("forbidden", field, f'{field} "exact" is forbidden for resourceVersion "0"')
        )


def _check_watch(asked: ApiRequest) -> None:
    field = "resourceVersionMatch"
    match = asked.query.get(field, "")
    causes = []
    if asked.query.get("continue"):
        causes.append(Cause("forbidden", field, f"{field} is forbidden when continue is provided"))
    if match and "sendInitialEvents" not in asked.query:
        why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        causes.append(Cause("forbidden", field, why))
    if match not in ("", "NotOlderThan"):
        causes.append(Cause("unsupported", field, 'supported values: "NotOlderThan"', match))
    if "sendInitialEvents" in asked.query and not match:
        why = f"{field} is required when sendInitialEvents is set for watch requests"
        causes.append(Cause("forbidden", field, why))
    if causes:
        raise _list_options(*causes)


def _list_options(*causes: Cause) -> ApiError:
    return invalid("ListOptions", "meta.k8s.io", "", causes)
