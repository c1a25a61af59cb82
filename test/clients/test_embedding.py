"""Releases made as docs/embedding.md says, with rebar3 and with Mix: they keep records on disk and serve HTTP.

The lists of applications are taken from the page. The project uses this checkout, with the native library as it is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
import redis

import served

PAGE = (served.ROOT / "docs" / "embedding.md").read_text()
BUILD_TIMEOUT_S = 600
# The first version for Erlang/OTP 27.
ELIXIR = (1, 17)

pytestmark = pytest.mark.todana_only

MODULE = """\
-module(my_app).
-behaviour(application).
-export([start/2, stop/1]).
stop(_State) -> ok.
"""
SUPERVISOR = """\
-module(my_sup).
-export([start_link/0]).
start_link() -> {ok, spawn_link(fun() -> receive stop -> ok end end)}.
"""
APPLICATION = """\
{application, my_app, [
    {description, "An example"}, {vsn, "0.1.0"}, {registered, []}, {mod, {my_app, []}},
    {applications, [kernel, stdlib, todana]}
]}.
"""
PROJECT = """\
defmodule MyApp.MixProject do
  use Mix.Project
%s
  def application, do: [mod: {MyApp, []}]
  defp deps, do: [{:todana, path: "%s", manager: :rebar3}]
end
"""
MIX_MODULE = """\
defmodule MyApp do
  use Application
  def start(_type, _arguments) do
    {:ok, _} = :todana.open(:sessions, %{codec: :term})
    Supervisor.start_link([], strategy: :one_for_one)
  end
end
"""


@pytest.fixture(autouse=True)
def once(request):
    """The server under test has no part in this."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("runs once, without another server")


def block(language, word):
    """The block of the page in this language that contains a word."""
    found = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in text]
    assert len(found) == 1, (language, word)
    return found[0]


def environment(**variables):
    """The environment of a build: this Erlang, the built library, no network."""
    toolchain = served.ROOT / ".toolchain" / "bin"
    return {
        **os.environ, "PATH": f"{toolchain}:{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C.UTF-8",
        "TODANA_NATIVE": "prebuilt", "ERL_CRASH_DUMP_SECONDS": "0", "HEX_CDN": "http://127.0.0.1:1", **variables,
    }


def build(command, directory, variables):
    """Runs a build, and shows its output if it fails."""
    done = subprocess.run(
        command, cwd=directory, env=variables, timeout=BUILD_TIMEOUT_S, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout


def rebar3_project(directory, options, applications=None):
    """A release by rebar3. Returns the command that runs it."""
    relx = (applications or block("erlang", "{relx")).replace("_build/default/lib/todana", "_checkouts/todana")
    for folder in ("src", "config", "_checkouts"):
        (directory / folder).mkdir(parents=True)
    (directory / "_checkouts" / "todana").symlink_to(served.ROOT)
    (directory / "rebar.config").write_text("{deps, [todana]}.\n" + relx)
    (directory / "src" / "my_app.app.src").write_text(APPLICATION)
    (directory / "src" / "my_app.erl").write_text(MODULE + block("erlang", "await_log() ->"))
    (directory / "src" / "my_sup.erl").write_text(SUPERVISOR)
    flags = block("text", "-name").replace("my_app@", f"my_app_{os.getpid()}@")
    (directory / "config" / "vm.args").write_text(flags)
    lines = ",\n".join(f'{{{name}, "{value}"}}' for name, value in options.items())
    (directory / "config" / "sys.config").write_text(f"[{{todana, [\n{lines}\n]}}].\n")
    build(["rebar3", "release"], directory, environment())
    return [directory / "_build/default/rel/my_app/bin/my_app", "foreground"]


def mix_project(directory, options):
    """The same by Mix."""
    for folder in ("lib", "config"):
        (directory / folder).mkdir(parents=True)
    (directory / "mix.exs").write_text(PROJECT % (block("elixir", "releases:"), served.ROOT))
    (directory / "lib" / "my_app.ex").write_text(MIX_MODULE)
    lines = ", ".join(f'{name}: "{value}"' for name, value in options.items())
    (directory / "config" / "runtime.exs").write_text(f"import Config\nconfig :todana, {lines}\n")
    rebar3 = shutil.which("rebar3", path=environment()["PATH"])
    build(["mix", "release"], directory, environment(
        MIX_ENV="prod", MIX_REBAR3=rebar3, MIX_HOME=str(directory / "mix"), HEX_OFFLINE="1",
    ))
    return [directory / "_build/prod/rel/my_app/bin/my_app", "start"]


def options(directory):
    """A durable node with a port for Redis clients and one for monitors."""
    return {
        "listen_resp": f"127.0.0.1:{served.listening_port()}",
        "listen_http": f"127.0.0.1:{served.listening_port()}",
        "data_dir": directory / "data",
    }


def run(command):
    """Starts the release."""
    return served.Process(command, environment(RELEASE_DISTRIBUTION="none"), directory=command[0].parent)


def await_answer(process, ask):
    """The first answer; an error if the release ends."""
    deadline = time.monotonic() + served.READY_TIMEOUT_S
    while True:
        try:
            return ask()
        except (OSError, redis.exceptions.RedisError) as reason:
            if not process.is_alive() or time.monotonic() > deadline:
                raise AssertionError("\n".join(process.lines)) from reason
            time.sleep(0.05)


def check_release(command, chosen):
    """The release keeps a record over a restart, answers monitors, and logs nothing of its libraries."""
    host, _, port = chosen["listen_resp"].partition(":")
    for expected in (1, 2):
        process = run(command)
        try:
            client = redis.Redis(host=host, port=int(port))
            assert await_answer(process, lambda: client.incr("starts")) == expected
            with urllib.request.urlopen(f"http://{chosen['listen_http']}/healthz", timeout=60) as health:
                assert health.status == 200
            client.close()
        finally:
            process.stop()
        assert not [line for line in process.lines if re.search(r"\b(WAL|ra_system|segment_writer)\b", line)]


def test_a_release_by_rebar3(tmp_path):
    chosen = options(tmp_path)
    command = rebar3_project(tmp_path / "project", chosen)
    check_release(command, chosen)
    check_program(command, chosen["data_dir"])
    check_damaged(command, chosen["data_dir"])


def check_program(command, data):
    """The release has `bin/todana`, and its node the name that the page gives it."""
    program = command[0].parent / "todana"
    checked = subprocess.run([program, "check", data], text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert f"{{node,'my_app_{os.getpid()}@127.0.0.1'}}" in (data / "node").read_text()
    process = run(command)
    try:
        deadline = time.monotonic() + served.READY_TIMEOUT_S
        while True:
            asked = subprocess.run([program, "status", data], text=True, capture_output=True, check=False)
            if asked.stdout.startswith("serving"):
                break
            assert process.is_alive() and time.monotonic() < deadline, (asked, process.lines)
            time.sleep(0.05)
    finally:
        process.stop()


def check_damaged(command, data):
    """A release whose log cannot be read ends, and says why."""
    (config,) = data.glob("always/*/config")
    config.unlink()
    process = run(command)
    process.popen.wait(served.READY_TIMEOUT_S)
    process.stop()
    output = "\n".join(process.lines)
    assert "this file is missing, and without it the log cannot be read" in " ".join(output.split()), output


@pytest.mark.parametrize("name, missing", [("data_dir", "ra, aten"), ("listen_http", "cowboy")])
def test_a_release_that_lacks_applications_says_which(tmp_path, name, missing):
    chosen = {name: options(tmp_path)[name]}
    command = rebar3_project(
        tmp_path / "project", chosen,
        '{relx, [{release, {my_app, "0.1.0"}, [my_app, sasl]}, {mode, prod}, {sys_config, "config/sys.config"}]}.\n',
    )
    process = run(command)
    process.popen.wait(served.READY_TIMEOUT_S)
    process.stop()
    output = "\n".join(process.lines)
    assert re.search(rf"{name}: this node lacks [a-z0-9_, ]*{missing}", output), output


def elixir():
    """Elixir's version; None if there is none for this Erlang."""
    if not shutil.which("mix"):
        return None
    command = ["elixir", "--short-version"]
    done = subprocess.run(command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = re.match(r"(\d+)\.(\d+)", done.stdout)
    return found and tuple(int(number) for number in found.groups())


def test_a_release_by_mix(tmp_path):
    version = elixir()
    if version is None or version < ELIXIR:
        pytest.skip("needs Elixir 1.17 or newer, which knows this Erlang (Debian 12 has 1.14)")
    chosen = options(tmp_path)
    check_release(mix_project(tmp_path / "project", chosen), chosen)


def test_an_old_cargo_is_refused_with_a_sentence(tmp_path):
    """It could not read the lock file, and would say so in its own words."""
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'cargo 1.63.0 (fd9c4297c 2022-07-01)'\n")
    cargo.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([served.ROOT / "tools" / "native"], env=variables, text=True, capture_output=True, check=False)
    wanted = re.search(r'rust-version = "(.*)"', (served.ROOT / "native" / "Cargo.toml").read_text())[1]
    assert done.returncode == 1
    assert f"cargo 1.63.0 is too old: Todana needs Rust {wanted} or newer" in done.stderr
    for page in ("README.md", "CONTRIBUTING.md", "docs/embedding.md"):
        assert f"Rust {wanted} or newer" in (served.ROOT / page).read_text()
