"""Server commands: COMMAND, CONFIG, DEBUG, INFO, LATENCY, LOLWUT, MEMORY, SLOWLOG, TIME."""

import time

import pytest
import redis

from wire import OK, SLACK_S, Error, Status, Verbatim, wait_until

# Those of the first version; the tests of the table have all.
SUPPORTED = """
    get set setnx setex psetex getset getdel getex append strlen getrange substr setrange mget mset msetnx incr decr incrby
    decrby incrbyfloat lcs setbit getbit bitcount bitpos del unlink exists expire pexpire expireat pexpireat ttl pttl
    expiretime pexpiretime persist type keys scan randomkey rename renamenx copy move touch dbsize flushdb flushall swapdb
    object multi exec discard watch unwatch hello auth ping echo select quit reset client info config command time memory
    eval eval_ro evalsha evalsha_ro script
    slowlog latency debug lolwut save bgsave lastsave bgrewriteaof wait waitaof readonly readwrite
""".split()

READ_BY_CLIENTS = """
    redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days hz connected_clients
    maxclients blocked_clients used_memory used_memory_human used_memory_rss used_memory_peak maxmemory maxmemory_policy
    mem_fragmentation_ratio total_system_memory loading rdb_changes_since_last_save rdb_bgsave_in_progress
    rdb_last_bgsave_status aof_enabled total_connections_received total_commands_processed instantaneous_ops_per_sec
    total_net_input_bytes total_net_output_bytes rejected_connections expired_keys evicted_keys keyspace_hits
    keyspace_misses role connected_slaves used_cpu_sys used_cpu_user cluster_enabled
""".split()


def sections(text):
    """INFO as section -> field -> value."""
    found, current = {}, None
    for line in text.decode().split("\r\n"):
        if line.startswith("# "):
            current = found.setdefault(line[2:], {})
        elif line:
            name, colon, value = line.partition(":")
            assert colon, line
            current[name] = value
    return found


def bytes_of(text):
    """A name as bytes, for any type that a library returns."""
    return text if isinstance(text, bytes) else text.encode()


def test_command_lists_every_supported_command(resp):
    """COMMAND returns the commands; COMMAND COUNT counts them."""
    rows = resp.call("COMMAND")
    names = {row[0].decode() for row in rows}
    assert set(SUPPORTED) <= names
    assert resp.call("COMMAND", "COUNT") == len(rows)
    assert {name.decode() for name in resp.call("COMMAND", "LIST")} >= set(SUPPORTED)


def test_command_info(resp):
    """Name, arity, flags and key positions are those of Redis."""
    get, unknown, mset = resp.call("COMMAND", "INFO", "GET", "nonesuch", "mset")
    assert get[:2] == [b"get", 2]
    assert {Status("readonly"), Status("fast")} <= set(get[2])
    assert get[3:6] == [1, 1, 1]
    assert unknown in (None, []) or repr(unknown) == "NULL_ARRAY"
    assert mset[:2] == [b"mset", -3]
    assert mset[3:6] == [1, -1, 2]


def test_command_info_is_complete(resp):
    """Each row has the fields that Redis 7 documents."""
    assert {len(row) for row in resp.call("COMMAND")} == {10}


def test_command_docs(resp):
    """COMMAND DOCS describes a command; redis-cli uses it for hints."""
    name, fields = resp.call("COMMAND", "DOCS", "get")
    assert name == b"get"
    fields = dict(zip(fields[::2], fields[1::2]))
    assert {b"summary", b"since", b"group"} <= set(fields)
    assert fields[b"group"] == b"string"
    assert resp.call("COMMAND", "DOCS", "nonesuch") == []


def test_command_getkeys(resp):
    """COMMAND GETKEYS finds the keys of a request."""
    resp.transcript("""
        COMMAND GETKEYS MSET a 1 b 2 => ["a", "b"]
        COMMAND GETKEYS SET k v EX 10 => ["k"]
        COMMAND GETKEYS COPY a b => ["a", "b"]
        COMMAND GETKEYS OBJECT ENCODING k => ["k"]
        COMMAND GETKEYS MEMORY USAGE k => ["k"]
        COMMAND GETKEYS DEL a b c => ["a", "b", "c"]
        COMMAND GETKEYS PING a => -ERR The command has no key arguments
        COMMAND GETKEYS nonesuch a => -ERR Invalid command specified
        COMMAND GETKEYS SET a => -ERR Invalid number of arguments specified for command
    """)


def test_command_list_filters(resp):
    """COMMAND LIST FILTERBY PATTERN."""
    assert sorted(resp.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "getr*")) == [b"getrange"]
    assert resp.call("COMMAND", "LIST", "FILTERBY", "MODULE", "none") == []
    assert resp.call("COMMAND", "LIST", "FILTERBY", "FOO", "x") == Error("ERR syntax error")


def test_unknown_subcommand(resp):
    """A container command names its HELP subcommand."""
    for container in ("COMMAND", "CONFIG", "MEMORY", "SLOWLOG", "LATENCY", "CLIENT", "OBJECT"):
        assert resp.call(container, "nonesuch") == Error(f"ERR unknown subcommand 'nonesuch'. Try {container} HELP.")


def test_unknown_command_names_its_arguments(resp):
    """The error is Redis', with the arguments that follow."""
    assert resp.call("NONESUCH") == Error("ERR unknown command 'NONESUCH', with args beginning with: ")
    assert resp.call("nonesuch", "a", "b") == Error("ERR unknown command 'nonesuch', with args beginning with: 'a' 'b' ")


def test_an_error_never_holds_a_line_break(resp):
    """Bytes of a request cannot forge a second reply in an error text."""
    error = resp.call("FOO\r\n+OK", "a\r\nb")
    assert "\r" not in error.text and "\n" not in error.text
    assert resp.call("PING") == Status("PONG")


def test_long_arguments_are_cut_in_errors(resp):
    """The length of an error text is limited."""
    assert len(resp.call("x" * 1000, "y" * 1000).text) < 400


def test_config_get(resp):
    """CONFIG GET by name, by several names and by pattern."""
    assert resp.call("CONFIG", "GET", "databases") == [b"databases", b"16"]
    answer = resp.call("CONFIG", "GET", "maxmemory", "timeout")
    assert set(answer[::2]) == {b"maxmemory", b"timeout"}
    assert b"maxmemory-policy" in resp.call("CONFIG", "GET", "maxmem*")[::2]
    assert resp.call("CONFIG", "GET", "nonesuch") == []
    assert len(resp.call("CONFIG", "GET", "*")) > 10
    assert resp.call("CONFIG", "GET") == Error("ERR wrong number of arguments for 'config|get' command")


def test_config_get_is_a_map_in_resp3(resp3):
    """In RESP3 the reply is a map."""
    assert resp3.call("CONFIG", "GET", "databases") == {b"databases": b"16"}


@pytest.mark.parametrize("name", ["save", "appendonly", "maxclients", "maxmemory", "timeout", "databases"])
def test_config_get_of_options_that_tools_read(resp, name):
    """redis-benchmark reads save and appendonly, other clients read the limits."""
    answer = resp.call("CONFIG", "GET", name)
    assert answer[0] == name.encode()


def test_config_set(resp):
    """Options that can change at run time do, several of them in one step."""
    before = resp.call("CONFIG", "GET", "slowlog-log-slower-than")[1]
    try:
        assert resp.call("CONFIG", "SET", "slowlog-log-slower-than", 12345) == OK
        assert resp.call("CONFIG", "GET", "slowlog-log-slower-than") == [b"slowlog-log-slower-than", b"12345"]
    finally:
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", before)


@pytest.mark.parametrize(
    "name, value, redis_name, redis_value",
    [
        ("connections_max", "77", "maxclients", "77"),
        ("memory_limit", "100mb", "maxmemory", "104857600"),
        ("memory_policy", "refuse", "maxmemory-policy", "noeviction"),
        ("clients_memory_limit", "300mb", "maxmemory-clients", "314572800"),
        ("slow_log_us", "off", "slowlog-log-slower-than", "-1"),
        ("slow_log_entries_max", "64", "slowlog-max-len", "64"),
        ("idle_timeout_ms", "5000", "timeout", "5"),
        ("tracking_keys_max", "5000", "tracking-table-max-keys", "5000"),
    ],
)
def test_both_names_of_an_option_agree(resp, name, value, redis_name, redis_value):
    """An option has one value, which is shown and changed by Todana's name and by Redis'."""

    def shown(option):
        return resp.call("CONFIG", "GET", option)[1].decode()

    before = shown(name)
    try:
        for setter, text in ((name, value), (redis_name, redis_value)):
            assert resp.call("CONFIG", "SET", setter, text) == OK
            assert (shown(name), shown(redis_name)) == (value, redis_value)
            assert resp.call("CONFIG", "SET", name, before) == OK
            assert shown(name) == before
    finally:
        resp.call("CONFIG", "SET", name, before)


def test_config_set_refuses(resp):
    """Unknown options and invalid values are refused with Redis' errors."""
    resp.transcript("""
        CONFIG SET nonesuch 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'nonesuch'
        CONFIG SET maxmemory => -ERR wrong number of arguments for 'config|set' command
    """)
    error = resp.call("CONFIG", "SET", "maxmemory", "abc")
    assert error.text.startswith("ERR CONFIG SET failed (possibly related to argument 'maxmemory')")


def test_config_resetstat(resp):
    """CONFIG RESETSTAT resets the counters."""
    for _ in range(5):
        resp.call("GET", "missing")
    assert int(sections(resp.call("INFO", "stats"))["Stats"]["keyspace_misses"]) >= 5
    assert resp.call("CONFIG", "RESETSTAT") == OK
    assert int(sections(resp.call("INFO", "stats"))["Stats"]["keyspace_misses"]) == 0


def test_debug_sleep_holds_its_own_connection(resp):
    """DEBUG SLEEP replies after the given time."""
    started = time.monotonic()
    assert resp.call("DEBUG", "SLEEP", "0.2") == OK
    assert time.monotonic() - started >= 0.19


@pytest.mark.todana_only
def test_debug_sleep_blocks_no_other_client(resp, connect):
    """While one client sleeps, others are served, even by the same event loop."""
    sleeper, others = connect.resp(), [connect.resp() for _ in range(8)]
    sleeper.send(b"DEBUG SLEEP 60\r\n")
    for other in others * 10:
        assert other.call("PING") == Status("PONG")
    assert sleeper.is_silent()


def test_info_sections(resp):
    """INFO without arguments returns the default sections, with CR LF line ends."""
    found = sections(resp.call("INFO"))
    for section in ("Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Cluster", "Keyspace"):
        assert section in found, section


@pytest.mark.parametrize("field", READ_BY_CLIENTS)
def test_info_has_the_fields_that_clients_read(resp, field):
    """INFO has the fields that redis-py, redis-cli and common exporters read."""
    fields = {name: value for section in sections(resp.call("INFO")).values() for name, value in section.items()}
    assert field in fields


def test_info_of_one_section(resp):
    """INFO accepts section names in any case, and ignores unknown ones."""
    assert list(sections(resp.call("INFO", "server"))) == ["Server"]
    assert list(sections(resp.call("INFO", "CLIENTS", "memory"))) == ["Clients", "Memory"]
    assert resp.call("INFO", "nonesuch") == b""
    assert "Commandstats" in sections(resp.call("INFO", "everything"))
    assert "Commandstats" in sections(resp.call("INFO", "all"))
    assert "Commandstats" in sections(resp.call("INFO", "commandstats"))


def test_info_keyspace(resp):
    """A database with keys has a row, which includes the number of keys with an expiry."""
    resp.call("SET", "a", 1)
    resp.call("SET", "b", 1, "EX", 100)
    row = sections(resp.call("INFO", "keyspace"))["Keyspace"]["db0"]
    fields = dict(field.split("=") for field in row.split(","))
    assert fields["keys"] == "2"
    assert fields["expires"] == "1"
    assert "avg_ttl" in fields


def test_info_counts_commands(resp):
    """cmdstat rows count calls, failures and refusals."""
    resp.call("CONFIG", "RESETSTAT")
    resp.call("SET", "a", "x")
    for _ in range(3):
        resp.call("GET", "a")
    resp.call("INCR", "a")
    rows = sections(resp.call("INFO", "commandstats"))["Commandstats"]
    get = dict(field.split("=") for field in rows["cmdstat_get"].split(","))
    incr = dict(field.split("=") for field in rows["cmdstat_incr"].split(","))
    assert get["calls"] == "3"
    assert "usec" in get and "usec_per_call" in get
    assert incr["failed_calls"] == "1"


def test_info_counts_clients(resp, connect):
    """connected_clients is the number of connections."""
    def connected():
        return int(sections(resp.call("INFO", "clients"))["Clients"]["connected_clients"])

    others = [connect.resp() for _ in range(3)]
    for other in others:
        other.call("PING")
    most = connected()
    assert most >= 4
    for other in others:
        other.close()
    assert wait_until(lambda: connected() <= most - 3)


def test_info_is_a_verbatim_string_in_resp3(resp3):
    """RESP3 marks human-readable text."""
    answer = resp3.call("INFO", "server")
    assert isinstance(answer, Verbatim)
    assert answer.kind == "txt"
    assert answer.data.startswith(b"# Server\r\n")


def test_latency(resp):
    """LATENCY replies have Redis' formats; HISTOGRAM counts calls per command."""
    resp.transcript("""
        LATENCY LATEST => []
        LATENCY HISTORY command => []
        LATENCY RESET => 0
        CONFIG RESETSTAT => +OK
        GET a => nil
        GET a => nil
    """)
    answer = resp.call("LATENCY", "HISTOGRAM", "get")
    assert answer[0] == b"get"
    assert answer[1][:2] == [b"calls", 2]
    assert answer[1][2] == b"histogram_usec"
    assert resp.call("LATENCY", "HISTOGRAM", "nonesuch") == []
    assert isinstance(resp.call("LATENCY", "DOCTOR"), bytes)


def test_lolwut(resp):
    """LOLWUT returns a drawing that ends with the version."""
    assert b"ver." in resp.call("LOLWUT")
    assert isinstance(resp.call("LOLWUT", "VERSION", "5", "1", "1", "1"), bytes)


def test_memory_usage(resp):
    """MEMORY USAGE returns the bytes of a record, including key and overhead."""
    resp.call("SET", "k", "x" * 1000)
    small = resp.call("MEMORY", "USAGE", "k")
    assert 1000 < small < 3000
    resp.call("SET", "k", "x" * 100_000)
    assert resp.call("MEMORY", "USAGE", "k") > 100_000
    resp.transcript("""
        MEMORY USAGE missing => nil
        MEMORY USAGE k FOO 5 => -ERR syntax error
        MEMORY USAGE k SAMPLES x => -ERR value is not an integer or out of range
        MEMORY USAGE => -ERR wrong number of arguments for 'memory|usage' command
    """)
    assert resp.call("MEMORY", "USAGE", "k", "SAMPLES", 5) > 100_000


def test_slowlog(resp):
    """The slow log records a command with its time, its arguments and its client."""
    before = resp.call("CONFIG", "GET", "slowlog-log-slower-than")[1]
    try:
        resp.call("CLIENT", "SETNAME", "slow")
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        resp.call("SLOWLOG", "RESET")
        resp.call("SET", "slow:key", "v")
        entries = resp.call("SLOWLOG", "GET", 10)
        entry = next(entry for entry in entries if entry[3][:2] == [b"SET", b"slow:key"])
        assert len(entry) == 6
        assert isinstance(entry[0], int) and isinstance(entry[2], int)
        assert abs(entry[1] - time.time()) < SLACK_S
        assert entry[4].startswith(b"127.0.0.1:")
        assert entry[5] == b"slow"
        assert resp.call("SLOWLOG", "LEN") > 0
        assert len(resp.call("SLOWLOG", "GET", 1)) == 1
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        assert resp.call("SLOWLOG", "RESET") == OK
        assert resp.call("SLOWLOG", "LEN") == 0
    finally:
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", before)


def test_slowlog_cuts_long_arguments(resp):
    """The slow log keeps at most 32 arguments of 128 bytes."""
    before = resp.call("CONFIG", "GET", "slowlog-log-slower-than")[1]
    try:
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        resp.call("SLOWLOG", "RESET")
        resp.call("DEL", "x" * 200, *range(50))
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        arguments = next(entry[3] for entry in resp.call("SLOWLOG", "GET", -1) if entry[3][0] == b"DEL")
        assert len(arguments) == 32
        assert arguments[1] == b"x" * 128 + b"... (72 more bytes)"
        assert arguments[31] == b"... (21 more arguments)"
    finally:
        resp.call("CONFIG", "SET", "slowlog-log-slower-than", before)


def test_slowlog_refuses(resp):
    """The count is -1 for all, or at least 0."""
    resp.transcript("""
        SLOWLOG GET -2 => -ERR count should be greater than or equal to -1
        SLOWLOG GET x => -ERR count should be greater than or equal to -1
        SLOWLOG LEN x => -ERR wrong number of arguments for 'slowlog|len' command
    """)


def test_time(resp):
    """TIME returns seconds and microseconds."""
    seconds, micros = resp.call("TIME")
    assert abs(int(seconds) - time.time()) < SLACK_S
    assert 0 <= int(micros) < 1_000_000


def test_library_server(client_of_either_version):
    """redis-py parses INFO, COMMAND, CONFIG, TIME, SLOWLOG and MEMORY USAGE."""
    client = client_of_either_version
    client.set("a", 1)
    info = client.info()
    assert info["db0"]["keys"] == 1
    assert isinstance(info["redis_version"], str)
    assert isinstance(info["used_memory"], int)
    assert client.info("commandstats")["cmdstat_set"]["calls"] >= 1
    assert client.command()["get"]["arity"] == 2
    assert client.command_count() >= len(SUPPORTED)
    assert [bytes_of(key) for key in client.command_getkeys("MSET", "a", 1, "b", 2)] == [b"a", b"b"]
    assert client.config_get("databases") == {"databases": "16"}
    assert client.config_resetstat() is True
    assert abs(client.time()[0] - time.time()) < SLACK_S
    assert client.slowlog_reset() is True
    assert client.slowlog_get() == []
    assert client.slowlog_len() == 0
    assert client.memory_usage("a") > 0
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NONESUCH")
