"""One EC2 instance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from sandbox.cloud.types import TypeFacts

RUNNING_AFTER = timedelta(seconds=5)
TERMINATED_AFTER = timedelta(seconds=20)
BY_USER = "Client.UserInitiatedShutdown"
BY_SPOT = "Server.SpotInstanceTermination"
_REASONS = {BY_USER: "User initiated", BY_SPOT: "Server.SpotInstanceTermination"}
_MESSAGES = {
    BY_USER: "Client.UserInitiatedShutdown: User initiated shutdown",
    BY_SPOT: "Server.SpotInstanceTermination: Instance terminated by the Spot service",
}


@dataclass
class Machine:
    """One instance. It is billed from its launch until it begins to shut down."""

    id: str
    number: int
    """in order of launch, over all regions"""
    region: str
    zone: str
    kind: TypeFacts
    spot: bool
    subnet: str
    image: str
    profile: str
    groups: tuple[str, ...]
    user_data: str
    tags: dict[str, str]
    launched: datetime
    reservation: str
    token: str = ""
    max_price: Fraction | None = None
    ended: datetime | None = None
    end_code: str = ""
    marked: datetime | None = None
    """a spot machine's two-minute notice"""
    outbid: bool = False
    """it is taken back for its price, not for its capacity"""

    @property
    def live(self) -> bool:
        """Not ending."""
        return self.ended is None

    def state(self, now: datetime) -> tuple[int, str]:
        """EC2's code and name of the state."""
        if self.ended is not None:
            return (48, "terminated") if now >= self.ended + TERMINATED_AFTER else (32, "shutting-down")
        return (0, "pending") if now < self.launched + RUNNING_AFTER else (16, "running")

    @property
    def end_reason(self) -> str:
        """StateTransitionReason, with the time as EC2 writes it."""
        if self.ended is None:
            return ""
        return f"{_REASONS[self.end_code]} ({self.ended:%Y-%m-%d %H:%M:%S} GMT)"

    @property
    def end_message(self) -> str:
        """StateReason's message."""
        return _MESSAGES.get(self.end_code, "")

    @property
    def spot_request(self) -> str:
        """Id of its spot request."""
        return f"sir-{self.id[2:10]}"

    @property
    def spot_code(self) -> str:
        """Status code of its spot request."""
        if self.live:
            return "marked-for-termination" if self.marked else "fulfilled"
        if self.end_code == BY_USER:
            return "instance-terminated-by-user"
        return "instance-terminated-by-price" if self.outbid else "instance-terminated-no-capacity"

    @property
    def address(self) -> str:
        """Private address."""
        return f"10.{self.number // 65536 % 256}.{self.number // 256 % 256}.{self.number % 256}"

    @property
    def node_name(self) -> str:
        """The private DNS name, which its Node carries."""
        domain = "ec2.internal" if self.region == "us-east-1" else f"{self.region}.compute.internal"
        return f"ip-{self.address.replace('.', '-')}.{domain}"
