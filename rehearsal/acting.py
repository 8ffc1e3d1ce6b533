"""Carries out a scenario's steps in the sandbox: what people do, what kubectl does, what breaks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import urllib3

from bot.wire import PARTICIPANT
from fleet.errors import BadInput
from rehearsal.format import Click, Fault, Finish, ObjectStep, OfferChange, Slash, Step
from rehearsal.product import Product
from rehearsal.readings import Readings
from rehearsal.stage import Stage

CONNECT_SECONDS = 30.0
"""real seconds in which a dropped connection to the chat must come back"""
LOOP_TURNS = 20
"""of the sandbox's loop, in which a request that is in the socket has surely been taken in"""
PLURALS = {
    "Job": "jobs.batch",
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
    "Service": "services",
    "Secret": "secrets",
}


class Actor:
    """Does steps. `restart` brings the product back after a kill."""

    def __init__(
        self, stage: Stage, product: Product, readings: Callable[[], Readings], restart: Callable[[], None]
    ) -> None:
        self._stage = stage
        self._product = product
        self._readings = readings
        self._restart = restart
        people = stage.scenario.settings.get("people", [])
        self._people = {str(person["name"]): str(person["id"]) for person in people}
        self._people |= {person.name: person.id for person in stage.scenario.world.chat.people}

    def perform(self, step: Step) -> None:
        """Do one step. Raises BadInput where it names what does not exist."""
        doers: dict[str, Callable[[Any], None]] = {
            "slash": self._slash,
            "click": self._click,
            "create": self._create,
            "patch": self._patch,
            "delete": self._delete,
            "finish": self._finish,
            "offer": self._offer,
            "fault": self._fault,
        }
        for name, do in doers.items():
            given = getattr(step, name)
            if given is not None:
                do(given)

    def _person(self, name: str) -> str:
        if name not in self._people:
            raise BadInput(
                f"Nobody is called {name!r} in this scenario.", hint=f"There are: {', '.join(self._people)}."
            )
        return self._people[name]

    def _slash(self, step: Slash) -> None:
        stage = self._stage
        act = stage.host.call(stage.workspace.say, self._person(step.by), step.channel, step.text)
        stage.host.run(stage.workspace.settled(act), timeout=30)

    def _click(self, step: Click) -> None:
        stage = self._stage
        person = self._person(step.by)
        found = stage.host.call(find_button, stage, step, person)
        if found is None:
            raise BadInput(
                f"No message in #{step.channel} has the button {step.button!r}"
                + (f" and contains {step.on!r}." if step.on else ".")
            )
        act = stage.host.call(stage.workspace.click, person, step.channel, found[0], found[1])
        stage.host.run(stage.workspace.settled(act), timeout=30)

    def _store(self, step: ObjectStep) -> Any:
        if step.kind not in PLURALS:
            raise BadInput(
                f"Steps cannot change a {step.kind}.", hint=f"They can change: {', '.join(PLURALS)}."
            )
        return self._stage.clusters[step.cluster].store

    def _named(self, step: ObjectStep) -> ObjectStep:
        """The step with the runs' ids in the object's name."""
        return step.model_copy(update={"name": self._filled(step.name)})

    def _filled(self, value: Any) -> Any:
        """`{run:NAME}` stands for the newest run of that experiment."""
        text = json.dumps(value)
        names = set(re.findall(r"\{run:([a-z0-9-]+)\}", text))
        for name in names:
            text = text.replace(f"{{run:{name}}}", self._readings().run_of(name))
        return json.loads(text)

    def _create(self, step: ObjectStep) -> None:
        step = self._named(step)
        manifest = self._filled(step.manifest or {})
        manifest.setdefault("kind", step.kind)
        manifest.setdefault("metadata", {}).update({"name": step.name, "namespace": step.namespace})
        self._store(step)
        self._kubectl("POST", step, manifest)

    def _patch(self, step: ObjectStep) -> None:
        self._store(step)
        self._kubectl("PATCH", self._named(step), self._filled(step.patch or {}))

    def _delete(self, step: ObjectStep) -> None:
        self._store(step)
        # As kubectl does; the API's own default leaves a Job's pods behind.
        self._kubectl("DELETE", self._named(step), {"propagationPolicy": "Background"})

    def _kubectl(self, method: str, step: ObjectStep, body: Any) -> None:
        """Through the API, as admin: whatever the API refuses, the scenario hears."""
        cluster = self._stage.clusters[step.cluster]
        plural, _, group = PLURALS[step.kind].partition(".")
        base = f"/apis/{group}/v1" if group else "/api/v1"
        place = "" if step.kind in ("Node", "Namespace") else f"/namespaces/{step.namespace}"
        path = f"{base}{place}/{plural}" + ("" if method == "POST" else f"/{step.name}")
        headers = {
            "Authorization": f"Bearer {cluster.token('admin')}",
            "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
        }
        answer = urllib3.request(
            method,
            cluster.address + path,
            body=json.dumps(body).encode(),
            headers=headers,
            retries=False,
            timeout=30,
        )
        if answer.status >= 400:
            said = json.loads(answer.data or b"{}").get("message", answer.status)
            raise BadInput(f"The API refuses the {method} of {step.kind} {step.name}: {said}.")

    def _finish(self, step: Finish) -> None:
        self._stage.host.call(finish_pods, self._stage, step)

    def _offer(self, step: OfferChange) -> None:
        self._stage.host.call(change_offer, self._stage, step)

    def _fault(self, step: Fault) -> None:
        if step.kind == "kill":
            for number in range(step.times):
                self._product.kill()
                self._bury()
                if step.lasts is None or number + 1 < step.times:
                    self._restart()
        elif step.kind == "asleep":
            self._product.sleep()
            self._bury()
        elif step.kind == "full-disk":
            self._product.fill_disk(full=True)
        else:
            self._stage.host.call(break_something, self._stage, step)
        if step.kind == "drop-sockets":
            # How long it takes to connect again is real time, so the world waits for it.
            self._stage.host.run(self._stage.workspace.connected(1, CONNECT_SECONDS), CONNECT_SECONDS + 5)

    def _bury(self) -> None:
        """Forget the process once what it still sent has been read: a wait of the dead would bring it back."""

        async def read() -> None:
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)

        self._stage.host.run(read(), CONNECT_SECONDS)
        self._stage.host.call(self._stage.world.forget, PARTICIPANT)

    def recover(self, fault: Fault) -> None:
        """What the process itself suffered is over."""
        if fault.kind == "kill":
            self._restart()
        elif fault.kind == "asleep":
            self._stage.host.call(lambda: self._stage.world.expect(PARTICIPANT))
            self._product.wake()
        elif fault.kind == "full-disk":
            self._product.fill_disk(full=False)


def find_button(stage: Stage, step: Click, person: str) -> tuple[str, str] | None:
    """(message, action) of the newest visible message that has the button and contains the text."""
    workspace = stage.workspace
    found: list[tuple[str, str]] = []
    candidates = [*workspace.messages(step.channel), *workspace.ephemerals(person, step.channel)]
    for root in workspace.messages(step.channel):
        candidates += [m for m in workspace.thread(step.channel, root["ts"]) if m["ts"] != root["ts"]]
    for message in candidates:
        text = json.dumps(message, ensure_ascii=False)
        if step.on and step.on not in text:
            continue
        for block in message.get("blocks", ()):
            for element in block.get("elements", ()) if block.get("type") == "actions" else ():
                label = str(element.get("text", {}).get("text", ""))
                if label == step.button or label.startswith(f"{step.button} $"):
                    found.append((message["ts"], element["action_id"]))
    return max(found, default=None, key=lambda each: float(each[0]))


def finish_pods(stage: Stage, step: Finish) -> None:
    """End running pods of an experiment."""
    cluster = stage.clusters[step.cluster]
    pods = [
        p["metadata"]
        for p in cluster.store.list("pods")
        if p["metadata"].get("labels", {}).get("quartermaster.dev/experiment") == step.experiment
        and p.get("status", {}).get("phase") == "Running"
    ]
    for metadata in pods[: step.count]:
        assert cluster.kubelets is not None
        cluster.kubelets.finish(metadata["namespace"], metadata["name"], step.exit_code)


def change_offer(stage: Stage, step: OfferChange) -> None:
    """Change capacity or prices."""
    cloud = stage.cloud
    zones = [step.zone] if step.zone else list(cloud.regions[step.region].spec.zones)
    for zone in zones:
        if step.instance_type not in cloud.regions[step.region].spec.zones.get(zone, {}):
            continue
        if step.capacity is not None:
            cloud.set_capacity(step.region, zone, step.instance_type, step.capacity)
        if step.price is not None:
            cloud.set_price(step.region, zone, step.instance_type, step.price.exact())
        if step.spot is not None:
            cloud.set_price(step.region, zone, step.instance_type, step.spot.exact(), spot=True)


def break_something(stage: Stage, step: Fault) -> None:
    """Switch a fault on, and off again after `lasts`."""
    cluster = stage.clusters[step.cluster]
    cloud_regions = [stage.cloud.regions[step.region]] if step.region else list(stage.cloud.regions.values())

    def api(down: bool) -> None:
        cluster.api.down = down

    def cloud(down: bool) -> None:
        for region in cloud_regions:
            region.down = down

    def slack(down: bool) -> None:
        stage.workspace.faults.down = down

    def clock(wrong: bool) -> None:
        stage.world.ahead = step.ahead - step.behind if wrong else timedelta(0)
        stage.world.nudge(PARTICIPANT)

    lasting: dict[str, Callable[[bool], None]] = {
        "api-down": api,
        "cloud-down": cloud,
        "slack-down": slack,
        "clock-jump": clock,
    }
    once: dict[str, Callable[[], object]] = {
        "drop-watches": cluster.api.drop_watches,
        "expire-watches": lambda: cluster.api.compact(expire_open=True),
        "lost-ack": lambda: _lose_replies(stage, step.times),
        "cloud-error": lambda: stage.cloud.fail_next(step.call, step.code, times=step.times),
        "drop-sockets": stage.workspace.link.drop,
        "slack-429": lambda: _throttle(stage, step.times),
    }
    if step.kind in lasting:
        switch = lasting[step.kind]
        switch(True)
        if step.lasts is not None:
            stage.world.after(step.lasts.total_seconds(), lambda: switch(False))
        return
    once[step.kind]()


def _throttle(stage: Stage, times: int) -> None:
    counts = stage.workspace.faults.throttled
    counts["*"] = counts.get("*", 0) + times


def _lose_replies(stage: Stage, times: int) -> None:
    stage.cloud.faults.lost_replies += times
