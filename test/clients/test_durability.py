"""A node with a data directory from the outside: its ready line, Redis' commands about persistence, and its tools."""

import json
import re
import signal
import subprocess

import pytest

import served
import wire
from kyoto_wire import Kyoto
from wire import OK, Status

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TIMEOUT_S = 300


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The command line under test is that of bin/todana."""
    if request.config.getoption("--server") != "todana":
        pytest.skip("not bin/todana")


def run(*arguments):
    """Runs bin/todana to its end."""
    command = [served.PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def call_when_loaded(resp, *words):
    """The reply once the log has been read."""
    while True:
        reply = resp.call(*words)
        if "LOADING" not in repr(reply):
            return reply


@pytest.mark.memory_only
def test_a_killed_node_has_its_records(start_server, tmp_path):
    """The ready line names mode and directory; kill -9 loses nothing; the tools report on the files."""
    directory = tmp_path / "data"
    server = start_server("--data-dir", directory)
    ready = [line for line in server.processes[0].lines if line.startswith("todana ready")]
    assert ready[0].endswith(" durability=always data=%s" % directory)
    with wire.Resp(server.resp) as resp:
        assert call_when_loaded(resp, "SET", "k", "v") == OK
        assert resp.call("WAITAOF", 1, 0, 0) == [1, 0]
        assert resp.call("CONFIG", "GET", "appendonly")[-1] == b"yes"
        assert resp.call("SAVE") == OK
        assert resp.call("INCR", "n") == 1
        info = resp.call("INFO", "persistence").decode()
        assert "aof_enabled:1" in info and "loading:0" in info
    status = run("status", "--json", "--data-dir", directory)
    assert json.loads(status.stdout)["state"] == "serving", status
    assert "in use by a running node" in run("check", directory).stderr
    server.stop(signal.SIGKILL)
    assert "no node is running" in run("status", "--data-dir", directory).stderr
    checked = run("check", directory)
    assert checked.returncode == 0 and "data.tds" in checked.stdout, checked
    again = start_server("--data-dir", directory)
    with wire.Resp(again.resp) as resp:
        assert call_when_loaded(resp, "GET", "k") == b"v"
        assert resp.call("INCR", "n") == 2
    again.stop()
    for meta in directory.glob("always/*/snapshots/*/meta"):
        text = meta.read_bytes()
        meta.unlink()
        checked = run("check", directory)
        assert f"damaged {meta}: this file of the snapshot is missing" in checked.stdout, checked
        meta.write_bytes(text)
    lines = [json.loads(line) for line in run("dump", directory).stdout.splitlines()]
    assert {(line["table"], line["key"], line["value"]) for line in lines} == {("db0", "k", "v"), ("db0", "n", "2")}


@pytest.mark.memory_only
def test_everysec(start_server, tmp_path):
    """WAITAOF waits for the disk."""
    server = start_server("--data-dir", tmp_path / "data", "--durability", "everysec")
    with wire.Resp(server.resp) as resp:
        assert call_when_loaded(resp, "SET", "k", "v") == OK
        assert resp.call("WAITAOF", 1, 0, 0) == [1, 0]
        assert resp.call("CONFIG", "GET", "appendfsync")[-1] == b"everysec"
        assert resp.call("BGREWRITEAOF") == Status("Background append only file rewriting started")


def test_the_path_of_a_kyoto_database_is_its_directory(tmp_path):
    """`ktserver casket.kct` keeps its records under this path."""
    path = tmp_path / "casket.kct"
    for value in (None, b"1"):
        process = served.Process([served.PROGRAM, "ktserver", "-port", "0", "%s#bnum=1m" % path])
        match = process.wait_for_line(re.compile(r"^todana ready kyoto=(\S+):(\d+) durability=always"), TIMEOUT_S)
        with Kyoto((match[1], int(match[2]))) as kyoto:
            assert kyoto.done("status")["type"] == b"49"
            if value is None:
                kyoto.done("set", key="a", value="1")
            else:
                assert kyoto.done("get", key="a")["value"] == value
        process.stop(signal.SIGKILL)
    assert path.is_dir()
    assert "is `casket.kct`" in run("start", "--data-dir", path, "--listen-resp", "off", "other.kct").stderr


@pytest.mark.memory_only
def test_the_limit_of_the_log_is_named(start_server, tmp_path):
    """A value that only a durable database refuses is not refused in the name of the protocol's limit."""
    server = start_server("--data-dir", tmp_path / "data", "--durable-value-bytes-max", "1kb", databases=(":",))
    with wire.Resp(server.resp) as resp:
        assert call_when_loaded(resp, "SET", "k", "x" * 1025) == OK
        payload = resp.call("DUMP", "k")
        assert resp.call("SELECT", 1) == OK
        error = wire.Error("ERR string exceeds maximum allowed size of a durable database (durable_value_bytes_max: 1024 bytes)")
        for words in (["RESTORE", "k", 0, payload], ["SET", "k", "x" * 1025], ["SETRANGE", "k", 1024, "x"], ["SET", "k", "x" * (2 << 20)]):
            assert resp.call(*words) == error, words[0]
        assert resp.call("SET", "k", "x" * 1024) == OK
        assert resp.call("APPEND", "k", "x") == error
