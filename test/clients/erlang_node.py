"""An Erlang node with Todana, in which a test can evaluate Erlang expressions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import served

# Todana, and the libraries that this Erlang lacks.
LIBRARIES = sorted(map(str, (served.ROOT / "_build" / "default" / "lib").glob("*/ebin")))
# Reads one expression per line and prints one line: its value, or the exception.
LOOP = """
    F = fun(F) ->
        case io:get_line("") of
            Line when is_list(Line) ->
                {ok, Tokens, _} = erl_scan:string(Line),
                {ok, Expressions} = erl_parse:parse_exprs(Tokens),
                Answer =
                    try erl_eval:exprs(Expressions, []) of
                        {value, Value, _} -> Value
                    catch
                        Class:Reason -> {Class, Reason}
                    end,
                io:format("answer ~0p~n", [Answer]),
                F(F);
            _ -> init:stop()
        end
    end,
    {ok, _} = application:ensure_all_started(todana),
    F(F).
"""


class Node:
    """A node that listens on free ports, with databases named as in Kyoto Tycoon; durable ones with a data directory."""

    def __init__(self, databases, data_dir=None):
        options = {name: "127.0.0.1:0" for name in ("listen_resp", "listen_memcached", "listen_kyoto")}
        options["databases"] = " ".join(databases)
        if data_dir is not None:
            options["data_dir"] = data_dir
        flags = [word for name, value in options.items() for word in ("-todana", name, f'"{value}"')]
        found = served.ROOT / ".toolchain" / "bin" / "erl"
        erl = str(found) if found.exists() else shutil.which("erl")
        self.popen = subprocess.Popen(
            [erl, "-noshell", "-boot", "no_dot_erlang", "-pa", *LIBRARIES, *flags, "-eval", LOOP],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "ERL_CRASH_DUMP_BYTES": "0"},
            preexec_fn=served.die_with_parent,
        )
        listed = self.say("todana_listener:addresses()")
        addresses = re.findall(r"\{(\w+),\"([^\"]+):(\d+)\"\}", listed)
        self.addresses = {name: (host, int(port)) for name, host, port in addresses}
        assert set(self.addresses) == {"resp", "memcached", "kyoto"}, listed

    def say(self, expressions: str) -> str:
        """Evaluates expressions and returns the value as Erlang prints it."""
        self.popen.stdin.write(expressions + ".\n")
        self.popen.stdin.flush()
        for line in self.popen.stdout:
            if line.startswith("answer "):
                return line.removeprefix("answer ").rstrip("\n")
        raise served.NotStarted("the Erlang node has ended with %s" % self.popen.wait())

    def stop(self):
        """Ends the node by closing its input."""
        self.popen.stdin.close()
        self.popen.stdout.close()
        try:
            self.popen.wait(served.STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
