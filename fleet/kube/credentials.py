"""Where a cluster's API is and how we prove who we are, renewed before it runs out.

The `kubernetes` client reads kubeconfig (exec plugins, certificates, token files) and the in-cluster
files. What it does not do is done here: it never re-reads a `tokenFile`, runs an exec plugin on every
request when its token lives less than five minutes, and never again after a 401.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config, kube_config
from kubernetes.config.config_exception import ConfigException

from fleet.clock import RealClock
from fleet.errors import BadInput, Refused

REREAD_SECONDS = 60.0
"""A token file (in a pod: rotated hourly) is read again this often; the client's own choice in a pod."""
MIN_SECONDS_BETWEEN_RENEWALS = 5.0
_load_incluster: Any = incluster_config.load_incluster_config
_Loader: Any = kube_config.KubeConfigLoader
_Merger: Any = kube_config.KubeConfigMerger
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Credentials:
    """One cluster's address, transport settings and token. Thread-safe.

    Raises BadInput where the kubeconfig cannot be used, Refused where a plugin gives no credentials.
    """

    def __init__(self, load: Callable[[], tuple[Configuration, float | None]]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._configuration, lifetime = load()
        self._loaded = time.monotonic()
        self._due = self._loaded + _renew_after(lifetime)
        self.address: str = str(self._configuration.host).rstrip("/")

    def current(self) -> Configuration:
        """The configuration to use now, renewed where the token is about to run out."""
        with self._lock:
            if time.monotonic() >= self._due:
                self._renew()
            return self._configuration

    def rejected(self) -> bool:
        """The server answered 401: load again, unless that was done just now. True where it is worth a retry."""
        with self._lock:
            if time.monotonic() - self._loaded < MIN_SECONDS_BETWEEN_RENEWALS:
                return False
            self._renew()
            return True

    def _renew(self) -> None:
        try:
            self._configuration, lifetime = self._load()
        except BadInput as error:
            # The file is being rewritten or is gone: the old token may be good for a while yet.
            self._due = time.monotonic() + MIN_SECONDS_BETWEEN_RENEWALS
            raise Refused(str(error), code="CredentialsGone") from error
        self._loaded = time.monotonic()
        self._due = self._loaded + _renew_after(lifetime)


def _renew_after(lifetime: float | None) -> float:
    """Seconds until the next load: at four fifths of the token's life, five minutes before at most."""
    if lifetime is None:
        return float("inf")
    return max(MIN_SECONDS_BETWEEN_RENEWALS, lifetime - min(300.0, lifetime / 5))


def token_of(configuration: Configuration) -> str:
    """The Authorization header's value; "" where a client certificate or nothing is used."""
    raw = str(configuration.api_key.get("BearerToken", configuration.api_key.get("authorization", "")))
    scheme, _, token = raw.partition(" ")
    return f"{scheme.capitalize()} {token.strip()}" if token.strip() else ""


def from_kubeconfig(path: Path, context: str | None) -> Credentials:
    """Credentials of a context (None: the current one) of a kubeconfig file."""
    return Credentials(lambda: _load_kubeconfig(path.expanduser(), context))


def in_cluster() -> Credentials:
    """Credentials of the service account of the pod that this runs in."""
    return Credentials(_load_in_cluster)


def _load_in_cluster() -> tuple[Configuration, float | None]:
    configuration = Configuration()
    try:
        _load_incluster(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise BadInput(
            f"This does not run in a pod with a service account: {error}",
            hint="Give the cluster a kubeconfig in the settings.",
        ) from error
    configuration.refresh_api_key_hook = None
    return _transport(configuration), REREAD_SECONDS


def _load_kubeconfig(path: Path, context: str | None) -> tuple[Configuration, float | None]:
    merger = _read(path)
    document = merger.config.value
    name = context or document.get("current-context")
    names = [str(entry.get("name")) for entry in map(_plain, document.get("contexts") or [])]
    if not name:
        _bad(path, "has no current-context", f"Name one of: {', '.join(names) or 'none there'}.")
    if name not in names:
        _bad(path, f"has no context {name!r}", f"It has: {', '.join(names) or 'none'}.")
    configuration = Configuration()
    try:
        loader = _Loader(merger.config, active_context=name, config_base_path=None)
        loader.load_and_set(configuration)
    except (ConfigException, OSError, ValueError) as error:
        _bad(path, f"cannot be used: {error}")
    configuration.refresh_api_key_hook = None
    _check_server(path, name, loader, configuration)
    return _transport(configuration), _lifetime(loader)


def _read(path: Path) -> Any:
    if not path.is_file():
        _bad(path, "is not there", "Name a kubeconfig file.")
    try:
        merger = _Merger(str(path))
    except yaml.YAMLError as error:
        _bad(path, f"is not YAML: {' '.join(str(error).split())}")
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        _bad(path, f"cannot be read: {error}")
    except (AttributeError, TypeError, KeyError):
        _bad(path, "is not a kubeconfig: it is no mapping of clusters, contexts and users")
    return merger


def _bad(path: Path, problem: str, hint: str | None = None) -> NoReturn:
    raise BadInput(f"The kubeconfig {problem}.", where=str(path), hint=hint) from None


def _plain(entry: Any) -> dict[str, Any]:
    return dict(getattr(entry, "value", entry))


def _check_server(path: Path, name: str, loader: Any, configuration: Configuration) -> None:
    host = getattr(loader, "host", "")
    if urlsplit(str(host)).scheme not in ("http", "https"):
        _bad(path, f"names no server for context {name!r}")
    user = _plain(loader._user) if loader._user else {}
    if "exec" in user and not token_of(configuration) and not configuration.cert_file:
        # The client logs why and goes on without credentials; every call would then be refused.
        command = user["exec"].get("command", "?")
        raise Refused(f"{path}: the exec plugin {command!r} gave no credentials.", code="ExecPlugin")


def _lifetime(loader: Any) -> float | None:
    expiry: datetime | None = getattr(loader, "expiry", None)
    if expiry is not None:
        return (expiry - RealClock().now()).total_seconds()
    user = _plain(loader._user) if loader._user else {}
    return REREAD_SECONDS if "tokenFile" in user else None


def _transport(configuration: Configuration) -> Configuration:
    """Retries are ours to decide; a proxy from the environment never stands before this machine."""
    configuration.retries = False
    configuration.keep_alive = True
    if urlsplit(configuration.host).hostname in _LOOPBACK:
        configuration.proxy = None
    return configuration
