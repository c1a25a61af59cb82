"""Stalls: how long other clients and processes wait for each request.

One Erlang node with Todana and its listeners stores millions of records. Every command of each protocol, every function of the
Erlang API and transactions of them run with the arguments that cost most, while a client on each event loop and a process of the
node read a record repeatedly. A row reports the longest wait of one of these, how long a scheduler was occupied, and how much
the node's memory grew.
"""

from __future__ import annotations

import time
from pathlib import Path

import local
from machine import ROOT

from stalls import erlang, exchange, host, kyoto, memcached, resp
from stalls.row import EXPIRING, SIZES, Row, Sizes

# `noise_rounds`: rounds of the rows without a request, which measure the machine itself. `round_ms`: how long a command that can
# be repeated runs. `row_s`: the time limit of a command, and of a row: beyond it, the row has no more rounds. `run_s`: rows that
# have not begun by then are left out.
FULL = {"noise_rounds": 20, "rounds": 5, "rounds_spoiling": 3, "round_ms": 100, "row_s": 10, "rest_s": 60, "run_s": 1_400, "sizes": "full"}
QUICK = {"noise_rounds": 10, "rounds": 1, "rounds_spoiling": 1, "round_ms": 20, "row_s": 3, "rest_s": 20, "run_s": 110, "sizes": "quick"}
TINY = {"noise_rounds": 2, "rounds": 1, "rounds_spoiling": 1, "round_ms": 1, "row_s": 300, "rest_s": 5, "run_s": 3_600, "sizes": "tiny"}
# After a round that took longer than this, the suite waits until the server is at rest.
LONG_S = 0.2


def steps(plan) -> int:
    """The number of reports of `run`."""
    return len(rows(SIZES[plan["sizes"]]))


def rows(sizes: Sizes) -> list[Row]:
    """All rows; those that remove records that other rows need come last."""
    found = [*_noise(), *resp.rows(sizes), *memcached.rows(sizes), *kyoto.rows(sizes), *erlang.rows(sizes)]
    return sorted(found, key=lambda row: bool(row.spoils))


def _noise() -> list[Row]:
    """Rows without a request: an idle machine, and one on which another program is busy."""
    return [
        Row("none", "nothing", action=lambda node, spent_s: node.measured(lambda: time.sleep(spent_s) or b"")),
        Row("none", "a busy process", action=lambda node, spent_s: node.measured(lambda: _spin(spent_s))),
    ]


def _spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return b""


def run(plan, say, *, checkout=ROOT, only=None) -> list[dict]:
    """All rows, or those whose name contains the text `only`."""
    sizes = SIZES[plan["sizes"]]
    end = time.monotonic() + plan["run_s"]
    with local.compiled("stalls/stalls") as directory:
        node = host.Host(Path(checkout), directory, sizes)
        try:
            found = []
            for row in rows(sizes):
                if only and only not in row.name and row.protocol != "none":
                    continue
                found.append(_row(node, row, plan, end))
                say(f"stalls: {row.name}: {_worst(found[-1])}")
            return found
        finally:
            node.end()


def _worst(found) -> str:
    """The longest waits of a row in words."""
    if not found["rounds"]:
        return found["failed"]
    words = "network {:.1f} ms, local {:.1f} ms, scheduler {} ms"
    worst = [max(each) for each in zip(*[(max(one["network_us"]), one["local_us"], one["occupied_ms"]) for one in found["rounds"]], strict=True)]
    text = words.format(worst[0] / 1000, worst[1] / 1000, worst[2])
    outcome = found["rounds"][-1]["outcome"]
    return text if outcome == "done" else f"{text} ({outcome})"


def _row(node, row, plan, end) -> dict:
    """The rounds of a row. A node that does not come to rest afterwards is restarted."""
    found = {"protocol": row.protocol, "row": row.label, "covers": list(row.covers), "is_constant": row.is_constant, "rounds": []}
    rounds = plan["noise_rounds" if row.protocol == "none" else "rounds_spoiling" if row.spoils else "rounds"]
    spent_s = 0.0
    try:
        while len(found["rounds"]) < rounds and spent_s < plan["row_s"]:
            if time.monotonic() > end:
                found["failed"] = "no time was left"
                break
            one = _round(node, row, plan)
            found["rounds"].append(one)
            spent_s += one["seconds"]
            if one["outcome"] == "timed out" or one["is_at_least"]:
                break
        if EXPIRING in row.needs:
            node.drop(EXPIRING)
    except (host.Stuck, OSError) as error:
        found["failed"] = str(error)
        node.end()
        node.begin()
    return found


def _round(node, row, plan) -> dict:
    """The figures of one round."""
    node.row, node.found = row, {"seconds": float(plan["row_s"])}
    node.ensure(row.needs)
    outcome, answer = "done", b""
    try:
        if row.protocol == "erlang":
            answer, outcome = _call(node, row, plan)
        elif row.action:
            spent_s = plan["round_ms"] / 1000 if row.protocol == "none" else plan["row_s"]
            answer = row.action(node, spent_s) or b""
        else:
            answer = _ask(node, row, plan)
            outcome = exchange.refusal(row.protocol, answer) or "done"
    except exchange.TimedOut:
        outcome = "timed out"
    if outcome != "done" or row.is_fresh:
        node.forget(row.protocol)
    node.spoil(row.spoils)
    if node.found["seconds"] > LONG_S or node.found["is_at_least"]:
        node.rest(plan["rest_s"])
    shown = answer[:120].decode("latin-1") if isinstance(answer, bytes) else answer
    return {**node.found, "outcome": outcome, "answer": shown}


def _ask(node, row, plan) -> bytes:
    """Sends requests by one of the protocols, once or repeatedly for the length of a round."""
    select = resp.call("SELECT", row.database) if row.protocol == "resp" else b""
    client = node.client(row.protocol)
    client.ask(select + (row.prepare() if row.prepare else b""), plan["row_s"] * 3)
    request = row.request()

    def ask():
        asked = client
        if row.is_fresh:
            asked = node.connect(row.protocol)
        try:
            return asked.ask(request, plan["row_s"])
        finally:
            if row.is_fresh:
                asked.close()

    def repeat():
        until = time.monotonic() + plan["round_ms"] / 1000
        answer = ask()
        node.found["calls"] = 1
        while not row.is_once and time.monotonic() < until and not answer.startswith(b"closed"):
            answer = ask()
            node.found["calls"] += 1
        return answer

    return node.measured(repeat)


def _call(node, row, plan) -> tuple[str, str]:
    """Calls the Erlang API in a process of the node; returns the result and the outcome."""
    ready = node.say(f"{{prepare, {row.request}, {node.sizes.to_erlang()}}}")
    if ready != "ok":
        raise host.Stuck(f"{row.name}: {ready}")
    repeat_ms = 0 if row.is_once else plan["round_ms"]
    reply = node.measured(lambda: node.say(f"{{call, {repeat_ms}, {plan['row_s'] * 1000}}}"))
    if "timed_out" in reply:
        return "", "timed out"
    if "failed" in reply:
        return reply["failed"], "failed"
    node.found |= {"seconds": round(reply["seconds"], 6), "calls": reply["calls"]}
    return reply["answer"], "done"
