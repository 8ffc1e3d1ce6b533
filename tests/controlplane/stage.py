"""Everything outside the product, with a real control plane in the middle: cloud, chat, people, settings.

Real time: the sandbox's world runs as fast as ours, and the product reads this machine's clock.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rehearsal.product import Product
from sandbox.cloud.server import Cloud
from sandbox.hosting import Host
from sandbox.slack.acts import Act
from sandbox.slack.workspace import Workspace
from sandbox.world import World
from tests.controlplane.harness import ROOT, ControlPlane

T = TypeVar("T")
Object = dict[str, Any]
CHANNEL = "research"
REGIONS = ("us-west-2", "us-east-1")
MACHINE = "p5.48xlarge"
SECRETS = {
    "QM_SLACK_BOT_TOKEN": "xoxb-2417-controlplane",
    "QM_SLACK_APP_TOKEN": "xapp-1-controlplane",
    "AWS_ACCESS_KEY_ID": "AKIACONTROLPLANE",
    "AWS_SECRET_ACCESS_KEY": "q8/controlplane+secret",
}
WORKSPACE: dict[str, Any] = {
    "app": {"bot_token": SECRETS["QM_SLACK_BOT_TOKEN"], "app_token": SECRETS["QM_SLACK_APP_TOKEN"]},
    "people": [{"id": "U1ADA", "name": "ada"}, {"id": "U5GRA", "name": "grace"}],
    "channels": [{"id": "C1", "name": CHANNEL, "members": ["U1ADA", "U5GRA"]}],
}
SETTINGS = """
data_dir: ./data
clusters: [{{name: home, kubeconfig: ./kubeconfig, governed: [{namespace}]}}]
pools:
  - name: aws
    cluster: home
    provider: aws
    regions:
      - {{name: us-west-2, image: ami-us-west-2, zones: [{{name: us-west-2a, subnet: subnet-us-west-2a}}]}}
      - {{name: us-east-1, image: ami-us-east-1, zones: [{{name: us-east-1a, subnet: subnet-us-east-1a}}]}}
    instance_types: [p5.48xlarge]
    instance_profile: node
    user_data: |
      endpoint={{endpoint}}
      token={{token}}
      labels={{labels}}
      taints={{taints}}
      ca={{ca}}
teams: [{{name: vision, channel: C1}}]
people:
  - {{id: U1ADA, name: Ada, team: vision}}
  - {{id: U5GRA, name: Grace, team: vision, roles: [lead], approval_limit: 5000}}
caps:
  - {{name: vision-total, scope: {{team: vision}}, limit: 50, window: total, raised_by: [lead]}}
launcher: {{experiments: ./experiments, namespace: {namespace}}}
guard: {{tick: 1s, countdown: 3s, drain: 3s}}
scaler: {{tick: 1s, idle_after: 2s, shrink_fraction: 1.0, describe_every: 2s}}
slack: {{channel: C1}}
serve: {{health_port: 0, lease_name: {namespace}}}
"""


def cloud_spec(dry_after: int) -> Object:
    """Two regions, one dear type; the first one has so many of it."""

    def region(name: str, capacity: int) -> Object:
        offers = {MACHINE: {"price": "55.04", "capacity": capacity}}
        return {"zones": {f"{name}a": {"offers": offers}}, "quotas": {"P": 10_000}}

    return {
        "regions": {REGIONS[0]: region(REGIONS[0], dry_after), REGIONS[1]: region(REGIONS[1], 50)},
        "credentials": [SECRETS["AWS_ACCESS_KEY_ID"]],
        "boot_seconds": 1,
        "visible_after_seconds": 1,
        # The clients would sleep seconds over a 500; the code is the same, and the code decides.
        "no_capacity_status": 400,
    }


def until(look: Callable[[], T | None], what: str, seconds: float = 30.0) -> T:
    """The first look that is true; `what` is told where none is in time (real seconds)."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}; last seen: {found!r}"
        time.sleep(0.1)
    return found


class Stage:
    """Cloud and chat beside the control plane, and the product as a process with the shipped ClusterRole."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path, *, dry_after: int = 3) -> None:
        self.plane = plane
        self.namespace = namespace
        self.folder = folder
        self.host = Host()
        try:
            self._build(dry_after)
        except BaseException:
            self.host.close()
            raise

    def _build(self, dry_after: int) -> None:
        manifest = yaml.safe_load((ROOT / "config/slack/manifest.yaml").read_text(encoding="utf-8"))
        world = self.host.call(lambda: World(datetime.now(UTC), scale=1.0))
        self.cloud = self.host.call(Cloud, world, cloud_spec(dry_after))
        self.chat = self.host.call(Workspace, world, WORKSPACE, manifest)
        self.chat.serve(self.host)
        self.host.spawn(world.run)
        self.plane.grant_shipped()
        self.settings = self.folder / "quartermaster.yaml"
        self.settings.write_text(SETTINGS.format(namespace=self.namespace))
        (self.folder / "kubeconfig").write_text(self.plane.kubeconfig("product").read_text())
        (self.folder / "experiments").mkdir()
        self.environment = {
            **SECRETS,
            "QM_SLACK_URL": self.chat.api_url,
            "QM_AWS_ENDPOINT": self.cloud.serve(self.host),
            "QM_JOIN_TOKEN_HOME": self.plane.tokens["machine"],
        }
        self.product = Product(self.settings, self.environment)

    def start(self) -> None:
        """Start serve, and wait until it listens to the chat."""
        self.product.start()
        self.product.wait_for(self.folder / "data" / "control.sock", 30)
        self.host.run(self.chat.connected(1, 30), timeout=35)

    def close(self) -> None:
        """End the process, leave the cluster as it was found."""
        self.product.kill()
        for job in self.jobs():
            path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{job['metadata']['name']}"
            self._gone(path + "?propagationPolicy=Background")
        for name in self.nodes():
            self._gone(f"/api/v1/nodes/{name}")
        self.host.close()

    def _gone(self, path: str) -> None:
        try:
            self.plane.request("DELETE", path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    # What people do and see.

    def say(self, person: str, text: str) -> None:
        """Type a command; it has to be acknowledged."""
        self._settle(self.host.call(self.chat.say, person, CHANNEL, text))

    def click(self, person: str, button: str, on: str) -> None:
        """Press the button whose text begins so, on the newest message that contains `on`."""
        ts, action = until(lambda: self._button(button, on), f"a button {button!r} on {on!r}")
        self._settle(self.host.call(self.chat.click, person, CHANNEL, ts, action))

    def _settle(self, act: Act) -> None:
        done = self.host.run(self.chat.settled(act), timeout=15)
        assert done.state in ("done", "acknowledged"), done.summary()

    def _button(self, label: str, on: str) -> tuple[str, str] | None:
        for message in reversed(self.host.call(self._messages)):
            if on not in json.dumps(message, ensure_ascii=False):
                continue
            for block in message.get("blocks", ()):
                for element in block.get("elements", ()) if block.get("type") == "actions" else ():
                    if element["text"]["text"].startswith(label):
                        return message["ts"], element["action_id"]
        return None

    def _messages(self) -> list[Object]:
        found: list[Object] = []
        for root in self.chat.messages(CHANNEL):
            found += self.chat.thread(CHANNEL, root["ts"])
        return sorted(found, key=lambda message: float(message["ts"]))

    def texts(self) -> list[str]:
        """All messages of the channel and its threads, oldest first."""
        return [message["text"] for message in self.host.call(self._messages)]

    def thread(self, about: str) -> list[str]:
        """The texts of the newest thread whose root contains this."""

        def look() -> list[str]:
            roots = [m for m in self.chat.messages(CHANNEL) if about in m["text"]]
            return [m["text"] for m in self.chat.thread(CHANNEL, roots[-1]["ts"])] if roots else []

        return self.host.call(look)

    def hears(self, words: str, about: str = "dota", seconds: float = 40.0) -> None:
        """Wait until the thread about something has a text with these words."""
        deadline = time.monotonic() + seconds
        while not any(words in text for text in self.thread(about)):
            self.product.check()
            assert time.monotonic() < deadline, f"nobody said {words!r}: {self.texts()}, {self.told()}"
            time.sleep(0.1)

    def told(self) -> list[str]:
        """What only one of the people was shown."""
        people = [person["id"] for person in WORKSPACE["people"]]
        shown = self.host.call(lambda: [m for person in people for m in self.chat.ephemerals(person)])
        return [message["text"] for message in shown]

    # What there is in the cluster and in the cloud.

    def _items(self, path: str) -> list[Object]:
        items: list[Object] = self.plane.request("GET", path)["items"]
        return items

    def jobs(self) -> list[Object]:
        """Jobs of the governed namespace."""
        return self._items(f"/apis/batch/v1/namespaces/{self.namespace}/jobs")

    def pods(self) -> list[Object]:
        """Pods of the governed namespace."""
        return self._items(f"/api/v1/namespaces/{self.namespace}/pods")

    def running(self) -> Counter[str]:
        """Role → pods that run."""
        return Counter(
            pod["metadata"]["labels"]["quartermaster.dev/role"]
            for pod in self.pods()
            if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
        )

    def nodes(self) -> dict[str, str]:
        """Name → region of the nodes that were bought."""
        return {
            node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/region"]
            for node in self._items("/api/v1/nodes")
            if node["spec"].get("providerID", "").startswith("aws:")
        }

    def live_machines(self) -> Counter[str]:
        """Region → machines that cost money."""
        return Counter(m.region for m in self.host.call(self.cloud.machines) if m.live)

    def spent(self) -> Fraction:
        """Dollars that the cloud bills the team for so far; once all is ended, its last minutes included."""

        def look() -> Fraction:
            now = self.cloud.world.now
            ahead = timedelta(minutes=0 if any(m.live for m in self.cloud.machines()) else 1)
            return self.cloud.spent(now - timedelta(hours=1), now + ahead, team="vision")

        return self.host.call(look)

    def finish(self) -> None:
        """Tell every running pod to succeed."""
        for pod in self.pods():
            self.plane.request(
                "PATCH",
                f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}",
                {"metadata": {"annotations": {"sandbox.quartermaster.dev/run-seconds": "1"}}},
                kind="application/merge-patch+json",
            )

    # What the process says about itself.

    def log(self) -> list[Object]:
        """Its log; every line is JSON."""
        return [json.loads(line) for line in self.product.log.read_text().splitlines()]

    def events(self) -> list[str]:
        """What it told people about, by name, oldest first."""
        return [line["event_type"] for line in self.log() if "event_type" in line]

    def health(self, path: str) -> tuple[int, Object]:
        """Status and body of a path of the health server."""
        port = until(lambda: [x["port"] for x in self.log() if x.get("event") == "health"], "a health port")[
            -1
        ]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
