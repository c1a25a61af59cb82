#!/usr/bin/env python3
"""Cuts three nodes of Todana or of Mnesia in two parts, and keeps the history of what their clients did.

    partition.py todana|mnesia|mnesia_majority CALM_S CUT_S HEALED_S

A client of each node writes without a pause to speak of, before, during and after the cut: a record of its own for each write, a
common record, and a common sum. Prints one line of JSON: the operations, what each node had in the end, and a summary. As
root the nodes get a network of their own, whose packets are lost in the kernel; otherwise they reach each other by proxies.
Called by bench/e2_replicated.py.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for name in ("clients", "durable", "faults"):
    sys.path.insert(0, str(ROOT / "test" / name))

import cluster as faults  # noqa: E402
import network  # noqa: E402
import proxies  # noqa: E402
import served  # noqa: E402
import stores  # noqa: E402
import wire  # noqa: E402
from writers import ErlangConnection  # noqa: E402

SIZE = 3
PAUSE_S = 0.1
ANSWER_TIMEOUT_S = 60.0
START_TIMEOUT_S = 60.0
# How soon Erlang notices that a node is gone; Todana's own setting, which Mnesia gets too.
NET_TICK_S = 8
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"
OPERATIONS = ("insert", "set", "add")
SUM, STATUS = "sum", "status"


class Writer:
    """A client of one node."""

    def __init__(self, name, operate, history, began, ended):
        self.name, self._operate = name, operate
        self._history, self._began, self._ended = history, began, ended
        self.words = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._ended.is_set():
            number += 1
            for operation in OPERATIONS:
                sent_at = time.monotonic()
                outcome, word = self._operate(operation, f"{self.name}-{number}")
                # [node, operation, number, outcome, seconds at which it was sent and answered]
                self._history.append([
                    self.name, operation, number, outcome, round(sent_at - self._began, 3), round(time.monotonic() - self._began, 3),
                ])  # fmt: skip
                if word:
                    self.words[word] = self.words.get(word, 0) + 1
            self._ended.wait(PAUSE_S)

    def join(self):
        """Waits until the last operation has an answer."""
        self._thread.join(ANSWER_TIMEOUT_S + 5)


# ------------------------------------------------------------------ Todana ---


class Todana:
    """Three nodes, whose clients use RESP. The leader's node is cut off."""

    def __init__(self, place):
        self._cluster = faults.Cluster(place, SIZE)
        self._cluster.start()
        self.names = [node.name for node in self._cluster.nodes]
        self.network = self._cluster.network
        self.minority = self._cluster.leader().name
        self.setting = "the leader's node is cut off"

    def host(self, name) -> str:
        """The address of a node."""
        return self._node(name).host

    def _node(self, name):
        return next(node for node in self._cluster.nodes if node.name == name)

    def client(self, name):
        """A function that carries out an operation at a node, on a connection of its own."""
        node, open_ones = self._node(name), []

        def operate(operation, key):
            words = {"insert": ("SET", key, "1"), "set": ("SET", STATUS, key), "add": ("INCR", SUM)}[operation]
            try:
                if not open_ones:
                    open_ones.append(wire.Resp(node.address("resp"), ANSWER_TIMEOUT_S))
                answer = open_ones[0].call(*words)
            except (OSError, wire.Closed) as error:
                open_ones.clear()
                return UNKNOWN, type(error).__name__
            if not isinstance(answer, wire.Error):
                return DONE, ""
            return UNKNOWN if answer.text.startswith("UNKNOWN") else REFUSED, answer.text

        return operate

    def reconnect(self):
        """The nodes connect again by themselves."""
        self._cluster.wait_for_voters()
        self._cluster.verify()

    def views(self) -> dict:
        """What each node has: the keys that clients inserted, the sum and the status."""
        found = {}
        for node in self._cluster.nodes:
            with wire.Resp(node.address("resp"), ANSWER_TIMEOUT_S) as connection:
                connection.call("TODANA.READ", "linear")
                keys = [key.decode() for key in connection.call("KEYS", "*@*")]
                found[node.name] = keys, int(connection.call("GET", SUM)), connection.call("GET", STATUS).decode()
        return found

    repair = None

    def close(self):
        """Ends everything."""
        self._cluster.close()


# ------------------------------------------------------------------ Mnesia ---


class MnesiaNode:
    """An Erlang node with a door for expressions."""

    def __init__(self, number, place, environment):
        self.host = faults.host_of(number)
        self.name = f"m{number}@{self.host}"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(START_TIMEOUT_S)
        ip = self.host.replace(".", ",")
        settings = {
            "inet_dist_use_interface": f"{{{ip}}}", "inet_dist_connect_options": f"[{{ip,{{{ip}}}}}]", "net_ticktime": NET_TICK_S,
        }  # fmt: skip
        kernel = [word for setting in settings.items() for word in setting]
        erl = served.ROOT / ".toolchain" / "bin" / "erl"
        self.process = served.Process(
            [erl if erl.exists() else "erl", "-noinput", "-start_epmd", "false", "-name", self.name, "-kernel", *kernel,
             "-pa", stores.erlang_door(), "-s", "erlang_door"],
            {**environment, "HOME": str(place), "ERLANG_DOOR_PORT": str(self.listener.getsockname()[1]), "ERL_CRASH_DUMP_BYTES": "0"},
        )  # fmt: skip

    def connection(self) -> ErlangConnection:
        """A process of the node."""
        accepted, _ = self.listener.accept()
        accepted.settimeout(ANSWER_TIMEOUT_S)
        return ErlangConnection(accepted)

    def evaluate(self, text) -> str:
        """The value of an expression."""
        with self.connection() as door:
            return door.evaluate(text)


class Mnesia:
    """Three nodes with ram_copies of one table, whose clients use transactions. The third node is cut off."""

    def __init__(self, place, has_majority=False):
        cookie = Path(place) / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(24))
        cookie.chmod(0o400)
        hosts = [faults.host_of(number) for number in range(1, SIZE + 1)]
        self._epmd, environments = None, [{} for _ in hosts]
        if network.ENTERED.is_set():
            self.network = network.Network()
            command = [faults.epmd_program(), "-port", str(faults.EPMD_PORT)]
            self._epmd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=served.die_with_parent)
        else:
            self.network = proxies.Proxies(hosts, served.listening_port)
            environments = [{"ERL_EPMD_PORT": str(self.network.mapper_ports[host])} for host in hosts]
        self._nodes = [MnesiaNode(number + 1, place, environment) for number, environment in enumerate(environments)]
        self.names = [node.name for node in self._nodes]
        self.minority = self.names[-1]
        options = ", {majority, true}" if has_majority else ""
        self.setting = f"ram_copies on three nodes{options}, transactions"
        names = "[" + ",".join(f"'{name}'" for name in self.names) + "]"
        first = self._nodes[0]
        for node in self._nodes:
            # It answers when it has started, and only then can others connect to it.
            self._expect(node, "is_alive()", "true")
        self._expect(first, f"lists:all(fun(N) -> net_kernel:connect_node(N) end, {names})", "true")
        for node in self._nodes:
            self._expect(node, "mnesia:start()", "ok")
        self._expect(first, f"element(1, mnesia:change_config(extra_db_nodes, {names}))", "ok")
        self._expect(first, f"mnesia:create_table(t, [{{ram_copies, {names}}}{options}])", "{atomic,ok}")
        self._expect(first, f"mnesia:transaction(fun() -> mnesia:write({{t, {SUM}, 0}}) end)", "{atomic,ok}")

    @staticmethod
    def _expect(node, text, wanted):
        if (found := node.evaluate(text)) != wanted:
            raise RuntimeError(f"{node.name}: {text}: {found}\n" + "\n".join(node.process.lines))

    def host(self, name) -> str:
        """The address of a node."""
        return self._node(name).host

    def _node(self, name):
        return next(node for node in self._nodes if node.name == name)

    def client(self, name):
        """A function that carries out an operation at a node, by a process of its own."""
        door = self._node(name).connection()

        def operate(operation, key):
            body = {
                "insert": f'mnesia:write({{t, "{key}", 1}})',
                "set": f'mnesia:write({{t, {STATUS}, "{key}"}})',
                "add": f"[{{_, _, N}}] = mnesia:read(t, {SUM}, write), mnesia:write({{t, {SUM}, N + 1}})",
            }[operation]
            try:
                answer = door.evaluate(f"mnesia:transaction(fun() -> {body} end)")
            except (OSError, wire.Closed) as error:
                return UNKNOWN, type(error).__name__
            return (DONE, "") if answer == "{atomic,ok}" else (REFUSED, answer)

        return operate

    def reconnect(self):
        """Has the parts connect. Mnesia reports that they have different records, and does nothing."""
        others = [name for name in self.names if name != self.minority]
        for name in others:
            self._node(self.minority).evaluate(f"net_kernel:connect_node('{name}')")

    def views(self) -> dict:
        """What each node has."""
        found = {}
        for node in self._nodes:
            keys = ast.literal_eval(node.evaluate("[K || K <- mnesia:dirty_all_keys(t), is_list(K)]").replace("\n", " ") or "[]")
            [total] = re.findall(r"\d+", node.evaluate(f"element(3, hd(mnesia:dirty_read(t, {SUM})))"))
            status = node.evaluate(f"element(3, hd(mnesia:dirty_read(t, {STATUS})))").strip('"')
            found[node.name] = keys, int(total), status
        return found

    def repair(self):
        """What the documentation of Mnesia proposes: one part is right, and the other one loads its tables from there."""
        node = self._node(self.minority)
        others = ",".join(f"'{name}'" for name in self.names if name != self.minority)
        node.evaluate("mnesia:stop()")
        self._expect(node, "mnesia:start()", "ok")
        self._expect(node, f"element(1, mnesia:change_config(extra_db_nodes, [{others}]))", "ok")
        node.evaluate("mnesia:add_table_copy(t, node(), ram_copies)")
        self._expect(node, f"mnesia:wait_for_tables([t], {round(START_TIMEOUT_S * 1000)})", "ok")

    def reports(self) -> list:
        """What Mnesia itself said about the parts."""
        found = [line for node in self._nodes for line in node.process.lines if "inconsistent_database" in line]
        return [re.sub(r"\s+", " ", line).strip() for line in found]

    def close(self):
        """Ends everything."""
        for node in self._nodes:
            node.process.stop()
        if self._epmd:
            self._epmd.kill()
            self._epmd.wait()
        self.network.close()


# --------------------------------------------------------------------- run ---


def run(system, calm_s, cut_s, healed_s) -> dict:
    """The history of one system, and what it shows."""
    history, ended = [], threading.Event()
    began = time.monotonic()
    writers = [Writer(name, system.client(name), history, began, ended) for name in system.names]
    try:
        time.sleep(calm_s)
        cut_at = time.monotonic() - began
        for name in system.names:
            if name != system.minority:
                system.network.set(system.host(name), system.host(system.minority), network.CUT)
                system.network.set(system.host(system.minority), system.host(name), network.CUT)
        time.sleep(cut_s)
        healed_at = time.monotonic() - began
        system.network.heal()
        system.reconnect()
        time.sleep(healed_s)
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    history.sort(key=lambda entry: entry[4])
    healed = system.views()
    cell = {
        "minority": system.minority, "setting": system.setting, "net_tick_s": NET_TICK_S,
        "cut_at_s": round(cut_at, 3), "healed_at_s": round(healed_at, 3),
        "sides": {name: _side(history, name, cut_at, healed_at) for name in system.names},
        "words": {writer.name: writer.words for writer in writers},
        "after_healing": _lost(history, healed),
    }  # fmt: skip
    if system.repair:
        cell["reports"] = system.reports()
        system.repair()
        cell["after_repair"] = _lost(history, system.views())
    return cell | {"history": history}


def _side(history, name, cut_at, healed_at) -> dict:
    """Operations of a node's client that were sent while the network was cut, by their outcome."""
    chosen = [entry for entry in history if entry[0] == name and cut_at <= entry[4] < healed_at]
    found = {outcome: sum(entry[3] == outcome for entry in chosen) for outcome in (DONE, REFUSED, UNKNOWN)}
    # An answer to an operation that began before the cut counts as well.
    answered = sorted(entry[5] for entry in history if entry[0] == name and entry[3] == DONE and cut_at <= entry[5] < healed_at)
    ends = [cut_at, *answered, healed_at]
    longest = max(after - before for before, after in zip(ends, ends[1:]))
    last = answered[-1] - cut_at if answered else 0.0
    return {**found, "longest_without_success_s": round(longest, 3), "last_success_s": round(last, 3)}


def _lost(history, views) -> dict:
    """What each node has of the acknowledged operations."""
    inserted = {f"{node}-{number}" for node, operation, number, outcome, *_ in history if (operation, outcome) == ("insert", DONE)}
    adds = [outcome for _, operation, _, outcome, *_ in history if operation == "add"]
    return {
        "inserts_acknowledged": len(inserted), "adds_acknowledged": adds.count(DONE), "adds_unknown": adds.count(UNKNOWN),
        "nodes": {
            name: {"inserts_missing": len(inserted - set(keys)), "sum": total, "status": status}
            for name, (keys, total, status) in views.items()
        },
    }  # fmt: skip


SYSTEMS = {"mnesia": Mnesia, "mnesia_majority": functools.partial(Mnesia, has_majority=True), "todana": Todana}


def main():
    """Runs what the arguments say."""
    kind, *times = sys.argv[1:]
    with contextlib.suppress(network.NotPossible):
        network.enter()
    with tempfile.TemporaryDirectory(prefix="partition-") as place:
        system = SYSTEMS[kind](Path(place))
        try:
            found = run(system, *map(float, times))
        finally:
            system.close()
    print(json.dumps({"part": "partition", "system": kind, "is_network": network.ENTERED.is_set(), **found}))


if __name__ == "__main__":
    main()
