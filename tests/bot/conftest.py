"""The whole product in a stepped world of stand-ins, entered at its real doors: chat, terminal, signals."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.terminal import SECTIONS
from bot.wire import Built, build
from config.environment import Environment
from config.settings import load_settings
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.kube.cluster import Cluster
from sandbox.slack.workspace import Workspace
from sandbox.world import World
from tests.builders import T0

MANIFEST = Path(__file__).resolve().parents[2] / "config/slack/manifest.yaml"
REGIONS = ("us-west-2", "us-east-1")
DOTA = """
name: dota
image: acme/dota:1
roles:
  ps: {replicas: 1, resources: {cpu: 2, memory: 4Gi}, command: [python, ps.py]}
  worker: {replicas: 4, min_replicas: 1, resources: {cpu: 3, memory: 4Gi}, command: [python, w.py]}
success: [worker]
limits: {max_cost: 50, max_hours: 8}
overrides: {metadata: {annotations: {sandbox.quartermaster.dev/run-seconds: "7200"}}}
"""
SETTINGS = """
data_dir: ./data
clusters: [{name: home, kubeconfig: ./kubeconfig, governed: [research]}]
pools:
  - name: aws
    cluster: home
    provider: aws
    regions:
      - {name: us-west-2, image: ami-us-west-2, zones: [{name: us-west-2a, subnet: subnet-us-west-2a}]}
      - {name: us-east-1, image: ami-us-east-1, zones: [{name: us-east-1a, subnet: subnet-us-east-1a}]}
    instance_types: [m5.xlarge, m5.4xlarge]
    instance_profile: node
    user_data: |
      endpoint={endpoint}
      token={token}
      labels={labels}
      taints={taints}
teams: [{name: vision, channel: C1}, {name: interns, channel: C1}]
people:
  - {id: U1ADA, name: Ada, team: vision, roles: [lead], approval_limit: 5000, system_user: ada}
  - {id: U2IVO, name: Ivo, team: interns}
  - {id: U3OPS, name: Oskar, roles: [operator, admin], approval_limit: 100000, system_user: "@ME@"}
  - {id: U5GRA, name: Grace, team: vision, roles: [lead], approval_limit: 5000}
  - {id: U9GUS, name: Gus, team: vision}
caps:
  - {name: vision-month, scope: {team: vision}, limit: 3000, raised_by: [lead]}
launcher: {experiments: ./experiments}
slack: {channel: C0, digest_at: "17:30"}
serve: {health_port: 0}
"""
WORKSPACE = {
    "people": [
        {"id": "U1ADA", "name": "ada"},
        {"id": "U2IVO", "name": "ivo"},
        {"id": "U3OPS", "name": "oskar"},
        {"id": "U4EVE", "name": "eve"},
        {"id": "U5GRA", "name": "grace"},
        {"id": "U9GUS", "name": "gus", "kind": "guest"},
    ],
    "channels": [
        {"id": "C0", "name": "ops"},
        {"id": "C1", "name": "research", "members": ["U1ADA", "U2IVO", "U3OPS", "U4EVE", "U5GRA", "U9GUS"]},
    ],
}


class Lab:
    """The world, what is in it, and the service in a thread of this process (or in one of its own)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = Host()
        self.world = self.host.call(lambda: World(T0, seed=1))
        self.world_url = self.host.serve(self.world.app())
        self.cluster = Cluster(self.world, self.host, "home")
        self.cluster.add_namespace("research", {"quartermaster.dev/governed": "true"})
        self.cloud = self.host.call(lambda: Cloud(self.world, cloud_spec()))
        manifest = yaml.safe_load(MANIFEST.read_text())
        self.slack = self.host.call(
            lambda: Workspace(self.world, WORKSPACE, manifest, participant="serve", rate_limits=False)
        )
        self.slack.serve(self.host)
        self.cloud_url = self.cloud.serve(self.host)
        self.settings = folder / "quartermaster.yaml"
        self.settings.write_text(SETTINGS.replace("@ME@", getpass.getuser()))
        (folder / "kubeconfig").write_text(yaml.safe_dump(self.cluster.kubeconfig()))
        (folder / "experiments").mkdir()
        (folder / "experiments/dota.yaml").write_text(DOTA)
        self.host.call(lambda: self.world.expect("test", priority=50))
        self.host.spawn(self.world.run)
        self.built: Built | None = None
        self._thread: threading.Thread | None = None

    @property
    def environment(self) -> Environment:
        """What serve is started with."""
        return Environment(
            slack_url=self.slack.api_url,
            slack_bot_token="xoxb-sandbox",
            slack_app_token="xapp-sandbox",
            aws_endpoint=self.cloud_url,
            world_url=self.world_url,
            join_tokens={"HOME": self.cluster.join_token},
        )

    def start(self) -> None:
        """Build the service and turn its loop in a thread."""
        self.host.call(lambda: self.world.expect("serve", priority=10))
        built = self.built = build(load_settings(self.settings, SECTIONS), self.environment)
        self._thread = threading.Thread(target=built.service.run, daemon=True)
        self._thread.start()
        self.host.run(self.slack.connected(), timeout=20)

    def stop(self) -> None:
        """A clean end: the loop finishes its step and gives up its lease."""
        if self.built is None or self._thread is None:
            return
        self.built.service.stop()
        self.host.call(lambda: self.world.forget("serve"))
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.built.close()
        self.built = self._thread = None

    def close(self) -> None:
        """End everything."""
        self.stop()
        self.cluster.close()
        self.host.close()

    def go(self, **duration: float) -> None:
        """Let the world move on."""
        until = self.host.call(lambda: self.world.now) + timedelta(**duration)
        self.host.run(self.world.wait("test", until), timeout=120)

    def say(self, person: str, text: str, channel: str = "C1") -> str:
        """Type a slash command; returns what only the person sees of it ("" = nothing)."""
        seen = len(self.whispers(person))
        act = self.host.call(lambda: self.slack.say(person, channel, text))
        self.host.run(self.slack.settled(act), timeout=20)
        assert act.state == "acknowledged", act
        self.go(seconds=1)
        return "\n".join(self.whispers(person)[seen:])

    def click(self, person: str, button: str, text: str = "", channel: str = "C1") -> str:
        """Press a button (by its label's start) on the latest message with the text; returns the answer."""
        seen = len(self.whispers(person))
        ts, action = self._button(channel, button, text)
        act = self.host.call(lambda: self.slack.click(person, channel, ts, action))
        self.host.run(self.slack.settled(act), timeout=20)
        assert act.state == "acknowledged", act
        self.go(seconds=1)
        return "\n".join(self.whispers(person)[seen:])

    def _button(self, channel: str, button: str, text: str) -> tuple[str, str]:
        for message in reversed(self.everything(channel)):
            if text in message["text"]:
                for action, label, _value in buttons_of(message):
                    if label.startswith(button):
                        return message["ts"], action
        raise AssertionError(f"no button {button!r} on a message with {text!r}")

    def whispers(self, person: str) -> list[str]:
        """Texts that only this person sees."""
        return [message["text"] for message in self.host.call(self.slack.ephemerals, person)]

    def everything(self, channel: str = "C1") -> list[dict[str, Any]]:
        """Every message of a channel, each thread under its root."""
        roots = self.host.call(self.slack.messages, channel)
        return [m for root in roots for m in self.host.call(self.slack.thread, channel, root["ts"])]

    def thread(self, text: str, channel: str = "C1") -> list[str]:
        """The texts of the thread whose root has the text."""
        for root in self.host.call(self.slack.messages, channel):
            if text in root["text"]:
                return [m["text"] for m in self.host.call(self.slack.thread, channel, root["ts"])]
        raise AssertionError(f"no root message with {text!r}")

    def objects(self, resource: str) -> list[dict[str, Any]]:
        """Objects in the cluster."""
        return self.host.call(lambda: self.cluster.store.list(resource))


def cloud_spec() -> dict[str, Any]:
    """Two regions; the first has room for one big machine."""
    offers = {
        "us-west-2": {"m5.xlarge": 2, "m5.4xlarge": 1},
        "us-east-1": {"m5.xlarge": 40, "m5.4xlarge": 20},
    }
    prices = {"m5.xlarge": "0.192", "m5.4xlarge": "0.768"}
    regions = {
        region: {
            "zones": {
                f"{region}a": {
                    "offers": {t: {"price": prices[t], "capacity": n} for t, n in offers[region].items()}
                }
            },
            "quotas": {"Standard": 2000},
        }
        for region in REGIONS
    }
    return {"regions": regions, "credentials": ["AKIASANDBOX"]}


def buttons_of(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(action id, label, value) of every button on a message."""
    return [
        (element["action_id"], element["text"]["text"], element.get("value", ""))
        for block in message.get("blocks") or ()
        if block["type"] == "actions"
        for element in block["elements"]
    ]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys that the stand-in knows, and nobody else's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASANDBOX")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sandbox")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def stopped_lab(tmp_path: Path, keys: None) -> Iterator[Lab]:
    """The world, without the product."""
    lab = Lab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def lab(stopped_lab: Lab) -> Lab:
    """The world, and the product running in it."""
    stopped_lab.start()
    stopped_lab.go(seconds=5)
    return stopped_lab
