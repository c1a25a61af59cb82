"""`bin/todana backup`, `restore` and `load`: real nodes, as a person uses them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import zlib

import pytest
import redis

import served
import three_nodes
from erlang_node import Node
from wire import wait_until

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TIMEOUT_S = 300
LARGE = bytes(range(256)) * 4_096
DAY_S = 86_400


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The nodes have directories of their own."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("starts its own nodes, once")


def run(*arguments, environment=None):
    """Runs bin/todana to its end."""
    return subprocess.run(
        [served.PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, **(environment or {})},
    )


def succeed(*arguments):
    """Runs bin/todana, which must succeed; its output."""
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(*arguments):
    """Runs bin/todana, which must fail with one line; that line."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    return done.stderr.strip()


@contextlib.contextmanager
def serving(*flags, databases=()):
    """A node, and a connection to it."""
    server = served.start_todana(*flags, databases=databases)
    client = redis.Redis(*server.resp)
    try:
        yield server, client
    finally:
        client.close()
        server.stop()


@pytest.fixture
def backup(tmp_path):
    """A small backup, and the directory from which it is."""
    with serving("--data-dir", tmp_path / "origin") as (_, client):
        client.mset({f"key:{number}": f"value {number}" for number in range(1_000)})
        succeed("backup", tmp_path / "small.backup", "--data-dir", tmp_path / "origin")
    return tmp_path / "small.backup"


def is_empty(directory):
    """Whether nothing is left in a directory, or of it."""
    return not directory.exists() or not list(directory.iterdir())


# ---------------------------------------------------------------- backup and restore ---


class Load(threading.Thread):
    """Increments two counters as one step, and one alone, until it is stopped."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client = redis.Redis(*address)
        self.acknowledged = 0
        self.is_stopped = False

    def run(self):
        while not self.is_stopped:
            with self.client.pipeline(transaction=True) as step:
                step.incr("left").incr("right")
                step.set(f"filler:{self.acknowledged % 500}", os.urandom(2_000))
                step.execute()
            self.acknowledged += 1

    def stop(self):
        """Ends after the present step."""
        self.is_stopped = True
        self.join()
        self.client.close()


def test_a_backup_is_of_one_moment_while_clients_work(tmp_path):
    directory, restored = tmp_path / "origin", tmp_path / "restored"
    with serving("--data-dir", directory, databases=("names.kct", ":")) as (server, client):
        client.set("large", LARGE)
        client.set("mortal", "x", ex=DAY_S)
        client.execute_command("SELECT", 1)
        redis.Redis(*server.resp, db=1).set("in", "memory")
        load = Load(server.resp)
        load.start()
        wait_until(lambda: load.acknowledged > 200)
        before = load.acknowledged
        said = succeed("backup", tmp_path / "backup", "--data-dir", directory)
        after = load.acknowledged
        assert load.is_alive()
        load.stop()
        assert "Tables in memory are not part" in said
    assert "same `databases`" in succeed("restore", tmp_path / "backup", restored)
    # The name of a durable database belongs to the directory.
    assert "names.kct" in fail("start", "--data-dir", restored, "--listen-resp", "127.0.0.1:0")
    with serving("--data-dir", restored, databases=("names.kct", ":")) as (server, client):
        left, right = map(int, client.mget("left", "right"))
        assert left == right
        assert before <= left <= after + 1
        assert client.get("large") == LARGE
        assert DAY_S - 1_000 < client.ttl("mortal") <= DAY_S
        assert redis.Redis(*server.resp, db=1).dbsize() == 0
        assert client.execute_command("RANGE", "left", "left") == [b"left"]
        # The log goes on behind the snapshot.
        client.set("later", 1)
    with serving("--data-dir", restored, databases=("names.kct", ":")) as (_, client):
        assert client.get("later") == b"1"
        client.save()


def test_a_restored_directory_has_an_identity_of_its_own(backup, tmp_path):
    for name in ("one", "two"):
        succeed("restore", backup, tmp_path / name)
    uids = set()
    for name in ("origin", "one", "two"):
        text = (tmp_path / name / "node").read_text()
        uids |= {line for line in text.splitlines() if line.startswith("{uid")}
    assert len(uids) == 3
    assert "damaged" not in succeed("check", tmp_path / "one")


def test_named_tables_are_part_of_it(tmp_path):
    node = Node((":",), tmp_path / "origin")
    try:
        node.say("todana_durable:await_tables()")
        assert node.say("element(1, todana:open(orders, #{durable => true, codec => term, type => ordered_set}))") == "ok"
        assert node.say("todana:put(orders, {user, 7}, #{name => <<\"Ada\">>})") == "ok"
        assert node.say("element(1, todana:open(passing, #{}))") == "ok"
        succeed("backup", tmp_path / "backup", "--data-dir", tmp_path / "origin")
        dumped = tmp_path / "dump"
    finally:
        node.stop()
    succeed("restore", tmp_path / "backup", tmp_path / "restored")
    lines = [json.loads(text) for text in succeed("dump", tmp_path / "restored").splitlines()]
    assert [one["table"] for one in lines] == ["orders"]
    dumped.write_text("".join(json.dumps(line) + "\n" for line in lines))
    node = Node((":",), tmp_path / "restored")
    try:
        node.say("todana_durable:await_tables()")
        assert node.say("element(1, todana:open(orders, #{durable => true, codec => term, type => ordered_set}))") == "ok"
        assert node.say("todana:get(orders, {user, 7})") == '{ok,#{name => <<"Ada">>}}'
    finally:
        node.stop()
    # The lines of a dump go into a table of the same kind.
    node = Node((":",), tmp_path / "new")
    try:
        node.say("todana_durable:await_tables()")
        assert "line 1: this node has no durable table orders" in fail("load", dumped, "--data-dir", tmp_path / "new")
        node.say("todana:open(orders, #{durable => true, codec => term, type => ordered_set})")
        assert succeed("load", dumped, "--data-dir", tmp_path / "new") == "1 records loaded\n"
        assert node.say("todana:get(orders, {user, 7})") == '{ok,#{name => <<"Ada">>}}'
        wrong = {**lines[0], "key": "no term"}
        dumped.write_text(json.dumps(wrong) + "\n")
        assert "corrupted; 0 records are loaded" in fail("load", dumped, "--data-dir", tmp_path / "new")
        dumped.write_text(json.dumps({**lines[0], "codec": "raw"}) + "\n")
        assert "has the codec term" in fail("load", dumped, "--data-dir", tmp_path / "new")
    finally:
        node.stop()


def test_a_backup_replaces_no_file(tmp_path):
    (tmp_path / "backup").write_text("precious")
    with serving("--data-dir", tmp_path / "data"):
        sentence = fail("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")
    assert sentence == f"todana: backup: {tmp_path / 'backup'} exists; a backup replaces no file"
    assert (tmp_path / "backup").read_text() == "precious"


def test_a_backup_of_a_node_in_memory_is_refused(start_server, tmp_path):
    server = start_server()
    host, port = server.resp
    sentence = fail(
        "backup", tmp_path / "backup", "--listen-resp", f"{host}:{port}", "--control-socket", tmp_path / "none",
    )
    assert "no node is running here" in sentence
    flags = ["--listen-resp", f"127.0.0.1:{served.free_port()}", "--control-socket", tmp_path / "control"]
    with serving(*flags):
        assert "in memory only" in fail("backup", tmp_path / "backup", *flags)
    assert not list(tmp_path.glob("backup*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, as root")
def test_a_full_disk_leaves_no_file(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        with serving("--data-dir", tmp_path / "data") as (_, client):
            client.set("large", os.urandom(1 << 20))
            sentence = fail("backup", small / "backup", "--data-dir", tmp_path / "data")
            assert "no space left on device" in sentence
            assert is_empty(small)
            # The node goes on, and a directory with room gets its backup.
            succeed("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")
        sentence = fail("restore", tmp_path / "backup", small / "new" / "data")
        assert "no space left on device; nothing was restored" in sentence
        assert is_empty(small)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_backup_leaves_no_file(tmp_path, number):
    with serving("--data-dir", tmp_path / "data") as (server, _):
        os.kill(server.pid, signal.SIGSTOP)
        command = served.Process([served.PROGRAM, "backup", tmp_path / "backup", "--data-dir", tmp_path / "data"])
        wait_until(lambda: list(tmp_path.glob("backup.*.tmp")))
        assert command.stop(number) == 1
        os.kill(server.pid, signal.SIGCONT)
        assert not list(tmp_path.glob("backup*"))
        succeed("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")


def test_a_node_that_is_killed_leaves_no_backup(tmp_path):
    server = served.start_todana("--data-dir", tmp_path / "data")
    os.kill(server.pid, signal.SIGSTOP)
    command = served.Process([served.PROGRAM, "backup", tmp_path / "backup", "--data-dir", tmp_path / "data"])
    wait_until(lambda: list(tmp_path.glob("backup.*.tmp")))
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert command.popen.wait(TIMEOUT_S) == 1
    command.stop()
    # It may be killed before the command has connected.
    said = "\n".join(command.lines)
    assert "the node closed the connection" in said or "no node is running here" in said, said
    assert not list(tmp_path.glob("backup*"))


def damaged(whole):
    """Each kind of damage: what it is, and the bytes."""
    yield "empty", b""
    for length in (1, 7, 13, 14, 100, len(whole) // 2, len(whole) - 13, len(whole) - 12, len(whole) - 1):
        yield f"cut to {length}", whole[:length]
    for place in (0, 7, 8, 9, 10, 13, 14, 60, 400, len(whole) // 2, len(whole) - 13, len(whole) - 12, len(whole) - 8, len(whole) - 1):
        yield f"byte {place}", whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:]
    yield "one byte more", whole + b"\n"
    yield "another file", b"#!/bin/sh\n" * 100


def test_a_damaged_backup_is_refused_by_name(backup, tmp_path):
    whole = backup.read_bytes()
    file = tmp_path / "damaged.backup"
    for what, content in damaged(whole):
        file.write_bytes(content)
        sentence = fail("restore", file, tmp_path / "restored")
        assert str(file) in sentence, (what, sentence)
        assert not (tmp_path / "restored").exists(), what
    # An empty directory stays, and can be used.
    (tmp_path / "restored").mkdir()
    fail("restore", file, tmp_path / "restored")
    assert list((tmp_path / "restored").iterdir()) == []
    succeed("restore", backup, tmp_path / "restored")


def test_a_backup_whose_snapshot_is_wrong_is_refused(backup, tmp_path):
    """The checksum of the file is right, and that of a block is not."""
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 1
    content[-12:-8] = zlib_crc(content[:-12])
    backup.write_bytes(content)
    sentence = fail("restore", backup, tmp_path / "new" / "restored")
    assert str(backup) in sentence and "wrong checksum of a block" in sentence
    assert not (tmp_path / "new").exists()


def zlib_crc(content):
    """Erlang's CRC-32, as four bytes."""
    return zlib.crc32(bytes(content)).to_bytes(4, "big")


def test_only_a_new_directory_is_restored_into(backup, tmp_path):
    used = tmp_path / "used"
    used.mkdir()
    (used / "letter").write_text("dear")
    assert "is not empty, it contains letter" in fail("restore", backup, used)
    assert "is not empty" in fail("restore", backup, tmp_path / "origin")
    assert [path.name for path in used.iterdir()] == ["letter"]
    # What an interrupted restoration leaves is no data directory, and is named.
    left = tmp_path / "left"
    (left / "restore.tmp").mkdir(parents=True)
    assert "interrupted" in fail("restore", backup, left)
    assert "restore.tmp" in fail("start", "--data-dir", left, "--listen-resp", "127.0.0.1:0")
    (left / "restore.tmp").rmdir()
    succeed("restore", backup, "--data-dir", left)
    assert "no such file" in fail("restore", tmp_path / "nothing", tmp_path / "new")
    assert "use `restore FILE DIRECTORY`" in fail("restore")
    assert "use `backup FILE`" in fail("backup")


# ------------------------------------------------------------------------- clusters ---


def test_a_cluster_is_backed_up_and_begins_anew(tmp_path):
    with three_nodes.Cluster() as cluster:
        client = redis.Redis(*cluster.leader().address())
        client.mset({f"key:{number}": number for number in range(500)})
        follower = cluster.follower()
        said = run("backup", tmp_path / "backup", "--data-dir", follower.directory, environment=follower.environment)
        assert said.returncode == 0, said.stderr
        client.set("later", 1)
        old = cluster.status()["cluster"]

        # As a node of its own.
        succeed("restore", tmp_path / "backup", tmp_path / "alone")
        with serving("--data-dir", tmp_path / "alone") as (_, alone):
            assert alone.dbsize() == 500
            alone.set("mine", 1)
        assert client.get("mine") is None

        # As the first node of a new cluster, while the old one runs.
        succeed("restore", tmp_path / "backup", cluster.directory / "d")
        first = cluster.nodes[0]
        new = [
            three_nodes.Node(name, cluster.directory / name, first.cookie, first.environment, [], first.host, {})
            for name in "de"
        ]
        cluster.nodes += new
        new[0].start()
        new[0].wait_until_ready()
        new[1].start(new[0])
        new[1].wait_until_ready()
        kind, status = new[0].ask("status")
        assert kind == "ok" and status["cluster"] != old
        assert {member["node"] for member in status["members"]} == {node.name for node in new}
        joined = redis.Redis(*new[1].address())
        wait_until(lambda: joined.dbsize() == 500)
        redis.Redis(*new[0].address()).set("mine", 2)
        assert client.get("mine") is None
        assert {member["node"] for member in cluster.nodes[1].ask("status")[1]["members"]} == {
            node.name for node in cluster.nodes[:3]
        }


def test_a_lost_cluster_comes_back_from_a_copy_of_one_member():
    """As the page says: the copy alone, `cluster force`, and the others join with empty directories."""
    with three_nodes.Cluster() as cluster:
        first, other, _ = cluster.nodes
        redis.Redis(*cluster.leader().address()).mset({f"key:{number}": number for number in range(500)})
        other.process.stop(signal.SIGTERM)
        copy = cluster.directory / "copy"
        shutil.copytree(other.directory, copy)
        cluster.restart(other)
        redis.Redis(*cluster.leader().address()).set("later", 1)
        for node in cluster.nodes:
            node.kill()
            shutil.rmtree(node.directory)
        shutil.copytree(copy, other.directory)

        other.start(first)
        control = other.directory / "control"
        wait_until(control.exists)
        said = run(
            "cluster", "force", "--i-accept-data-loss", "--data-dir", other.directory, environment=other.environment,
        )
        assert said.returncode == 0, said.stderr
        other.wait_until_ready()
        alone = redis.Redis(*other.address())
        assert alone.dbsize() == 500
        alone.set("mine", 1)
        first.start(other)
        first.wait_until_ready()
        joined = redis.Redis(*first.address())
        wait_until(lambda: joined.dbsize() == 501 and joined.get("mine") == b"1")


# ----------------------------------------------------------------------------- load ---


def line(key, value, **others):
    """A line of a dump."""
    return json.dumps({"table": "db0", "codec": "raw", "key": key, "value": value, **others}) + "\n"


def coded(content):
    """Bytes that are no text."""
    return {"base64": base64.b64encode(content).decode()}


def records(directory):
    """What `dump` prints, without versions."""
    found = [json.loads(text) for text in succeed("dump", directory).split("\n") if text]
    return sorted(json.dumps({**one, "version": 0}, sort_keys=True) for one in found)


def test_a_dump_is_loaded(tmp_path):
    flags = ["--data-dir", tmp_path / "origin"]
    with serving(*flags) as (server, client):
        client.mset({f"key:{number}": "x" * number for number in range(1_000)})
        client.set(b"\xff\x00", LARGE)
        client.set("quoted\n\"\\", "line\nends \u2028")
        client.set("mortal", 1, ex=DAY_S)
        redis.Redis(*server.resp, db=9).set("other", "database")
    dumped = tmp_path / "dump.jsonl"
    dumped.write_text(succeed("dump", tmp_path / "origin"))
    with serving("--data-dir", tmp_path / "new") as (_, client):
        client.set("key:1", "replaced")
        client.set("stays", 1)
        assert succeed("load", dumped, "--data-dir", tmp_path / "new") == "1004 records loaded\n"
        assert client.get("key:1") == b"x"
        assert client.delete("stays") == 1
        # By a pipe, and once more.
        with dumped.open() as content:
            done = subprocess.run(
                [served.PROGRAM, "load", "/dev/stdin", "--data-dir", tmp_path / "new"], stdin=content, capture_output=True,
                text=True, timeout=TIMEOUT_S, check=False,
            )
        assert done.stdout == "1004 records loaded\n", done.stderr
    assert records(tmp_path / "new") == records(tmp_path / "origin")


def test_a_dump_that_nobody_reads_to_its_end_ends_quietly(tmp_path):
    with serving("--data-dir", tmp_path / "origin") as (_, client):
        for first in range(0, 20_000, 1_000):
            client.mset({f"key:{number}": "x" * 100 for number in range(first, first + 1_000)})
    dumping = subprocess.Popen(
        [served.PROGRAM, "dump", tmp_path / "origin"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert json.loads(dumping.stdout.readline())["table"] == "db0"
    dumping.stdout.close()
    assert dumping.stderr.read() == ""
    assert dumping.wait(TIMEOUT_S) == 141
    assert sorted(path.name for path in tmp_path.iterdir()) == ["origin"]
    assert len(records(tmp_path / "origin")) == 20_000


def test_a_load_reads_each_form_of_a_line(tmp_path):
    file = tmp_path / "lines"
    soon = int(time.time() * 1_000) + DAY_S * 1_000
    file.write_text(
        line("a", "1", flags=7) + "\n" + line(coded(b"\x00\xff"), coded(LARGE)) + line("b", "", expires_at_ms=soon)
        + line("gone", "x", expires_at_ms=1) + line("c", "last")[:-1]
    )
    port = served.free_port()
    flags = ["--listen-resp", f"127.0.0.1:{port}", "--control-socket", tmp_path / "control"]
    with serving(*flags) as (_, client):
        assert succeed("load", file, *flags) == "4 records loaded, 1 had expired\n"
        assert client.get("a") == b"1" and client.get(b"\x00\xff") == LARGE and client.get("c") == b"last"
        assert 0 < client.pttl("b") <= DAY_S * 1_000
        assert client.exists("gone") == 0


@pytest.mark.parametrize("wrong, reason", [
    ("{", "it is not JSON"),
    ("[1]", "it is not a JSON object"),
    ('{"key": "k", "value": "v"}', "it has no `table`"),
    (line(5, "v"), "`key` is neither a text nor `base64`"),
    (line("k", {"base64": "*"}), "`value` is not base64"),
    (line("k", "v", flags=1 << 32), "`flags` is not a number from 0 to 4294967295"),
    (line("k", "v", flags=-1), "`flags` is not a number"),
    (line("k", "v", expires_at_ms="soon"), "`expires_at_ms` is not a number"),
    (line("k", "v", table="db16"), "this node has no durable table db16"),
    (line("k", "v", codec="term"), "the table db0 of this node has the codec raw"),
])
def test_a_wrong_line_is_named(tmp_path, wrong, reason):
    file = tmp_path / "lines"
    file.write_text("".join(line(f"key:{number}", "v") for number in range(300)) + wrong.rstrip("\n") + "\n" + line("after", "v"))
    with serving("--data-dir", tmp_path / "data") as (_, client):
        sentence = fail("load", file, "--data-dir", tmp_path / "data")
        assert f"load: line 301: {reason}" in sentence
        assert sentence.endswith("; 300 records are loaded")
        assert client.dbsize() == 300


def test_a_load_needs_a_file_and_a_node(tmp_path):
    assert "no such file" in fail("load", tmp_path / "none", "--data-dir", tmp_path / "data")
    (tmp_path / "lines").write_text("")
    assert "no node is running here" in fail("load", tmp_path / "lines", "--data-dir", tmp_path / "data")
    with serving("--data-dir", tmp_path / "data"):
        assert succeed("load", tmp_path / "lines", "--data-dir", tmp_path / "data") == "0 records loaded\n"
    shutil.rmtree(tmp_path / "data")
