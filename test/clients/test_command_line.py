"""`bin/todana` as a person types it: help, the check of a configuration, and commands without options."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

import served

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TIMEOUT_S = 300
COMMANDS = (
    "start", "ktserver", "ping", "stop", "reload", "top", "status", "check", "dump", "load", "backup", "restore", "repair",
    "clock", "cluster", "config", "version", "help",
)


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The command line under test is that of bin/todana."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("runs once")


def run(*arguments, environment=None):
    """Runs bin/todana to its end: its status, output and errors."""
    done = subprocess.run(
        [served.PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, **(environment or {})},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_page_for_each_command(command):
    status, text, errors = run("help", command)
    assert (status, errors) == (0, "")
    assert text.startswith("usage:") and command in text
    assert text != run("help")[1]
    assert run("help")[1].count(f"\n  {command}") or command in ("stop", "reload")
    for words in ([command, "--help"], [command, "-h"], [command, "of what", "--help"]):
        if command not in ("ktserver", "help"):  # ktserver has its own command line
            assert run(*words) == (0, text, ""), words


def test_help_of_something_else_is_an_error():
    assert run("help", "strat") == (1, "", "todana: help: there is no command `strat`\n")
    assert run("help", "cluster")[1] == run("cluster", "help")[1]
    assert "--listen-resp" in run("help", "start")[1]


def refused_alike(*flags, environment=None):
    """What `config check` says of options; `start` must say the same, and not serve."""
    checked = run("config", "check", *flags, environment=environment)
    started = run("start", "--listen-resp", "127.0.0.1:0", *flags, environment=environment)
    assert checked[0] == 1 and checked[2] == started[2], (checked, started)
    return checked[2]


def test_a_configuration_that_start_refuses_is_not_good(tmp_path):
    data = tmp_path / "data"
    used = tmp_path / "used"
    used.mkdir()
    (used / "letter").write_text("")
    assert "is not empty and not a data directory" in refused_alike("--data-dir", used)
    assert "a member of a cluster has a name" in refused_alike("--data-dir", data, "--cluster-create")
    name = ("--data-dir", data, "--node", "a@127.0.0.1")
    assert "use `always`" in refused_alike(*name, "--cluster-create", "--durability", "everysec")
    assert "not both" in refused_alike(*name, "--cluster-create", "--cluster-join", "b@127.0.0.1")
    assert "not a loopback address" in refused_alike("--data-dir", data, "--node", "a@0.0.0.0", "--cluster-create")
    # Of a range that no host has.
    other = refused_alike("--data-dir", data, "--node", "a@192.0.2.55", "--cluster-create")
    assert other == "todana: node: 192.0.2.55 is not an address of this host\n"
    assert "authority.pem: no such file" in refused_alike(*name, "--cluster-create", "--cluster-tls", tmp_path / "none")
    assert not data.exists()


def test_a_cookie_file_that_start_refuses_is_not_good(tmp_path):
    """A file that others may read, one without a cookie, and no file; a start makes one that does not exist."""
    cookie = tmp_path / "cookie"
    flags = ("--data-dir", tmp_path / "data", "--node", "a@127.0.0.1", "--cluster-create", "--cookie-file", cookie)
    assert run("config", "check", *flags)[0] == 0
    assert not cookie.exists()
    cookie.write_text("secret\n")
    cookie.chmod(0o644)
    assert f"{cookie}: others than its owner may read it: chmod 600" in refused_alike(*flags)
    cookie.chmod(0o600)
    assert run("config", "check", *flags)[0] == 0
    cookie.write_text("\n")
    assert "it has no cookie" in refused_alike(*flags)


def test_a_wrong_word_of_clock_is_answered_with_the_words():
    """Not with what flags are."""
    for words in (["reset"], ["reset", "--data-dir", "/nowhere"]):
        assert run("clock", *words) == (
            1, "", "todana: clock: `reset` is neither `set` nor a data directory: use `clock` or `clock set`\n",
        )


def test_certificates_named_in_the_file_are_used(tmp_path):
    """Also if they are named as a flag or a variable; the flag counts, then the variable, then the file."""
    certificates, file = tmp_path / "certificates of it", tmp_path / "todana.conf"
    assert run("cluster", "certificates", certificates)[0] == 0
    lines = f"data_dir = {tmp_path / 'data'}\nnode = a@127.0.0.1\n# cluster_tls = /nowhere\n"
    good = f"{lines}  cluster_tls=  {certificates} \t# made today\r\n"
    file.write_text(good)
    assert run("config", "check", "--config", file) == (0, "the configuration is good\n", "")
    assert run("config", "check", f"--config={file}")[0] == 0
    assert run("config", "check", environment={"TODANA_CONFIG": str(file)})[0] == 0
    absent = tmp_path / "none"
    for flags, environment in ((("--cluster-tls", absent), {}), ((), {"TODANA_CLUSTER_TLS": str(absent)})):
        assert "none/authority.pem" in run("config", "check", "--config", file, *flags, environment=environment)[2]
    file.write_text(f"{lines}cluster_tls = {absent}\n")
    assert "none/authority.pem" in refused_alike("--config", file, "--cluster-create")
    for flags, environment in (
        (("--cluster-tls", certificates), {}), (("--cluster-tls", "off"), {}), ((), {"TODANA_CLUSTER_TLS": str(certificates)}),
    ):
        assert run("config", "check", "--config", file, *flags, environment=environment)[0] == 0


ONE_NODE = """
set -e
ip link set lo up
cd {directory}
start() {{ # log flags...
    log=$1; shift
    {program} start --listen-memcached off --listen-kyoto off "$@" > $log 2>&1 &
    until grep -q 'todana ready' $log; do kill -0 $!; sleep 0.05; done
}}
{program} ping 2>&1 || echo none
start first --data-dir "{directory}/of one" --listen-resp 127.0.0.1:7000
{program} ping
{program} status | head -n 1
{program} top --once | head -n 1
{program} backup saved
start second --data-dir two --listen-resp 127.0.0.1:7001 --listen-http off
{program} stop 2>&1 || echo several
{program} stop --data-dir two
{program} stop
wait
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="has a network of its own, as root")
def test_the_only_node_is_found_without_options(tmp_path):
    script = ONE_NODE.format(directory=tmp_path, program=shlex.quote(str(served.PROGRAM)))
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "TODANA_CONFIG": ""},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done
    assert "ping: no node is running here" in lines[0] and lines[1] == "none"
    assert lines[2].startswith("serving, process")
    assert lines[3] == "serving"
    assert lines[4].startswith("todana ")
    assert lines[5].startswith("saved: ")
    assert f"several nodes are running here: give the --data-dir or the --control-socket of one: {tmp_path}/of one/control, " in lines[6]
    assert lines[7:] == ["several", "stopped", "stopped"]
