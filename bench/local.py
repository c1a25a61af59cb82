"""Reads and writes from Erlang processes, beside ETS: compiles and runs local.erl."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile

from machine import ROOT, erlang_environment
from servers import parsed, served

KEYS = 1000


def ebin(root):
    """The directory of a checkout's compiled modules."""
    return root / "_build" / "default" / "lib" / "todana" / "ebin"


EBIN = ebin(ROOT)

FULL = {"cell_ms": 150, "rounds": 7, "sizes": [8, 16, 64, 100, 300, 1000, 10_000], "processes": [1, 2, 8]}
QUICK = {"cell_ms": 50, "rounds": 1, "sizes": [8, 100, 1000], "processes": [1, 2]}


def run(plan, say) -> list[dict]:
    """All cells, as local.erl prints them."""
    arguments = [plan["cell_ms"], plan["rounds"], numbers(plan["sizes"]), numbers(plan["processes"]), KEYS]
    return results("local", arguments, say, "local: {operation}, {value_bytes} B, {processes} processes, {arm}", also=["rounds"])


def results(module, arguments, say, progress=None, *, also=(), flags=(), environment=None) -> list[dict]:
    """The results that a module of this directory prints, compiled together with `also`: see run_node."""
    with compiled(module, *also) as directory:
        return run_node(directory, module, arguments, say, progress, flags=flags, environment=environment)


@contextlib.contextmanager
def compiled(*modules):
    """A temporary directory with these modules of this directory, compiled."""
    with tempfile.TemporaryDirectory() as directory:
        sources = [str(ROOT / "bench" / f"{name}.erl") for name in modules]
        subprocess.run(["erlc", "-o", directory, *sources], check=True, env=erlang_environment())
        yield directory


class NodeFailed(RuntimeError):
    """A node that ended with an error, and the results that it printed before."""

    def __init__(self, reason, found):
        super().__init__(reason)
        self.found = found


def run_node(directory, module, arguments, say, progress=None, *, flags=(), environment=None, modules=EBIN) -> list[dict]:
    """Runs main/1 of a module of `directory` in its own node and returns the lines of JSON that it prints.

    `progress` is a format of a cell's fields; without one, all fields without figures are reported. `flags` and `environment`
    are those of the node, `modules` is the directory of Todana's. The node ends with the measurement; NodeFailed is raised if it
    ends with an error.
    """
    environment = {"ERL_CRASH_DUMP": os.devnull, **erlang_environment(), **(environment or {})}
    command = ["erl", "-noinput", *flags, "-pa", str(modules), "-pa", directory]
    command += ["-run", module, "main", *map(str, arguments)]
    process = subprocess.Popen(
        # Without a terminal, Ctrl-C ends the node and opens no menu.
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", env=environment,
        preexec_fn=served.die_with_parent,
    )  # fmt: skip
    found, reason = [], ""
    try:
        for line in process.stdout:
            if not line.startswith('{"'):
                say(line.rstrip())
                continue
            found.append(parsed(line))
            say(progress.format(**found[-1]) if progress else described(module, found[-1]))
    except RuntimeError as error:
        process.terminate()
        reason = str(error)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
    if reason or process.returncode != 0:
        raise NodeFailed(reason or f"the Erlang node ended with {process.returncode}", found)
    return found


def described(module, cell) -> str:
    """The fields of a cell without its figures."""
    names = [f"{name} {value}" for name, value in cell.items() if not isinstance(value, (list, dict))]
    return f"{module}: {', '.join(names)}"


def numbers(found) -> str:
    """Numbers as one argument of a program."""
    return ",".join(map(str, found))
