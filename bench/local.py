"""Reads and writes from Erlang processes, beside ETS: compiles and runs local.erl."""

from __future__ import annotations

import json
import subprocess
import tempfile

from machine import ROOT, erlang_environment

KEYS = 1000
EBIN = ROOT / "_build" / "default" / "lib" / "todana" / "ebin"

FULL = {"cell_ms": 150, "rounds": 7, "sizes": [8, 16, 64, 100, 300, 1000, 10_000], "processes": [1, 2, 8]}
QUICK = {"cell_ms": 50, "rounds": 1, "sizes": [8, 100, 1000], "processes": [1, 2]}


def run(plan, say) -> list[dict]:
    """All cells, as local.erl prints them."""
    with tempfile.TemporaryDirectory() as directory:
        source = ROOT / "bench" / "local.erl"
        subprocess.run(["erlc", "-o", directory, str(source)], check=True, env=erlang_environment())
        command = ["erl", "-noinput", "-pa", str(EBIN), "-pa", directory, "-run", "local", "main"]
        command += [str(plan["cell_ms"]), str(plan["rounds"]), _list(plan["sizes"]), _list(plan["processes"]), str(KEYS)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=erlang_environment())
        results = []
        for line in process.stdout:
            if not line.startswith("{"):
                say(line.rstrip())
                continue
            results.append(json.loads(line))
            say("local: {operation}, {value_bytes} B, {processes} processes, {arm}".format(**results[-1]))
        if process.wait() != 0:
            raise RuntimeError("the Erlang node ended with %d" % process.returncode)
        return results


def _list(numbers):
    return ",".join(map(str, numbers))
