"""The stage of a scenario: the sandbox it describes, and the folder and environment the product is started in."""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from bot.wire import PARTICIPANT
from config.source import load_yaml
from fleet.errors import BadInput
from fleet.values import Money
from rehearsal.format import CloudWorld, NodeGroup, RegionWorld, Scenario
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.kube.exporters import DcgmExporter, KubeStateMetrics
from sandbox.prometheus import Prometheus
from sandbox.series import Source
from sandbox.slack.workspace import Workspace
from sandbox.world import World

PRODUCT = "quartermaster"
"""the product's user in every cluster"""
UNLIMITED = "1000000000"
COARSE_GUARD = {"tick": "1h", "heartbeat_limit": "6h", "price_every": "6h", "machines_every": "6h"}
COARSE_SCALER = {"tick": "30m", "describe_every": "6h", "capacity_memory": "2h", "capacity_memory_max": "2d"}
"""weeks without a guard are looked at more seldom: the meter counts from the observations, not from the ticks"""
USER_DATA = "endpoint={endpoint}\ntoken={token}\nlabels={labels}\ntaints={taints}\n"
BOT_TOKEN = "xoxb-sandbox"
APP_TOKEN = "xapp-sandbox"
ACCESS_KEY = "AKIASANDBOX"


class Stage:
    """A running sandbox. `folder` gets settings, kubeconfigs, experiments and, from the product, its data."""

    def __init__(self, scenario: Scenario, folder: Path, *, guarded: bool = True) -> None:
        self.scenario = scenario
        self.folder = folder
        self.guarded = guarded
        self.host = Host()
        self.world = World(scenario.start, seed=scenario.seed)
        try:
            self._build()
        except BaseException:
            self.host.close()
            raise

    def _build(self) -> None:
        world = self.scenario.world
        rules = _shipped_rules()
        self.clusters = {
            entry.name: Cluster(self.world, self.host, entry.name, users={PRODUCT: rules})
            for entry in world.clusters
        }
        for entry in world.clusters:
            cluster = self.clusters[entry.name]
            for name in ("kube-system", "default", *entry.other_namespaces):
                if self.host.call(cluster.store.get, "namespaces", "", name) is None:
                    cluster.add_namespace(name)
            for name in entry.namespaces:
                cluster.add_namespace(name, {"quartermaster.dev/governed": "true"})
            for manifest in (node for group in entry.nodes for node in _rack(group)):
                self.host.call(cluster.store.create, "nodes", manifest)
        self.cloud = self.host.call(Cloud, self.world, _cloud_spec(world.cloud))
        self.workspace = self.host.call(self._workspace)
        self.prometheus = self.host.call(self._prometheus)
        self.addresses = {
            "world": self.host.serve(self.world.app()),
            "cloud": self.cloud.serve(self.host),
            "slack": self.workspace.serve(self.host),
            "prometheus": self.host.serve(self.prometheus.app()),
        }
        self.settings_path = self._write_folder()
        self.host.call(self._expect)
        self.host.spawn(self.world.run)

    def _expect(self) -> None:
        self.world.expect("stage", priority=10)

    def _workspace(self) -> Workspace:
        manifest = load_yaml(Path(str(files("config") / "slack" / "manifest.yaml"))).data
        chat = self.scenario.world.chat
        people: dict[str, dict[str, Any]] = {
            str(person["id"]): {
                "id": str(person["id"]),
                "name": str(person["name"]).lower(),
                "real_name": str(person["name"]),
            }
            for person in self.scenario.settings.get("people", [])
        }
        for person in chat.people:
            people[person.id] = {
                "id": person.id,
                "name": person.name.lower(),
                "real_name": person.name,
                "kind": person.kind,
            }
        spec = {
            "app": {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN},
            "people": list(people.values()),
            "channels": [{"id": channel_id(name), "name": name, "app": True} for name in chat.channels],
        }
        return Workspace(self.world, spec, manifest, participant=PARTICIPANT, rate_limits=False)

    def _prometheus(self) -> Prometheus:
        sources: list[Source] = []
        for name, cluster in self.clusters.items():
            sources.append(KubeStateMetrics(name, cluster.store))
            if cluster.kubelets is not None:
                sources.append(DcgmExporter(name, cluster.kubelets))
        return Prometheus(self.world, sources)

    @property
    def environment(self) -> dict[str, str]:
        """What the product is started with: addresses of this machine, tokens of this sandbox."""
        tokens = {
            f"QM_JOIN_TOKEN_{name.upper().replace('-', '_')}": cluster.join_token
            for name, cluster in self.clusters.items()
        }
        return {
            "QM_DATA_DIR": str(self.folder / "data"),
            "QM_WORLD_URL": self.addresses["world"],
            "QM_SLACK_URL": self.workspace.api_url,
            "QM_SLACK_BOT_TOKEN": BOT_TOKEN,
            "QM_SLACK_APP_TOKEN": APP_TOKEN,
            "QM_AWS_ENDPOINT": self.addresses["cloud"],
            "QM_PROMETHEUS_URL": self.addresses["prometheus"],
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_EC2_METADATA_DISABLED": "true",
            **tokens,
        }

    def _write_folder(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.scenario.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if self.guarded else _uncapped(content))
        for name, cluster in self.clusters.items():
            (self.folder / f"kubeconfig-{name}").write_text(json.dumps(cluster.kubeconfig(PRODUCT)))
        path = self.folder / "quartermaster.yaml"
        settings = complete_settings(self.scenario, guarded=self.guarded)
        path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
        return path

    def close(self) -> None:
        """End every server."""
        self.host.close()


def channel_id(name: str) -> str:
    """The id of a scenario's channel."""
    return "C0" + "".join(c for c in name.upper() if c.isalnum())


def complete_settings(scenario: Scenario, *, guarded: bool) -> dict[str, Any]:
    """The product's settings file: the scenario's, with what only the world knows filled in.

    Not guarded means that every cap is lifted: the same product in the same world, with nothing to stop it.
    """
    settings: dict[str, Any] = json.loads(json.dumps(scenario.settings))
    world = scenario.world
    settings["clusters"] = [
        {"name": entry.name, "kubeconfig": f"kubeconfig-{entry.name}", "governed": list(entry.namespaces)}
        for entry in world.clusters
    ]
    settings["pools"] = [_pool(pool, world.cloud) for pool in settings.get("pools", [])]
    channels = {name: channel_id(name) for name in world.chat.channels}
    for team in settings.get("teams", []):
        team["channel"] = channels.get(team.get("channel", ""), team.get("channel", ""))
    slack = settings.setdefault("slack", {})
    slack["channel"] = channels.get(slack.get("channel", world.chat.channels[0]), slack.get("channel", ""))
    # Settings of a running service may be pasted in: nothing of its own folder, socket or port is touched.
    settings["data_dir"] = "data"
    serve = settings.setdefault("serve", {})
    serve["socket"], serve["health_port"] = None, None
    if not any(person.get("system_user") for person in settings.get("people", [])):
        _let_me_ask(settings.get("people", []))
    serve.setdefault("lease_duration", "15m")  # nobody else wants it: fewer renewals, a faster story
    if not guarded:
        settings["caps"] = []
        settings.setdefault("launcher", {})["default_cap"] = UNLIMITED
        settings.setdefault("guard", {}).update(COARSE_GUARD)
        settings.setdefault("scaler", {}).update(COARSE_SCALER)
        serve["lease_duration"] = slack["card_expires"] = "12h"
    return settings


def _uncapped(experiment: str) -> str:
    """An experiment's text whose own cap is lifted too."""
    return re.sub(r"(\bmax_cost:[ \t]*)[^,}\n#]+", rf"\g<1>{UNLIMITED}", experiment)


def _let_me_ask(people: list[dict[str, Any]]) -> None:
    """At a terminal whoever plays the scenario is its first admin, or its first person."""
    chosen = next(
        (person for person in people if "admin" in person.get("roles", ())), people[0] if people else None
    )
    if chosen is not None:
        chosen["system_user"] = pwd.getpwuid(os.getuid()).pw_name


def _pool(pool: Mapping[str, Any], cloud: CloudWorld) -> dict[str, Any]:
    completed = dict(pool)
    if completed.get("provider") != "aws":
        return completed
    completed["regions"] = [_pool_region(region, cloud) for region in completed.get("regions", [])]
    completed.setdefault("instance_profile", "node")
    completed.setdefault("user_data", USER_DATA)
    return completed


def _pool_region(region: Mapping[str, Any], cloud: CloudWorld) -> dict[str, Any]:
    name = str(region.get("name", ""))
    if name not in cloud.regions:
        known = ", ".join(cloud.regions) or "none"
        raise BadInput(
            f"A pool names the region {name!r}, which the world's cloud does not have.",
            hint=f"It has: {known}.",
        )
    zones = [{"name": zone, "subnet": f"subnet-{zone}"} for zone in cloud.regions[name].zones]
    return {"image": f"ami-{name}", "zones": zones, **region}


def _shipped_rules() -> list[dict[str, Any]]:
    text = (files("config") / "deploy" / "clusterrole.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text)["rules"])


def _cloud_spec(cloud: CloudWorld) -> dict[str, Any]:
    return {
        "regions": {name: _region_spec(region) for name, region in cloud.regions.items()},
        "credentials": [ACCESS_KEY],
        "boot_seconds": cloud.boot.total_seconds(),
        "gpu_ready_seconds": None if cloud.gpus_ready is None else cloud.gpus_ready.total_seconds(),
        "bill": {
            "after_hours": cloud.bill_after.total_seconds() / 3600,
            "tags": ["quartermaster.dev/run", "quartermaster.dev/experiment", "quartermaster.dev/team"],
        },
        # The clients would sleep real seconds over a 500; the code is the same, and the code decides.
        "no_capacity_status": 400,
    }


def _region_spec(region: RegionWorld) -> dict[str, Any]:
    def dollars(price: Money | None) -> str | None:
        return None if price is None else price.exact()

    return {
        "quotas": dict(region.quotas),
        "zones": {
            zone: {
                "offers": {
                    kind: {
                        "price": dollars(offer.price),
                        "spot": dollars(offer.spot),
                        "capacity": offer.capacity,
                        "spot_capacity": offer.spot_capacity,
                    }
                    for kind, offer in offers.items()
                },
                "subnets": {f"subnet-{zone}": {"joins": zone not in region.never_joins}},
            }
            for zone, offers in region.zones.items()
        },
    }


def _rack(group: NodeGroup) -> list[dict[str, Any]]:
    resources = {"cpu": group.cpu, "memory": group.memory, "pods": "110"}
    if group.gpus:
        resources["nvidia.com/gpu"] = str(group.gpus)
    zone = {"topology.kubernetes.io/zone": group.zone} if group.zone else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"{group.name}-{number}",
                "labels": {"kubernetes.io/hostname": f"{group.name}-{number}", **zone, **group.labels},
            },
            "status": {"capacity": dict(resources), "allocatable": dict(resources)},
        }
        for number in range(1, group.count + 1)
    ]
