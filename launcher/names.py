"""Names on things: run ids, object names, labels and annotations of a run."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from fleet.model import L_EXPERIMENT, L_OWNER, L_PRIORITY, L_ROLE, L_RUN, L_TEAM, LABEL

RUN_ALPHABET = "bcdfghjkmnpqrstvwxz2456789"
"""No vowels (no words), no characters that look like another."""
RUN_LENGTH = 5
A_OWNER_NAME = f"{LABEL}/owner-name"
A_LAUNCHED_BY = f"{LABEL}/launched-by"
A_SPEC_HASH = f"{LABEL}/spec-hash"
A_LIMITS = f"{LABEL}/limits"
MANAGED_BY = "quartermaster"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Whose run this is and where it goes: everything about a launch that is not in the spec."""

    run: str
    namespace: str
    cluster: str = ""
    owner: str = ""
    """the person's id"""
    owner_name: str = ""
    team: str = ""


def run_id(request_id: str, attempt: int = 0) -> str:
    """The run id that a request leads to; `attempt` tells two requests apart whose ids collide."""
    digest = hashlib.sha256(f"{request_id}\0{attempt}".encode()).digest()
    number = int.from_bytes(digest[:8], "big")
    letters = []
    for _ in range(RUN_LENGTH):
        number, position = divmod(number, len(RUN_ALPHABET))
        letters.append(RUN_ALPHABET[position])
    return "".join(letters)


def group_name(experiment: str, run: str) -> str:
    """Name of the run's headless Service, and the start of every other name."""
    return f"{experiment}-{run}"


def job_name(experiment: str, run: str, role: str) -> str:
    """Name of a role's Job: at most 49 characters, so that its pods' host names stay below 63."""
    return f"{experiment}-{run}-{role}"


def trials_name(experiment: str, run: str) -> str:
    """Name of the ConfigMap that holds a sweep's trials."""
    return f"{experiment}-{run}-trials"


def label_value(text: str) -> str:
    """A label value made of any text: what cannot stand there becomes '-', both ends are cleaned."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")


def labels(experiment: str, identity: RunIdentity, priority: str, role: str = "") -> dict[str, str]:
    """Labels of the run's objects, and of a role's pods where a role is given."""
    found = {
        "app.kubernetes.io/name": experiment,
        "app.kubernetes.io/instance": group_name(experiment, identity.run),
        "app.kubernetes.io/managed-by": MANAGED_BY,
        L_EXPERIMENT: experiment,
        L_RUN: identity.run,
        L_OWNER: label_value(identity.owner),
        L_TEAM: label_value(identity.team),
        L_PRIORITY: priority,
    }
    if role:
        found |= {"app.kubernetes.io/component": role, L_ROLE: role}
    return {key: value for key, value in found.items() if value}
