"""The facts that a result states about the machine and the programs."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def facts(arguments, plan) -> dict:
    """CPU, cores, memory, kernel, versions, command line and plan, but nothing that identifies the machine."""
    return {
        "date": datetime.date.today().isoformat(),
        "kind": kind(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": _system(),
        "versions": versions(),
        "command": ["bench/run", *arguments],
        "plan": plan,
    }


def kind() -> str:
    """Cores and architecture, as part of a directory name."""
    return f"{os.cpu_count()}-core-{platform.machine()}"


def erlang_environment() -> dict:
    """An environment whose PATH contains erl."""
    return {**os.environ, "PATH": f"{ROOT / '.toolchain' / 'bin'}:{os.environ['PATH']}"}


def versions() -> dict:
    """The version of each installed program."""
    found = {"todana": described(ROOT)}
    for program in ("redis-server", "memcached", "valkey-server", "etcd"):
        if shutil.which(program):
            found[program] = _first_line([program, "--version"])
    release = 'io:put_chars(erlang:system_info(otp_release)), halt().'
    found["erlang"] = "OTP " + _first_line(["erl", "-noinput", "-eval", release])
    return found


def described(checkout) -> str:
    """The version of a checkout."""
    return _first_line(["git", "-C", str(checkout), "describe", "--always", "--dirty"])


def _first_line(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=erlang_environment())
    return (done.stdout.splitlines() or ["unknown"])[0]


def _cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Processor")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _system():
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()
