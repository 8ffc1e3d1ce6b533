"""What can go wrong with an API, and that changes can be counted and stopped one by one."""

from __future__ import annotations

import time

import pytest
import urllib3

from tests.sandbox.kube.serving import MAPS, MERGE, PODS, config_map, pod


def test_down_answers_nobody_and_breaks_watches(served):
    """Connections close unanswered; the world does not wait for its version; afterwards all is as before."""
    lines = served.lines(MAPS + "?watch=1")
    served.ok("POST", MAPS, config_map("a"))
    next(lines)
    served.do(lambda: setattr(served.api, "down", True))

    with pytest.raises(urllib3.exceptions.ProtocolError):
        next(lines)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        served.call("GET", MAPS)
    assert served.do(served.world.versions) == {}

    served.do(lambda: setattr(served.api, "down", False))
    assert served.ok("GET", MAPS + "/a")["metadata"]["name"] == "a"
    assert served.do(served.world.versions) == {served.api.address: served.do(lambda: served.store.version)}


def test_unavailable_is_503(served):
    """With a Status, as a proxy in front of a dead server gives."""
    served.api.faults.unavailable = True
    code, status = served.call("GET", MAPS)

    assert (code, status["reason"]) == (503, "ServiceUnavailable")


def test_throttling_names_the_seconds(served):
    """429 with Retry-After, in the header and the details; open watches go on."""
    lines = served.lines(MAPS + "?watch=1")
    served.api.faults.throttle = 7
    response = served.http.request(
        "GET", served.api.address + MAPS, headers={"Authorization": "Bearer admin-token"}
    )
    assert response.status == 429
    assert response.headers["Retry-After"] == "7"
    assert response.json()["details"]["retryAfterSeconds"] == 7
    assert response.json()["reason"] == "TooManyRequests"

    served.api.faults.throttle = None
    served.ok("POST", MAPS, config_map("a"))
    assert next(lines)["object"]["metadata"]["name"] == "a"
    lines.close()


def test_so_many_requests_are_throttled(served):
    """The count runs down."""
    served.api.faults.throttle_next = 2

    assert [served.call("GET", MAPS)[0] for _ in range(3)] == [429, 429, 200]


def test_answers_can_be_slow_in_real_time(served):
    """The stepped world stands still meanwhile."""
    served.api.faults.delay = 0.05
    began = time.monotonic()
    served.ok("GET", MAPS)

    assert time.monotonic() - began >= 0.05


def test_a_lost_reply_was_carried_out(served):
    """The connection closes, the change is there; the next one is answered."""
    served.api.faults.lose_replies = 1
    with pytest.raises(urllib3.exceptions.ProtocolError):
        served.call("POST", MAPS, config_map("a"))

    assert served.call("POST", MAPS, config_map("a"))[0] == 409
    assert [(m.verb, m.code) for m in served.api.ledger.mutations] == [("create", 0), ("create", 409)]


def test_reads_are_no_lost_replies(served):
    """Only changes count."""
    served.api.faults.lose_replies = 1
    served.ok("GET", MAPS)
    served.ok("POST", MAPS + "?dryRun=All", config_map("a"))

    assert served.api.faults.lose_replies == 1


def test_every_change_is_in_the_ledger(served):
    """Who, what, where, with which answer; reads and dry runs are not."""
    served.ok("POST", PODS, pod("p"))
    served.ok("GET", PODS)
    served.ok("POST", PODS + "?dryRun=All", pod("q"))
    served.ok("PATCH", PODS + "/p/status", {"status": {"phase": "Running"}}, kind=MERGE)
    served.call("DELETE", PODS + "/nope")

    found = served.api.ledger.mutations
    assert [(m.number, m.verb, m.resource, m.namespace, m.name, m.subresource, m.code) for m in found] == [
        (1, "create", "pods", "research", "", "", 201),
        (2, "patch", "pods", "research", "p", "status", 200),
        (3, "delete", "pods", "research", "nope", "", 404),
    ]
    assert found[0].user == "admin"


@pytest.mark.parametrize(("moment", "there"), [("before", False), ("after", True)])
def test_a_hook_stops_at_the_nth_change(served, moment, there):
    """Before it is done, or after it is done and before its reply."""
    seen = []

    def hook(when, mutation):
        seen.append((when, mutation.number))
        return (when, mutation.number) != (moment, 2)

    served.api.on_request = hook
    served.ok("POST", MAPS, config_map("a"))
    with pytest.raises(urllib3.exceptions.ProtocolError):
        served.call("POST", MAPS, config_map("b"))
    served.api.on_request = None

    assert (served.call("GET", MAPS + "/b")[0] == 200) is there
    assert seen == [("before", 1), ("after", 1), ("before", 2)] + ([("after", 2)] if there else [])
