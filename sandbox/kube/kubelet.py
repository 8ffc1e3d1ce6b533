"""One simulated kubelet for every node of a store: pods are pulled, run, end and are stopped.

What a pod does is told by its annotations (`workload`), or while it runs by `finish` and `progress`.
Writes are few: a pod that lives undisturbed is written twice here, when it runs and when it ended.
Not simulated: probes, volumes, resource use; init containers only take their time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.kube import kubelet_status
from sandbox.kube.gpu_devices import Device, GpuUse, NodeDevices
from sandbox.kube.kubelet_node import NodeAgent
from sandbox.kube.kubelet_node import Profile as Profile
from sandbox.kube.pod_status import is_terminal, stamp
from sandbox.kube.store import Store
from sandbox.kube.workload import SIGKILL_EXIT, Script, gpus_of_container, read_script
from sandbox.world import Timer, World

Object = dict[str, Any]
Key = tuple[str, str]
_TELL_PULL_FROM = 5.0
_CRASH_BACKOFF, _LONGEST_CRASH_BACKOFF = 10.0, 300.0


@dataclass(eq=False, slots=True)
class Run:
    """A pod on its node, as the kubelet knows it."""

    key: Key
    uid: str
    node: str
    script: Script
    timer: Timer | None = None
    started: datetime | None = None
    stopping: bool = False
    restarts: int = 0
    uses: list[GpuUse] = field(default_factory=list)

    def next(self, timer: Timer) -> None:
        """Only the latest plan for the pod counts."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer


class Kubelets:
    """All kubelets of one cluster."""

    def __init__(self, world: World, store: Store, profile: Profile | None = None) -> None:
        self._world = world
        self._store = store
        self._profile = profile or Profile()
        self._runs: dict[Key, Run] = {}
        self._logs: dict[Key, list[str]] = {}
        self._addresses = 0
        self.gpu_uses: list[GpuUse] = []
        """every use of a device so far, for metrics"""
        self._agent = NodeAgent(world, store, self._profile)
        for node in store.list("nodes"):
            self._see_node("ADDED", node)
        for pod in store.list("pods"):
            self._see_pod("ADDED", pod)
        store.subscribe(self._see)

    # For whoever plays the workload

    def finish(self, namespace: str, pod: str, exit_code: int = 0, reason: str = "") -> bool:
        """The pod's process ends now; False where no such pod runs. `reason` e.g. OOMKilled."""
        run = self._runs.get((namespace, pod))
        if run is None or run.started is None:
            return False
        self._exit(run, exit_code, reason)
        return True

    def progress(self, namespace: str, job: str, count: int = 1, exit_code: int = 0) -> int:
        """End the first `count` running pods of a Job, lowest index first; returns how many there were."""
        label = "batch.kubernetes.io/job-name"
        found = []
        for run in self._runs.values():
            pod = self._store.get("pods", *run.key) if run.key[0] == namespace and run.started else None
            labels = (pod["metadata"].get("labels") or {}) if pod else {}
            if labels.get(label, labels.get("job-name")) == job and not run.stopping:
                index = labels.get("batch.kubernetes.io/job-completion-index", "0")
                found.append((int(index), run.key))
        for _, key in sorted(found)[:count]:
            self._exit(self._runs[key], exit_code)
        return min(count, len(found))

    def say(self, namespace: str, pod: str, line: str) -> None:
        """The pod's process writes a line to its log."""
        self._logs.setdefault((namespace, pod), []).append(line)

    def logs(self, namespace: str, pod: str, container: str = "") -> str:
        """What the pod wrote so far; `container` does not matter here, they share one log."""
        del container
        lines = self._logs.get((namespace, pod), [])
        return "".join(f"{line}\n" for line in lines)

    def stop(self, node: str) -> None:
        """The machine is gone without a word: nothing on it runs any more, nobody tells the API."""
        for run in [run for run in self._runs.values() if run.node == node]:
            self._drop(run)
        self._agent.stop(node)

    @property
    def node_devices(self) -> tuple[NodeDevices, ...]:
        """GPUs of all nodes that were ever there."""
        return tuple(self._agent.all_devices)

    # Watching

    def _see(self, event: str, resource: str, new: Object, _old: Object | None) -> None:
        if resource == "pods":
            self._see_pod(event, new)
        elif resource == "nodes":
            self._see_node(event, new)

    def _see_node(self, event: str, node: Object) -> None:
        name = node["metadata"]["name"]
        if event == "DELETED":
            self.stop(name)
            return
        if self._agent.see(node):
            for pod in self._store.pods_on(name):
                self._see_pod("ADDED", pod)

    def _see_pod(self, event: str, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if not node:
            return
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        run = self._runs.get(key)
        if event == "DELETED":
            self._logs.pop(key, None)
            if run is not None and run.uid == metadata["uid"]:
                self._drop(run)
            return
        if run is None:
            self._accept(key, pod, node)
        elif is_terminal(pod):
            self._drop(run)
        elif metadata.get("deletionTimestamp"):
            self._terminate(run, pod)
        elif run.started is not None:
            self._reread(run, pod)

    def _accept(self, key: Key, pod: Object, node: str) -> None:
        if not self._agent.works(node):
            return
        deleting = pod["metadata"].get("deletionTimestamp")
        if is_terminal(pod):
            if deleting:
                self._later(self._profile.sync_seconds, lambda: self._store.finalize("pods", *key))
            return
        run = self._runs[key] = Run(key, pod["metadata"]["uid"], node, read_script(pod))
        if deleting:
            self._terminate(run, pod)
            return
        pull = self._profile.start_seconds if run.script.start_seconds is None else run.script.start_seconds
        inits = [c for c in pod["spec"].get("initContainers") or () if not kubelet_status.is_sidecar(c)]
        wait = pull + run.script.init_seconds * len(inits)
        if wait >= _TELL_PULL_FROM:
            run.next(self._later(self._profile.sync_seconds, lambda: self._pull(run, wait)))
        else:
            run.next(self._later(self._profile.sync_seconds + wait, lambda: self._start(run)))

    def _reread(self, run: Run, pod: Object) -> None:
        """Annotations changed while it runs: the new end counts."""
        script = read_script(pod)
        if script == run.script or run.started is None:
            return
        run.script = script
        self._plan_end(run)

    # A pod's life

    def _later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self._world.after(seconds, callback)

    def _pod(self, run: Run) -> Object | None:
        pod = self._store.get("pods", *run.key)
        return pod if pod is not None and pod["metadata"]["uid"] == run.uid else None

    def _place(self, run: Run) -> kubelet_status.Place:
        self._addresses += 1
        number = self._addresses
        pod_ip = f"10.{244 + (number >> 16) % 12}.{(number >> 8) & 255}.{number & 255}"
        return kubelet_status.Place(self._agent.address(run.node), pod_ip)

    def _pull(self, run: Run, wait: float) -> None:
        pod = self._pod(run)
        if pod is None:
            return
        status = kubelet_status.waiting(pod, stamp(self._world.now), self._place(run))
        run.next(self._later(wait, lambda: self._start(run)))
        self._store.update("pods", {**pod, "status": status})

    def _start(self, run: Run, last: Object | None = None) -> None:
        pod = self._pod(run)
        if pod is None or run.stopping:
            return
        run.started = self._world.now
        now = stamp(run.started)
        if not run.uses:
            self._take_devices(run, pod)
        self.say(*run.key, f"{now} started on {run.node}")
        self._plan_end(run)
        status = kubelet_status.running(pod, now, self._place(run), run.restarts, last)
        self._store.update("pods", {**pod, "status": status})

    def _plan_end(self, run: Run) -> None:
        if run.timer is not None:
            run.timer.cancel()
        if run.script.run_seconds is None or run.started is None:
            return
        ran = (self._world.now - run.started).total_seconds()
        left = max(run.script.run_seconds - ran, 0.0)
        run.next(self._later(left, lambda: self._exit(run, run.script.exit_code)))

    def _exit(self, run: Run, exit_code: int, reason: str = "") -> None:
        """The containers ended by themselves."""
        pod = self._pod(run)
        if pod is None:
            return
        now = stamp(self._world.now)
        self.say(*run.key, f"{now} exited with code {exit_code}")
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and exit_code == 0):
            self._drop(run)
            self._store.update("pods", {**pod, "status": kubelet_status.ended(pod, now, exit_code, reason)})
            return
        run.restarts += 1
        run.started = None
        status = kubelet_status.crashed(pod, now, exit_code, run.restarts)
        last = status["containerStatuses"][0]["lastState"]
        wait = min(_CRASH_BACKOFF * 2 ** min(run.restarts - 1, 6), _LONGEST_CRASH_BACKOFF)
        run.next(self._later(wait, lambda: self._start(run, last)))
        self._store.update("pods", {**pod, "status": status})

    def _terminate(self, run: Run, pod: Object) -> None:
        """SIGTERM, then after the grace SIGKILL. A shorter grace in a second delete counts."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        script = run.script
        takes = self._profile.stop_seconds if script.sigterm_seconds is None else script.sigterm_seconds
        if run.started is None:
            wait, exit_code = min(self._profile.sync_seconds, grace), SIGKILL_EXIT
        elif script.ignores_sigterm or takes > grace:
            wait, exit_code = grace, SIGKILL_EXIT
        else:
            wait, exit_code = takes, script.sigterm_exit_code
        due = self._world.now.timestamp() + wait
        if run.stopping and run.timer is not None and run.timer.when.timestamp() <= due:
            return
        run.stopping = True
        run.next(self._later(wait, lambda: self._stopped(run, exit_code)))

    def _stopped(self, run: Run, exit_code: int) -> None:
        """The last status is written only where somebody (a finalizer) waits to read it."""
        pod = self._pod(run)
        self._drop(run)
        if pod is None:
            return
        if pod["metadata"].get("finalizers"):
            status = kubelet_status.ended(pod, stamp(self._world.now), exit_code)
            self._store.update("pods", {**pod, "status": status})
        self._store.finalize("pods", *run.key)

    def _drop(self, run: Run) -> None:
        """Nothing of the pod runs any more."""
        if self._runs.get(run.key) is not run:
            return
        del self._runs[run.key]
        if run.timer is not None:
            run.timer.cancel()
        for use in run.uses:
            use.until = self._world.now
            self._agent.give_back(use.device)

    def _take_devices(self, run: Run, pod: Object) -> None:
        for container in pod["spec"]["containers"]:
            count = gpus_of_container(container)
            devices: list[Device] = self._agent.take(run.node, count) if count else []
            for device in devices:
                value = run.script.gpu_utilisation
                use = GpuUse(device, *run.key, container["name"], value, self._world.now)
                run.uses.append(use)
                self.gpu_uses.append(use)
