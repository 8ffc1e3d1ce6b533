"""Buying, listing and ending EC2 machines.

RunInstances with the hold's id as ClientToken: all or nothing where minimum equals count, one zone and
type a call, and the same call again returns the first result. What it returned is listed by us until
DescribeInstances, which lags by seconds, lists it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_errors import translated
from fleet.errors import BadInput, Conflict, NoCapacity, NotFound, OutsideError, Unavailable
from fleet.model import L_CAPACITY_TYPE, L_CLUSTER, L_FLEET, L_HOLD, L_POOL, LABEL, CapacityType, Instance
from fleet.pools import Pool, Region
from fleet.ports import Clock, LaunchRequest, LaunchResult
from fleet.values import utc

log = structlog.get_logger(__name__)
TERMINATE_CHUNK = 500
LAG = timedelta(minutes=1)
"""DescribeInstances may not list a launch for this long; after that it is believed."""
SAME_MOMENT = timedelta(seconds=1)
"""how long a list of machines is good for, while we change nothing ourselves"""
USER_DATA_LIMIT = 16_384
_TOKEN = re.compile(r"[\x21-\x7e]{1,64}", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_INSTANCE_ID = re.compile(r"i-[0-9a-f]+")
_ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) (?:GMT|UTC)\)")


@dataclass(frozen=True, slots=True)
class Join:
    """What a new machine needs to join a cluster; `ca` is the API's certificate, PEM in base64."""

    endpoint: str
    token: str
    ca: str = ""


class AwsMachines:
    """The `Machines` port on EC2, for the regions of the AWS pools.

    `fleet` names this installation (raises OutsideError while it cannot be told): in an account that is shared
    with another one, machines are ours by its tag, whatever the clusters are called.
    """

    provider = "aws"

    def __init__(
        self,
        pools: Sequence[Pool],
        clients: AwsClients,
        joins: Mapping[str, Join],
        clock: Clock,
        fleet: Callable[[], str],
    ) -> None:
        self._pools = {pool.name: pool for pool in pools if pool.provider == self.provider}
        self._clients = clients
        self._joins = dict(joins)
        self._clock = clock
        self._fleet = fleet
        self._recent: dict[str, tuple[Instance, datetime]] = {}
        self._refused: dict[str, datetime] = {}
        self._last: dict[str, tuple[Instance, ...]] = {}
        self._problems: dict[str, str] = {}
        self._listed_at: dict[str, datetime] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Regions whose machines could not be listed, a sentence each; their last list stands."""
        return tuple(self._problems.values())

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Buy between `minimum` and `count` machines; raises a typed error where nothing was bought.

        The same token again returns the first result. Where our settings have changed since then, AWS
        refuses the token: then what carries its tag is the result. Where nothing does yet, Unavailable is
        raised for as long as a launch may not be listed (ask again), then Conflict (it is gone for good).
        """
        self._listed_at.pop(request.region, None)
        parameters = self._parameters(request)
        place = f"RunInstances of {request.instance_type} in {request.zone}"
        try:
            with translated(place):
                answer = self._clients.ec2(request.region).run_instances(**parameters)
        except Conflict as error:
            instances = self._bought_with(request)
            if not instances:
                raise self._used(request.token, error) from error
        else:
            instances = tuple(instance(found, request.region) for found in answer["Instances"])
        now = self._clock.now()
        for bought in instances:
            self._recent[bought.id] = (bought, now)
        missing = request.count - len(instances)
        shortfall = (
            NoCapacity(f"{place}: only {len(instances)} of {request.count} were to be had.", code="Partial")
            if missing > 0
            else None
        )
        return LaunchResult(instances, shortfall)

    def _used(self, token: str, error: Conflict) -> Conflict | Unavailable:
        """A token that bought something which is not listed: not yet, or not any more."""
        now = self._clock.now()
        if now - self._refused.setdefault(token, now) <= LAG:
            return Unavailable(f"{error} What it bought is not listed yet.", code=error.code)
        return error

    def describe(self) -> tuple[Instance, ...]:
        """All machines with this installation's and our clusters' tags, and those just bought that are not listed yet.

        A region that does not answer keeps its last list (see `problems`); where it never had one, the
        error is raised: nothing may be concluded from what is missing.
        """
        found: list[Instance] = []
        for region in dict.fromkeys(r.name for pool in self._pools.values() for r in pool.regions):
            try:
                self._refresh(region)
                self._problems.pop(region, None)
            except OutsideError as error:
                if region not in self._last:
                    raise
                if region not in self._problems:
                    log.warning("machines not listed", region=region, error=str(error))
                self._problems[region] = str(error)
            found += self._last[region]
        return (*found, *self._not_listed_yet({machine.id for machine in found}))

    def _refresh(self, region: str) -> None:
        """List the region again, unless that was done this very moment: guard and scaler ask one after the other."""
        now = self._clock.now()
        at = self._listed_at.get(region)
        if at is None or not timedelta(0) <= now - at < SAME_MOMENT:
            self._last[region] = self._list(region)
            self._listed_at[region] = now

    def terminate(self, region: str, ids: Sequence[str]) -> None:
        """End machines, 500 a call; ended and unknown ones are fine.

        Raises Unavailable where AWS does not know a machine yet that was bought a moment ago.
        """
        self._listed_at.pop(region, None)
        for start in range(0, len(ids), TERMINATE_CHUNK):
            self._terminate(region, list(ids[start : start + TERMINATE_CHUNK]))

    def interruptions(self) -> tuple[str, ...]:
        """Spot machines that are marked for termination (the two-minute notice), as far as regions answer."""
        ids: list[str] = []
        for region in self._spot_regions():
            with translated(f"DescribeSpotInstanceRequests in {region}"):
                pages = (
                    self._clients.ec2(region)
                    .get_paginator("describe_spot_instance_requests")
                    .paginate(
                        Filters=[
                            {
                                "Name": "status-code",
                                "Values": ["marked-for-termination", "marked-for-stop"],
                            }
                        ]
                    )
                )
                ids += [
                    request["InstanceId"]
                    for page in pages
                    for request in page["SpotInstanceRequests"]
                    if request.get("InstanceId")
                ]
        return tuple(ids)

    def _spot_regions(self) -> list[str]:
        pools = [pool for pool in self._pools.values() if CapacityType.SPOT in pool.capacity_types]
        return list(dict.fromkeys(region.name for pool in pools for region in pool.regions))

    def _not_listed_yet(self, listed: set[str]) -> list[Instance]:
        now = self._clock.now()
        self._recent = {
            key: (machine, at)
            for key, (machine, at) in self._recent.items()
            if key not in listed and now - at <= LAG
        }
        return [machine for machine, _ in self._recent.values()]

    def _list(self, region: str) -> tuple[Instance, ...]:
        clusters = sorted({pool.cluster for pool in self._pools.values()})
        return self._described(region, f"tag:{L_CLUSTER}", clusters)

    def _bought_with(self, request: LaunchRequest) -> tuple[Instance, ...]:
        return self._described(request.region, f"tag:{L_HOLD}", [request.token])

    def _described(self, region: str, name: str, values: list[str]) -> tuple[Instance, ...]:
        filters = [{"Name": name, "Values": values}, {"Name": f"tag:{L_FLEET}", "Values": [self._fleet()]}]
        with translated(f"DescribeInstances in {region}"):
            pages = (
                self._clients.ec2(region)
                .get_paginator("describe_instances")
                .paginate(Filters=filters, PaginationConfig={"PageSize": 1000})
            )
            return tuple(
                instance(found, region)
                for page in pages
                for reservation in page["Reservations"]
                for found in reservation["Instances"]
            )

    def _terminate(self, region: str, ids: list[str]) -> None:
        while ids:
            try:
                with translated(f"TerminateInstances in {region}"):
                    self._clients.ec2(region).terminate_instances(InstanceIds=ids)
            except NotFound as error:
                # One unknown id refuses the whole call: go on without those that it names.
                unknown = set(_INSTANCE_ID.findall(str(error))) & set(ids)
                young = unknown & self._recent.keys()
                if young or not unknown:
                    raise Unavailable(
                        f"{region} does not know {', '.join(sorted(young or set(ids)))} yet.", code=error.code
                    ) from error
                ids = [key for key in ids if key not in unknown]
                continue
            break
        for key in ids:
            self._recent.pop(key, None)

    def _parameters(self, request: LaunchRequest) -> dict[str, Any]:
        pool = self._pools.get(request.pool)
        if pool is None:
            raise BadInput(f"There is no AWS pool {request.pool!r} in the settings.")
        region, subnet = _placement(pool, request)
        if not _TOKEN.fullmatch(request.token):
            raise BadInput(f"{request.token!r} cannot be a ClientToken: up to 64 printable ASCII characters.")
        tags = {
            **request.tags,
            L_CLUSTER: request.cluster,
            L_POOL: request.pool,
            L_CAPACITY_TYPE: str(request.capacity_type),
            L_HOLD: request.token,
            L_FLEET: self._fleet(),
        }
        tags.setdefault("Name", f"{request.cluster}-{request.pool}")
        parameters: dict[str, Any] = {
            "ImageId": region.image,
            "InstanceType": request.instance_type,
            "MinCount": request.minimum,
            "MaxCount": request.count,
            "SubnetId": subnet,
            "UserData": self._user_data(pool, request, tags),
            "ClientToken": request.token,
            "InstanceInitiatedShutdownBehavior": "terminate",
            "TagSpecifications": [
                {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in sorted(tags.items())]}
                for kind in ("instance", "volume")
            ],
        }
        if region.security_groups:
            parameters["SecurityGroupIds"] = list(region.security_groups)
        if pool.instance_profile:
            parameters["IamInstanceProfile"] = {"Name": pool.instance_profile}
        if request.capacity_type is CapacityType.SPOT:
            parameters["InstanceMarketOptions"] = _spot_options(request)
        return parameters

    def _user_data(self, pool: Pool, request: LaunchRequest, tags: Mapping[str, str]) -> str:
        join = self._joins.get(request.cluster)
        if join is None:
            raise BadInput(
                f"No token is known with which machines join cluster {request.cluster!r}.",
                hint=f"Set QM_JOIN_TOKEN_{request.cluster.upper().replace('-', '_')}.",
            )
        labels = {**pool.labels, **node_labels(tags)}
        taints = (f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints)
        filled = fill(
            pool.user_data,
            {
                "endpoint": join.endpoint,
                "token": join.token,
                "ca": join.ca,
                "labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
                "taints": ",".join(taints),
            },
        )
        if len(filled.encode()) > USER_DATA_LIMIT:
            raise BadInput(f"The user data of pool {pool.name!r} are longer than {USER_DATA_LIMIT} bytes.")
        return filled


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced for the given names only; `${name}` is the shell's own."""
    return re.sub(r"(?<!\$)\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def node_labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags of ours that a node may carry as labels (not what a purchase or an installation is told by)."""
    return {
        key: value
        for key, value in tags.items()
        if key.startswith(f"{LABEL}/") and key not in (L_HOLD, L_FLEET) and _LABEL_VALUE.fullmatch(value)
    }


def instance(found: Mapping[str, Any], region: str) -> Instance:
    """An instance as DescribeInstances or RunInstances gives it."""
    state = str(found.get("State", {}).get("Name", "pending"))
    return Instance(
        provider=AwsMachines.provider,
        region=region,
        zone=str(found.get("Placement", {}).get("AvailabilityZone", "")),
        id=str(found["InstanceId"]),
        instance_type=str(found.get("InstanceType", "")),
        capacity_type=CapacityType.SPOT
        if found.get("InstanceLifecycle") == "spot"
        else CapacityType.ON_DEMAND,
        state="stopped" if state == "stopping" else state,
        launched=found["LaunchTime"].astimezone(UTC),
        ended=_ended(found) if state in ("shutting-down", "terminated", "stopping", "stopped") else None,
        tags={tag["Key"]: tag["Value"] for tag in found.get("Tags", ())},
    )


def _ended(found: Mapping[str, Any]) -> datetime | None:
    """The end, from the state transition's words: `User initiated (2026-11-06 17:05:00 GMT)`."""
    match = _ENDED_AT.search(str(found.get("StateTransitionReason", "")))
    return utc(f"{match[1]}T{match[2]}Z") if match else None


def _placement(pool: Pool, request: LaunchRequest) -> tuple[Region, str]:
    for region in pool.regions:
        for zone in region.zones:
            if (region.name, zone.name) == (request.region, request.zone):
                return region, zone.subnet
    raise BadInput(f"Pool {pool.name!r} has no zone {request.zone} in {request.region} in the settings.")


def _spot_options(request: LaunchRequest) -> dict[str, Any]:
    options: dict[str, str] = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if request.max_price is not None:
        options["MaxPrice"] = request.max_price.exact()
    return {"MarketType": "spot", "SpotOptions": options}
