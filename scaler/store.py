"""What the scaler keeps in the database: its machines, what is left alone, and purchases without progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

from fleet.db import Database
from fleet.model import CapacityType
from fleet.values import Money, Resources, rfc3339, utc
from scaler.capacity import Breaker, Memory, Strike
from scaler.values import Group, Machine

MIGRATIONS = Migrations("scaler")
_MOMENTS = ("launched", "joined", "idle_since", "cordoned", "ending", "ended")


@MIGRATIONS()
def create_machines(db: SqliteUtils) -> None:
    """Machines of ours, strikes, attempts."""
    db.execute(
        "CREATE TABLE scaler_machines (id TEXT PRIMARY KEY, provider TEXT NOT NULL, region TEXT NOT NULL, "
        "zone TEXT NOT NULL, instance_type TEXT NOT NULL, capacity_type TEXT NOT NULL, "
        "offer_key TEXT NOT NULL, pool TEXT NOT NULL, cluster TEXT NOT NULL, run TEXT NOT NULL, "
        "experiment TEXT NOT NULL, owner TEXT NOT NULL, team TEXT NOT NULL, hold TEXT NOT NULL, "
        "allocatable TEXT NOT NULL, labels TEXT NOT NULL, hourly INTEGER NOT NULL, launched TEXT NOT NULL, "
        "joined TEXT, idle_since TEXT, cordoned TEXT, ending TEXT, ended TEXT) STRICT"
    )
    db.execute("CREATE INDEX scaler_machines_live ON scaler_machines (ended, launched)")
    db.execute("CREATE INDEX scaler_machines_hold ON scaler_machines (hold)")
    db.execute(
        "CREATE TABLE scaler_strikes (key TEXT PRIMARY KEY, until TEXT NOT NULL, count INTEGER NOT NULL, "
        "reason TEXT NOT NULL) STRICT"
    )
    db.execute("CREATE TABLE scaler_attempts (class TEXT PRIMARY KEY, pods TEXT NOT NULL) STRICT")
    db.execute("CREATE TABLE scaler_sequence (last INTEGER NOT NULL) STRICT")
    db.execute("INSERT INTO scaler_sequence VALUES (0)")


class ScalerStore:
    """Reads and writes them. Live machines are kept in memory: this process is their only writer."""

    def __init__(self, database: Database) -> None:
        self._db = database
        rows = database.rows("SELECT * FROM scaler_machines WHERE ended IS NULL ORDER BY launched, id")
        self._live = {row["id"]: _machine(row) for row in rows}

    def live(self) -> tuple[Machine, ...]:
        """Machines that have not ended, oldest first."""
        return tuple(self._live.values())

    def known(self, machine_id: str) -> bool:
        """Whether this machine is, or was, in the book."""
        if machine_id in self._live:
            return True
        sql = "SELECT 1 AS found FROM scaler_machines WHERE id = ?"
        return self._db.row(sql, (machine_id,)) is not None

    def put(self, machines: Iterable[Machine]) -> None:
        """Store machines as they are now."""
        rows = [_row(machine) for machine in machines]
        if not rows:
            return
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        with self._db.transaction() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO scaler_machines ({', '.join(names)}) VALUES ({marks})", rows
            )
        for row in rows:
            if row["ended"] is None:
                self._live[row["id"]] = _machine(row)
            else:
                self._live.pop(row["id"], None)

    def next_attempt(self) -> int:
        """A number that was never given out before: every attempt to buy has its own token."""
        with self._db.transaction() as connection:
            connection.execute("UPDATE scaler_sequence SET last = last + 1")
            return int(connection.execute("SELECT last FROM scaler_sequence").fetchone()[0])

    def transaction(self) -> AbstractContextManager[Any]:
        """Several writes (also those of ports on the same database) as one."""
        return self._db.transaction()

    def hold_is_over(self, hold: str) -> bool:
        """Whether every machine of a purchase has ended."""
        sql = "SELECT 1 AS found FROM scaler_machines WHERE hold = ? AND ended IS NULL LIMIT 1"
        return self._db.row(sql, (hold,)) is None

    def memory(self) -> Memory:
        """What was left alone when we last looked."""
        rows = self._db.rows("SELECT * FROM scaler_strikes ORDER BY key")
        return Memory({r["key"]: Strike(utc(r["until"]), r["count"], r["reason"]) for r in rows})

    def save_memory(self, memory: Memory) -> None:
        """Replace it."""
        rows = [(k, rfc3339(s.until), s.count, s.reason) for k, s in sorted(memory.strikes.items())]
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM scaler_strikes")
            connection.executemany("INSERT INTO scaler_strikes VALUES (?, ?, ?, ?)", rows)

    def breaker(self) -> Breaker:
        """Purchases without progress."""
        rows = self._db.rows("SELECT * FROM scaler_attempts ORDER BY class")
        return Breaker({row["class"]: json.loads(row["pods"]) for row in rows})

    def save_breaker(self, breaker: Breaker) -> None:
        """Replace them."""
        rows = [(key, json.dumps(tried, sort_keys=True)) for key, tried in sorted(breaker.attempts.items())]
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM scaler_attempts")
            connection.executemany("INSERT INTO scaler_attempts VALUES (?, ?)", rows)


def _row(machine: Machine) -> dict[str, Any]:
    size, group = machine.allocatable, machine.group
    moments = {name: getattr(machine, name) for name in _MOMENTS}
    return {
        "id": machine.id,
        "provider": machine.provider,
        "region": machine.region,
        "zone": machine.zone,
        "instance_type": machine.instance_type,
        "capacity_type": machine.capacity_type.value,
        "offer_key": machine.offer_key,
        "pool": machine.pool,
        "cluster": machine.cluster,
        "run": group.run,
        "experiment": group.experiment,
        "owner": group.owner,
        "team": group.team,
        "hold": machine.hold,
        "allocatable": json.dumps([size.millicores, size.memory, size.gpus, size.pods]),
        "labels": json.dumps(dict(machine.labels), sort_keys=True),
        "hourly": machine.hourly.micros,
    } | {name: _written(moment) for name, moment in moments.items()}


def _written(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment is not None else None


def _machine(row: Mapping[str, Any]) -> Machine:
    fields: dict[str, Any] = {
        name: row[name]
        for name in (
            "id",
            "provider",
            "region",
            "zone",
            "instance_type",
            "offer_key",
            "pool",
            "cluster",
            "hold",
        )
    }
    fields |= {name: utc(row[name]) if row[name] else None for name in _MOMENTS}
    return Machine(
        **fields,
        capacity_type=CapacityType(row["capacity_type"]),
        group=Group(row["run"], row["experiment"], row["owner"], row["team"]),
        allocatable=Resources(*json.loads(row["allocatable"])),
        labels=json.loads(row["labels"]),
        hourly=Money(row["hourly"]),
    )
