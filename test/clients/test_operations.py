"""What operators do: logs, reloads, passwords that change, and `todana ping`, `stop`, `status`, `top`."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import served
import wire
from test_configuration import run
from wire import OK, Error, wait_until

pytestmark = [pytest.mark.one_backend]
todana_only = pytest.mark.todana_only

TIMEOUT_S = served.READY_TIMEOUT_S


def eventually(condition, what):
    """Waits until a condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


def says(server, pattern):
    """Waits for a line of the server."""
    return server.processes[0].wait_for_line(re.compile(pattern), TIMEOUT_S)


# ------------------------------------------------------------------------------------------------- passwords ---


def test_connections_of_before_survive_a_new_password(start_server):
    """As Redis does: connections of before stay as they are, new ones need the new password."""
    server = start_server()
    with wire.Resp(server.resp) as old, wire.Resp(server.resp) as silent:
        eventually(lambda: len(old.call("CLIENT", "LIST").splitlines()) == 2, "both are accepted")
        assert old.call("CONFIG", "SET", "requirepass", "first") == OK
        assert old.call("SET", "k", "v") == OK
        # It had said nothing when there was no password.
        assert silent.call("GET", "k") == b"v"
        assert silent.call("GET", "k") == b"v"
        assert silent.call("RESET").text == "RESET"
        assert silent.call("GET", "k").text.startswith("NOAUTH")
        with wire.Resp(server.resp) as new:
            assert new.call("GET", "k").text.startswith("NOAUTH")
            assert new.call("AUTH", "wrong").text.startswith("WRONGPASS")
            assert new.call("AUTH", "first") == OK
            assert new.call("CONFIG", "GET", "requirepass") in ([b"requirepass", b"first"], {b"requirepass": b"first"})
            assert new.call("CONFIG", "SET", "requirepass", "second") == OK
            assert new.call("GET", "k") == b"v"
            assert new.call("AUTH", "first").text.startswith("WRONGPASS")
            # A wrong password does not take away what the connection has.
            assert new.call("GET", "k") == b"v"
        assert old.call("CONFIG", "SET", "requirepass", "") == OK
        with wire.Resp(server.resp) as new:
            assert new.call("GET", "k") == b"v"
            assert isinstance(new.call("AUTH", "second"), Error)


@todana_only
def test_a_password_is_not_in_the_slow_log(start_server):
    """CONFIG SET requirepass is logged without its arguments."""
    server = start_server("--slow-log-us", "0")
    with wire.Resp(server.resp) as resp:
        assert resp.call("CONFIG", "SET", "requirepass", "sesame-street") == OK
        assert b"sesame" not in repr(resp.call("SLOWLOG", "GET", "-1")).encode()
    assert "sesame" not in server.output()


@todana_only
def test_no_password_on_a_foreign_address(start_server, tmp_path):
    """It cannot be removed where other machines can connect."""
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    server = start_server("--listen-resp", "0.0.0.0:0", "--password-file", path)
    with wire.Resp(("127.0.0.1", server.resp[1])) as resp:
        assert resp.call("AUTH", "secret") == OK
        assert "needs a password" in resp.call("CONFIG", "SET", "requirepass", "").text
        assert resp.call("AUTH", "secret") == OK


@todana_only
def test_a_password_file_is_read_again(start_server, tmp_path):
    """At SIGHUP, for all protocols; connections that are authenticated stay."""
    path = tmp_path / "password"
    path.write_text("first\n")
    path.chmod(0o600)
    server = start_server("--password-file", path)
    with wire.Resp(server.resp) as old:
        assert old.call("AUTH", "first") == OK
        path.write_text("second\n")
        os.kill(server.pid, signal.SIGHUP)
        says(server, "the password is changed")
        assert old.call("SET", "k", "v") == OK
    with wire.Resp(server.resp) as new:
        assert new.call("AUTH", "first").text.startswith("WRONGPASS")
        assert new.call("AUTH", "second") == OK
    with wire.Connection(server.memcached) as connection:
        connection.send(b"set x 0 0 8\r\na second\r\n")
        assert connection.line() == b"STORED"
    # A file that is not accepted changes nothing.
    path.write_text("\n")
    os.kill(server.pid, signal.SIGHUP)
    says(server, "is refused: .*password_file")
    with wire.Resp(server.resp) as new:
        assert new.call("AUTH", "second") == OK
    assert "second\n" not in server.output() and " second" not in server.output()


# --------------------------------------------------------------------------------------------------- reloads ---


@todana_only
def test_limits_are_read_again(start_server, tmp_path):
    """Those that have changed in the file are applied, those that need a restart are named, others stay."""
    file = tmp_path / "todana.conf"
    file.write_text("connections_max = 50\nmemory_policy = evict\n")
    server = start_server("--config", file, "--control-socket", tmp_path / "control")
    ask = ("--control-socket", tmp_path / "control")
    with wire.Resp(server.resp) as resp:
        assert resp.call("CONFIG", "SET", "memory_policy", "refuse") == OK
        file.write_text("connections_max = 60\nmemory_policy = evict\nslow_log_us = off\nevent_loops = 7\n")
        done = run("reload", *ask, "--config", file)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and len(lines) == 3, done
        assert "connections_max = 60" in lines and "slow_log_us = off" in lines
        assert any(line.startswith("event_loops stays until a restart") for line in lines)
        shown = {name: resp.call("CONFIG", "GET", name)[1] for name in ("connections_max", "memory_policy", "slow_log_us")}
        # A change by a client stays while the file has its old value.
        assert shown == {"connections_max": b"60", "memory_policy": b"refuse", "slow_log_us": b"off"}
        assert run("reload", *ask).stdout == "nothing has changed\n"
        # The value that it has all the time.
        file.write_text("connections_max = 60\nmemory_policy = evict\nslow_log_us = off\n")
        assert run("reload", *ask).stdout == "nothing has changed\n"
        file.write_text("connections_max = 0\n")
        refused = run("reload", *ask)
        assert refused.returncode == 1 and "connections_max" in refused.stderr
        file.write_text("conections_max = 9\n")
        assert run("reload", *ask).returncode == 1
        assert resp.call("CONFIG", "GET", "connections_max")[1] == b"60"


@todana_only
def test_a_hang_up_never_ends_the_server(tmp_path):
    """Neither while it starts, nor under hundreds of them, nor when the terminal is gone."""
    flags = ["--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off"]
    for _ in range(3):
        process = served.Process([served.PROGRAM, "start", *flags])
        stopped = threading.Event()

        def hang_up():
            # The shell script takes a moment until it ignores the signal.
            eventually(lambda: ignores_hang_up(process.popen.pid), "the signal is ignored")
            while not stopped.is_set():
                os.kill(process.popen.pid, signal.SIGHUP)
                time.sleep(0.005)

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            process.wait_for_line(served.READY, TIMEOUT_S)
            time.sleep(0.3)
            assert process.is_alive()
        finally:
            stopped.set()
            thread.join()
        assert process.stop() == 0


def ignores_hang_up(pid):
    """Whether the process ignores or handles SIGHUP."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        masks = dict(line.split(":\t") for line in status if line.startswith("Sig"))
    return bool((int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)) & 1)


# ------------------------------------------------------------------------------------------------------ logs ---


@todana_only
@pytest.mark.memory_only
def test_the_log_is_a_file_of_json(start_server, tmp_path):
    """Each line is an object; a file that is renamed is begun anew; options that differ are in the first line."""
    file = tmp_path / "log"
    server = start_server("--log-file", file, "--log-format", "json", "--log-level", "info", "--control-socket", tmp_path / "control")
    eventually(lambda: "memory_limit is off" in file.read_text(), "the first lines")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    started = [line for line in lines if "has started" in line["message"]]
    assert len(started) == 1 and "log_format = json" in started[0]["message"] and started[0]["level"] == "notice"
    assert {"time", "level", "message"} <= set(started[0])
    assert any("memory_limit is off" in line["message"] and line["level"] == "warning" for line in lines)
    file.rename(tmp_path / "log.old")
    assert run("reload", "--control-socket", tmp_path / "control").returncode == 0
    eventually(lambda: file.exists() and "nothing has changed" in file.read_text(), "a new file")
    assert "has started" not in server.output()


@todana_only
def test_the_log_is_rotated(start_server, tmp_path):
    """The file has about the maximum, and older ones are kept up to their number."""
    file = tmp_path / "log"
    ask = ("--control-socket", tmp_path / "control")
    server = start_server("--log-file", file, "--log-file-bytes", "16kb", "--log-file-count", "2", *ask)
    deadline = time.monotonic() + TIMEOUT_S
    while not (tmp_path / "log.1").exists():
        for _ in range(20):
            os.kill(server.pid, signal.SIGHUP)
            time.sleep(0.002)
        assert time.monotonic() < deadline
    # One file is renamed after the other.
    files = lambda: sorted(name for name in os.listdir(tmp_path) if name.startswith("log"))  # noqa: E731
    assert wait_until(lambda: files() == ["log", "log.0", "log.1"]), files()
    assert os.path.getsize(tmp_path / "log.1") < 32 << 10


@todana_only
def test_the_log_can_be_moved_while_the_server_runs(start_server, tmp_path):
    """A file that cannot be written is refused, and the log stays where it was."""
    config = tmp_path / "todana.conf"
    config.write_text("log_level = notice\n")
    ask = ("--control-socket", tmp_path / "control")
    start_server("--config", config, *ask)
    config.write_text(f"log_file = {tmp_path}/log\n")
    assert "log_file" in run("reload", *ask).stdout
    assert "was read again" in eventually((tmp_path / "log").read_text, "a line")
    config.write_text("log_file = /no/where/log\n")
    assert "stays as it is" in run("reload", *ask).stdout
    assert run("ping", *ask).returncode == 0


@todana_only
def test_incidents_are_logged_with_a_bound(start_server, tmp_path):
    """Rejected clients, wrong passwords and slow commands: a line at once, and at most one in ten seconds after it."""
    path = tmp_path / "password"
    path.write_text("sesame-street\n")
    path.chmod(0o600)
    server = start_server("--connections-max", "3", "--password-file", path, "--slow-log-us", "0")
    with wire.Resp(server.resp) as resp:
        for _ in range(4):
            assert resp.call("AUTH", "guess-of-somebody").text.startswith("WRONGPASS")
        assert resp.call("AUTH", "sesame-street") == OK
        says(server, r"wrong passwords? (was|were) given, the last one from 127\.0\.0\.1")
        held = [socket.create_connection(server.resp) for _ in range(2)]
        for _ in range(20):
            with wire.Connection(server.resp) as one_more:
                assert one_more.line().startswith(b"-ERR max number of clients")
        says(server, r"clients? (was|were) rejected, because connections_max clients")
        resp.call("SET", "secret-key", "secret-value")
        says(server, r"(a command was slow|commands were slow).* of 127\.0\.0\.1:\d+ took")
        for connection in held:
            connection.close()
    output = server.output()
    assert output.count("wrong password") <= 2 and output.count(" rejected, ") <= 2
    for secret in ("sesame", "guess", "secret-key", "secret-value"):
        assert secret not in output, secret


@todana_only
@pytest.mark.memory_only
def test_evictions_are_logged(start_server):
    """With how many records, not one line for each."""
    server = start_server("--memory-limit", "1mb")
    with wire.Resp(server.resp) as resp:
        for number in range(3000):
            assert resp.call("SET", f"key:{number}", "x" * 1000) == OK
    says(server, r"\d+ records? (was|were) evicted")
    assert "memory_limit is off" not in server.output()


# -------------------------------------------------------------------------------------------------- commands ---


@todana_only
@pytest.mark.memory_only
@pytest.mark.parametrize("where, applies", [((), True), (("--data-dir", "data"), False)], ids=["in memory", "durable"])
def test_a_limit_is_shown_where_it_applies(start_server, tmp_path, where, applies):
    """`memory_limit` does not apply to durable databases. Without a limit, none is shown."""
    ask = ("--control-socket", tmp_path / "control")
    where = [tmp_path / word if word == "data" else word for word in where]
    start_server(*ask, *where, "--memory-limit", "1gb")
    assert (" of 1.0gb, " in run("top", "--once", *ask).stdout) == applies
    assert json.loads(run("top", "--once", "--json", *ask).stdout)["memory_limit_bytes"] == (2**30 if applies else 0)


@todana_only
def test_ping_status_top_and_stop(start_server, tmp_path):
    """They find the node by its control socket."""
    ask = ("--control-socket", tmp_path / "control")
    server = start_server(*ask)
    assert oct(os.stat(tmp_path / "control").st_mode)[-3:] == "600"
    assert run("ping", *ask).stdout == f"serving, process {server.pid}\n"
    busy = threading.Event()

    def load():
        with wire.Resp(server.resp) as resp:
            while not busy.is_set():
                resp.call("SET", "k", "v")
                resp.call("GET", "k")

    thread = threading.Thread(target=load)
    thread.start()
    try:
        found = json.loads(run("top", "--once", "--json", *ask).stdout)
        assert found["ready"] is True and found["protocols"]["resp"]["per_s"] > 0
        assert found["hit_ratio"] == 1.0 and found["latency_us"]["p99_us"] >= found["latency_us"]["p50_us"] > 0
        assert {"get", "set"} <= {command["name"] for command in found["commands"]}
        assert found["records"] == 1 and found["connections"] == 1
        screen = run("top", "--once", *ask).stdout
        assert "serving" in screen and "resp get" in screen and "resident" in screen
    finally:
        busy.set()
        thread.join()
    assert run("stop", *ask).stdout == "stopped\n"
    eventually(lambda: not server.is_alive(), "the process has ended")
    assert server.stop() == [0]
    assert not (tmp_path / "control").exists()
    for command in ("ping", "stop", "top", "reload"):
        gone = run(command, *ask)
        assert gone.returncode == 1 and gone.stderr.startswith(f"todana: {command}: no node is running here"), gone


@todana_only
@pytest.mark.memory_only
def test_a_node_is_found_by_its_directory_or_by_its_port(start_server, tmp_path):
    """With a data directory the socket is in that; without one it is named after the first listener."""
    data = tmp_path / "data"
    server = start_server("--data-dir", data)
    assert run("ping", "--data-dir", data).returncode == 0
    assert run("ping", data).returncode == 0
    assert run("stop", data).stdout == "stopped\n"
    assert server.stop() == [0]
    port = str(served.free_port())
    start_server("--listen-resp", f"127.0.0.1:{port}")
    assert run("ping", "--listen-resp", f"127.0.0.1:{port}").returncode == 0
    assert "all records are in memory" in run("status", "--listen-resp", f"127.0.0.1:{port}").stdout
    assert json.loads(run("status", "--json", "--listen-resp", f"127.0.0.1:{port}").stdout)["ready"] is True
    # Any free port does not name a node.
    nameless = run("ping", "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off")
    assert nameless.returncode == 1 and "--control-socket" in nameless.stderr
    assert run("stop", "--listen-resp", f"127.0.0.1:{port}").stdout == "stopped\n"


@todana_only
def test_hostile_bytes_on_the_control_socket(start_server, tmp_path):
    """Lines that are no request are answered with a sentence; the node goes on."""
    path = tmp_path / "control"
    server = start_server("--control-socket", path)
    for request in (b"", b"\n", b"{}\n", b"[]\n", b"nonsense\n", b'{"command": 7}\n', b'{"command": "nothing"}\n', b"\xff\xfe\n", b"x" * 200_000 + b"\n", b'{"command": "status"}\n'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: connection.recv(65_536), b""))
            except (BrokenPipeError, ConnectionResetError):
                continue
            assert answer == b"" or "error" in json.loads(answer), request[:50]
    assert run("ping", "--control-socket", path).returncode == 0
    assert server.is_alive()


@todana_only
@pytest.mark.memory_only
def test_cluster_commands_find_the_node_as_others_do(start_server, tmp_path):
    """By its directory, or by the file that it was started with."""
    data, config = tmp_path / "data", tmp_path / "todana.conf"
    config.write_text(f"data_dir = {data}\n")
    assert "no answer from" in run("cluster", "status", "--config", config).stderr
    start_server("--config", config)
    by_file = run("cluster", "status", "--config", config)
    assert "no answer from" not in by_file.stderr
    by_directory = run("cluster", "status", "--data-dir", data)
    assert (by_file.returncode, by_file.stderr) == (by_directory.returncode, by_directory.stderr)


# --------------------------------------------------------------------------------------------------- systemd ---


@todana_only
def test_systemd_is_notified(tmp_path):
    """READY when requests are executed, WATCHDOG while the node lives, STOPPING at the end."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(TIMEOUT_S)
        flags = ["--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off"]
        process = served.Process(
            [served.PROGRAM, "start", *flags], {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"},
        )
        try:
            said = []
            while not any(b"READY=1" in message for message in said):
                said.append(listener.recv(4096))
            while said.count(b"WATCHDOG=1") < 3 or said[-1] != b"STATUS=serving":
                said.append(listener.recv(4096))
            assert process.stop() == 0
            while not any(b"STOPPING=1" in message for message in said):
                said.append(listener.recv(4096))
        finally:
            process.stop(signal.SIGKILL)


@todana_only
@pytest.mark.skipif(os.geteuid() != 0, reason="root is refused")
def test_root_leaves_the_directory_of_another_user_alone(tmp_path):
    """What root creates there would keep the node of that user from starting."""
    data = tmp_path / "data"
    flags = ["--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off"]
    process = served.Process([served.PROGRAM, "start", *flags, "--data-dir", str(data)], {})
    process.wait_for_line(re.compile("^todana ready"), TIMEOUT_S)
    assert process.stop() == 0
    os.chown(data / "node", 65534, 65534)
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    for command in (("start", *flags, "--data-dir"), ("dump",), ("repair",)):
        done = run(*command, data)
        assert done.returncode == 1 and "belongs to user 65534" in done.stderr, done
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
    assert run("check", data).returncode == 0


@pytest.fixture
def ordinary():
    """A directory that an unprivileged user owns, and the arguments by which `subprocess` runs a program as that user."""
    who = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        if who:
            os.chown(name, 65534, 65534)
        who["env"] = {**os.environ, "HOME": name}
        try:
            subprocess.run([served.PROGRAM, "version"], capture_output=True, timeout=TIMEOUT_S, check=True, **who)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("another user may not read this checkout")
        yield Path(name), who


@todana_only
def test_a_log_that_may_not_be_used_ends_the_start_at_once(ordinary):
    """A person has to correct the rights, so there are no further attempts."""
    directory, who = ordinary
    data = directory / "data"
    flags = ["--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off"]
    command = [served.PROGRAM, "start", *flags, "--data-dir", data]

    def run_once():
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **who) as process:
            assert any(line.startswith("todana ready") for line in process.stdout)
            process.terminate()
            process.stdout.read()

    def assert_refused(file, mode, words):
        before = file.stat().st_mode
        file.chmod(mode)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **who)
        assert (done.returncode, done.stderr) == (1, f"todana: data_dir: {file} {words}\n")
        file.chmod(before)

    # The second start writes what the first one has in its log to a segment.
    run_once()
    run_once()
    (log,) = data.glob("always/*.wal")
    assert_refused(log, 0, "may not be read by this user")
    (segment, *_) = data.glob("always/TODANA0_*/*.segment")
    files = sorted(data.glob("always/*.wal"))
    for mode in (0, 0o400):
        assert_refused(segment, mode, "may not be read and written by this user, or is on a read-only file system")
    assert sorted(data.glob("always/*.wal")) == files
    run_once()


@todana_only
def test_the_configuration_of_the_unit_is_good(tmp_path):
    """deploy/todana.conf, as it is and with each of its examples."""
    text = (served.ROOT / "deploy/todana.conf").read_text()
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    config = tmp_path / "todana.conf"
    for variant in (text, re.sub(r"^# (?=\w+ = )", "", text, flags=re.M)):
        config.write_text(variant.replace("/etc/todana.password", str(password)))
        done = run("config", "check", "--config", config)
        assert done.returncode == 0, done


@todana_only
def test_the_unit_is_valid():
    """systemd accepts it, where systemd is installed."""
    unit = (served.ROOT / "deploy/todana.service").read_text()
    assert "Type=notify" in unit and "WatchdogSec=" in unit
    try:
        done = subprocess.run(["systemd-analyze", "verify", served.ROOT / "deploy/todana.service"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        pytest.skip("no systemd here")
    complaints = [line for line in done.stderr.splitlines() if "todana.service" in line and "not executable" not in line]
    assert complaints == [], done.stderr
