"""The way to AWS: boto3 clients, one a service and region, made once.

boto3 repeats nothing by itself here: what is repeated, and with which ClientToken, is decided by those
who recorded the request. Each client gives up after seconds, not minutes.
"""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from fleet.clouds.aws_errors import translated

CONNECT_SECONDS = 5
READ_SECONDS = 30
PRICING_REGION = "us-east-1"
"""Pricing and Cost Explorer live in one place for all regions."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class AwsClients:
    """Clients by service and region. Thread-safe.

    `endpoint` replaces AWS' own addresses for every service. Without keys the SDK's own chain is used
    (environment, shared files, instance profile): who starts the process decides what is in it.
    Raises Refused where that configuration cannot be used.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        access_key: str = "",
        secret_key: str = "",
        session_token: str = "",
    ) -> None:
        self.endpoint = endpoint
        local = endpoint is not None and urlsplit(endpoint).hostname in _LOOPBACK
        keys = {
            "aws_access_key_id": access_key,
            "aws_secret_access_key": secret_key,
            "aws_session_token": session_token,
        }
        with translated("The AWS configuration"):
            self._session = boto3.Session(**{name: value for name, value in keys.items() if value})
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=10,
            **({"proxies": {}} if local else {}),
        )
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], Any] = {}

    def ec2(self, region: str) -> Any:
        """EC2 of a region."""
        return self._client("ec2", region)

    def pricing(self) -> Any:
        """The price list."""
        return self._client("pricing", PRICING_REGION)

    def cost_explorer(self) -> Any:
        """Cost Explorer."""
        return self._client("ce", PRICING_REGION)

    def _client(self, service: str, region: str) -> Any:
        key = (service, region)
        with self._lock:
            if key not in self._made:
                with translated(f"The AWS client for {service} in {region}"):
                    self._made[key] = self._session.client(
                        service, region_name=region, endpoint_url=self.endpoint, config=self._config
                    )
            return self._made[key]
