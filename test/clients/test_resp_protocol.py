"""The protocol: array and inline requests, reply formats of RESP2 and RESP3, pipelining, errors."""

import random
import time

import pytest

from wire import OK, Error, Set, Status, encode


def test_exact_bytes_of_the_simple_replies(resp):
    """Status, bulk, null, integer, array and error in RESP2."""
    resp.talk(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n", b"+OK\r\n")
    resp.talk(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"$5\r\nhello\r\n")
    resp.talk(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", b"$-1\r\n")
    resp.talk(b"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n", b":5\r\n")
    resp.talk(b"*3\r\n$4\r\nMGET\r\n$1\r\nk\r\n$1\r\nx\r\n", b"*2\r\n$5\r\nhello\r\n$-1\r\n")
    resp.talk(b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n", b"-ERR value is not an integer or out of range\r\n")


def test_exact_bytes_in_resp3(resp3):
    """Null is a separate type; counts are integers; a conditional SET returns null."""
    resp3.talk(encode("GET", "x"), b"_\r\n")
    resp3.talk(encode("SET", "k", "v"), b"+OK\r\n")
    resp3.talk(encode("SET", "k", "v", "NX"), b"_\r\n")
    resp3.talk(encode("MGET", "k", "x"), b"*2\r\n$1\r\nv\r\n_\r\n")
    resp3.talk(encode("EXISTS", "k"), b":1\r\n")
    resp3.talk(encode("SETNX", "k", "v"), b":0\r\n")
    resp3.talk(encode("EXPIRE", "k", 100), b":1\r\n")
    resp3.talk(encode("INCRBYFLOAT", "f", "1.5"), b"$3\r\n1.5\r\n")
    resp3.talk(encode("RANDOMKEY", "x"), b"-ERR wrong number of arguments for 'randomkey' command\r\n")
    resp3.talk(encode("CONFIG", "GET", "databases"), b"%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n")
    resp3.talk(encode("CONFIG", "GET", "nonesuch"), b"%0\r\n")
    resp3.talk(encode("SCAN", "0", "MATCH", "none", "COUNT", 100000), b"*2\r\n$1\r\n0\r\n*0\r\n")


def test_resp3_sets(resp3):
    """The flags of a command are a set in RESP3."""
    (row,) = resp3.call("COMMAND", "INFO", "get")
    assert isinstance(row[2], Set)


def test_inline_commands(resp):
    """A line of words is a request; LF alone ends it, too."""
    resp.talk(b"PING\r\n", b"+PONG\r\n")
    resp.talk(b"PING\n", b"+PONG\r\n")
    resp.talk(b"  SET   k    v  \r\n", b"+OK\r\n")
    resp.talk(b"get k\r\n", b"$1\r\nv\r\n")


def test_empty_lines_are_no_requests(resp):
    """Empty lines and empty arrays are ignored."""
    resp.talk(b"\r\n\r\n\n   \r\nPING\r\n", b"+PONG\r\n")
    resp.talk(b"*0\r\n*-1\r\n*-10\r\nPING\r\n", b"+PONG\r\n")


def test_inline_quotes(resp):
    """Inline words may be quoted, with escapes in double quotes."""
    resp.talk(b'SET k "a b\\n\\x41\\"\\\\"\r\n', b"+OK\r\n")
    assert resp.call("GET", "k") == b'a b\nA"\\'
    resp.talk(b"SET k 'it\\'s \\x41'\r\n", b"+OK\r\n")
    assert resp.call("GET", "k") == b"it's \\x41"
    resp.talk(b'ECHO ""\r\n', b"$0\r\n\r\n")


@pytest.mark.parametrize("line", [b'SET k "unbalanced', b"SET k 'unbalanced", b'SET k "a"b', b"SET k 'a'b"])
def test_unbalanced_quotes_close(resp, line):
    """A malformed request is a protocol error, and the connection is closed."""
    resp.send(line + b"\r\n")
    assert resp.rest() == b"-ERR Protocol error: unbalanced quotes in request\r\n"


@pytest.mark.parametrize(
    "request_bytes, error",
    [
        (b"*1\r\n+PING\r\n", b"expected '$', got '+'"),
        (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\n$x\r\n", b"invalid bulk length"),
        (b"*1\r\n$ 4\r\n", b"invalid bulk length"),
        (b"*1\r\n$99999999999\r\n", b"invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", b"invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n", b"invalid bulk length"),
        (b"*1\r\n$\r\n", b"invalid bulk length"),
        (b"*x\r\n", b"invalid multibulk length"),
        (b"*1x\r\n", b"invalid multibulk length"),
        (b"* 1\r\n", b"invalid multibulk length"),
        (b"*9223372036854775807\r\n", b"invalid multibulk length"),
        (b"*9223372036854775808\r\n", b"invalid multibulk length"),
        (b"*2147483648\r\n", b"invalid multibulk length"),
    ],
)
def test_protocol_errors_are_sent_and_close(resp, request_bytes, error):
    """A malformed request gets one error, then the server closes the connection."""
    resp.send(request_bytes)
    assert resp.rest() == b"-ERR Protocol error: " + error + b"\r\n"


def test_requests_before_a_protocol_error_are_answered(resp):
    """The requests before the malformed one are executed."""
    resp.send(b"PING\r\n*1\r\n$x\r\nPING\r\n")
    assert resp.rest() == b"+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"


def test_command_names_in_any_case(resp):
    """Commands and options are case-insensitive, keys are not."""
    resp.transcript("""
        sEt Key 1 eX 100 => +OK
        gEt Key => "1"
        get key => nil
    """)


def test_a_request_in_single_bytes(resp):
    """A request may arrive in any number of packets."""
    for byte in encode("SET", "k", "v" * 20):
        resp.send(bytes([byte]))
    assert resp.reply() == OK


@pytest.mark.parametrize("cut", range(1, 31))
def test_a_request_cut_at_every_offset(resp, cut):
    """The result does not depend on how the request is split into packets."""
    request = encode("SET", "k", "val\r\n") + b"PING\r\n"
    resp.send(request[:cut])
    time.sleep(0.001)
    resp.talk(request[cut:], b"+OK\r\n+PONG\r\n")


def test_a_large_pipeline_is_answered_in_order(resp):
    """Thousands of requests in one stream are answered in order."""
    count = 20_000
    resp.send(b"".join(encode("ECHO", i) for i in range(count)))
    resp.hear(b"".join(b"$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(count)))


def test_a_pipeline_with_errors_goes_on(resp):
    """An error is the reply to its request only."""
    resp.talk(
        b"SET k a\r\nINCR k\r\nNONESUCH\r\nGET k\r\n",
        b"+OK\r\n-ERR value is not an integer or out of range\r\n"
        b"-ERR unknown command 'NONESUCH', with args beginning with: \r\n$1\r\na\r\n",
    )


def test_a_large_value_in_pieces(resp):
    """A value larger than any buffer arrives complete."""
    value = random.Random(1).randbytes(5_000_000)
    request = encode("SET", "k", value)
    for start in range(0, len(request), 700_001):
        resp.send(request[start : start + 700_001])
    assert resp.reply() == OK
    assert resp.call("GET", "k") == value


def test_many_large_replies_in_a_pipeline(resp):
    """Replies that exceed the socket's buffers wait for the client and keep their order."""
    value = b"x" * 100_000
    resp.call("SET", "k", value)
    resp.send(encode("GET", "k") * 200 + encode("ECHO", "end"))
    for _ in range(200):
        assert resp.reply() == value
    assert resp.reply() == b"end"


def test_requests_after_half_close_are_answered(resp):
    """A client that has closed its sending side still receives every reply."""
    resp.send(encode("SET", "k", "v") + encode("GET", "k"))
    resp.half_close()
    assert resp.rest() == b"+OK\r\n$1\r\nv\r\n"


def test_http_is_not_served(resp, connect):
    """The server closes the connection of a browser before it parses the body as commands."""
    for line in (b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n"):
        own = connect.resp()
        own.send(line + (b"Host: localhost\r\n\r\nSET k v\r\n" if line.startswith(b"POST") else b"\r\nSET k v\r\n"))
        assert own.is_closed()
        assert resp.call("EXISTS", "k") == 0


def test_errors_of_a_mistyped_word_are_no_status(resp):
    """Errors and statuses have different types."""
    assert isinstance(resp.call("NONESUCH"), Error)
    assert isinstance(resp.call("PING"), Status)


def test_versions_live_side_by_side(resp, resp3):
    """The protocol version applies to one connection."""
    resp.talk(encode("GET", "x"), b"$-1\r\n")
    resp3.talk(encode("GET", "x"), b"_\r\n")
    resp.talk(encode("GET", "x"), b"$-1\r\n")


def test_switching_the_version_inside_a_pipeline(resp):
    """HELLO applies to the requests that follow it."""
    resp.send(encode("GET", "x") + encode("HELLO", 3) + encode("GET", "x") + encode("HELLO", 2) + encode("GET", "x"))
    resp.hear(b"$-1\r\n")
    assert isinstance(resp.reply(), dict)
    resp.hear(b"_\r\n")
    assert isinstance(resp.reply(), list)
    resp.hear(b"$-1\r\n")


def test_library_pipeline(client_of_either_version):
    """redis-py's pipeline without a transaction."""
    pipe = client_of_either_version.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"k{i}", i)
    for i in range(1000):
        pipe.get(f"k{i}")
    answers = pipe.execute()
    assert answers[:1000] == [True] * 1000
    assert answers[1000:] == [str(i).encode() for i in range(1000)]
