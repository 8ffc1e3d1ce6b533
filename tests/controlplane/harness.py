"""Starts a real control plane (etcd, API server, scheduler, controller-manager, kwok) on 127.0.0.1.

Users, by token: `admin` (system:masters: bypasses RBAC), `product` (no groups: what the shipped
ClusterRole allows and nothing else), `machine` (joins nodes and plays the cloud controller), `restricted`
(no groups and no role: tests bind one to see what it lacks). Every request of theirs but admin's is audited.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / ".services/bin/controlplane"
KWOK = ROOT / ".services/bin/kwok"
STAGES = Path(__file__).parent / "kwok/stages.yaml"
SHIPPED_ROLE = ROOT / "config/deploy/clusterrole.yaml"
START_SECONDS = 90
USERS = {"admin": "system:masters", "product": "", "machine": "", "restricted": ""}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["product", "restricted"]}, {"level": "None"}],
}
MACHINE_RULES = [
    {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["create", "get", "list", "watch", "patch", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch", "update"]},
]


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in held]
    finally:
        for sock in held:
            sock.close()


class ControlPlane:
    """One real cluster in a folder. `stop` ends exactly the processes that `start` began."""

    def __init__(self, folder: Path, *, kwok: bool = True, controllers: bool = True) -> None:
        self.folder = folder
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self._with_kwok = kwok
        self._with_controllers = controllers
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._etcd, self._peer, self._port, self._kwok_port = free_ports(4)
        self.address = f"https://127.0.0.1:{self._port}"
        self.audit_log = folder / "audit.log"
        self.certificate = folder / "certs" / "apiserver.crt"

    def start(self) -> ControlPlane:
        """Start all parts and wait until the API server and the controllers work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_credentials()
        self._start_etcd()
        self._start_api_server()
        self._wait_ready()
        if not self._with_controllers:
            self._wait_for_namespace()
            return self
        kubeconfig = self.kubeconfig("admin")
        shared = [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
        self._spawn("kube-scheduler", [BINARY, "kube-scheduler", *shared])
        # kwok renews no leases: a node counts as lost only where a test says so.
        patient = "--node-monitor-grace-period=1h"
        self._spawn("kube-controller-manager", [BINARY, "kube-controller-manager", *shared, patient])
        if self._with_kwok:
            self._spawn(
                "kwok",
                [
                    KWOK,
                    f"--kubeconfig={kubeconfig}",
                    "--manage-all-nodes=true",
                    f"--config={STAGES}",
                    f"--server-address=127.0.0.1:{self._kwok_port}",
                ],
            )
        self._grant_machines()
        self._wait_for_namespace()
        return self

    def stop(self) -> None:
        """End the processes, the API server before etcd (without etcd it would stay for a minute)."""
        for _, process in reversed(self._processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(10)
        self._processes.clear()

    def audited(self, user: str) -> list[dict[str, Any]]:
        """Every finished request of a user, oldest first: `verb`, `objectRef`, `responseStatus`."""
        lines = self.audit_log.read_text().splitlines() if self.audit_log.exists() else []
        return [event for event in map(json.loads, lines) if event["user"]["username"] == user]

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig file for one of the users; it trusts the API server's certificate."""
        path = self.folder / f"kubeconfig-{user}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.address, "certificate-authority": str(self.certificate)},
                }
            ],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(json.dumps(content))
        return path

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, kind: str = "application/json"
    ) -> dict[str, Any]:
        """One call as admin; raises urllib's HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.tokens['admin']}", "Content-Type": kind}
        call = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(call, timeout=30, context=self._tls()) as response:
            found: dict[str, Any] = json.loads(response.read())
        return found

    @staticmethod
    def _tls() -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def _write_credentials(self) -> None:
        lines = []
        for user, group in USERS.items():
            lines.append(f"{self.tokens[user]},{user},{user}" + (f',"{group}"' if group else ""))
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        subprocess.run(
            ["openssl", "genrsa", "-out", str(self.folder / "sa.key"), "2048"],
            check=True,
            capture_output=True,
        )

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        self._spawn(
            "etcd",
            [
                BINARY,
                "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=error",
            ],
        )

    def _start_api_server(self) -> None:
        self._spawn(
            "kube-apiserver",
            [
                BINARY,
                "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{self._etcd}",
                f"--secure-port={self._port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self.folder / 'certs'}",
                f"--service-account-key-file={self.folder / 'sa.key'}",
                f"--service-account-signing-key-file={self.folder / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
                f"--audit-policy-file={self.folder / 'audit-policy.json'}",
                f"--audit-log-path={self.audit_log}",
                "--max-requests-inflight=2000",
                "--max-mutating-requests-inflight=1000",
            ],
        )

    def _spawn(self, name: str, command: list[str | Path]) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        # A proxy from outside must not see calls to this machine; nothing else of the environment matters.
        environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        process = subprocess.Popen(
            [str(part) for part in command], stdout=log, stderr=log, cwd=self.folder, env=environment
        )
        log.close()
        self._processes.append((name, process))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._check_alive()
            call = urllib.request.Request(
                self.address + "/readyz", headers={"Authorization": f"Bearer {self.tokens['admin']}"}
            )
            try:
                with urllib.request.urlopen(call, timeout=5, context=self._tls()) as response:
                    if response.read() == b"ok":
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        raise RuntimeError(f"the API server was not ready after {START_SECONDS} s; see {self.folder}")

    def _check_alive(self) -> None:
        for name, process in self._processes:
            if process.poll() is not None:
                tail = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with {process.returncode}: {tail}")

    def _grant_machines(self) -> None:
        self.define("test-machines", MACHINE_RULES)
        self.bind("machine", "test-machines")

    def bind(self, user: str, role: str) -> None:
        """Bind a ClusterRole to one of the users."""
        body = {
            "metadata": {"name": f"{role}-{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        self.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)

    def define(self, name: str, rules: list[dict[str, Any]]) -> None:
        """Create a ClusterRole."""
        body = {"metadata": {"name": name}, "rules": rules}
        self.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", body)

    def unbind(self, user: str, role: str) -> None:
        """Take a bound ClusterRole away from a user."""
        self.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{role}-{user}")

    def grant_shipped(self, user: str = "product") -> None:
        """Create the ClusterRole that we ship and bind it to a user; again: nothing happens."""
        role = yaml.safe_load(SHIPPED_ROLE.read_text(encoding="utf-8"))
        for act in (
            lambda: self.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role),
            lambda: self.bind(user, role["metadata"]["name"]),
        ):
            try:
                act()
            except urllib.error.HTTPError as error:
                if error.code != 409:
                    raise

    def _wait_for_namespace(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            names = {item["metadata"]["name"] for item in self.request("GET", "/api/v1/namespaces")["items"]}
            if "default" in names:
                return
            time.sleep(0.1)
        raise RuntimeError("the default namespace did not appear")
