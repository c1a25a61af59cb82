"""Scripts in Lua, as clients' libraries send them."""

import hashlib
import re
import threading

import pytest
import redis

import served
from wire import OK, Error

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

SLIDING_WINDOW = """
local now = redis.call('TIME')
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local window_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local kept = {}
local stored = redis.call('GET', KEYS[1])
if stored then
    for _, at in ipairs(cmsgpack.unpack(stored)) do
        if at > now_ms - window_ms then kept[#kept + 1] = at end
    end
end
local allowed = #kept < limit
if allowed then kept[#kept + 1] = now_ms end
redis.call('SET', KEYS[1], cmsgpack.pack(kept), 'PX', window_ms)
return {allowed and 1 or 0, limit - #kept}
"""

# A limiter of concurrent jobs with a bucket for each period.
BUCKET = """
local count = redis.call("incr", KEYS[1])
if count == 1 then redis.call("pexpire", KEYS[1], ARGV[2]) end
if count > tonumber(ARGV[1]) then
    redis.call("decr", KEYS[1])
    return redis.error_reply("LIMIT over " .. ARGV[1])
end
return redis.status_reply("RUN")
"""


def test_lock_of_redis_py(client):
    """Lock: acquire, extend, reacquire, release, and a lock that someone else has."""
    lock = client.lock("lock", timeout=20)
    assert lock.acquire(blocking=False)
    assert not client.lock("lock", timeout=20).acquire(blocking=False)
    assert lock.extend(20) and client.pttl("lock") > 20_000
    assert lock.reacquire() and client.pttl("lock") <= 20_000
    lock.release()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()
    with client.lock("lock", timeout=20):
        assert client.exists("lock")
    assert not client.exists("lock")


def test_lock_excludes_threads(client):
    """Threads that add to a record without INCR lose nothing."""
    def work():
        for _ in range(20):
            with client.lock("guard", timeout=60, sleep=0.002):
                client.set("sum", int(client.get("sum") or 0) + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("sum") in (b"80", "80")


def test_register_script(client):
    """register_script sends EVALSHA, and loads the script after NOSCRIPT."""
    client.script_flush()
    script = client.register_script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
    assert client.script_exists(script.sha) == [False]
    assert script(keys=["n"], args=[7])[2] == 1
    assert client.script_exists(script.sha) == [True]
    pipeline = client.pipeline()
    script(keys=["n"], client=pipeline)
    pipeline.get("n")
    assert pipeline.execute()[1] in (b"2", "2")


def test_redlock_unlock(client):
    """Redlock removes a lock only if the token is its own."""
    assert client.set("resource", "token", nx=True, px=10_000)
    assert client.eval(UNLOCK, 1, "resource", "other") == 0
    assert client.eval(UNLOCK, 1, "resource", "token") == 1
    assert client.eval(UNLOCK, 1, "resource", "token") == 0


def test_rate_limiters(client):
    """A sliding window, and a bucket with the replies of status and error."""
    assert [client.eval(SLIDING_WINDOW, 1, "window", 60_000, 3) for _ in range(4)] == [[1, 2], [1, 1], [1, 0], [0, 0]]
    assert [client.eval(BUCKET, 1, "bucket", 2, 60_000) for _ in range(2)] in ([b"RUN"] * 2, ["RUN"] * 2)
    with pytest.raises(redis.exceptions.ResponseError, match="over 2"):
        client.eval(BUCKET, 1, "bucket", 2, 60_000)
    assert client.get("bucket") in (b"2", "2")


def test_many_clients_of_one_script(client):
    """No other client sees a script in the middle."""
    move = "local n = redis.call('GET', KEYS[1]) redis.call('DECR', KEYS[1]) redis.call('INCR', KEYS[2]) return n"
    client.mset({"from": 400, "to": 0})

    def work():
        for _ in range(100):
            client.eval(move, 2, "from", "to")
            left, right = client.mget("from", "to")
            assert int(left) + int(right) == 400

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(value) for value in client.mget("from", "to")] == [0, 400]


def test_names_of_scripts(resp):
    """SCRIPT LOAD, EXISTS, FLUSH and KILL."""
    name = hashlib.sha1(b"return 1").hexdigest()
    assert resp.call("SCRIPT", "LOAD", "return 1") == name.encode()
    assert resp.call("EVALSHA", name.upper(), 0) == 1
    assert resp.call("SCRIPT", "EXISTS", name, "x") == [1, 0]
    assert resp.call("SCRIPT", "FLUSH") == OK
    assert resp.call("EVALSHA", name, 0) == Error("NOSCRIPT No matching script. Please use EVAL.")
    assert resp.call("SCRIPT", "KILL") == Error("NOTBUSY No scripts in execution right now.")


def test_stopped_scripts_change_nothing(resp, connect):
    """Others are served while a script takes all its steps, and nothing of it stays."""
    other = connect.resp()
    resp.call("SET", "k", 1)
    source = "redis.call('SET', KEYS[1], 2) redis.call('SET', KEYS[2], 2) while true do end"
    reply = resp.call("EVAL", source, 2, "k", "k2")
    assert reply.text.startswith("ERR The script was stopped")
    assert other.call("MGET", "k", "k2") == [b"1", None]


PAGE = (served.ROOT / "docs" / "scripts.md").read_text()


@pytest.mark.todana_only
@pytest.mark.parametrize("row, call", [
    ("an empty body", ""), ("GET of a missing key, INCR, EXISTS", "'GET', KEYS[1]"),
    ("GET of a missing key, INCR, EXISTS", "'INCR', KEYS[1]"),
    ("DEL", "'DEL', KEYS[1]"), ("SET", "'SET', KEYS[1], i"),
])
def test_a_script_has_the_steps_of_the_page(resp, row, call):
    """As many calls as docs/scripts.md says; a fiftieth more is too much."""
    (most,) = re.findall(rf"^\| {row} \| [0-9]+ \| ([0-9,]+) \|$", PAGE, re.MULTILINE)
    most = int(most.replace(",", ""))
    body = f"redis.call({call})" if call else ""
    source = f"for i = 1, tonumber(ARGV[1]) do {body} end"
    assert resp.call("EVAL", source, 1, "k", most) is None
    assert "script_steps_max" in resp.call("EVAL", source, 1, "k", most + most // 50).text


def test_errors_keep_what_was_written(resp):
    """As in Redis, an error of the script itself undoes nothing."""
    reply = resp.call("EVAL", "redis.call('SET', KEYS[1], 2) error('mine')", 1, "k")
    assert reply.text.startswith("ERR user_script:1: mine script: ")
    assert resp.call("GET", "k") == b"2"


def test_wrong_number_of_arguments(resp):
    """The arities of Redis."""
    for command in (["EVAL"], ["EVAL", "x"], ["EVALSHA", "x"], ["EVAL_RO", "x"], ["EVALSHA_RO", "x"], ["SCRIPT"], ["SCRIPT", "LOAD"]):
        assert resp.call(*command).text.startswith("ERR wrong number of arguments for ")
