"""The guard's tick: observe → meter → evaluate → decide → journal. Everything that happens has a decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from fleet.errors import Unavailable
from fleet.journal import NewDecision
from fleet.model import Decision
from fleet.values import Money
from guard.acts import kill_of, pause_of
from guard.answers import TickReport
from guard.capbook import window_key
from guard.caps import Standing, applies, window_at
from guard.escalate import Arm, Disarm, Kill, Pause, Tell, decide
from guard.events import ApprovalLapsed, CountdownCancelled, DecisionFailed, UnpausedByHand
from guard.history import Request, request_id
from guard.look import Look, Looked
from guard.moments import micros
from guard.notices import Notices
from guard.reserves import RunBurn
from guard.rules import burn
from guard.rules.budget import threshold_key
from guard.rules.finding import Candidate, CapView
from guard.runs import CAP_CAUSE, DONE, KILLED, PAUSED, PAUSING, RESUMING, RUNNING, STOPPED, Run
from guard.sight import Sight
from guard.state import GUARD, GuardState
from guard.tells import tell_countdown

KINDS = ("alert", "arm", "pause", "resume", "kill", "approve", "digest", "bill")
IDLE_WINDOW = timedelta(minutes=10)
IDLE_BELOW = 5.0
"""percent of GPU utilisation, by the pods' own series"""
JOINED_BY = timedelta(minutes=10)
"""a purchased machine that no provider lists by then will not come"""
SETTLE = timedelta(seconds=30)
"""how long a watch may lag behind what the API said"""


class Watch:
    """Keeps only what may be forgotten between two ticks."""

    def __init__(self, state: GuardState) -> None:
        self._state = state
        self._look = Look(state)
        self.notices = Notices(state)
        self._began: datetime | None = None

    def tick(self, now: datetime) -> TickReport:
        """One look and all that follows from it."""
        state = self._state
        last = state.ledger.marked
        try:
            looked = self._look.look(now)
        except Unavailable as error:
            state.gate.fault = str(error).rstrip(".")
            raise
        state.gate.fault = ""
        now = looked.now
        self._began = self._began or now
        waiting = tuple(sorted(name for name, s in looked.snapshots.items() if not s.synced))
        self._keep_runs(looked, now)
        state.budget.follow(self._burns())
        self._release_ended(looked)
        state.gate.stale_since = self._stale(looked, now)
        state.gate.last_tick = now
        for approval in state.caps.lapse(now):
            cap = state.caps.get(approval.cap)
            if cap is not None:
                figures = state.figures(state.standing(cap, now), now)
                event = ApprovalLapsed(figures, approval.approver_name, approval.amount, state.about(cap))
                self.notices.tell(event, f"lapsed:{approval.request}", now)
        standings = state.budget.standings(state.caps.all(), now)
        blind = set(waiting) if now - self._began <= state.settings.stale_limit else set()
        decided: list[Decision] = []
        findings: list[str] = list(looked.problems)
        for standing in standings:
            decided += self._judge(standing, blind, findings, now)
        decided += self._unpaused(standings, now)
        self._failed_resumes(now)
        self.notices.prices(looked.seen, now)
        found = (*self.notices.ghosts(now), *self.notices.owners(now), *self.notices.outlooks(standings, now))
        findings += [finding.sentence for finding in found]
        decided += self.notices.digest(last, now)
        decided += self.notices.bills(now)
        state.journal.advance(now, KINDS)
        return TickReport(now, len(looked.seen), looked.closed, tuple(findings), tuple(decided), waiting)

    def _keep_runs(self, looked: Looked, now: datetime) -> None:
        """Runs that appeared, ended, or are gone without a word."""
        state = self._state
        for run_id, sight in state.sights.items():
            known = state.runs.get(run_id)
            who = sight.who
            if known is None:
                known = state.runs.put(
                    Run(
                        run_id,
                        sight.cluster,
                        who.experiment,
                        who.owner,
                        who.team,
                        sight.since or now,
                        since=now,
                    )
                )
            elif not known.experiment and who.experiment:
                known = state.runs.put(
                    replace(known, experiment=who.experiment, owner=who.owner, team=who.team)
                )
            if sight.done and known.state in (RUNNING, RESUMING, PAUSED):
                self._ended(known, now)
            elif known.state == DONE and sight.released:
                state.runs.move(run_id, RUNNING, now)
        synced = {name for name, s in looked.snapshots.items() if s.synced and s.stale_since is None}
        for run in state.runs.in_state(RUNNING, PAUSED):
            if run.cluster in synced and run.run not in state.sights:
                self._ended(run, now)

    def _ended(self, run: Run, now: datetime) -> None:
        self._state.runs.move(run.run, DONE, now)
        self._state.budget.release_run(run.run, now, "the run has ended")

    def _burns(self) -> dict[str, RunBurn]:
        state, at = self._state, self._state.ledger.marked
        assert at is not None
        metered = {machine.hold for machine in state.ledger.meter.machines.values()}
        coming = state.holds.coming(at - JOINED_BY, metered)
        return {
            run.run: RunBurn(
                state.ledger.run_spent(run.run, at),
                state.ledger.run_burn(run.run),
                self._placed(run.run),
                coming.get(run.run, Money(0)),
            )
            for run in state.runs.in_state(RUNNING, RESUMING)
        }

    def _placed(self, run: str) -> bool:
        sight = self._state.sights.get(run)
        if sight is None or sight.pending or not sight.bound:
            return False
        return not self._state.holds.purchase_open(run)

    def _release_ended(self, looked: Looked) -> None:
        """Purchases for nobody's run hold their own burn until their last machine has ended."""
        if not any(one.kind == "ended" for one in looked.seen):
            return
        alive = {machine.hold for machine in self._state.ledger.meter.machines.values()}
        for hold in self._state.holds.settled_without_reserve():
            if hold not in alive:
                self._state.budget.release(hold, looked.now, "its machines have ended")

    def _stale(self, looked: Looked, now: datetime) -> dict[str, datetime]:
        began = self._began or now
        return {
            name: snapshot.stale_since or began
            for name, snapshot in looked.snapshots.items()
            if not snapshot.synced or snapshot.stale_since is not None
        }

    def _judge(
        self, standing: Standing, blind: set[str], findings: list[str], now: datetime
    ) -> Iterator[Decision]:
        """What one cap calls for, as decisions."""
        runs = self._state.under(standing.cap)
        if any(run.cluster in blind and run.state not in (DONE, KILLED) for run in runs):
            findings.append(f"{standing.cap.name} waits for the first full view of its clusters.")
            return
        view = self._view(standing, runs, now)
        for action in decide(view, self._state.settings, now):
            match action:
                case Tell():
                    yield from self._tell(view, action, now)
                case Arm():
                    yield from self._arm(view, action, now)
                case Disarm():
                    self._disarm(standing, action.reason, now)
                case Pause():
                    yield from self._pause(standing, action, now)
                case Kill():
                    yield from self._kill(action, now)

    def _view(self, standing: Standing, runs: Sequence[Run], now: datetime) -> CapView:
        state, cap = self._state, standing.cap
        candidates = tuple(self._candidate(run) for run in runs if self._can_pause(run))
        stopping = [run for run in runs if run.state in STOPPED]
        drains = [state.drain(run.run) for run in runs if run.state in (RUNNING, PAUSING)]
        countdown = state.history.countdown(cap.name)
        _, end = window_at(cap.window, cap.zone, now)
        lapse = state.caps.next_lapse(cap, now)
        view = CapView(
            standing=standing,
            burn=state.ledger.cap_burn(cap, now),
            draining=Money.total(state.ledger.run_burn(run.run) for run in stopping),
            drain=max(drains, default=state.settings.drain),
            candidates=candidates,
            window_left=None if end is None else end - now,
            lapse=None if lapse is None else (lapse[0] - now, lapse[1]),
            fired=state.history.fired(cap.name, window_key(cap, now)),
            armed=countdown is not None,
            deadline=countdown.deadline if countdown else None,
            stuck=tuple(run.run for run in stopping if self._stuck(run, cap.name, now)),
        )
        if cap.shared and len(candidates) > 1 and burn.project(view, state.settings).arm:
            view = replace(view, candidates=tuple(self._with_idleness(candidates, now)))
        return view

    def _can_pause(self, run: Run) -> bool:
        """It runs (or would, as soon as there is a machine), and nobody's un-pausing is being waited out."""
        if run.state != RUNNING or run.again_at is not None:
            return False
        if run.unpaused > self._state.settings.repause_limit:
            return False
        sight = self._state.sights.get(run.run)
        if sight is None:
            return bool(self._state.ledger.run_burn(run.run))
        return sight.released or bool(sight.bound)

    def _candidate(self, run: Run) -> Candidate:
        return Candidate(run.run, self._state.ledger.run_burn(run.run), run.first_seen)

    def _with_idleness(self, candidates: Iterable[Candidate], now: datetime) -> Iterator[Candidate]:
        """Idle only where all its GPUs were measured idle; a missing series is unknown, not zero."""
        metrics = self._state.outside.metrics
        for candidate in candidates:
            run = self._state.runs.get(candidate.run)
            snapshot = self._state.snapshots.get(run.cluster) if run else None
            if metrics is None or run is None or snapshot is None:
                yield candidate
                continue
            machines = self._state.ledger.meter.machines.values()
            pods = [
                (pod.namespace, pod.name)
                for machine in machines
                for pod in machine.pods.values()
                if pod.who.run == run.run and pod.gpus and pod.cluster == run.cluster
            ]
            sample = metrics.gpu_utilisation(run.cluster, pods, now, IDLE_WINDOW) if pods else None
            idle = sample is not None and sample.value is not None and sample.value < IDLE_BELOW
            yield replace(candidate, idle=idle)

    def _stuck(self, run: Run, cap: str, now: datetime) -> bool:
        late = run.since is not None and now - run.since > self._state.drain(run.run)
        return run.state == PAUSING and run.cap == cap and late

    def _ask(self, view: CapView, cause: str, now: datetime) -> Request:
        """The request that a card's buttons carry; one for each cause, limit and countdown of a window."""
        standing, state = view.standing, self._state
        cap, window = standing.cap, window_key(standing.cap, now)
        about = state.about(cap)
        number = len(state.history.fired(cap.name, window))
        return state.history.ask(
            Request(
                request_id(cap.name, window, f"{cause}@{standing.allowed.micros}", number),
                cap.name,
                window,
                cause,
                about.run,
                about.owner,
                state.suggested(cap, standing, view.burn),
                now,
            )
        )

    def _tell(self, view: CapView, action: Tell, now: datetime) -> Iterator[Decision]:
        state, cap, allowed = self._state, view.standing.cap, view.standing.allowed
        window = window_key(cap, now)
        keys = [threshold_key(threshold, allowed) for threshold in action.passed]
        decided = []
        with state.database.transaction():
            if not action.silent:
                request = self._ask(view, "alert", now)
                payload = {
                    "cap": cap.name,
                    "threshold": action.threshold,
                    "passed": list(action.passed),
                    "request": request.id,
                }
                key = f"alert:{cap.name}:{window}:{keys[-1]}"
                new = NewDecision("alert", key, GUARD, cap.name, action.reasons, payload)
                decided.append(state.journal.decide(new, now))
            state.history.fire(cap.name, window, keys, now)
        yield from decided

    def _arm(self, view: CapView, action: Arm, now: datetime) -> Iterator[Decision]:
        state, cap = self._state, view.standing.cap
        countdown = state.history.countdown(cap.name)
        if countdown is not None:
            if action.deadline != countdown.deadline:
                state.history.arm(replace(countdown, deadline=action.deadline))
                tell_countdown(state, cap.name, countdown.request, action, now)
            return
        window = window_key(cap, now)
        with state.database.transaction():
            request = self._ask(view, "arm", now)
            payload = {
                "cap": cap.name,
                "deadline": micros(action.deadline),
                "victims": list(action.victims),
                "belt": action.belt,
                "request": request.id,
            }
            new = NewDecision("arm", f"arm:{request.id}", GUARD, cap.name, action.reasons, payload)
            decision = state.journal.decide(new, now)
            state.history.fire(cap.name, window, (f"armed:{request.id}",), now)
        yield state.journal.carry_out(decision, now)

    def _disarm(self, standing: Standing, reason: str, now: datetime) -> None:
        state, cap = self._state, standing.cap
        countdown = state.history.disarm(cap.name)
        if countdown is not None:
            state.history.overtake(cap.name, now, causes=("arm",))
            event = CountdownCancelled(
                state.about(cap), state.figures(standing, now), reason, countdown.request
            )
            self.notices.tell(event, f"cancelled:{countdown.request}", now)

    def _pause(self, standing: Standing, action: Pause, now: datetime) -> Iterator[Decision]:
        state, cap = self._state, standing.cap
        with state.database.transaction():
            state.history.disarm(cap.name)
            state.history.overtake(cap.name, now, causes=("alert", "arm"))
            runs = [state.runs.get(name) for name in action.victims]
            decisions = [
                state.journal.decide(pause_of(run, CAP_CAUSE + cap.name, GUARD, action.reasons), now)
                for run in runs
                if run is not None
            ]
        for decision in decisions:
            yield state.journal.carry_out(decision, now)

    def _kill(self, action: Kill, now: datetime) -> Iterator[Decision]:
        for name in action.victims:
            run = self._state.runs.get(name)
            if run is not None:
                decision = self._state.journal.decide(kill_of(run, GUARD, action.reasons), now)
                yield self._state.journal.carry_out(decision, now)

    def _unpaused(self, standings: Sequence[Standing], now: datetime) -> Iterator[Decision]:
        """Runs that somebody released by hand: told, and paused again, a few times.

        After a countdown where every cap has room for that and the drain, else at once.
        """
        state = self._state
        for run in state.runs.in_state(PAUSED):
            sight = state.sights.get(run.run)
            if self._by_hand(run, sight, now):
                again = None
                if run.cap and run.unpaused < state.settings.repause_limit:
                    again = now + (state.settings.countdown if self._room(run, standings) else timedelta(0))
                state.runs.move(
                    run.run, RUNNING, now, cycle=run.cycle + 1, unpaused=run.unpaused + 1, again_at=again
                )
                event = UnpausedByHand(run.about, run.unpaused + 1, again)
                self.notices.tell(event, f"unpaused:{run.run}:{run.cycle}", now)
        for run in state.runs.in_state(RUNNING):
            if run.again_at is not None and run.again_at <= now:
                reason = f"somebody released it by hand while the cap {run.cap} holds it"
                yield state.journal.decide(pause_of(run, run.cause, GUARD, (reason,)), now)

    def _room(self, run: Run, standings: Sequence[Standing]) -> bool:
        """Whether the run could burn on for a countdown and its drain within every cap that covers it."""
        span = self._state.settings.countdown + self._state.drain(run.run)
        caps = [standing for standing in standings if applies(standing.cap, run.scope)]
        return all(standing.spent + run.burn.over(span) <= standing.allowed for standing in caps)

    def _by_hand(self, run: Run, sight: Sight | None, now: datetime) -> bool:
        settled = run.since is not None and now - run.since >= min(SETTLE, self._state.settings.tick)
        return sight is not None and sight.released and settled

    def _failed_resumes(self, now: datetime) -> None:
        """A resume that could not be carried out leaves the run paused."""
        resuming = self._state.runs.in_state(RESUMING)
        if not resuming:
            return
        open_ = {d.payload["run"]: d.id for d in self._state.journal.unfinished(("resume",))}
        for run in resuming:
            if run.run not in open_:
                self._state.runs.move(run.run, PAUSED, now)
                self._state.budget.release_run(run.run, now, "the resume failed")
                self._given_up(run, now)

    def _given_up(self, run: Run, now: datetime) -> None:
        """Say why the run stays paused, once a resume."""
        for decision in self._state.journal.history(subject=run.run, kind="resume", limit=1):
            error = decision.result.get("error", "the cluster refused it.")
            reason = f"{run.run} stays paused; ask for it again when the cause is gone. {error}"
            event = DecisionFailed(run.about, "resume", reason, decision.id)
            self.notices.tell(event, f"{decision.id}:failed", now)
