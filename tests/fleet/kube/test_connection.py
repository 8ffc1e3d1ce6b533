"""Credentials, errors and transport of one cluster's API."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web

from fleet.errors import BadInput, Conflict, Expired, NotFound, Refused, Throttled, Unavailable
from fleet.kube import credentials
from fleet.kube.connection import Connection, connect
from fleet.kube.statuses import error_of
from tests.fleet.kube.scripted import ScriptedApi, connection, kubeconfig, serving, status

THING = "/api/v1/nodes"


@pytest.fixture
def api() -> ScriptedApi:
    """An empty cluster."""
    return ScriptedApi()


@pytest.fixture
def address(api: ScriptedApi) -> Iterator[str]:
    """Its address."""
    with serving(api) as served:
        yield served


def sent_tokens(api: ScriptedApi) -> list[str | None]:
    """The Authorization headers of all requests."""
    return [headers.get("Authorization") for headers in api.headers]


def test_the_token_of_the_kubeconfig_is_sent(api, address, tmp_path):
    """A plain http server of this machine is reached with the kubeconfig's token."""
    there = connection(address, tmp_path)
    assert there.address == address
    assert json.loads(there.request("GET", THING))["items"] == []
    assert sent_tokens(api) == ["Bearer secret-1"]


def test_a_proxy_of_the_environment_never_stands_before_this_machine(api, address, tmp_path, monkeypatch):
    """HTTP_PROXY of the environment is not used for 127.0.0.1."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    connection(address, tmp_path).request("GET", THING)
    assert len(api.calls) == 1


def test_a_token_file_is_read_again(api, address, tmp_path, monkeypatch):
    """A rotated token file is used without a restart, before the server has to refuse the old one."""
    (tmp_path / "token").write_text("first\n")
    there = connection(address, tmp_path, tokenFile="token")
    there.request("GET", THING)
    (tmp_path / "token").write_text("second\n")
    there.request("GET", THING)
    later = time.monotonic() + credentials.REREAD_SECONDS + 1
    monkeypatch.setattr(credentials, "time", SimpleNamespace(monotonic=lambda: later))
    there.request("GET", THING)
    assert sent_tokens(api) == ["Bearer first", "Bearer first", "Bearer second"]


def test_401_reads_the_credentials_again_and_repeats_once(api, address, tmp_path, monkeypatch):
    """A refused token is replaced and the request sent again; a second refusal is final."""
    (tmp_path / "token").write_text("first")
    there = connection(address, tmp_path, tokenFile="token")
    (tmp_path / "token").write_text("second")
    later = time.monotonic() + credentials.MIN_SECONDS_BETWEEN_RENEWALS + 1
    monkeypatch.setattr(credentials, "time", SimpleNamespace(monotonic=lambda: later))
    api.answers["GET", THING] += [status(401, "Unauthorized")]
    there.request("GET", THING)
    assert sent_tokens(api) == ["Bearer first", "Bearer second"]
    api.answers["GET", THING] += [status(401, "Unauthorized")] * 3
    with pytest.raises(Refused, match="does not accept our credentials"):
        there.request("GET", THING)
    assert len(api.calls) == 3


def exec_plugin(tmp_path: Path, token: str, life: timedelta | None) -> dict[str, Any]:
    """A credential plugin that notes each run."""
    state: dict[str, Any] = {"token": token}
    if life is not None:
        state["expirationTimestamp"] = (datetime.now(UTC) + life).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": state}
    script = tmp_path / "plugin.py"
    runs = tmp_path / "runs"
    script.write_text(f"open({str(runs)!r}, 'a').write('x')\nprint({json.dumps(answer)!r})\n")
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }


@pytest.mark.parametrize("life", [None, timedelta(minutes=2), timedelta(hours=1)])
def test_an_exec_plugin_runs_once_not_with_every_request(api, address, tmp_path, life):
    """A plugin's token is used until it is about to run out, also where it lives only minutes."""
    there = connection(address, tmp_path, exec=exec_plugin(tmp_path, "from-plugin", life))
    for _ in range(3):
        there.request("GET", THING)
    assert sent_tokens(api) == ["Bearer from-plugin"] * 3
    assert (tmp_path / "runs").read_text() == "x"


def test_an_exec_plugin_that_fails_is_named(tmp_path):
    """A plugin that gives nothing is one sentence, not a cluster that refuses everything later."""
    broken = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", "exit(3)"],
    }
    with pytest.raises(Refused, match="gave no credentials"):
        connection("http://127.0.0.1:1", tmp_path, exec=broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("current-context"), "has no current-context. Name one of: there"),
        (lambda c: c.update({"current-context": "nowhere"}), "has no context 'nowhere'. It has: there"),
        (lambda c: c["clusters"][0]["cluster"].pop("server"), "names no server"),
        (lambda c: c["clusters"].clear(), "Expected object with name c in"),
        (lambda c: c["clusters"][0]["cluster"].update({"server": "ftp://x"}), "names no server"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_what_is_missing(tmp_path, change, words):
    """Each mistake is one sentence with the file."""
    config = kubeconfig("http://127.0.0.1:1")
    change(config)
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(BadInput) as caught:
        connect(file, None, False, "home")
    assert words in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "a: [", "\tx: 1\n", "clusters: {}\n"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path, text):
    """Empty files, lists, words and broken YAML are refused with the file's name."""
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(BadInput, match="kubeconfig") as caught:
        connect(file, None, False, "home")
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_missing_choice_are_refused(tmp_path):
    """No file, no kubeconfig at all, and no pod around us are each one sentence."""
    with pytest.raises(BadInput, match="is not there"):
        connect(tmp_path / "absent", None, False, "home")
    with pytest.raises(BadInput, match="neither a kubeconfig nor"):
        connect(None, None, False, "home")
    with pytest.raises(BadInput, match="does not run in a pod"):
        connect(None, None, True, "home")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", Conflict),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (422, "Invalid", Refused),
        (400, "BadRequest", Refused),
        (405, "MethodNotAllowed", Refused),
        (415, "UnsupportedMediaType", Refused),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_statuses_become_typed_errors(api, address, tmp_path, code, reason, kind):
    """Each HTTP code raises its type, with the API's reason as its code."""
    api.answers["POST", THING].append(status(code, reason))
    with pytest.raises(kind) as caught:
        connection(address, tmp_path).request("POST", THING, None, {"kind": "Node"})
    assert caught.value.code == reason
    assert len(api.calls) == 1


def test_a_forbidden_call_names_verb_resource_and_namespace():
    """The sentence says who may not do what where, and which verb to give."""
    message = (
        'pods is forbidden: User "qm" cannot list resource "pods" in API group "" in the namespace "research"'
    )
    body = json.dumps({"reason": "Forbidden", "message": message}).encode()
    assert str(error_of(403, body, "home")) == (
        "home: qm may not list pods in namespace research; give its role the verb 'list' on pods."
    )
    cluster_wide = 'jobs.batch is forbidden: User "qm" cannot patch resource "jobs" in API group "batch" at the cluster scope'
    body = json.dumps({"reason": "Forbidden", "message": cluster_wide}).encode()
    assert "may not patch jobs.batch in all namespaces" in str(error_of(403, body, "home"))


def test_a_quota_that_forbids_keeps_its_own_words():
    """A ResourceQuota's 403 is not about permissions, and says what it said."""
    body = json.dumps(
        {"reason": "Forbidden", "message": 'pods "x" is forbidden: exceeded quota: gpus'}
    ).encode()
    assert "exceeded quota: gpus" in str(error_of(403, body, "home"))


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [("7", {}, 7.0), (None, {"retryAfterSeconds": 3}, 3.0), ("soon", {}, None), (None, {}, None)],
)
def test_throttled_says_how_long(header, details, seconds):
    """Retry-After comes from the header, else from the Status; nonsense is not a number."""
    error = error_of(429, json.dumps({"details": details}).encode(), "home", header)
    assert isinstance(error, Throttled)
    assert error.retry_after == seconds


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[]", b"\xff\xfe"])
def test_answers_that_are_no_status_are_survived(body):
    """A load balancer's page instead of a Status still gives a typed error with a sentence."""
    assert isinstance(error_of(502, body, "home"), Unavailable)
    assert "home: " in str(error_of(502, body, "home"))


def test_nobody_at_the_address(tmp_path):
    """A closed port is Unavailable with the cluster's name and address."""
    with pytest.raises(Unavailable, match=r"home at http://127\.0\.0\.1:1 does not answer"):
        connection("http://127.0.0.1:1", tmp_path).request("GET", THING)


def dropping(times: int, api: ScriptedApi) -> None:
    """The next requests are cut off unanswered."""

    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    api.lists[THING] += [drop] * times


def test_a_read_whose_connection_was_cut_is_sent_again_once(api, address, tmp_path):
    """A GET survives one dead connection, and gives up at the second."""
    there = connection(address, tmp_path)
    dropping(1, api)
    assert json.loads(there.request("GET", THING))["items"] == []
    dropping(2, api)
    with pytest.raises(Unavailable):
        there.request("GET", THING)
    assert len(api.calls) == 4


def test_a_write_is_never_sent_again(api, address, tmp_path):
    """Whether a POST that was cut off took effect is not known: the caller decides."""
    dropping(1, api)
    with pytest.raises(Unavailable):
        connection(address, tmp_path).request("POST", THING, None, {"kind": "Node"})
    assert len(api.calls) == 1


def test_a_slow_answer_ends_at_the_read_timeout(api, address, tmp_path):
    """An API that hangs is Unavailable after the read timeout, in real seconds."""

    async def hang(request: web.Request) -> web.StreamResponse:
        await api.closing.wait()
        return web.Response()

    api.lists[THING].append(hang)
    with pytest.raises(Unavailable) as caught:
        connection(address, tmp_path).request("GET", THING, read_timeout=0.05)
    assert caught.value.code == "ReadTimeoutError"


def test_in_cluster_credentials_lose_their_newline(tmp_path, monkeypatch):
    """The service account's token file ends with a newline on some platforms; the header does not."""
    from kubernetes.client.configuration import Configuration

    def fake(client_configuration: Configuration) -> None:
        client_configuration.host = "https://10.0.0.1:443"
        client_configuration.api_key["BearerToken"] = "bearer pod-token\n"

    monkeypatch.setattr(credentials, "_load_incluster", fake)
    there = credentials.in_cluster()
    assert there.address == "https://10.0.0.1:443"
    assert credentials.token_of(there.current()) == "Bearer pod-token"
    assert isinstance(Connection(there, "pod"), Connection)
