"""docs/from-redis.md, command by command: from a redis-server to Todana, and back."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import redis

import served

pytestmark = [
    pytest.mark.todana_only,
    pytest.mark.one_backend,
    pytest.mark.skipif(not served.oracle_is_installed(), reason="redis-server is not installed"),
]

PAGE = (served.ROOT / "docs" / "from-redis.md").read_text()
TIMEOUT_S = 60
ODD_KEYS = [b"", b"with space", b"quo'te\"s", b"back\\slash", b"\xff", "戸棚".encode(), b"*"]
UNSPOKEN_KEYS = [b"a line\nand another", b"zero\0byte"]  # no argument of a command, and no line


@pytest.fixture(name="old")
def an_original(request, tmp_path):
    server = served.start_redis(*getattr(request, "param", ()))
    yield redis.Redis(port=server.resp[1])
    server.stop()


@pytest.fixture(name="new")
def a_new_one(empty):
    return redis.Redis(port=empty.resp[1])


def port(client):
    return client.connection_pool.connection_kwargs["port"]


def command(beginning):
    """The one command of the page that begins so, without its prompt."""
    found = [line[6:] for line in PAGE.splitlines() if line.startswith(f"    $ {beginning}")]
    assert len(found) == 1, (beginning, found)
    return found[0]


def shell(line, old, new, directory=None):
    """What a command of the page prints, at the ports of these servers."""
    line = re.sub(r"\b7000\b", str(port(new)), line)
    line = re.sub(r"redis-cli (?!-p)", f"redis-cli -p {port(old)} ", line)
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=directory,
    )
    return done.stdout


def fill(old, keys):
    for number, key in enumerate(keys):
        old.set(key, bytes(range(256)) * number)
    old.set("soon", 1, px=3_600_000)
    old.set("counter", 7)


def is_copied(old, new, keys):
    for key in [*keys, b"soon", b"counter"]:
        assert new.get(key) == old.get(key) is not None, key
        assert abs(new.pttl(key) - old.pttl(key)) < TIMEOUT_S * 1000, key
    assert 0 < new.pttl("soon") <= 3_600_000 and new.pttl("counter") == -1


def test_migrate_copies_all_strings(old, new):
    keys = [*ODD_KEYS, *(b"key:%d" % number for number in range(450))]
    fill(old, keys)
    assert re.fullmatch(r"\s*5 OK\s*(\d+ \s*)?", shell(command("redis-cli --scan"), old, new))
    is_copied(old, new, keys)
    assert new.dbsize() == old.dbsize() == len(keys) + 2
    old.set("counter", 8)
    shell(command("redis-cli --scan"), old, new)
    assert new.get("counter") == b"8"


def test_migrate_with_keys_that_do_not_fit(old, new):
    fill(old, ODD_KEYS)
    old.rpush("list", 1)
    old.set(b"k" * 65537, 1)
    said = shell(command("redis-cli --scan"), old, new)
    errors = re.findall(r"`(ERR [^`]*)`", PAGE)
    assert any(error in said for error in errors[:2]), said
    is_copied(old, new, ODD_KEYS)
    old.delete(b"k" * 65537)
    assert errors[0] in shell(command("redis-cli --scan"), old, new)
    old.delete("list")
    old.set(b"k" * 65537, 1)
    assert errors[1] in shell(command("redis-cli --scan"), old, new)
    is_copied(old, new, ODD_KEYS)


def test_migrate_without_replace_keeps_what_is_there(old, new):
    old.set("a", 1)
    new.set("a", 2)
    with pytest.raises(redis.ResponseError, match="BUSYKEY"):
        old.migrate("127.0.0.1", port(new), "a", 0, 5000, copy=True)
    assert new.get("a") == b"2"


def test_pipe_stores_what_a_program_prints(old, new):
    assert "errors: 0, replies: 2" in shell(command("printf"), old, new)
    assert new.mget("user:1", "user:2") == [b"Ada", b"Grace"] and 0 < new.ttl("user:1") <= 3600


def test_pipe_reads_append_only_files(tmp_path, new):
    directory = ("--dir", str(tmp_path), "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    server = served.start_redis(*directory)
    old = redis.Redis(port=server.resp[1])
    fill(old, [*ODD_KEYS, *UNSPOKEN_KEYS])
    redis.Redis(port=server.resp[1], db=3).set("third", 3)
    old.rpush("list", 1)
    old.bgrewriteaof()
    while old.info("persistence")["aof_rewrite_in_progress"] or old.info("persistence")["aof_rewrite_scheduled"]:
        pass
    old.set("late", 1)
    said = shell(command("cat"), old, new, tmp_path)
    assert "errors: 1," in said
    is_copied(old, new, [*ODD_KEYS, *UNSPOKEN_KEYS, b"late"])
    assert redis.Redis(port=port(new), db=3).get("third") == b"3"
    server.stop()


@pytest.mark.parametrize("back", [False, True])
def test_the_program_copies_both_ways(old, new, back):
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    source, target = (new, old) if back else (old, new)
    fill(source, [*ODD_KEYS, *UNSPOKEN_KEYS])
    if not back:
        old.rpush("list", 1)
    program = program.replace("127.0.0.1:6379", f"127.0.0.1:{port(source)}").replace("127.0.0.1:7000", f"127.0.0.1:{port(target)}")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)
    is_copied(source, target, [*ODD_KEYS, *UNSPOKEN_KEYS])
    assert target.dbsize() == len(ODD_KEYS) + len(UNSPOKEN_KEYS) + 2


def test_replication_of_redis_is_refused(new):
    for words in (("REPLICAOF", "127.0.0.1", "6379"), ("SYNC",), ("MIGRATE", "127.0.0.1", "6379", "a", "0", "1000")):
        with pytest.raises(redis.ResponseError, match="not supported by Todana"):
            new.execute_command(*words)
