"""Random commands to this server and to redis-server or memcached: all replies are equal, byte for byte.

The random numbers are seeded, so that a failure can be repeated. Skipped if the originals are not installed.
"""

import contextlib
import random
import re

import pytest

import served
import wire
from wire import Status, encode

pytestmark = [
    pytest.mark.todana_only,
    pytest.mark.skipif(not served.oracle_is_installed(), reason="redis-server and memcached are not installed"),
]

KEYS = ["a", "b", "c", "key:1", ""]
VALUES = ["", "0", "1", "-1", "10", "3.5", "abc", "hello world", "\x00\xff", "9223372036854775807", " 7", "1e3", "x" * 70]
NUMBERS = ["0", "1", "-1", "2", "7", "100", "-100", "x", "", "1.5", "9223372036854775807", "-9223372036854775808", "99999999999999999999"]
# Since 7.2, BITCOUNT and BITPOS check their range even if there is no key: no wrong ranges here.
WHOLE = ["0", "1", "-1", "2", "7", "100", "-100", "9223372036854775807", "-9223372036854775808"]
TIMES = ["100000", "5000000", "0", "-1", "x", "9223372036854775807", "99999999999999999999"]
PATTERNS = ["*", "a*", "?", "[ab]", "[^a]", "key:*", "", "\\a", "[", "[a-", "*:1"]
BITS = ["0", "1", "2"]
DATABASES = ["0", "1", "2", "15", "16", "-1", "x"]

# Arguments in capitals are drawn from the lists above; `|` separates alternatives, and a word in brackets is optional.
GRAMMAR = """
    GET KEY
    SET KEY VALUE [NX|XX] [GET] [KEEPTTL|EX_TIME|PX_TIME]
    SETNX KEY VALUE
    SETEX KEY TIME VALUE
    PSETEX KEY TIME VALUE
    GETSET KEY VALUE
    GETDEL KEY
    GETEX KEY [PERSIST|EX_GOOD|PX_GOOD]
    APPEND KEY VALUE
    STRLEN KEY
    GETRANGE KEY NUMBER NUMBER
    SUBSTR KEY NUMBER NUMBER
    SETRANGE KEY SMALL VALUE
    MGET KEY KEY [KEY]
    MSET KEY VALUE KEY VALUE [KEY]
    MSETNX KEY VALUE KEY VALUE
    INCR KEY
    DECR KEY
    INCRBY KEY NUMBER
    DECRBY KEY NUMBER
    LCS KEY KEY [LEN|IDX] [WITHMATCHLEN]
    SETBIT KEY SMALL BIT
    GETBIT KEY SMALL
    BITCOUNT KEY [RANGE|RANGE_BIT|RANGE_BYTE]
    BITPOS KEY BIT [WHOLE|RANGE|RANGE_BIT]
    BITOP OPERATOR KEY KEY [KEY] [KEY]
    BITFIELD KEY [OVERFLOW_RULE] SET KIND SMALLER NUMBER GET KIND SMALLER [OVERFLOW_RULE] INCRBY KIND SMALLER STEP
    BITFIELD KEY GET KIND SMALLER
    BITFIELD_RO KEY GET KIND SMALLER GET KIND SMALLER
    PFADD SKETCH VALUE VALUE VALUE
    PFCOUNT SKETCH SKETCH
    PFMERGE SKETCH SKETCH
    GET SKETCH
    DUMP NUMERIC
    SET NUMERIC INTEGER
    SORT KEY [ASC|DESC] [ALPHA]
    SORT_RO none
    DEL KEY KEY
    UNLINK KEY
    EXISTS KEY KEY KEY
    EXPIRE KEY TIME [NX|XX|GT|LT] [XX|GT|LT|FOO]
    PEXPIRE KEY TIME000 [NX|XX|GT|LT]
    TTL KEY
    EXPIRETIME KEY
    PERSIST KEY
    TYPE KEY
    RENAME KEY KEY
    RENAMENX KEY KEY
    COPY KEY KEY [DB_DATABASE] [REPLACE]
    MOVE KEY DATABASE
    TOUCH KEY KEY
    DBSIZE
    SELECT DATABASE
    SWAPDB DATABASE DATABASE
    MULTI
    EXEC
    DISCARD
    WATCH KEY
    UNWATCH
    ECHO VALUE
    PING [VALUE]
    COMMAND GETKEYS SET KEY VALUE
    FLUSHDB [SYNC|ASYNC|FOO]
    NONESUCH VALUE
    SCAN NUMBER COUNT NUMBER
"""
RARE = {"FLUSHDB", "SWAPDB", "NONESUCH", "SCAN"}
# The answers of these depend on the moment, on the order of the table, or on how a value is stored.
NOT_DRAWN = {
    "EXPIREAT", "PEXPIREAT", "PTTL", "PEXPIRETIME", "INCRBYFLOAT", "KEYS", "RANDOMKEY", "RESTORE", "OBJECT",
}
DRAWN_CHAPTERS = ("Strings", "Bits", "HyperLogLogs", "Keys")
LISTS = {
    "OPERATOR": ["AND", "OR", "XOR", "NOT", "NAND"], "KIND": ["u1", "i1", "u4", "i8", "u63", "i64", "u33", "u64", "i65", "x"],
    "SMALLER": ["0", "1", "#2", "#0", "13", "100", "-1", "#x"], "STEP": ["0", "1", "-1", "100", "-9223372036854775808", "x"],
    "SKETCH": ["h1", "h2", "h3"], "NUMERIC": ["d1", "d2"], "INTEGER": ["0", "-1", "127", "128", "-32769", "2147483647", "2147483648", "007", "text"],
    "WHOLE": WHOLE,
    "KEY": KEYS, "VALUE": VALUES, "NUMBER": NUMBERS, "TIME": TIMES, "PATTERN": PATTERNS, "BIT": BITS,
    "DATABASE": DATABASES, "SMALL": ["0", "1", "5", "63", "300", "-1", "x"], "TIME000": ["100000", "5000000", "0", "-1", "x"],
}


def commands_of_redis_7_0():
    """The names of the page's commands on records that the original has, by the column that says since when."""
    page = (served.ROOT / "docs" / "commands-resp.md").read_text()
    for chapter in re.split(r"^### ", page, flags=re.MULTILINE):
        if chapter.partition("\n")[0] in DRAWN_CHAPTERS:
            for name, major, minor in re.findall(r"^\| `([A-Z_]+)[^`]*` \| (\d+)\.(\d+)\.", chapter, flags=re.MULTILINE):
                if (int(major), int(minor)) <= (7, 0):
                    yield name


def test_every_command_on_records_is_drawn():
    """A new command has a line in the grammar, or a reason for having none."""
    drawn = {line.split()[0] for line in GRAMMAR.strip().splitlines()}
    names = set(commands_of_redis_7_0())
    assert len(names) > 50
    assert names - drawn == NOT_DRAWN


def draw(chance, word):
    """The arguments for a word of the grammar."""
    if word.startswith("["):
        if chance.random() < 0.6:
            return []
        word = chance.choice(word[1:-1].split("|"))
    if word in ("EX_GOOD", "PX_GOOD"):
        return [word[:2], chance.choice(TIMES[:2])]
    if word in ("EX_TIME", "PX_TIME"):
        return [word[:2], chance.choice(TIMES)]
    if word == "DB_DATABASE":
        return ["DB", chance.choice(DATABASES)]
    if word == "OVERFLOW_RULE":
        return ["OVERFLOW", chance.choice(["WRAP", "SAT", "FAIL", "x"])]
    if word.startswith("RANGE"):
        return [chance.choice(WHOLE), chance.choice(WHOLE), *word.split("_")[1:]]
    return [chance.choice(LISTS[word])] if word in LISTS else [word]


def random_command(chance):
    """One command as a list of arguments; now and then one argument too few or too many."""
    while True:
        line = chance.choice(GRAMMAR.strip().splitlines()).split()
        if line[0] not in RARE or chance.random() < 0.1:
            break
    words = [line[0]] + [argument for word in line[1:] for argument in draw(chance, word)]
    if {"GT", "LT"} & set(words[3:]) and words[2] in TIMES[:2]:
        # The same time to live, given a moment later, would be later only if the clock has ticked.
        words[2] = str(chance.randrange(1_000_000, 1_000_000_000, 1_000_000))
    if not words[0].startswith("BIT"):
        words = _miscounted(chance, words)
    if chance.random() < 0.1:
        words[0] = words[0].lower()
    return [word.encode("latin-1") for word in words]


def _miscounted(chance, words):
    if chance.random() < 0.02:
        words = words[:-1] or words
    if chance.random() < 0.02:
        words = [*words, chance.choice(VALUES)]
    return words


@pytest.fixture(scope="module")
def server():
    """Not the shared server: random SWAPDBs leave databases of several kinds exchanged."""
    running = served.start_todana()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def redis_server():
    """Debian's redis-server."""
    running = served.start_redis()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def memcached_server():
    """Debian's memcached."""
    running = served.start_memcached()
    yield running
    running.stop()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_random_commands_are_answered_as_by_redis(resp, redis_server, seed, version):
    """The same commands in the same order have the same replies."""
    chance = random.Random(1000 * version + seed)
    history = []
    with wire.Resp(redis_server.resp) as original:
        original.call("FLUSHALL")
        for connection in (resp, original):
            connection.call("HELLO", version)
        for _ in range(1500):
            words = random_command(chance)
            history.append(b" ".join(words))
            got, expected = resp.call(*words), original.call(*words)
            assert _comparable(words, got) == _comparable(words, expected), b"\n".join(history[-12:]).decode("latin-1")


@pytest.mark.parametrize("seed", range(4))
def test_random_commands_publish_the_events_of_redis(server, redis_server, seed):
    """The same keyspace events, those of one command in any order and once."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack:
        sides = [[stack.enter_context(wire.Resp(running.resp)) for _ in range(2)] for running in (server, redis_server)]
        for connection, listener in sides:
            connection.call("FLUSHALL")
            connection.call("CONFIG", "SET", "notify-keyspace-events", "AKE")
            listener.call("PSUBSCRIBE", "__key*")
        for number in range(1500):
            words = random_command(chance)
            got, expected = (_events(*side, words, f"{END}{number}") for side in sides)
            assert got == expected, words
        for connection, _ in sides:
            connection.call("DISCARD")
            connection.call("CONFIG", "SET", "notify-keyspace-events", "")


# The beginning of keys that no random command names.
END = "the end of "


def _events(connection, listener, words, end):
    """The channels and messages of the events of a command, which end with those of a write of a key of its own."""
    connection.call(*words)
    events = set()
    # Between MULTI and EXEC, it is queued, and has its events among those of EXEC.
    if connection.call("SET", end, "") != Status("QUEUED"):
        while not (message := listener.reply())[2].endswith(end.encode()):
            if END.encode() not in b" ".join(message):
                events.add(tuple(message[2:]))
        listener.reply()
    return events


def _comparable(words, reply):
    """Removes differences that are allowed: remaining times by one clock tick, cursors of SCAN."""
    name = words[0].upper()
    if name in (b"TTL", b"EXPIRETIME") and isinstance(reply, int) and reply > 2:
        return "a lifetime"
    if name == b"SCAN" and isinstance(reply, list):
        return "keys"
    if isinstance(reply, bytes) and reply.startswith(b"HYLL"):
        # Redis stores the estimate when it is asked for it.
        return reply[:5] + reply[16:]
    if name == b"EXEC" and isinstance(reply, list):
        return len(reply)
    return reply


@pytest.mark.parametrize("pattern", PATTERNS + ["[^", "[]", "[a", "a[b", "\\", "a\\", "[\\]]", "[a-z]*", "*?*", "[!a]", "[z-a]"])
def test_patterns_match_as_in_redis(resp, redis_server, pattern):
    """KEYS with every kind of pattern."""
    names = ["", "a", "b", "ab", "z", "-", "]", "[", "\\", "a\\", "^", "!", "key:1", "key:12", "K", "*", "a*b", "\xff"]
    with wire.Resp(redis_server.resp) as original:
        original.call("FLUSHALL")
        for connection in (resp, original):
            connection.call("MSET", *[part for name in names for part in (name.encode("latin-1"), 1)])
        assert sorted(resp.call("KEYS", pattern)) == sorted(original.call("KEYS", pattern))


FLOAT_TEXTS = [
    "1", "-1", "0.1", "0.2", "1e2", "1e-2", "1E5", "+5", ".5", "5.", "nan", "1_0", "1e", "e1", "--1", "12345678901234567890",
    "0.12345678901234567", "1.10", "100.000", "3.14159265358979323846", "1e17", "1e-17", "0.000001", "-0", "-0.0", "1 ", " 1",
    "1\n", "1e15", "123456789012345.678", "inf", "-infinity",
]


@pytest.mark.parametrize("base", ["0", "1.5", "-3", "1e3", "100000000000000000000", "0.1"])
def test_floats_are_read_as_by_redis(resp, redis_server, base):
    """INCRBYFLOAT with many notations of numbers: the same errors, and the same numbers.

    Digits may differ if they are rounding errors of the 80-bit arithmetic of one processor family.
    """
    with wire.Resp(redis_server.resp) as original:
        for text in FLOAT_TEXTS:
            answers = []
            for connection in (resp, original):
                connection.call("SET", "f", base)
                answers.append(connection.call("INCRBYFLOAT", "f", text))
                connection.call("SET", "f", text)
                answers.append(connection.call("INCRBYFLOAT", "f", base))
            for got, expected in zip(answers[:2], answers[2:]):
                assert _same_number(got, expected), text


def _same_number(got, expected):
    if not isinstance(expected, bytes) or not isinstance(got, bytes):
        return got == expected
    return abs(float(got) - float(expected)) <= 1e-15 * abs(float(expected))


MEMCACHED_KEYS = ["a", "b", "c", "key:1"]
MEMCACHED_GRAMMAR = """
    get KEY
    get KEY KEY KEY
    set KEY FLAGS EXPTIME DATA
    add KEY FLAGS EXPTIME DATA
    replace KEY FLAGS EXPTIME DATA
    append KEY FLAGS EXPTIME DATA
    prepend KEY FLAGS EXPTIME DATA
    cas KEY FLAGS EXPTIME DATA
    incr KEY AMOUNT
    touch KEY EXPTIME
    gat EXPTIME KEY
    delete KEY
    mg KEY MGFLAGS
    ms KEY MSFLAGS
    md KEY MDFLAGS
    ma KEY MAFLAGS
    me nonesuch
    nonesuch KEY
    get
    verbosity 1
"""
FLAG_SETS = {
    "MGFLAGS": ["k", "f", "s", "v", "q", "t", "O123", "T100", "T0", "N100", "R30", "h", "u", "!", "v v", "T", "Tx"],
    "MSFLAGS": ["F5", "T100", "k", "O9", "q", "ME", "MA", "MP", "MR", "MS", "MX", "C999999999", "I", "Fx", "Tx", "Cx", "N100", "N0"],
    "MDFLAGS": ["k", "O5", "q", "C999999999", "I", "T30", "Cx"],
    "MAFLAGS": ["v", "q", "k", "O1", "D5", "D0", "Dx", "MI", "M+", "MX", "N0", "N100", "J13", "Jx", "T100", "t"],
}
DATA = ["", "0", "5", "99", "abc", "hello", "-1", "1.5"]


def random_memcached_request(chance, prefix):
    """One request with its data block, followed by the marker."""
    line = chance.choice(MEMCACHED_GRAMMAR.strip().splitlines()).split()
    words, data = [line[0]], None
    for word in line[1:]:
        if word == "KEY":
            words.append(prefix + chance.choice(MEMCACHED_KEYS))
        elif word == "FLAGS":
            words.append(chance.choice(["0", "1", "65535", "4294967295"]))
        elif word == "EXPTIME":
            words.append(chance.choice(["0", "0", "100", "1000", "-1", "2592000", "x"]))
        elif word == "AMOUNT":
            words.append(chance.choice(["0", "1", "5", "-1", "x", "18446744073709551616"]))
        elif word == "DATA":
            data = chance.choice(DATA)
            words += [str(len(data))] + (["999999999"] if line[0] == "cas" else [])
        elif word in FLAG_SETS:
            if word == "MSFLAGS":
                data = chance.choice(DATA)
                words.append(str(len(data)))
            words += chance.sample(FLAG_SETS[word], chance.randrange(4))
        else:
            words.append(word)
    if line[0] == "ma" and any(word[0] == "N" for word in words[2:]):
        # memcached 1.6.18 returns a number that it has created even in quiet mode.
        words = [word for word in words if word != "q"]
    if line[0] in ("set", "add", "replace", "append", "prepend", "cas", "incr", "touch", "delete") and chance.random() < 0.1:
        words.append("noreply")
    request = " ".join(words).encode() + b"\r\n"
    return request if data is None else request + data.encode() + b"\r\n"


@pytest.mark.parametrize("seed", range(8))
def test_random_commands_are_answered_as_by_memcached(memcached, memcached_server, seed):
    """The same requests in the same order have the same replies."""
    chance = random.Random(seed)
    history = []
    with wire.Memcached(memcached_server.memcached) as original:
        for _ in range(1500):
            request = random_memcached_request(chance, f"{seed}:")
            history.append(request)
            got, expected = _answer(memcached, request), _answer(original, request)
            assert got == expected, b"".join(history[-12:]).decode()


def _answer(connection, request):
    """The reply up to a marker.

    Ignores which of several mistakes an error names, remaining times, and the padding of memcached's numbers.
    """
    connection.send(request + b"mn\r\n")
    lines = []
    while True:
        line = connection.line()
        if line == b"MN":
            break
        lines.append([_comparable_word(word) for word in line.split()])
    return ["CLIENT_ERROR" if words[:1] == [b"CLIENT_ERROR"] else words for words in lines]


def _comparable_word(word):
    if word[:1] in (b"t", b"s") and word[1:].lstrip(b"-").isdigit():
        return word[:1]
    return b"length" if word in (b"1", b"2", b"3") else word
