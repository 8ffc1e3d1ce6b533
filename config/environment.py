"""The environment: secrets, addresses and the data directory, read here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_JOIN_TOKEN = "QM_JOIN_TOKEN_"


@dataclass(frozen=True)
class Environment:
    """What the process was started with. Secrets are never printed: `repr` shows only their names."""

    data_dir: Path | None = None
    slack_url: str = ""
    """Slack's Web API address; empty = the real one"""
    aws_endpoint: str = ""
    """address for all AWS calls; empty = the real ones"""
    prometheus_url: str = ""
    world_url: str = ""
    """clock of a sandbox's world; empty = real time"""
    slack_bot_token: str = field(default="", repr=False)
    slack_app_token: str = field(default="", repr=False)
    join_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """cluster name (upper case, - as _) → the token that a machine joins it with"""

    def join_token(self, cluster: str) -> str:
        """The token that machines join this cluster with; empty where none is set."""
        return self.join_tokens.get(cluster.upper().replace("-", "_"), "")


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Read the variables (the process's own by default)."""
    given = os.environ if variables is None else variables  # noqa: TID251 - the one place
    return Environment(
        data_dir=Path(given["QM_DATA_DIR"]) if given.get("QM_DATA_DIR") else None,
        slack_url=given.get("QM_SLACK_URL", ""),
        aws_endpoint=given.get("QM_AWS_ENDPOINT", ""),
        prometheus_url=given.get("QM_PROMETHEUS_URL", ""),
        world_url=given.get("QM_WORLD_URL", ""),
        slack_bot_token=given.get("QM_SLACK_BOT_TOKEN", ""),
        slack_app_token=given.get("QM_SLACK_APP_TOKEN", ""),
        join_tokens={
            name.removeprefix(_JOIN_TOKEN): value
            for name, value in given.items()
            if name.startswith(_JOIN_TOKEN)
        },
    )
