"""`quartermaster serve` as a process of its own: signals, kills, terminals, health."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.bot.conftest import Lab, buttons_of

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """serve in a process, in the lab's world."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.log = lab.folder / "serve.log"
        self.started: subprocess.Popen[bytes] | None = None
        environment = lab.environment
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(lab.folder),
            "PYTHONPATH": str(ROOT),
            "QM_SLACK_URL": environment.slack_url,
            "QM_SLACK_BOT_TOKEN": environment.slack_bot_token,
            "QM_SLACK_APP_TOKEN": environment.slack_app_token,
            "QM_AWS_ENDPOINT": environment.aws_endpoint,
            "QM_WORLD_URL": environment.world_url,
            "QM_JOIN_TOKEN_HOME": environment.join_tokens["HOME"],
            "AWS_ACCESS_KEY_ID": "AKIASANDBOX",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
        }

    def start(self) -> None:
        """Start it and wait until it is connected."""
        self.lab.host.call(lambda: self.lab.world.expect("serve", priority=10))
        with self.log.open("ab") as log:
            self.started = subprocess.Popen(
                [sys.executable, "-m", "bot", "serve", "--config", str(self.lab.settings)],
                stdout=log,
                stderr=log,
                env=self.variables,
                cwd=self.lab.folder,
            )
        self.lab.host.run(self.lab.slack.connected(), timeout=30)

    def end(self, number: signal.Signals) -> int:
        """Signal it and wait; the world does not wait for it any more."""
        assert self.started is not None
        self.started.send_signal(number)
        code = self.started.wait(20)
        self.lab.host.call(lambda: self.lab.world.forget("serve"))
        self.started = None
        return code

    def terminal(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `quartermaster …` against it."""
        return subprocess.run(
            [sys.executable, "-m", "bot", *words],
            env={**self.variables, "QM_DATA_DIR": str(self.lab.folder / "data")},
            cwd=self.lab.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def lines(self) -> list[dict[str, Any]]:
        """Its log."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def process(stopped_lab):
    """A running serve process."""
    found = Process(stopped_lab)
    found.start()
    stopped_lab.go(seconds=5)
    yield found
    if found.started is not None:
        found.end(signal.SIGKILL)


def test_sigterm_is_a_clean_end_and_the_next_one_goes_on_at_once(process):
    """Exit code 0, the lease given up, the socket gone."""
    code = process.end(signal.SIGTERM)
    lease = process.lab.objects("leases.coordination.k8s.io")[0]
    process.start()
    process.lab.go(seconds=5)

    assert code == 0
    assert not lease["spec"].get("holderIdentity")
    assert process.lab.say("U1ADA", "/exp ls") == "Nothing is running. Try: launch NAME, or help."


def test_a_killed_process_takes_up_what_it_had_begun(process):
    """SIGKILL in the middle of a launch: one run, one purchase, one message of each kind."""
    lab = process.lab
    lab.say("U1ADA", "/exp launch dota")
    ts = lab.everything()[0]["ts"]
    lab.host.call(lambda: lab.slack.click("U1ADA", "C1", ts, "launch.start"))
    time.sleep(0.05)
    process.end(signal.SIGKILL)
    process.start()
    lab.go(minutes=6)
    texts = lab.thread("dota")

    assert len(lab.objects("jobs.batch")) in (0, 2)
    if lab.objects("jobs.batch"):
        assert [text for text in texts if "is launched on" in text] == [
            text for text in texts if "is launched on" in text
        ][:1]
        assert len(lab.objects("nodes")) == 1
    assert len(texts) == len(set(texts))


def test_the_log_is_json_and_holds_no_secret(process):
    """Tokens, keys and reply addresses stay out."""
    process.lab.say("U1ADA", "/exp whoami")
    process.lab.go(seconds=30)
    text = process.log.read_text()

    assert {"event", "level", "timestamp"} <= set(process.lines()[0])
    for secret in (
        "xoxb-sandbox",
        "xapp-sandbox",
        process.variables["QM_JOIN_TOKEN_HOME"],
        "/response/response",
    ):
        assert secret not in text


def test_health_readiness_and_metrics(process):
    """What a supervisor and Prometheus ask."""
    process.lab.go(seconds=5)
    port = next(line["port"] for line in process.lines() if line["event"] == "health")

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    ready = json.loads(get("/readyz"))
    assert json.loads(get("/healthz")) == {"ok": True}
    assert ready["needs"] == {"lease": True, "cluster home": True}
    assert ready["notes"]["slack"] == "connected"
    assert 'quartermaster_cap_limit_dollars{cap="vision-month"} 3000.0' in get("/metrics")


def test_the_terminal_asks_the_running_serve(process):
    """Same verbs, text and JSON, exit codes 0, 1 and 2."""
    listed = process.terminal("ls")
    caps = process.terminal("caps", "--output", "json")
    alone = process.terminal("caps", "vision")
    mistyped = process.terminal("caps", "set", "x", "1.000,00")
    nothing = process.terminal("pause", "nothing")
    launched = process.terminal("launch", "dota", "--yes")
    again = process.terminal("launch", "dota", "--yes", "--config", str(process.lab.settings))
    refused = process.terminal("resume", "dota")

    assert (listed.returncode, listed.stdout) == (0, "Nothing is running. Try: launch NAME, or help.\n")
    assert json.loads(caps.stdout)["data"]["caps"][0]["cap"]["limit"] == "3000.000000"
    assert "vision-month" in alone.stdout
    assert mistyped.returncode == 2
    assert "is not an amount of dollars" in mistyped.stderr
    assert mistyped.stderr.count("\n") == 1
    assert nothing.returncode == 2
    assert "There is no run or experiment 'nothing'." in nothing.stderr
    assert launched.stdout.startswith("Oskar launched dota")
    assert again.returncode == 0
    assert refused.returncode == 1
    assert process.lab.thread("Oskar launched dota", "C0")


def test_the_ledger_can_be_verified_without_a_serve(process):
    """It only reads."""
    process.lab.go(seconds=70)
    running = process.terminal("ledger", "verify")
    process.end(signal.SIGTERM)
    alone = process.terminal("ledger", "verify")
    asked = process.terminal("ls")

    assert (running.returncode, alone.returncode) == (0, 0)
    assert "agrees with its observations" in alone.stdout
    assert asked.returncode == 1
    assert "No serve answers" in asked.stderr


def test_the_ledger_can_be_verified_after_a_kill(process):
    """The socket's file is left behind, and nobody listens."""
    process.lab.go(seconds=70)
    process.end(signal.SIGKILL)
    left = (process.lab.folder / "data/control.sock").exists()
    alone = process.terminal("ledger", "verify")

    assert left
    assert (alone.returncode, alone.stdout) == (
        0,
        "The ledger agrees with its observations to the micro-dollar.\n",
    )


def test_a_second_serve_on_the_same_data_is_refused(process):
    """One writer; one sentence; exit code 2."""
    second = process.terminal("serve", "--config", str(process.lab.settings))

    assert second.returncode == 2
    assert "Another serve uses the data folder" in second.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clusters: []\n", "clusters"),
        ("clusters: [{name: home, kubeconfig: ./kubeconfig}]\ncapps: []\n", "capps"),
        ("clusters: [{name: home, kubeconfig: ./nowhere}]\ndata_dir: ./d\n", "nowhere"),
    ],
)
def test_settings_that_cannot_be_used_are_one_sentence(stopped_lab, text, said):
    """Exit code 2, nothing written."""
    stopped_lab.settings.write_text(text)
    ended = Process(stopped_lab).terminal("serve", "--config", str(stopped_lab.settings))

    assert ended.returncode == 2
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", range(3))
def test_a_kill_at_a_call_to_chat_says_nothing_twice(process, call, moment):
    """SIGKILL before a message is sent, and after it was answered: one card, one note of each kind, no stale button."""
    lab = process.lab
    lab.say("U1ADA", "/exp launch dota")
    ts = lab.everything()[0]["ts"]
    seen = []

    async def kill(when: str, info: Any) -> Any:
        if info["method"].startswith("chat.") and when == moment:
            seen.append(info["method"])
            if len(seen) == call + 1 and process.started is not None:
                process.started.kill()
                return "drop"
        return None

    lab.host.call(lambda: lab.slack.on_request(kill))
    lab.host.call(lambda: lab.slack.click("U1ADA", "C1", ts, "launch.start"))
    later = lab.host.call(lambda: lab.world.now) + timedelta(minutes=1)
    lab.host.spawn(lambda: lab.world.wait("test", later))
    assert died(process, seconds=20), seen
    process.end(signal.SIGKILL)
    lab.host.call(lambda: lab.slack.api.hooks.clear())
    process.start()
    lab.go(minutes=6)
    texts = [message["text"] for message in lab.everything()]

    assert len(lab.objects("jobs.batch")) == 2
    assert len(lab.objects("nodes")) == 1
    assert len(texts) == len(set(texts))
    assert texts[0] == "Ada launched dota (rqsbw)."
    assert len([text for text in texts if "is launched on" in text]) == 1
    assert buttons_of(lab.everything()[0]) == []


def died(process: Process, seconds: float) -> bool:
    """Whether it dies within some real seconds."""
    assert process.started is not None
    try:
        process.started.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_another_holder_of_the_lease_ends_the_process(process):
    """It stops writing at once and says why; exit code 1."""
    lease = process.lab.objects("leases.coordination.k8s.io")[0]
    taken = {**lease, "spec": {**lease["spec"], "holderIdentity": "another", "leaseTransitions": 7}}
    taken["spec"]["renewTime"] = "2026-11-06T18:00:00.000000Z"
    process.lab.host.call(lambda: process.lab.cluster.store.update("leases.coordination.k8s.io", taken))
    later = process.lab.host.call(lambda: process.lab.world.now) + timedelta(minutes=2)
    process.lab.host.spawn(lambda: process.lab.world.wait("test", later))
    ended = process.started.wait(20)

    assert ended == 1
    assert any("another process holds the lease" in line["event"] for line in process.lines())


def test_a_silent_chat_stops_nothing_and_loses_nothing(process):
    """Slack answers 503 for a while: the launch goes on, and everything is told afterwards, once."""
    lab = process.lab
    lab.say("U1ADA", "/exp launch dota")
    ts = lab.everything()[0]["ts"]
    lab.host.call(lambda: setattr(lab.slack.faults, "down", True))
    lab.host.call(lambda: lab.slack.click("U1ADA", "C1", ts, "launch.start"))
    time.sleep(0.5)
    lab.go(minutes=5)
    running = [pod["status"]["phase"] for pod in lab.objects("pods")]
    lab.host.call(lambda: setattr(lab.slack.faults, "down", False))
    lab.go(minutes=3)
    texts = [message["text"] for message in lab.everything()]

    assert running == ["Running"] * 5
    assert texts[0] == "Ada launched dota (rqsbw)."
    assert len(texts) == len(set(texts)) == 3
