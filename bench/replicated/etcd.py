"""Three members of etcd, as Debian has it, loaded by etcd's own Go client."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from machine import ROOT
from servers import parsed, served

from replicated.usage import Usage

PROGRAM = Path(__file__).resolve().parent / "etcd_load"
BUILT = ROOT / "_build" / "etcd_load"
SERVING_TIMEOUT_S = 60
SIZE = 3
FILLING_CLIENTS = 200


def missing() -> str | None:
    """Why etcd cannot be measured here, if it cannot."""
    needed = {"etcd": "etcd is not installed (Debian: etcd-server)", "go": "Go, which compiles the clients of etcd, is not installed"}
    return next((reason for program, reason in needed.items() if not shutil.which(program)), None)


def version() -> str:
    """The first line of what etcd says about itself."""
    return subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


class Members:
    """The processes, and the ports for clients."""

    def __init__(self, place):
        place.mkdir(parents=True, exist_ok=True)
        self.ports = [served.listening_port() for _ in range(SIZE)]
        peers = [f"http://127.0.0.1:{served.listening_port()}" for _ in range(SIZE)]
        cluster = ",".join(f"m{number}={url}" for number, url in enumerate(peers))
        self.processes = []
        for number, (port, peer) in enumerate(zip(self.ports, peers)):
            client = f"http://127.0.0.1:{port}"
            self.processes.append(served.Process([
                "etcd", "--name", f"m{number}", "--data-dir", place / f"m{number}", "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", cluster, "--initial-cluster-state", "new", "--initial-cluster-token", place.name,
                "--logger", "zap", "--log-level", "error",
            ]))  # fmt: skip

    def leader(self) -> int:
        """The number of the member that leads, as soon as there is one."""
        deadline = time.monotonic() + SERVING_TIMEOUT_S
        while time.monotonic() < deadline:
            for number, port in enumerate(self.ports):
                with contextlib.suppress(OSError, urllib.error.URLError):
                    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", b"{}")
                    with urllib.request.urlopen(request, timeout=5) as answer:
                        status = json.load(answer)
                    if int(status.get("leader", 0)) == int(status["header"]["member_id"]):
                        return number
            time.sleep(0.1)
        raise RuntimeError("etcd has no leader:\n" + "\n".join(line for process in self.processes for line in process.lines))

    def fill(self, keys, value_bytes):
        """Stores all keys."""
        self.load(self.leader(), "fill", FILLING_CLIENTS, keys=keys, value_bytes=value_bytes)

    def load(self, number, operation, clients, **options) -> dict:
        """One run of clients of a member."""
        command = [BUILT, "-endpoint", f"127.0.0.1:{self.ports[number]}", "-operation", operation, "-clients", clients]
        for name, value in options.items():
            command += ["-" + name.replace("_", "-"), value]
        pids = [process.popen.pid for process in self.processes]
        usage = Usage([pids[number], *(pid for pid in pids if pid != pids[number])])
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent
        )
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the clients of etcd did not connect")
        with usage:
            process.stdin.write("go\n")
            process.stdin.flush()
            report = parsed(process.stdout.readline())
        process.communicate()
        if report["errors"]:
            raise RuntimeError(f"etcd: {report}")
        return {**report, **usage.report(report["requests"])}

    def write_arms(self) -> dict:
        """Puts to the leader, and to another member."""
        leader = self.leader()

        def arm(number):
            return lambda clients, _pipeline, seconds, seed: self.load(number, "put", clients, seconds=seconds, seed=seed)

        return {"etcd_leader": arm(leader), "etcd_follower": arm((leader + 1) % SIZE)}

    def read_arms(self) -> dict:
        """Reads that every member answers by itself, and reads that the leader confirms."""
        leader = self.leader()

        def arm(number, operation):
            return lambda clients, _pipeline, seconds, seed: self.load(number, operation, clients, seconds=seconds, seed=seed)

        return {
            "etcd_serializable_leader": arm(leader, "get-serializable"), "etcd_linearizable_leader": arm(leader, "get"),
            "etcd_linearizable_follower": arm((leader + 1) % SIZE, "get"),
        }  # fmt: skip

    def stop(self):
        """Ends all members."""
        for process in self.processes:
            process.stop()


@contextlib.contextmanager
def running(place):
    """Three members that serve."""
    BUILT.parent.mkdir(exist_ok=True)
    subprocess.run(["go", "build", "-o", BUILT, "."], cwd=PROGRAM, check=True)
    members = Members(place)
    try:
        members.leader()
        yield members
    finally:
        members.stop()
        shutil.rmtree(place, ignore_errors=True)
