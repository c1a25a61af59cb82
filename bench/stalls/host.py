"""The node that is measured: Todana with its listeners and its probes, and how long the probes wait."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import local
from machine import erlang_environment
from servers import cpu_s, served
from stalls import exchange
from stalls.row import DECIMAL, EVICTING, EXPIRING, ORDERED, PLAIN, Sizes

PROBE = Path(__file__).with_name("probe.py")
EVENT_LOOPS = 2
# The probes run for this long before a measurement begins.
LEAD_S = 0.02
START_S, FILL_S, PROBE_S = 180, 900, 5
# A server is at rest again when no probe waits this long.
REST_US = 20_000
ENTRY_BYTES = 48
NICENESS = -10


class Stuck(RuntimeError):
    """The node does not answer."""


class Host:
    """One node. `found` has the figures of the last round."""

    def __init__(self, checkout, directory, sizes: Sizes):
        self.checkout, self.directory, self.sizes = checkout, directory, sizes
        self.begin()

    def begin(self):
        """Starts the node, and a probe on each of its event loops."""
        self.full = set()
        self.clients = {}
        self.found = {}
        databases = f": + : *#ktcapsiz={self.sizes.evicting_bytes} : : %#rcomp=dec"
        options = {name: '"127.0.0.1:0"' for name in ("listen_resp", "listen_memcached", "listen_kyoto")}
        options |= {"databases": f'"{databases}"', "event_loops": str(EVENT_LOOPS)}
        # A build from before this option distributes connections evenly.
        if "event_loop_balance" in next((Path(self.checkout) / "src").rglob("todana_options.erl")).read_text():
            options["event_loop_balance"] = "even"
        flags = [word for name, value in options.items() for word in ("-todana", name, value)]
        ebin = local.ebin(self.checkout)
        # Schedulers do not spin, as in config/vm.args, because other programs share the cores.
        self.process = subprocess.Popen(
            ["erl", "-noshell", "-boot", "no_dot_erlang", "+P", "262144", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio",
             "none", "-pa", str(ebin), "-pa", self.directory, *flags, "-run", "stalls", "main"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace",
            env={"ERL_CRASH_DUMP": os.devnull, **erlang_environment()}, preexec_fn=_favoured,
        )  # fmt: skip
        self.answers = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self.process.stdout, self.answers), daemon=True).start()
        facts = self._answer(START_S)
        self.pid = facts["pid"]
        self.addresses = {name: _address(text) for name, text in facts["addresses"].items()}
        # An even balance assigns a connection to the event loop with the fewest, so each loop gets one probe.
        self.probes = [self._probe() for _ in range(EVENT_LOOPS)]

    def _read(self, lines, answers):
        for line in lines:
            if line.startswith("answer "):
                answers.put(json.loads(line.removeprefix("answer ")))
        answers.put(Stuck("the Erlang node has ended"))

    def _probe(self):
        host, port = self.addresses["resp"]
        return subprocess.Popen(
            [sys.executable, str(PROBE), host, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=_favoured,
        )  # fmt: skip

    def end(self):
        """Kills the node and the probes."""
        for client in self.clients.values():
            client.close()
        for process in (*getattr(self, "probes", ()), self.process):
            process.kill()
            process.communicate()

    def say(self, term, timeout_s=FILL_S):
        """Sends a term to the node and waits for its answer."""
        self.process.stdin.write(term + ".\n")
        self.process.stdin.flush()
        return self._answer(timeout_s)

    def _answer(self, timeout_s):
        try:
            answer = self.answers.get(timeout=timeout_s)
        except queue.Empty:
            raise Stuck(f"the Erlang node has not answered within {timeout_s} s") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    # ------------------------------------------------------------- records ---

    def ensure(self, databases):
        """Fills the databases that are not full."""
        for number in databases:
            if number not in self.full:
                count = {DECIMAL: self.sizes.shard_records, EVICTING: self.sizes.evicting_bytes // ENTRY_BYTES}
                kind = "expiring" if number == EXPIRING else "plain"
                self.say(f"{{fill, {kind}, db{number}, {count.get(number, self.sizes.records)}}}")
                self.full.add(number)

    def fill_to_expire(self, number, count, after_s):
        """Stores records that all expire at the same time."""
        at_ms = int((time.time() + after_s) * 1000)
        self.say(f"{{fill, {{at, {at_ms}}}, db{number}, {count}}}")

    def spoil(self, databases):
        """Marks databases as no longer full."""
        self.full -= set(databases)

    def drop(self, number):
        """Empties a database, so that its records do not affect other rows."""
        self.spoil([number])
        self.say(f"{{clear, db{number}}}")

    # ------------------------------------------------------------- clients ---

    def connect(self, protocol) -> exchange.Client:
        """A new connection."""
        return exchange.Client(self.addresses[protocol], protocol)

    def client(self, protocol) -> exchange.Client:
        """The connection of this protocol."""
        if protocol not in self.clients:
            self.clients[protocol] = self.connect(protocol)
        return self.clients[protocol]

    def forget(self, protocol):
        """Closes the connection of this protocol."""
        if protocol in self.clients:
            self.clients.pop(protocol).close()

    # ----------------------------------------------------------- measuring ---

    def measured(self, action):
        """Runs an action and stores in `found` how long the probes waited; its exceptions are passed on."""
        row, linger_s = self.row, self.row.linger_s
        self.say("occupied")
        for probe in self.probes:
            probe.stdin.write(f"begin {row.database} {row.key.decode()}\n")
            probe.stdin.flush()
        self.say(f'{{probe, db{row.database}, <<"{row.key.decode()}">>, {row.probe}}}')
        time.sleep(LEAD_S)
        resident, cpu = _begin_peak(self.pid), cpu_s(self.pid)
        started = time.monotonic()
        try:
            answer = action()
            self.found["seconds"] = round(time.monotonic() - started, 4)
            time.sleep(linger_s)
            return answer
        finally:
            self.found["cpu_s"] = round(cpu_s(self.pid) - cpu, 3)
            self.found["memory_bytes"] = None if resident is None else max(0, _peak(self.pid) - resident)
            self.found |= self._waits(started)
            self.found["occupied_ms"] = self.say("occupied")

    def _waits(self, started):
        """The longest waits of the probes. A probe that does not answer has waited since the start, at least."""
        for probe in self.probes:
            probe.stdin.write("end\n")
            probe.stdin.flush()
        longest, is_at_least = [], False
        for number, probe in enumerate(self.probes):
            line = _line(probe, PROBE_S)
            if line is None:
                is_at_least = True
                longest.append(int((time.monotonic() - started) * 1e6))
                probe.kill()
                probe.communicate()
                self.probes[number] = None
            else:
                longest.append(int(line.split()[0]))
        local_us = self.say("probed")
        return {"network_us": longest, "local_us": local_us, "is_at_least": is_at_least}

    def rest(self, timeout_s):
        """Waits until the server is at rest or the time is over; raises Stuck if it does not answer at all."""
        deadline = time.monotonic() + timeout_s
        if any(probe is None for probe in self.probes):
            # The server frees the places of closed probes with a delay; all of them start again.
            for probe in filter(None, self.probes):
                probe.kill()
                probe.communicate()
            self.probes = []
            self._await_rest(deadline)
            self.probes = [self._probe() for _ in range(EVENT_LOOPS)]
        self._await_rest(deadline)

    def _await_rest(self, deadline):
        while not self._is_quick(deadline) and time.monotonic() < deadline:
            pass

    def _is_quick(self, deadline) -> bool:
        """Whether several requests in a row, on new connections, do not wait."""
        clients = [self.connect("resp") for _ in range(EVENT_LOOPS)]
        try:
            for client in clients * 5:
                before = time.monotonic()
                client.ask(b"", max(1.0, deadline - before))
                if time.monotonic() - before > REST_US / 1e6:
                    return False
                time.sleep(0.01)
            return True
        except exchange.TimedOut:
            raise Stuck("the server is not at rest in time") from None
        finally:
            for client in clients:
                client.close()


def _favoured():
    """Gives node and probes a higher priority than other programs, if that is allowed."""
    served.die_with_parent()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


def _address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def _line(process, timeout_s):
    """The next line that a program prints, None if it prints none in time."""
    found = queue.SimpleQueue()
    threading.Thread(target=lambda: found.put(process.stdout.readline()), daemon=True).start()
    try:
        return found.get(timeout=timeout_s) or None
    except queue.Empty:
        return None


def _begin_peak(pid) -> int | None:
    """Resident bytes, with the peak reset; None if the system records no peak."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return served.resident_bytes(pid)
    except OSError:
        return None


def _peak(pid) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise KeyError("VmHWM")
