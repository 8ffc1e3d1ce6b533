"""Carrying out a launch: hold → create everything suspended → release in order → verify → announce.

Every step may be repeated after a crash. A launch that cannot happen leaves nothing behind: what it
created is deleted and its hold is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleet.errors import BadInput, Conflict, NotFound, Refused, Unavailable
from fleet.journal import Verdict
from fleet.model import A_PAUSED, L_RUN, Decision, Ref
from fleet.ports import Manifest, Objects
from launcher.events import LaunchFailed, LaunchStarted
from launcher.manifests import Rendered, render
from launcher.names import A_SPEC_HASH
from launcher.ports import LauncherPorts, LaunchRefused, hold_from_json, refusal
from launcher.runs import Run, RunState, RunStore
from launcher.settings import LauncherSettings

LAUNCH_MANAGER = "quartermaster-launcher"
RELEASE_TRIES = 5
_FINAL = (Refused, Conflict, NotFound, BadInput, LaunchRefused)
"""Trying again would not help."""


class LaunchHandler:
    """Journal handler of kind `launch`."""

    def __init__(self, runs: RunStore, settings: LauncherSettings, outside: LauncherPorts) -> None:
        self._runs = runs
        self._settings = settings
        self._out = outside

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Take the hold, create and release; undo everything where it cannot be."""
        run = self._run(decision)
        if run.state in (RunState.FAILING, RunState.FAILED):
            # The process died while it undid this launch: go on undoing.
            self.undo(run, decision, now, run.reason)
            raise LaunchRefused(run.reason)
        if run.state in (RunState.KILLED, RunState.DONE, RunState.GONE):
            raise LaunchRefused(f"{run.experiment} ({run.id}) has ended already.")
        try:
            return self._launch(run, decision, now)
        except _FINAL as error:
            self.undo(run, decision, now, str(error))
            raise LaunchRefused(str(error)) from error

    def given_up(self, decision: Decision, reason: str, now: datetime) -> None:
        """The cluster failed it for too long: undo it, now or as soon as it answers."""
        self.undo(self._run(decision), decision, now, reason)

    def _run(self, decision: Decision) -> Run:
        run = self._runs.get(decision.payload["run"])
        if run is None:
            raise LaunchRefused(f"There is no run {decision.payload['run']}.")
        return run

    def _launch(self, run: Run, decision: Decision, now: datetime) -> Mapping[str, Any]:
        objects = self._out.objects.get(run.cluster)
        if objects is None:
            raise LaunchRefused(f"There is no cluster {run.cluster}.")
        plain = decision.payload.get("hold")
        if plain is not None:
            answer = self._out.budget.hold(hold_from_json(plain), now)
            if not answer.granted:
                raise LaunchRefused(refusal(answer))
        rendered = render(run.parsed(), run.identity, self._settings)
        for manifest in rendered.objects:
            _ensure(objects, run, manifest)
        for manifest in rendered.objects:
            if manifest["kind"] == "Job":
                _release(objects, run.cluster, manifest)
        return {"objects": [f"{o['kind']} {o['metadata']['name']}" for o in rendered.objects]}

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """Every Job exists and is released (or was paused meanwhile)."""
        run = self._run(decision)
        rendered = render(run.parsed(), run.identity, self._settings)
        for manifest in _jobs(rendered):
            try:
                found = self._out.objects[run.cluster].get(_ref(run.cluster, manifest))
            except NotFound as error:
                self.undo(run, decision, now, f"somebody deleted it while it started: {error}")
                return Verdict.FAILED
            if found["spec"].get("suspend") and not _paused(found):
                return Verdict.NOT_YET
        self._runs.move(run.id, RunState.RUNNING, now)
        plain = decision.payload.get("hold")
        if plain is not None:
            self._out.budget.settle(plain["id"], now, result=dict(decision.result))
        return Verdict.YES

    def announce(self, decision: Decision, now: datetime) -> None:
        """Tell that it runs."""
        run = self._run(decision)
        rendered = render(run.parsed(), run.identity, self._settings)
        roles = tuple((_role(job), job["spec"]["parallelism"]) for job in _jobs(rendered))
        event = LaunchStarted(
            run.id, run.experiment, run.owner, run.team, run.cluster, run.channel, run.thread, roles
        )
        self._out.notifier.notify(event, key=f"{decision.id}:launched", now=now)

    def undo(self, run: Run, decision: Decision, now: datetime, reason: str) -> None:
        """Delete what the launch created, give its hold back, tell; what is unreachable is cleaned up later."""
        self._runs.move(run.id, RunState.FAILING, now, reason)
        cleaned = self.clean(run)
        if cleaned:
            self._runs.move(run.id, RunState.FAILED, now, reason)
        plain = decision.payload.get("hold")
        if plain is not None:
            self._out.budget.release(plain["id"], now, f"launch failed: {reason}")
        self._out.undone(run.id, now)
        event = LaunchFailed(
            run.id, run.experiment, run.owner, run.team, run.channel, run.thread, reason, cleaned
        )
        self._out.notifier.notify(event, key=f"{decision.id}:failed", now=now)

    def clean(self, run: Run) -> bool:
        """Delete whatever carries the run's label under the run's names; False where it could not be reached."""
        objects = self._out.objects.get(run.cluster)
        if objects is None:
            return True
        try:
            for manifest in _rendered_or_nothing(run, self._settings):
                _delete_if_ours(objects, run, manifest)
        except (Unavailable, Refused):
            return False
        return True


def _rendered_or_nothing(run: Run, settings: LauncherSettings) -> tuple[Manifest, ...]:
    try:
        return render(run.parsed(), run.identity, settings).objects
    except BadInput:
        return ()


def _ensure(objects: Objects, run: Run, manifest: Manifest) -> None:
    """Create it, unless it is there from an earlier try; another run's object of that name is a Conflict."""
    try:
        found = objects.get(_ref(run.cluster, manifest))
    except NotFound:
        objects.apply(manifest, manager=LAUNCH_MANAGER)
        return
    if not _same_run(found, manifest):
        name = manifest["metadata"]["name"]
        raise Conflict(f"{manifest['kind']} {name} exists already and belongs to something else.")


def _same_run(found: Manifest, manifest: Manifest) -> bool:
    there, wanted = found["metadata"], manifest["metadata"]
    labels, annotations = there.get("labels") or {}, there.get("annotations") or {}
    expected = (wanted.get("annotations") or {}).get(A_SPEC_HASH)
    same_spec = expected is None or annotations.get(A_SPEC_HASH) == expected
    return labels.get(L_RUN) == wanted["labels"][L_RUN] and same_spec


def _release(objects: Objects, cluster: str, manifest: Manifest) -> None:
    """Let a Job run, unless the guard has paused it meanwhile."""
    ref = _ref(cluster, manifest)
    for _ in range(RELEASE_TRIES):
        found = objects.get(ref)
        if not found["spec"].get("suspend") or _paused(found):
            return
        version = found["metadata"].get("resourceVersion", "")
        try:
            objects.merge_patch(ref, {"metadata": {"resourceVersion": version}, "spec": {"suspend": False}})
            return
        except Conflict:
            # Its controller wrote a status in between: read again, and see whether it is paused now.
            continue
    raise Unavailable(f"{ref} changes all the time.")


def _delete_if_ours(objects: Objects, run: Run, manifest: Manifest) -> None:
    try:
        found = objects.get(_ref(run.cluster, manifest))
    except NotFound:
        return
    if (found["metadata"].get("labels") or {}).get(L_RUN) == run.id:
        objects.delete(_ref(run.cluster, manifest))


def _paused(found: Manifest) -> bool:
    return A_PAUSED in (found["metadata"].get("annotations") or {})


def _jobs(rendered: Rendered) -> tuple[Manifest, ...]:
    return tuple(manifest for manifest in rendered.objects if manifest["kind"] == "Job")


def _role(job: Manifest) -> str:
    return str(job["metadata"]["labels"]["app.kubernetes.io/component"])


def _ref(cluster: str, manifest: Manifest) -> Ref:
    metadata = manifest["metadata"]
    return Ref(cluster, manifest["apiVersion"], manifest["kind"], metadata["namespace"], metadata["name"])
