"""redis-cli against the server, in its common modes."""

import os
import shutil
import signal
import subprocess

import pytest

from wire import encode

pytestmark = pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")

TIMEOUT_S = 300


def command_line(server, *arguments):
    """redis-cli with host and port."""
    return ["redis-cli", "-h", server.resp[0], "-p", str(server.resp[1]), *arguments]


def run(server, *arguments, data=None):
    """Runs redis-cli and returns its output; fails with its messages."""
    done = subprocess.run(command_line(server, *arguments), input=data, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done
    return done.stdout.decode(errors="replace")


def test_one_command(empty):
    """A command on the command line."""
    assert run(empty, "set", "greeting", "hello") == "OK\n"
    assert run(empty, "get", "greeting") == "hello\n"
    assert run(empty, "get", "missing") == "\n"
    assert run(empty, "--no-raw", "get", "missing") == "(nil)\n"
    assert run(empty, "--no-raw", "mget", "greeting", "missing") == '1) "hello"\n2) (nil)\n'


def test_commands_from_standard_input(empty):
    """A script of commands."""
    assert run(empty, data=b"set a 1\nincr a\nget a\n") == "OK\n2\n2\n"


# A job runs once in a period, and a number of jobs at the same time, as middleware of job queues has it.
UNIQUE_AND_CONCURRENT = """
local unique, running = KEYS[1], KEYS[2]
local job, period_ms, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call("SET", unique, job, "NX", "PX", period_ms) == false then
  return {"duplicate", redis.call("GET", unique)}
end
local count = tonumber(redis.call("GET", running) or "0")
if count >= most then
  redis.call("DEL", unique)
  return {"busy", tostring(count)}
end
redis.call("SET", running, cjson.encode(count + 1))
return {"run", job}
"""


def test_a_script_in_a_file(empty, tmp_path):
    """--eval with keys, a comma and arguments."""
    path = tmp_path / "job.lua"
    path.write_text(UNIQUE_AND_CONCURRENT)

    def outcome(unique, job):
        return run(empty, "--eval", path, unique, "running", ",", job, "60000", "2").split()

    assert [outcome("u1", "j1"), outcome("u1", "j2"), outcome("u2", "j3")] == [["run", "j1"], ["duplicate", "j1"], ["run", "j3"]]
    assert outcome("u3", "j4") == ["busy", "2"] and run(empty, "exists", "u3") == "0\n"
    path.write_text("return redis.call('LPUSH', KEYS[1], 'x')")
    failed = subprocess.run(command_line(empty, "--eval", path, "k"), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if empty.kind == "todana":
        assert "'LPUSH': lists are not supported" in failed.stdout + failed.stderr


def test_resp3(empty):
    """-3 sends HELLO 3."""
    assert run(empty, "-3", "set", "a", "1") == "OK\n"
    assert run(empty, "-3", "--no-raw", "get", "missing") == "(nil)\n"
    assert run(empty, "-3", "--no-raw", "config", "get", "databases") == '1# "databases" => "16"\n'


def test_database(empty):
    """-n selects a database."""
    run(empty, "-n", "3", "set", "a", "1")
    assert run(empty, "-n", "3", "dbsize") == "1\n"
    assert run(empty, "dbsize") == "0\n"


def test_errors_set_the_exit_status(empty):
    """-e returns an error as the exit status."""
    done = subprocess.run(command_line(empty, "-e", "nonesuch"), capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert b"unknown command" in done.stderr + done.stdout


def test_scan(empty):
    """--scan iterates with a pattern."""
    run(empty, data=b"".join(b"set key:%d v\n" % i for i in range(300)))
    assert len(run(empty, "--scan").split()) == 300
    assert sorted(run(empty, "--scan", "--pattern", "key:29?").split()) == [f"key:{i}" for i in range(290, 300)]


def test_bigkeys(empty):
    """--bigkeys finds the largest value."""
    run(empty, data=b"set small x\nset large " + b"y" * 500 + b"\n")
    output = run(empty, "--bigkeys")
    assert 'Biggest string found \'"large"\' has 500 bytes' in output
    assert "2 strings with 501 bytes" in output


def test_memkeys(empty):
    """--memkeys sends MEMORY USAGE for each key."""
    run(empty, data=b"set small x\nset large " + b"y" * 500 + b"\n")
    assert '"large"' in run(empty, "--memkeys").split("summary")[1]


def test_pipe(empty):
    """--pipe loads a stream of requests and counts the replies."""
    stream = b"".join(encode("SET", f"key:{i}", "x" * 50) for i in range(20_000))
    output = run(empty, "--pipe", data=stream)
    assert "errors: 0, replies: 20000" in output
    assert run(empty, "dbsize") == "20000\n"


def test_pipe_counts_errors(empty):
    """--pipe counts the errors in the stream."""
    assert "errors: 1, replies: 3" in subprocess.run(
        command_line(empty, "--pipe"),
        input=encode("SET", "a", "x") + encode("INCR", "a") + encode("GET", "a"),
        capture_output=True, timeout=TIMEOUT_S, check=False,
    ).stdout.decode()


@pytest.mark.one_backend
def test_stat(empty):
    """--stat prints a line of statistics at each interval."""
    process = subprocess.Popen(command_line(empty, "--stat", "-i", "0.01"), stdout=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()
    assert "keys" in lines[1]
    assert len(lines[2].split()) >= 5


@pytest.mark.one_backend
def test_latency(empty):
    """--latency measures round trips."""
    # It ends after a second, because its output is not a terminal.
    done = subprocess.run(command_line(empty, "--latency", "--raw", "-i", "1"), capture_output=True, timeout=TIMEOUT_S, check=False)
    assert len(done.stdout.split()) >= 4


def test_info_and_help_of_commands(empty):
    """The first commands that users try."""
    assert "redis_version:" in run(empty, "info", "server")
    assert "maxmemory" in run(empty, "config", "get", "maxmemory")
    assert run(empty, "command", "count").strip().isdigit()


def test_repeat(empty):
    """-r repeats a command on one connection."""
    assert run(empty, "-r", "5", "incr", "n").split() == ["1", "2", "3", "4", "5"]


def test_a_value_from_standard_input(empty):
    """-x reads the last argument from standard input."""
    run(empty, "-x", "set", "blob", data=bytes(range(256)))
    assert run(empty, "strlen", "blob") == "256\n"


def test_transactions(empty):
    """MULTI in an interactive session of redis-cli."""
    assert run(empty, data=b"multi\nset a 1\nincr a\nexec\n").split() == ["OK", "QUEUED", "QUEUED", "OK", "2"]
