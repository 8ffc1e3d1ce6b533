"""One cluster's API: requests out, bytes or a typed error back.

The `kubernetes` client gives configuration, credentials and transport; bodies are ours, always as raw
bytes. Nothing here retries a request that changes something; a GET is sent again once where a kept
connection turns out to be dead.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject

from fleet.errors import BadInput, Unavailable
from fleet.kube.credentials import Credentials, from_kubeconfig, in_cluster, token_of
from fleet.kube.statuses import error_of

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CHUNK = 1 << 16


class Stream:
    """A response that is read as it comes; `close` from another thread ends the read."""

    def __init__(self, response: urllib3.HTTPResponse, cluster: str) -> None:
        self._response = response
        self._cluster = cluster

    def chunks(self) -> Iterator[bytes]:
        """Bytes as they arrive; ends where the server ends cleanly. Raises Unavailable where it breaks off."""
        try:
            if self._response.chunked:
                yield from self._response.stream(_CHUNK)
                return
            while data := self._response.read1(_CHUNK):
                yield data
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            # ValueError and AttributeError: the socket was closed under the read by `close`.
            raise Unavailable(
                f"{self._cluster}: the watch broke off: {error}", code=type(error).__name__
            ) from error

    def close(self) -> None:
        """End the read, from any thread."""
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            # It has ended already.
            return


class Connection:
    """The way to one cluster's API. Thread-safe. `address` is the API's URL."""

    def __init__(self, credentials: Credentials, name: str) -> None:
        self.name = name
        self.address = credentials.address
        self._credentials = credentials
        self._lock = threading.Lock()
        self._rest: tuple[Configuration, Any] | None = None

    @property
    def ca(self) -> str:
        """The API's certificate authority, PEM in base64; empty where it has none of its own."""
        path = self._credentials.current().ssl_ca_cert
        return base64.b64encode(Path(path).read_bytes()).decode() if path else ""

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        read_timeout: float = READ_SECONDS,
    ) -> bytes:
        """The body of a 2xx answer. `path` starts with a slash; timeouts are real seconds.

        Raises NotFound, Conflict, Expired, Throttled, Refused or Unavailable.
        """
        attempts = 2 if method == "GET" else 1
        while True:
            attempts -= 1
            try:
                status, data, headers = self._send(method, path, query, (body, content_type), read_timeout)
            except Unavailable as error:
                if attempts and error.code == "ProtocolError":
                    continue
                raise
            if 200 <= status < 300:
                return data
            if status == 401 and self._credentials.rejected():
                continue
            raise error_of(status, data, self.name, headers.get("Retry-After"))

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        content: tuple[Mapping[str, Any] | None, str],
        read_timeout: float,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        response = self._open(method, path, query, content, read_timeout)
        try:
            # An unread answer costs a connection: always read all of it.
            return response.status, response.data, response.headers
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unavailable(error) from error

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], read_timeout: float) -> Iterator[Stream]:
        """A GET whose answer is read as it comes; the same errors as `request`."""
        response = self._open("GET", path, query, (None, JSON), read_timeout)
        try:
            if response.status != 200:
                if response.status == 401:
                    self._credentials.rejected()
                raise error_of(response.status, response.data, self.name, response.headers.get("Retry-After"))
            yield Stream(response, self.name)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unavailable(error) from error
        finally:
            response.close()

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        content: tuple[Mapping[str, Any] | None, str],
        read_timeout: float,
    ) -> urllib3.HTTPResponse:
        configuration, rest = self._transport()
        headers = {"Accept": JSON, "User-Agent": "quartermaster"}
        if token := token_of(configuration):
            headers["Authorization"] = token
        body, content_type = content
        if body is not None or method != "GET":
            headers["Content-Type"] = content_type
        url = self.address + path + ("?" + urlencode(query) if query else "")
        try:
            answer = rest.request(
                method, url, headers=headers, body=body, _request_timeout=(CONNECT_SECONDS, read_timeout)
            )
        except (urllib3.exceptions.HTTPError, OSError, ApiException) as error:
            raise self._unavailable(error) from error
        response: urllib3.HTTPResponse = answer.response
        return response

    def _transport(self) -> tuple[Configuration, Any]:
        configuration = self._credentials.current()
        with self._lock:
            known = self._rest
            if known is None or _identity(known[0]) != _identity(configuration):
                known = (configuration, RESTClientObject(configuration))
            self._rest = (configuration, known[1])
            return self._rest

    def _unavailable(self, error: Exception) -> Unavailable:
        said = " ".join(str(error).split())
        return Unavailable(
            f"The Kubernetes API of {self.name} at {self.address} does not answer: {said}",
            code=type(error).__name__,
        )


def _identity(configuration: Configuration) -> tuple[object, ...]:
    """What a pool of connections is bound to: another certificate needs another pool, a new token does not."""
    return (
        configuration.host,
        configuration.ssl_ca_cert,
        configuration.cert_file,
        configuration.key_file,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
    )


def connect(kubeconfig: Path | None, context: str | None, in_cluster_: bool, name: str) -> Connection:
    """The connection to one cluster of the settings; `name` is what people call it.

    Raises BadInput (with the file) where the kubeconfig cannot be used, Refused where a credential
    plugin fails. Nothing is sent yet.
    """
    if in_cluster_:
        return Connection(in_cluster(), name)
    if kubeconfig is None:
        raise BadInput(
            f"Cluster {name!r} has neither a kubeconfig nor in_cluster: true.",
            hint="Name a kubeconfig file in the settings.",
        )
    return Connection(from_kubeconfig(kubeconfig, context), name)
