"""The command line: options that start the server, options that are refused, output, and exit."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest

import served
import wire
from kyoto_wire import Kyoto, ok
from wire import OK, Status

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TIMEOUT_S = 300


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The command line under test is that of bin/todana."""
    if request.config.getoption("--server") != "todana":
        pytest.skip("not bin/todana")


def run(*arguments, environment=None):
    """Runs bin/todana to its end."""
    return subprocess.run(
        [served.PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, **(environment or {})},
    )


def assert_refused(done, *words):
    """One clear line, exit status 1, nothing on standard output."""
    assert done.returncode == 1, done
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in lines[0], lines[0]


def settings(text):
    """The lines of `config show` as name -> (value, origin)."""
    found = {}
    for line in text.splitlines():
        pair, _, origin = line.partition("#")
        name, _, value = pair.partition("=")
        found[name.strip()] = (value.strip(), origin.strip())
    return found


@pytest.mark.memory_only
def test_ready_line_names_the_listeners(start_server):
    """Port 0 selects any free port, which the line reports."""
    server = start_server()
    assert server.resp[0] == "127.0.0.1" and server.resp[1] > 0
    assert server.memcached[1] > 0 and server.kyoto[1] > 0
    assert [line for line in server.processes[0].lines if line.startswith("todana ready")] == [
        "todana ready resp=127.0.0.1:%d memcached=127.0.0.1:%d kyoto=127.0.0.1:%d in memory" % (
            server.resp[1], server.memcached[1], server.kyoto[1],
        )
    ]
    with wire.Resp(server.resp) as resp, wire.Memcached(server.memcached) as memcached, Kyoto(server.kyoto) as kyoto:
        assert kyoto.call("void") == ok()
        assert resp.call("PING") == Status("PONG")
        assert memcached.command("mn") == b"MN"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signals_end_it_cleanly(start_server, number):
    """SIGTERM and SIGINT end the server with status 0, even with clients connected, and the port is free at once."""
    server = start_server()
    with wire.Resp(server.resp) as connected:
        connected.call("SET", "a", 1)
        assert server.stop(number) == [0], server.output()
        assert connected.is_closed()
    received = [line for line in server.output().splitlines() if " received" in line]
    assert len(received) == 1 and number.name in received[0], server.output()
    again = start_server("--listen-resp", "%s:%d" % server.resp)
    assert again.resp == server.resp


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_early_signal_is_not_lost(number):
    """At whatever moment of the start it comes. The emulator alone drops those of its first moments, and later reports a failure."""
    blocking = ["env", "--block-signal=INT,TERM", "true"]
    if subprocess.run(blocking, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("env cannot block signals here")

    def prepare():
        served.die_with_parent()
        # Tests that run in the background of a shell inherit that it is ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [str(served.PROGRAM), "start", "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off"]
    for moment in range(24):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=prepare)
        time.sleep(moment * 0.05)
        process.send_signal(number)
        try:
            output, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{number.name} after {moment * 50} ms was ignored")
        # Before bin/todana runs it ends by the signal, and the script ends with the status for it.
        assert process.returncode in (0, -number, 128 + number), output
        assert "Error!" not in output and output.count(" received") <= 1, output


def test_a_listener_can_be_off(start_server):
    """`off` disables a protocol."""
    server = start_server("--listen-memcached", "off")
    assert server.memcached is None and server.resp
    other = start_server("--listen-resp", "off", "--listen-kyoto", "off")
    assert other.resp is None and other.kyoto is None and other.memcached


def test_several_addresses(start_server):
    """A protocol may listen on several addresses, including IPv6."""
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    server = start_server("--listen-resp", "127.0.0.1:0,127.0.0.2:0")
    assert "resp=127.0.0.1:" in server.output() and ",127.0.0.2:" in server.output()


@pytest.mark.parametrize("chosen", ["native", "poll", "select"])
def test_event_back_ends(start_server, chosen):
    """Each back end serves clients; INFO reports which one is used."""
    server = start_server("--event-backend", chosen, "--event-loops", "2")
    with wire.Resp(server.resp) as resp:
        info = resp.call("INFO", "server").decode()
    name = [line.partition(":")[2] for line in info.splitlines() if line.startswith("multiplexing_api:")]
    assert name and (name[0] == chosen or chosen == "native")


def test_a_back_end_lowers_the_default_only():
    """With select, the default fits its limit, and a greater value is refused."""
    shown = run("config", "show", "--event-backend", "select").stdout
    assert re.search(r"^connections_max +=  *960 +# default$", shown, re.M)
    refused = run("start", "--event-backend", "select", "--connections-max", "2000")
    assert refused.returncode == 1 and "select" in refused.stderr


def test_a_port_in_use():
    """The error names the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("start", "--listen-resp", f"127.0.0.1:{port}", "--listen-memcached", "off")
    assert_refused(done, str(port), "in use")


def test_an_unknown_flag():
    """The error names the flag and suggests a similar one."""
    assert_refused(run("start", "--listen-rsp", "127.0.0.1:0"), "--listen-rsp", "--listen-resp")
    assert_refused(run("start", "--nonesuch", "1"), "--nonesuch")


@pytest.mark.parametrize(
    "flag, value",
    [
        ("--event-loops", "0"), ("--event-loops", "x"), ("--event-backend", "kqueue9"), ("--memory-limit", "lots"),
        ("--connections-max", "0"), ("--connections-max", "-1"), ("--listen-resp", "localhost"), ("--listen-resp", "127.0.0.1:65536"),
        ("--listen-resp", "127.0.0.1:-1"), ("--listen-memcached", "[::1"), ("--value-bytes-max", "0"), ("--idle-timeout-ms", "1.5"),
        ("--key-bytes-max", "999999999999999999999"), ("--password-file", ""),
    ],
)
def test_a_bad_value(flag, value):
    """The error names the flag and the value."""
    done = run("start", flag, value)
    assert_refused(done, flag.removeprefix("--").replace("-", "_"))


def test_a_missing_value_and_a_flag_given_twice():
    """The error names both."""
    assert_refused(run("start", "--listen-resp"), "--listen-resp")
    assert_refused(run("start", "--event-loops", "1", "--event-loops", "2"), "--event-loops")


def test_unknown_commands():
    """The command does not exist."""
    assert_refused(run("nonesuch"), "nonesuch")
    assert_refused(run("start", "stray"), "stray")
    assert_refused(run("config", "nonesuch"), "config")


def test_help_and_version():
    """Common ways to ask for help."""
    for arguments in (["help"], ["--help"], ["start", "--help"], []):
        done = run(*arguments)
        assert done.returncode == 0
        assert "--listen-resp" in done.stdout
        # A command's page is about it alone.
        assert ("config show" in done.stdout) == ("start" not in arguments)
    done = run("version")
    assert done.returncode == 0
    assert done.stdout.startswith("todana ")


def test_config_show_prints_origins(tmp_path):
    """A flag overrides a variable, a variable the file, the file the default."""
    path = tmp_path / "todana.conf"
    path.write_text("event_loops = 3\nconnections_max = 77 # a comment\nidle_timeout_ms = 5000\n")
    done = run(
        "config", "show", "--config", path, "--event-loops", "5",
        environment={"TODANA_CONNECTIONS_MAX": "88", "TODANA_EVENT_LOOPS": "4"},
    )
    assert done.returncode == 0, done
    shown = settings(done.stdout)
    assert shown["event_loops"] == ("5", "flag --event-loops")
    assert shown["connections_max"] == ("88", "env TODANA_CONNECTIONS_MAX")
    assert shown["idle_timeout_ms"] == ("5000", f"file {path}")
    assert shown["key_bytes_max"] == ("64kb", "default")


def test_the_version_is_the_same_everywhere(start_server):
    """`bin/todana version` and the answers of all protocols."""
    version = run("version").stdout.split()[1]
    server = start_server()
    with wire.Resp(server.resp) as resp:
        assert f"todana_version:{version}\r\n".encode() in resp.call("INFO", "server")
    with Kyoto(server.kyoto) as http:
        assert http.ask("POST", "/rpc/void").headers["Server"] == f"Todana/{version}"


def test_config_show_hides_no_option_that_help_names():
    """Help and `config show` list the same options."""
    flags = {line.split()[0] for line in run("help").stdout.splitlines() if line.strip().startswith("--")} - {"--config"}
    shown = {"--" + name.replace("_", "-") for name in settings(run("config", "show").stdout)}
    assert flags == shown


def test_a_configuration_file_is_used(start_server, tmp_path):
    """A server reads its options from the file."""
    path = tmp_path / "todana.conf"
    path.write_text("# a comment\n\nconnections_max = 5\n")
    server = start_server("--config", path)
    with wire.Resp(server.resp) as resp:
        assert resp.call("CONFIG", "GET", "maxclients") == [b"maxclients", b"5"]


@pytest.mark.parametrize("line", ["nonesuch = 1", "event_loops = x", "event_loops", "event_loops = 1\nevent_loops = 2"])
def test_a_bad_configuration_file(tmp_path, line):
    """The error names the file, and the line if possible."""
    path = tmp_path / "todana.conf"
    path.write_text(line + "\n")
    assert_refused(run("start", "--config", path), str(path))


def test_a_missing_configuration_file(tmp_path):
    """The error names the file."""
    assert_refused(run("start", "--config", tmp_path / "none"), "none")


def test_an_unknown_variable():
    """A misspelt variable is an error."""
    assert_refused(run("start", environment={"TODANA_LISTEN_RSP": "off"}), "TODANA_LISTEN_RSP")


def test_config_check(tmp_path):
    """Checks the options without starting a server."""
    assert run("config", "check").returncode == 0
    assert_refused(run("config", "check", "--event-loops", "0"), "event")


@pytest.mark.parametrize("flag", ["--listen-resp", "--listen-memcached", "--listen-kyoto", "--listen-http"])
def test_no_foreign_address_without_a_password(flag):
    """Without a password, addresses that other machines can reach are refused."""
    assert_refused(run("start", flag, "0.0.0.0:0"), "password")


def test_a_foreign_address_with_a_password(start_server, tmp_path):
    """With a password they are accepted."""
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    server = start_server("--listen-resp", "0.0.0.0:0", "--password-file", path)
    with wire.Resp(("127.0.0.1", server.resp[1])) as resp:
        assert resp.call("PING").text.startswith("NOAUTH")
        assert resp.call("AUTH", "secret") == OK


def test_a_password_file_that_is_missing_or_empty(tmp_path):
    """An empty line or file is not a password."""
    assert_refused(run("start", "--password-file", tmp_path / "none"), "none")
    path = tmp_path / "empty"
    path.write_text("\n")
    path.chmod(0o600)
    assert_refused(run("start", "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--password-file", path), "password")


@pytest.mark.parametrize("content", ["secret", "secret\n", "secret\r\n", "secret\nsecond line\n"])
def test_the_password_is_the_first_line(start_server, tmp_path, content):
    """The line end is not part of the password."""
    path = tmp_path / "password"
    path.write_bytes(content.encode())
    path.chmod(0o600)
    server = start_server("--password-file", path)
    with wire.Resp(server.resp) as resp:
        assert resp.call("AUTH", "secret") == OK


def test_the_password_is_never_shown(tmp_path):
    """`config show` prints the path of the file, not its contents."""
    path = tmp_path / "password"
    path.write_text("very-secret\n")
    path.chmod(0o600)
    done = run("config", "show", "--password-file", path)
    assert "very-secret" not in done.stdout + done.stderr
    assert str(path) in done.stdout
