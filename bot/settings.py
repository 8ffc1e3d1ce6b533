"""The bot's own sections of the settings: `slack` and `serve`."""

from __future__ import annotations

from datetime import time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field

from config.fields import Duration, Strict, TimeOfDay, Zone


class SlackSettings(Strict):
    """Where messages go that have no better place, and when the digest is told."""

    channel: str = ""
    """id of the channel for what concerns the whole fleet, and for teams without a channel of their own"""
    digest_at: TimeOfDay = time(9, 0)
    """when the day is summed up, in this zone"""
    zone: Zone = ZoneInfo("UTC")
    """zone of the channel: the digest's nine o'clock is here"""
    card_expires: Duration = timedelta(hours=1)
    """a launch card that nobody clicked is withdrawn after this: its prices are old"""


class ServeSettings(Strict):
    """The process itself."""

    health_port: int | None = Field(default=9469, ge=0, le=65535)
    """/healthz, /readyz, /metrics on 127.0.0.1; 0 = any free port, null = none"""
    socket: Path | None = None
    """the control socket that the terminal talks to; control.sock in the data directory where not given"""
    lease_namespace: str = "kube-system"
    """namespace of the Lease, in the home cluster"""
    lease_name: str = "quartermaster"
    """two services with different data need different names"""
    lease_duration: Duration = timedelta(seconds=90)
    """how long silence of the process that holds the Lease is borne; it renews three times as often"""
    backup_every: Duration = timedelta(hours=6)
    """an online copy of the database beside it"""
