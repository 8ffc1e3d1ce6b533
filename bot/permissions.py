"""Before the first start of anything: may we do in each cluster what the shipped ClusterRole lists?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files

import structlog
import yaml

from bot.settings import ServeSettings
from config.settings import ClusterSettings, Settings
from fleet.errors import BadInput, OutsideError, Refused
from fleet.kube.connection import Connection
from fleet.kube.permissions import Permission, missing

log = structlog.get_logger(__name__)
ROLE = "config/deploy/clusterrole.yaml"
_WITHOUT_NAMESPACE = ("nodes", "namespaces")
_WATCHED = ("pods", "jobs")
"""read in all namespaces, to meter and to fit"""


def require(settings: Settings, connections: Mapping[str, Connection]) -> None:
    """Raises BadInput, one sentence that names every missing verb. A cluster that does not answer is passed over."""
    for entry in settings.core.clusters:
        try:
            lacking = missing(connections[entry.name], wanted(settings, entry))
        except Refused as error:
            if error.code == "Unauthorized":
                raise BadInput(str(error)) from None
            log.warning("permissions not known", cluster=entry.name, error=str(error))
            continue
        except OutsideError as error:
            log.warning("permissions not known", cluster=entry.name, error=str(error))
            continue
        if lacking:
            said = ", ".join(map(str, lacking))
            raise BadInput(f"In cluster {entry.name} our user may not {said}.", hint=f"Bind {ROLE} to it.")


def wanted(settings: Settings, entry: ClusterSettings) -> Iterator[Permission]:
    """What the shipped ClusterRole grants, each verb where it is used."""
    serve = settings.section("serve", ServeSettings)
    role = yaml.safe_load((files("config") / "deploy" / "clusterrole.yaml").read_text(encoding="utf-8"))
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for namespace in _namespaces(resource, verb, entry, settings, serve):
                    yield Permission(verb, resource, rule["apiGroups"][0], namespace)


def _namespaces(
    resource: str, verb: str, entry: ClusterSettings, settings: Settings, serve: ServeSettings
) -> tuple[str, ...]:
    if resource in _WITHOUT_NAMESPACE or (resource in _WATCHED and verb in ("list", "watch")):
        return ("",)
    if resource == "leases":
        return (serve.lease_namespace,) if entry.name == settings.home.name else ()
    return entry.governed
