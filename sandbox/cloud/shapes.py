"""Machines as EC2's answers show them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.cloud.machine import Machine

ACCOUNT = "000000000000"


def state(given: tuple[int, str]) -> dict[str, Any]:
    """An InstanceState."""
    return {"Code": given[0], "Name": given[1]}


def instance(machine: Machine, now: datetime) -> dict[str, Any]:
    """An Instance."""
    found: dict[str, Any] = {
        "InstanceId": machine.id,
        "ImageId": machine.image,
        "InstanceType": machine.kind.name,
        "LaunchTime": machine.launched,
        "Placement": {"AvailabilityZone": machine.zone, "Tenancy": "default"},
        "State": state(machine.state(now)),
        "StateTransitionReason": machine.end_reason,
        "ClientToken": machine.token,
        "Architecture": architecture(machine.kind.arch),
        "SecurityGroups": [{"GroupId": group, "GroupName": group} for group in machine.groups],
        "Tags": [{"Key": key, "Value": value} for key, value in sorted(machine.tags.items())],
    }
    if machine.live:
        found |= {
            "SubnetId": machine.subnet,
            "VpcId": f"vpc-{machine.region}",
            "PrivateDnsName": machine.node_name,
            "PrivateIpAddress": machine.address,
        }
    else:
        found |= {
            "PrivateDnsName": "",
            "StateReason": {"Code": machine.end_code, "Message": machine.end_message},
        }
    if machine.profile:
        arn = f"arn:aws:iam::{ACCOUNT}:instance-profile/{machine.profile}"
        found["IamInstanceProfile"] = {"Arn": arn, "Id": machine.profile}
    if machine.spot:
        found |= {"InstanceLifecycle": "spot", "SpotInstanceRequestId": machine.spot_request}
    return found


def spot_request(machine: Machine) -> dict[str, Any]:
    """A SpotInstanceRequest."""
    return {
        "SpotInstanceRequestId": machine.spot_request,
        "InstanceId": machine.id,
        "CreateTime": machine.launched,
        "LaunchedAvailabilityZone": machine.zone,
        "ProductDescription": "Linux/UNIX",
        "State": "active" if machine.live else "closed",
        "Status": {
            "Code": machine.spot_code,
            "Message": f"Your Spot request is {machine.spot_code}.",
            "UpdateTime": machine.ended or machine.marked or machine.launched,
        },
        "Type": "one-time",
        "Tags": [{"Key": key, "Value": value} for key, value in sorted(machine.tags.items())],
    }


def architecture(arch: str) -> str:
    """EC2's name of an architecture."""
    return "arm64" if arch == "arm64" else "x86_64"
