"""The composition root: the only place that picks adapters. Settings and environment in, a Service out."""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot import permissions, tables
from bot.cards import Cards
from bot.chores import Ticking, backup_task, tasks, vitals_writer
from bot.control import ControlSocket
from bot.desk import Desk
from bot.facades import Outside, apply_caps, facades, guard_section
from bot.frontdesk import FrontDesk
from bot.health import HealthServer, Meters, Vitals
from bot.inbox import Inbox
from bot.operations.house import House
from bot.quiet import LogChat
from bot.reign import Reign
from bot.serve import Service
from bot.settings import ServeSettings, SlackSettings
from bot.slack.app import build_app
from bot.slack.identity import Caller, Identities
from bot.slack.outbox import Outbox
from bot.slack.socket import Socket
from bot.slack.web import SlackWeb, web_client
from bot.terminal import DATABASE, SOCKET
from config.environment import Environment
from config.people import PeopleDirectory
from config.settings import ClusterSettings, Settings
from fleet import journal as fleet_journal
from fleet.billing import CostExplorer
from fleet.clock import FollowingClock, RealClock
from fleet.clouds.aws import AwsClients
from fleet.clouds.aws_catalog import AwsCatalog
from fleet.clouds.aws_machines import AwsMachines, Join
from fleet.clouds.onprem import OnPremCatalog, OnPremMachines
from fleet.db import Database
from fleet.errors import BadInput
from fleet.kube.connection import Connection, connect
from fleet.kube.identity import HomeUid
from fleet.kube.lease import KubeLease
from fleet.kube.objects import KubeObjects
from fleet.kube.watch import WatchCache
from fleet.metrics import PrometheusMetrics
from fleet.model import Person
from fleet.ports import Catalog, Clock, Machines
from fleet.prices import PriceBook
from guard import tables as guard_tables
from launcher import runs as launcher_runs
from launcher.settings import LauncherSettings
from scaler import store as scaler_store
from scaler.settings import ScalerSettings

log = structlog.get_logger(__name__)
PARTICIPANT = "serve"
"""our name where a sandbox's world waits for its participants"""
MIGRATIONS = (
    fleet_journal.MIGRATIONS,
    guard_tables.MIGRATIONS,
    scaler_store.MIGRATIONS,
    launcher_runs.MIGRATIONS,
    tables.MIGRATIONS,
)
SYNC_SECONDS = 60.0
"""real seconds that the first full list may take before the loop starts without it"""


@dataclass
class Talk:
    """Chat, or the log where there is none."""

    chat: Outbox | LogChat
    callers: Identities | Nobody
    inbox: Inbox
    socket: Socket | None


class Nobody:
    """Where no Slack is configured nobody asks from there."""

    def caller(self, user_id: str, team_id: str, now: datetime) -> Caller:
        """An unknown person who may not act."""
        del team_id, now
        return Caller(Person(id=user_id, name=user_id, known=False), "Slack is not configured.")


class Built:
    """A service, and how to end everything that was started for it."""

    def __init__(self, service: Service, closers: Sequence[Callable[[], None]]) -> None:
        self.service = service
        self._closers = closers

    def close(self) -> None:
        """End watches, sockets and servers, last started first."""
        for close in reversed(self._closers):
            close()


def data_folder(settings: Settings, environment: Environment) -> Path:
    """Where the database is. Raises BadInput where neither settings nor environment say."""
    data_dir = settings.core.data_dir or environment.data_dir
    if data_dir is None:
        raise BadInput(
            "Neither data_dir: nor $QM_DATA_DIR says where the data are.",
            where=settings.document.where(),
            hint="Add data_dir: ./data.",
        )
    folder = settings.resolve(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The data folder {folder} cannot be made: {error.strerror}.") from None
    return folder


def build(settings: Settings, environment: Environment) -> Built:
    """Everything, connected. Raises BadInput or Refused in one sentence before anything is written."""
    # What may be wrong in the settings is found out before anything is written.
    _check_namespace(settings)
    connections = {entry.name: _connect(settings, entry) for entry in settings.core.clusters}
    permissions.require(settings, connections)
    folder = data_folder(settings, environment)
    closers: list[Callable[[], None]] = [_only_one(folder)]
    progress = _Progress()
    outside = _outside((settings, environment), connections, folder, progress)
    closers += [view.close for view in outside.views.values()]
    closers.append(outside.database.close)
    directory = PeopleDirectory(settings.core.people)
    talk = _talk(settings, environment, outside, directory)
    guard_settings = guard_section(settings)
    house, guard, scaler = facades(settings, outside, directory, talk.chat, guard_settings)
    apply_caps(settings.core.caps, Cards(outside.database), guard, outside.clock.now())
    ticking: dict[str, tuple[Ticking, timedelta]] = {
        "guard": (guard, guard_settings.tick),
        "scaler": (scaler, settings.section("scaler", ScalerSettings).tick),
    }
    service = _service(settings, folder, (outside, talk, house), ticking, closers)
    progress.service, progress.views = service, tuple(outside.views.values())
    for view in outside.views.values():
        if not view.wait_synced(SYNC_SECONDS):
            log.warning("cluster not read completely yet", cluster=view.name)
    return Built(service, closers)


def _check_namespace(settings: Settings) -> None:
    """Launches go to a namespace in which we may act. Raises BadInput where it is not listed as governed."""
    namespace = settings.section("launcher", LauncherSettings).namespace
    home = settings.home
    if home.governed and namespace not in home.governed:
        raise BadInput(
            f"Launches go to the namespace {namespace!r}, which is not among governed: of cluster {home.name}.",
            where=settings.document.where(("launcher", "namespace")),
            hint=f"Set launcher.namespace to one of: {', '.join(home.governed)}.",
        )


class _Progress:
    """What a sandbox's world asks us: what we have worked off, and whether our caches have caught up."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.views: tuple[WatchCache, ...] = ()
        self._of_the_world: set[str] = set()

    def report(self) -> Mapping[str, int]:
        """Inbound envelopes that are handled, their answers sent."""
        return {"inbound": self.service.handled if self.service else 0}

    def settled(self, versions: Mapping[str, int]) -> bool:
        """Every cache of an API of that world has seen its version, or knows that it is cut off."""
        self._of_the_world |= set(versions)
        return all(
            view.reached(versions.get(view.address))
            for view in self.views
            if view.address in self._of_the_world
        )


def _only_one(folder: Path) -> Callable[[], None]:
    """One serve a data folder on this machine; the Lease does the same between machines."""
    handle = (folder / "serve.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise BadInput(
            f"Another serve uses the data folder {folder} already.", hint="Stop it first."
        ) from None
    return handle.close


def _identity(folder: Path) -> str:
    """Our name on the Lease: it belongs to the data, so that a restart need not wait for the old one to lapse."""
    path = folder / "identity"
    if not path.exists():
        path.write_text(f"quartermaster-{uuid.uuid4().hex[:12]}\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


def _outside(
    given: tuple[Settings, Environment],
    connections: Mapping[str, Connection],
    folder: Path,
    progress: _Progress,
) -> Outside:
    settings, environment = given
    clock: Clock = (
        FollowingClock(environment.world_url, PARTICIPANT, progress.report, progress.settled)
        if environment.world_url
        else RealClock()
    )
    objects = {name: KubeObjects(connection) for name, connection in connections.items()}
    pools = settings.pools()
    catalogs: dict[str, Catalog] = {"onprem": OnPremCatalog(pools)}
    machines: dict[str, Machines] = {"onprem": OnPremMachines()}
    prices, billing = PriceBook(pools), None
    problems: Callable[[], tuple[str, ...]] = tuple
    if any(pool.provider == "aws" for pool in pools):
        clients = AwsClients(environment.aws_endpoint or None)
        catalog = AwsCatalog(pools, clients)
        joins = _joins(settings, environment, connections)
        home = HomeUid(objects[settings.home.name], settings.home.name)
        bought = AwsMachines(pools, clients, joins, clock, home)
        catalogs["aws"], machines["aws"] = catalog, bought
        problems = lambda: (*catalog.problems, *bought.problems)  # noqa: E731
        prices, billing = PriceBook(pools, [catalog]), CostExplorer(clients)
    return Outside(
        clock=clock,
        database=Database(folder / DATABASE, MIGRATIONS),
        views={c.name: WatchCache(connections[c.name], c.name, c.governed) for c in settings.core.clusters},
        objects=objects,
        catalogs=catalogs,
        machines=machines,
        prices=prices,
        metrics=PrometheusMetrics(environment.prometheus_url) if environment.prometheus_url else None,
        billing=billing,
        reign=_reign(settings, objects[settings.home.name], folder),
        problems=problems,
    )


def _reign(settings: Settings, home: KubeObjects, folder: Path) -> Reign:
    serve = settings.section("serve", ServeSettings)
    lease = KubeLease(home, serve.lease_namespace, serve.lease_name, _identity(folder), serve.lease_duration)
    return Reign(lease, serve.lease_duration)


def _joins(
    settings: Settings, environment: Environment, connections: Mapping[str, Connection]
) -> dict[str, Join]:
    """What a new machine is told, by cluster."""
    return {
        entry.name: Join(
            entry.join_endpoint or connections[entry.name].address,
            environment.join_token(entry.name),
            connections[entry.name].ca,
        )
        for entry in settings.core.clusters
    }


def _connect(settings: Settings, entry: ClusterSettings) -> Connection:
    kubeconfig = settings.resolve(entry.kubeconfig) if entry.kubeconfig else None
    return connect(kubeconfig, entry.context, entry.in_cluster, entry.name)


def _talk(settings: Settings, environment: Environment, outside: Outside, directory: PeopleDirectory) -> Talk:
    clock = outside.clock
    # A sandbox's world sees what comes from chat by itself; nothing but the INSERT stands before the ack.
    inbox = Inbox(
        outside.database, clock.now, clock.seen if isinstance(clock, FollowingClock) else clock.nudge
    )
    if not environment.slack_bot_token:
        log.warning("no slack: QM_SLACK_BOT_TOKEN is not set; messages go to the log")
        return Talk(LogChat(), Nobody(), inbox, None)
    if not environment.slack_app_token:
        raise BadInput(
            "QM_SLACK_APP_TOKEN is not set.", hint="It starts with xapp- and has connections:write."
        )
    client = web_client(environment.slack_bot_token, environment.slack_url)
    web = SlackWeb(client)
    slack = settings.section("slack", SlackSettings)
    chat = Outbox(outside.database, web, fallback_channel=slack.channel)
    socket = Socket(build_app(client, inbox), environment.slack_app_token)
    return Talk(chat, Identities(web, directory), inbox, socket)


def _service(
    settings: Settings,
    folder: Path,
    parts: tuple[Outside, Talk, House],
    ticking: Mapping[str, tuple[Ticking, timedelta]],
    closers: list[Callable[[], None]],
) -> Service:
    outside, talk, house = parts
    serve = settings.section("serve", ServeSettings)
    control = ControlSocket(
        settings.resolve(serve.socket) if serve.socket else folder / SOCKET, outside.clock.nudge
    )
    vitals, meters = Vitals(live={"slack": _connected(talk)}), Meters()
    if serve.health_port is not None:
        health = HealthServer(serve.health_port, vitals, meters)
        health.start()
        closers.append(health.close)
    backup = backup_task(outside.database, folder, serve.backup_every)

    def open_doors() -> None:
        control.start()
        closers.append(control.close)
        if talk.socket is not None:
            talk.socket.start()
            closers.append(talk.socket.close)

    return Service(
        clock=outside.clock,
        reign=outside.reign,
        inbox=talk.inbox,
        desk=Desk(house, talk.inbox, talk.chat, talk.callers),
        front=FrontDesk(house, control, talk.chat),
        journal=house.journal,
        delivery=talk.chat,
        tasks=tasks(house, ticking, talk.chat, talk.inbox, backup),
        vitals=vitals,
        meters=meters,
        open_doors=open_doors,
        note_vitals=vitals_writer(house, (outside.reign, vitals, meters), talk.chat, talk.inbox),
        renew_every=serve.lease_duration / 3,
    )


def _connected(talk: Talk) -> Callable[[], str]:
    def connected() -> str:
        if talk.socket is None:
            return "not configured"
        reachable = "" if talk.chat.reachable else ", messages wait"
        return ("connected" if talk.socket.connected else "not connected") + reachable

    return connected
