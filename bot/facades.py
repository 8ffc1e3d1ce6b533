"""Guard, launcher and scaler over the adapters that were picked, and the house that people's operations see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.cards import Cards
from bot.notify import ChatNotifier
from bot.operations.house import House
from bot.operations.launch import run_cap
from bot.planner import ScalerPlanner
from bot.quiet import LogChat
from bot.reign import Reign
from bot.settings import SlackSettings
from bot.slack.outbox import Outbox
from config.people import PeopleDirectory
from config.settings import CapSettings, Settings
from fleet.billing import CostExplorer
from fleet.db import Database
from fleet.errors import Unavailable
from fleet.journal import Journal
from fleet.kube.objects import KubeObjects
from fleet.kube.watch import WatchCache
from fleet.metrics import PrometheusMetrics
from fleet.pools import Pool
from fleet.ports import Budget, Catalog, Clock, Machines
from fleet.prices import PriceBook
from guard.book import Guard
from guard.caps import Cap, ScopeKind, Window
from guard.outside import GuardPorts
from guard.settings import GuardSettings
from launcher.kinds.role_group import KubeWorkloads
from launcher.launch import Launcher
from launcher.ports import LauncherPorts
from launcher.runs import RunStore
from launcher.settings import LauncherSettings
from scaler.loop import Scaler
from scaler.ports import ScalerPorts
from scaler.settings import ScalerSettings


@dataclass
class Outside:
    """Every adapter that was picked."""

    clock: Clock
    database: Database
    views: dict[str, WatchCache]
    objects: dict[str, KubeObjects]
    catalogs: dict[str, Catalog]
    machines: dict[str, Machines]
    prices: PriceBook
    metrics: PrometheusMetrics | None
    billing: CostExplorer | None
    reign: Reign
    """whether this process may write and buy"""
    problems: Callable[[], tuple[str, ...]]
    """what catalogs and machines could not read lately, a sentence each"""


def guard_section(settings: Settings) -> GuardSettings:
    """The digest's time is the channel's, unless the guard's own section says otherwise."""
    guard = settings.section("guard", GuardSettings)
    slack = settings.section("slack", SlackSettings)
    wanted = {"digest_at": slack.digest_at, "digest_zone": slack.zone}
    return guard.model_copy(update={k: v for k, v in wanted.items() if k not in guard.model_fields_set})


def facades(
    settings: Settings,
    outside: Outside,
    directory: PeopleDirectory,
    chat: Outbox | LogChat,
    guard_settings: GuardSettings,
) -> tuple[House, Guard, Scaler]:
    journal = Journal(outside.database)
    runs = RunStore(outside.database)
    slack = settings.section("slack", SlackSettings)
    launcher_settings = settings.section("launcher", LauncherSettings)
    scaler_settings = settings.section("scaler", ScalerSettings)
    channels = {team.name: team.channel for team in settings.core.teams}
    workloads = KubeWorkloads(outside.objects, _governed(outside), runs)
    notifier = ChatNotifier(
        outside.database, chat, directory, runs, lambda team: channels.get(team) or slack.channel
    )
    guard = _guard(outside, journal, guard_settings, (workloads, directory, notifier))
    launcher = Launcher(
        database=outside.database,
        journal=journal,
        settings=launcher_settings,
        outside=LauncherPorts(outside.objects, guard.budget, notifier, workloads, _forget_cap(guard)),
    )
    inside = (settings.pools(), guard.budget, notifier)
    scaler = _scaler(outside, journal, scaler_settings, inside, guard_settings.span, runs)
    house = House(
        experiments=settings.resolve(launcher_settings.experiments),
        launcher_settings=launcher_settings,
        guard_settings=guard_settings,
        channels=channels,
        default_channel=slack.channel,
        journal=journal,
        guard=guard,
        planner=ScalerPlanner(scaler, scaler_settings, outside.views, outside.prices, outside.problems),
        launcher=launcher,
        views=outside.views,
        objects=outside.objects,
        directory=directory,
        metrics=outside.metrics,
        home=settings.home.name,
        card_expires=slack.card_expires,
    )
    return house, guard, scaler


def _governed(outside: Outside) -> Callable[[str], frozenset[str]]:
    """Namespaces of a cluster that are listed and labelled, as its view sees them."""

    def governed(cluster: str) -> frozenset[str]:
        seen = outside.views[cluster].snapshot(outside.clock.now())
        if not seen.synced:
            raise Unavailable(f"Cluster {cluster} has not been read completely yet.")
        return seen.governed

    return governed


def _forget_cap(guard: Guard) -> Callable[[str, datetime], None]:
    """A launch that was undone takes the cap of its run with it, also where it fails long after the click."""

    def forget(run: str, now: datetime) -> None:
        name = run_cap(run)
        if any(status.cap.name == name for status in guard.caps(now)):
            guard.remove_cap(name, "launcher", now)

    return forget


def _guard(
    outside: Outside,
    journal: Journal,
    settings: GuardSettings,
    inside: tuple[KubeWorkloads, PeopleDirectory, ChatNotifier],
) -> Guard:
    workloads, directory, notifier = inside
    ports = GuardPorts(
        views=tuple(outside.views.values()),
        machines=tuple(outside.machines.values()),
        prices=outside.prices,
        workloads=workloads,
        directory=directory,
        notifier=notifier,
        metrics=outside.metrics,
        billing=outside.billing,
        lease=lambda now: outside.reign.refusal(max(now, outside.clock.now())),
    )
    return Guard(database=outside.database, journal=journal, settings=settings, outside=ports)


def _scaler(
    outside: Outside,
    journal: Journal,
    settings: ScalerSettings,
    inside: tuple[Sequence[Pool], Budget, ChatNotifier],
    span: timedelta,
    runs: RunStore,
) -> Scaler:
    pools, budget, notifier = inside
    ports = ScalerPorts(
        views=tuple(outside.views.values()),
        objects=outside.objects,
        catalogs=outside.catalogs,
        machines=outside.machines,
        budget=budget,
        notifier=notifier,
        pools=pools,
        hold_span=span,
        run_max_nodes=_max_nodes(runs),
    )
    return Scaler(database=outside.database, journal=journal, settings=settings, outside=ports)


def _max_nodes(runs: RunStore) -> Callable[[str], int | None]:
    """limits.max_nodes of a run's experiment; a run's spec never changes, so it is read once."""
    known: dict[str, int | None] = {}

    def max_nodes(run_id: str) -> int | None:
        if run_id not in known:
            run = runs.get(run_id)
            if run is None:
                return None
            known[run_id] = run.parsed().limits.max_nodes
        return known[run_id]

    return max_nodes


def apply_caps(caps: Sequence[CapSettings], cards: Cards, guard: Guard, now: datetime) -> None:
    """The settings' caps, each when it is new or was changed there: what people set since then stays."""
    for entry in caps:
        subject, written = f"settings-cap:{entry.name}", entry.model_dump_json()
        known = cards.find(subject)
        if known is not None and known.sentence == written:
            continue
        kind, value = entry.scope.pair
        cap = Cap(
            name=entry.name,
            scope_kind=ScopeKind(kind),
            scope_value=value,
            limit=entry.limit,
            window=Window(entry.window),
            zone=entry.zone.key if entry.zone else "UTC",
            kill=entry.kill,
            raised_by=entry.raised_by,
        )
        guard.set_cap(cap, "settings", now)
        cards.remember(subject, entry.name, written)
