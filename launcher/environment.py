"""The environment that containers of a run get.

`$(NAME)` is expanded by the kubelet from variables defined *earlier* in the same list, so QM_INDEX comes
first (by fieldRef), and `$(` in what users wrote is escaped, so that it arrives as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.names import RunIdentity, group_name, job_name
from launcher.spec import Experiment, Role

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
Variable = dict[str, Any]


def escaped(text: str) -> str:
    """User text in which the kubelet must not expand `$(…)`."""
    return text.replace("$(", "$$(")


def own_variables(experiment: Experiment, identity: RunIdentity, role_name: str) -> list[Variable]:
    """The QM_* variables, in an order in which each uses only earlier ones."""
    roles = experiment.resolved()
    role = roles[role_name]
    index_field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}}
    found: list[Variable] = [
        {"name": "QM_INDEX", "valueFrom": index_field},
        _plain("QM_NAME", experiment.name),
        _plain("QM_RUN", identity.run),
        _plain("QM_ROLE", role_name),
    ]
    if not role.elastic and experiment.sweep is None:
        # The template cannot change, so a role that scales must not bake its size in: it asks DNS.
        found.append(_plain("QM_REPLICAS", str(role.replicas)))
    if experiment.sweep is not None:
        found.append(_plain("QM_TRIAL", "$(QM_INDEX)"))
    if experiment.checkpoint is not None:
        path = escaped(experiment.checkpoint.path.rstrip("/"))
        suffix = "/trial-$(QM_TRIAL)" if experiment.sweep is not None else ""
        found.append(_plain("QM_CHECKPOINT_DIR", path + suffix))
    if experiment.sweep is None:
        found += [
            _plain(
                f"QM_HOST_{name.upper().replace('-', '_')}", _host(experiment, identity, name, role, other)
            )
            for name, other in roles.items()
        ]
    return found


def _host(experiment: Experiment, identity: RunIdentity, name: str, role: Role, other: Role) -> str:
    """Where to reach a role: its one host, the partner with our own index, or a pattern with `{index}`."""
    job = job_name(experiment.name, identity.run, name)
    group = group_name(experiment.name, identity.run)
    if other.elastic:
        which = "{index}"
    elif other.replicas == 1:
        which = "0"
    else:
        which = "$(QM_INDEX)" if other.replicas == role.replicas and not role.elastic else "{index}"
    return f"{job}-{which}.{group}"


def user_variables(env: Mapping[str, str], secrets: Mapping[str, str]) -> list[Variable]:
    """What the spec sets, in the order written; secrets by reference."""
    found = [_plain(name, escaped(value)) for name, value in env.items()]
    for name, reference in secrets.items():
        secret, _, key = reference.partition("/")
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def _plain(name: str, value: str) -> Variable:
    return {"name": name, "value": value}
