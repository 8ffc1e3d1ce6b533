"""The workspace's page: its API, and the page itself in a real browser."""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.error
import urllib.request
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from sandbox.slack.link import Envelope


def get(workspace, path):
    """JSON of the page's API."""
    with urllib.request.urlopen(workspace.state.address + path, timeout=5) as answer:
        return json.load(answer)


def post(workspace, path, body, kind="application/json"):
    """Status and JSON of a POST to the page's API."""
    request = urllib.request.Request(
        workspace.state.address + path, json.dumps(body).encode(), {"Content-Type": kind}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode()
        return error.code, json.loads(text) if text.startswith("{") else text


def test_a_person_sees_what_they_may(workspace, client):
    """Private channels and others' ephemerals are not in somebody else's page."""
    client.chat_postEphemeral(channel="C1", user="U1", text="for ada")
    ada, bob = (get(workspace, f"/page/state?person={each}") for each in ("U1", "U2"))
    assert "C3" in ada["messages"]
    assert "C3" not in bob["messages"]
    assert [m["text"] for m in ada["ephemerals"]] == ["for ada"]
    assert bob["ephemerals"] == []
    assert [command["name"] for command in bob["commands"]] == ["/exp"]


def test_what_cannot_be_done_is_one_sentence(workspace):
    """Refusals of the client come back as 400 with the reason; foreign pages cannot post at all."""
    body = {"person": "U1", "channel": "C4", "text": "hello"}
    assert post(workspace, "/page/say", body) == (
        400,
        {"ok": False, "error": "#old is archived: nobody can write there."},
    )
    assert post(workspace, "/page/say", body, kind="text/plain")[0] == 415
    assert post(workspace, "/page/click", {"person": "U1", "channel": "C1"})[0] == 400


def test_changes_arrive_as_server_sent_events(workspace, client):
    """A post is in the stream of who can see it, with the world's time."""
    connection = http.client.HTTPConnection(workspace.state.address.removeprefix("http://"), timeout=5)
    connection.request("GET", "/page/events?person=U2")
    with connection.getresponse() as stream:
        assert json.loads(stream.readline().removeprefix(b"data: "))["type"] == "hello"
        client.chat_postMessage(channel="C1", text="news")
        seen: list[dict[str, Any]] = []
        while not any(change["type"] == "message" for change in seen):
            line = stream.readline()
            if line.startswith(b"data: "):
                seen.append(json.loads(line.removeprefix(b"data: ")))
    connection.close()
    assert seen[-1]["message"]["text"] == "news"
    assert seen[-1]["now"] == "2026-11-06T17:00:00.000000Z"


def test_the_page_asks_nobody_else_for_anything(workspace):
    """Only its own files, under a policy that forbids others."""
    with urllib.request.urlopen(workspace.state.address + "/", timeout=5) as answer:
        policy = answer.headers["Content-Security-Policy"]
        text = answer.read().decode()
    assert policy.startswith("default-src 'self'")
    assert "https://" not in text
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(workspace.state.address + "/static/..%2fstate.py", timeout=5)
    missing.value.close()
    assert missing.value.code == 404


@pytest.fixture
def browser(tmp_path):
    """A headless Chromium with a fresh profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    quiet = ("background-networking", "component-update", "sync", "quic", "gpu")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--no-first-run",
        "--window-size=1300,900",
        f"--user-data-dir={tmp_path}",
        *(f"--disable-{name}" for name in quiet),
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.mark.service("chromium")
def test_a_person_types_a_command_and_clicks_a_button(browser, workspace, host, client):
    """Tab completes the command; the confirm dialog comes first; hostile text stays text."""
    sent: list[Envelope] = []

    def answer(envelope):
        sent.append(envelope)
        envelope.state, envelope.response = "acknowledged", {"text": "On it <!date^0^{date_num}|then>"}
        envelope.done(envelope)

    workspace.link.send = answer
    kill = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Kill"},
        "action_id": "kill",
        "value": "r1",
        "confirm": {
            "title": {"type": "plain_text", "text": "Kill it?"},
            "text": {"type": "mrkdwn", "text": "Ends *412 pods*"},
        },
    }
    evil = {
        "type": "section",
        "text": {"type": "mrkdwn", "text": "&lt;img src=x onerror=alert(1)&gt; *bold*"},
    }
    card = client.chat_postMessage(
        channel="C1", text="card", blocks=[evil, {"type": "actions", "elements": [kill]}]
    )

    def find(selector):
        return WebDriverWait(browser, 10).until(lambda b: b.find_element(By.CSS_SELECTOR, selector))

    browser.get(f"{workspace.state.address}/?as=U1#C1/{card['ts']}")
    text = find("#channel .b-section")
    assert text.text == "<img src=x onerror=alert(1)> bold"
    find("#composer-text").send_keys("/ex", Keys.TAB, "ls", Keys.ENTER)
    assert "On it 1970-01-01" in find("#channel .message.private").text
    find("#pane [data-action=kill]").click()
    assert len(sent) == 1
    find("#confirm[open] .filled").click()
    WebDriverWait(browser, 10).until(lambda _b: len(sent) == 2)
    assert (sent[0].payload["text"], sent[0].payload["user_id"]) == ("ls", "U1")
    assert sent[1].payload["actions"][0]["value"] == "r1"
