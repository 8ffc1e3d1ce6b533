"""What the scaler keeps survives a restart as it was."""

from dataclasses import replace
from datetime import timedelta

from fleet.db import Database
from fleet.errors import NoCapacity
from scaler.capacity import Breaker, Memory
from scaler.purchase import request_from_json, request_to_json
from scaler.settings import ScalerSettings
from scaler.store import MIGRATIONS, ScalerStore
from tests.builders import T0, offer
from tests.scaler.cases import machine
from tests.scaler.fakes import House, waiting


def test_machines_strikes_and_attempts_are_read_back_as_written():
    """Every field, also those that are not set."""
    database = Database(":memory:", [MIGRATIONS])
    store = ScalerStore(database)
    one = machine(joined=T0, cordoned=T0 + timedelta(microseconds=5))
    memory = Memory().note(NoCapacity("none"), offer(), T0, ScalerSettings())
    breaker = Breaker().bought({"c": ["u1", "u2"]})
    store.put([one])
    store.save_memory(memory)
    store.save_breaker(breaker)
    again = ScalerStore(database)
    assert (again.live(), again.memory(), again.breaker()) == ((one,), memory, breaker)


def test_an_ended_machine_is_known_but_not_live_and_its_hold_is_over():
    """It is never adopted again."""
    store = ScalerStore(Database(":memory:", [MIGRATIONS]))
    store.put([machine(), machine(id="i-2")])
    store.put([replace(machine(), ended=T0)])
    assert [m.id for m in store.live()] == ["i-2"]
    assert store.known("i-1")
    assert not store.hold_is_over("h")
    store.put([replace(machine(id="i-2"), ended=T0)])
    assert store.hold_is_over("h")
    assert not store.known("i-3")


def test_a_launch_request_survives_the_hold_that_carries_it():
    """Recovery repeats exactly what was sent."""
    house = House()
    house.view.put(*waiting(1))
    house.tick()
    (request,) = house.machines.requests
    assert request_from_json(request_to_json(request)) == request
