"""docs/three-hosts.md, followed step by step: three network namespaces with addresses of their own, and the page's files."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import served

PAGE = (served.ROOT / "docs" / "three-hosts.md").read_text()
TIMEOUT_S = 180
NAMES = "abc"


def blocks():
    """The indented blocks of the page, without the indentation."""
    found, lines = [], []
    for line in [*PAGE.splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
        elif lines:
            found.append("\n".join(lines).strip("\n") + "\n")
            lines = []
    return found


def block(word):
    """The first block with this word."""
    return next(text for text in blocks() if word in text)


def configuration(number):
    """The file of a host: that of the first one, in which some lines differ."""
    lines = dict(line.split(" = ", 1) for line in block("cluster_create = yes").splitlines())
    if number > 1:
        del lines["cluster_create"]
        second = re.sub(r"\s+#.*", "", block("in place of"), flags=re.MULTILINE)
        others = dict(line.split(" = ", 1) for line in second.splitlines())
        if number > 2:
            others = {name: value.replace("b@10.0.0.2", "c@10.0.0.3").replace("10.0.0.2", "10.0.0.3") for name, value in others.items()}
        lines |= others
    return "".join(f"{name} = {value}\n" for name, value in lines.items())


class Hosts:
    """Three namespaces on a bridge, each with a directory for its /etc and /var."""

    def __init__(self, directory):
        self.directory = directory
        self.prefix = f"todana-{os.getpid()}-"
        self.namespaces = [self.prefix + name for name in ("lan", *NAMES)]
        self.processes = {}

    def __enter__(self):
        try:
            self._build()
        except (OSError, subprocess.CalledProcessError) as why:
            self.__exit__()
            pytest.skip(f"no network namespaces here: {why}")
        return self

    def _build(self):
        for namespace in self.namespaces:
            self.ip("netns", "add", namespace)
        lan = self.namespaces[0]
        self.ip("-n", lan, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", lan, "link", "set", "bridge", "up")
        for number, namespace in enumerate(self.namespaces[1:], 1):
            self.ip("-n", lan, "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
            self.ip("-n", lan, "link", "set", f"to{number}", "master", "bridge", "up")
            self.ip("-n", namespace, "addr", "add", f"10.0.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self.ip("-n", namespace, "link", "set", device, "up")

    def __exit__(self, *_):
        for namespace in self.namespaces:
            pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout
            for pid in pids.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)

    @staticmethod
    def ip(*words):
        """Runs `ip`."""
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def here(self, name, text):
        """The text with the paths of one host."""
        place = self.directory / name
        for path in ("/etc/todana", "/var/lib/todana"):
            text = text.replace(path, f"{place}{path}")
        return text.replace("/opt/todana/bin/todana", shlex.quote(str(served.PROGRAM))).replace("runuser -u todana -- ", "")

    def command(self, name, text):
        """A shell command as it runs on a host."""
        home = f"HOME={shlex.quote(str(self.directory / name))}"
        return ["ip", "netns", "exec", self.prefix + name, "sh", "-c", f"export {home}; {self.here(name, text)}"]

    def run(self, name, text):
        """Runs a command to its end, and returns what it prints."""
        done = subprocess.run(self.command(name, text), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout

    def start(self, name):
        """Starts the node of a host as the unit does."""
        text = "TODANA_CONFIG=/etc/todana.conf exec /opt/todana/bin/todana start"
        self.processes[name] = served.Process(self.command(name, text))

    def replace(self, name, old, new):
        """Puts a line in the place of another one in the file of a host."""
        path = Path(f"{self.directory}/{name}/etc/todana.conf")
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, re.sub(r"\s+#.*", "", new)))

    def await_line(self, name):
        """Waits until it is ready."""
        self.processes[name].wait_for_line(served.READY, TIMEOUT_S)

    def await_status(self, name, word):
        """Waits until `cluster status` prints this."""
        deadline = time.monotonic() + TIMEOUT_S
        while word not in (said := self.run(name, "/opt/todana/bin/todana cluster status")):
            assert time.monotonic() < deadline, said
            time.sleep(0.2)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root, and network namespaces")
def test_the_page_builds_a_cluster(tmp_path):
    with Hosts(tmp_path) as hosts:
        for name in NAMES:
            (tmp_path / name / "etc").mkdir(parents=True)
            (tmp_path / name / "var/lib/todana").mkdir(parents=True)
            if shutil.which("nft"):
                rules = tmp_path / name / "rules"
                rules.write_text(block("table inet todana"))
                hosts.run(name, f"nft -f {shlex.quote(str(rules))}")
        (tmp_path / "a/etc/todana").mkdir()
        hosts.run("a", block("cluster certificates"))
        for number, name in enumerate(NAMES, 1):
            if number > 1:
                shutil.copytree(tmp_path / "a/etc/todana", tmp_path / name / "etc/todana")
            Path(f"{tmp_path}/{name}/etc/todana.conf").write_text(hosts.here(name, configuration(number)))
            check = "/opt/todana/bin/todana config check --config /etc/todana.conf"
            assert hosts.run(name, check) == "the configuration is good\n"
        hosts.start("a")
        hosts.await_line("a")
        for name in "bc":
            hosts.start(name)
        for name in "bc":
            hosts.await_line(name)
        hosts.await_status("b", "1 of 3 voters may fail")
        # The last step: a write through one host is read on another one while the first one is down.
        write, read = (line.removeprefix("$ ") for line in block("redis-cli -h").splitlines() if "redis-cli" in line)
        assert hosts.run("b", write) == "OK\n"
        os.kill(hosts.processes["a"].popen.pid, signal.SIGKILL)
        hosts.processes["a"].stop()
        assert hosts.run("c", read) == "v\n"
        hosts.run("b", f"/opt/todana/bin/todana backup {shlex.quote(str(tmp_path / 'backup'))}")
        # With `cluster_join` in the place of `cluster_create`, as the page says.
        hosts.replace("a", "cluster_create = yes", block("after the first start"))
        hosts.start("a")
        hosts.await_line("a")
        hosts.await_status("c", "1 of 3 voters may fail")
        for process in hosts.processes.values():
            assert process.stop() == 0
