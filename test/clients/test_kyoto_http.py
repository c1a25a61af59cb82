"""Section 1: HTTP framing on the Kyoto Tycoon port."""

import re

import pytest

from kyoto_wire import (
    FORM, GET_BULK, NO_RECORD, SET_BULK, TSV, chunked, frame_of_keys, frame_of_set, http, ok, rpc,
)

pytestmark = pytest.mark.todana_only

DATE = rb"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT"
SET_A = rpc("set", {"key": "a", "value": "b"})


def after(connection, request, last=b"\r\n\r\n"):
    """Reads from the connection up to these bytes."""
    connection.send(request)
    seen = bytearray()
    while not seen.endswith(last):
        seen += connection.take(1)
    return bytes(seen)


def test_the_whole_response(kyoto):
    """Every byte of the answer to a request."""
    head = after(kyoto, http("POST", "/rpc/void"))
    assert re.fullmatch(
        rb"HTTP/1\.1 200 OK\r\nServer: [^\r\n]+\r\nDate: " + DATE
        + rb"\r\nContent-Length: 0\r\nContent-Type: text/tab-separated-values\r\n\r\n", head
    ), head


def test_the_whole_response_of_an_error(kyoto):
    """An error has a body."""
    head = after(kyoto, http("POST", "/rpc/get?key=a"))
    assert re.fullmatch(
        rb"HTTP/1\.1 450 Logical Inconsistency\r\nServer: [^\r\n]+\r\nDate: " + DATE
        + rb"\r\nContent-Length: 34\r\nContent-Type: text/tab-separated-values\r\n\r\n", head
    ), head
    kyoto.hear(b"ERROR\tDB: 7: no record: no record\n")


def test_a_response_before_closing(kyoto):
    """`Connection: close` follows the date."""
    head = after(kyoto, http("POST", "/rpc/void", [("Connection", "close")]))
    assert [line.split(b":")[0] for line in head.split(b"\r\n")[1:-2]] == [
        b"Server", b"Date", b"Connection", b"Content-Length", b"Content-Type",
    ]
    assert kyoto.rest() == b""


@pytest.mark.parametrize(
    "version, header, stays",
    [
        ("HTTP/1.1", None, True), ("HTTP/1.0", None, False), ("HTTP/1.1", "close", False), ("HTTP/1.0", "keep-alive", True),
        ("HTTP/1.1", "CLOSE", False), ("HTTP/1.0", "Keep-Alive", True), ("HTTP/1.1", "keep-alive", True),
    ],
)
def test_keep_alive(kyoto, version, header, stays):
    """By default the connection stays open in 1.1 and is closed in 1.0; the header overrides this."""
    headers = [] if header is None else [("Connection", header)]
    response = kyoto.ask("GET", "/rpc/void", headers, version=version)
    assert response.headers.get("Connection") == (None if stays else "close")
    if stays:
        assert kyoto.ask("GET", "/rpc/void").status == 200
    else:
        assert kyoto.rest() == b""


def test_pipelined_requests(kyoto):
    """Answers to HTTP and binary requests arrive in order."""
    kyoto.send(
        SET_A
        + frame_of_set([(0, b"c", b"d", 100)])
        + http("GET", "/a")
        + frame_of_keys(GET_BULK, [(0, b"a")])
        + rpc("get", {"key": "none"})
    )
    assert kyoto.answer() == ok()
    assert kyoto.count_of(SET_BULK) == 1
    assert kyoto.response().body == b"b"
    assert [value for _, _, value, _ in kyoto.records()] == [b"b"]
    assert kyoto.answer() == NO_RECORD


def test_deep_pipelines(kyoto):
    """Thousands of requests in one stream."""
    kyoto.send(SET_A + http("GET", "/a") * 3000)
    assert kyoto.answer() == ok()
    for _ in range(3000):
        assert kyoto.response().body == b"b"


@pytest.mark.one_backend
def test_a_stream_cut_at_every_byte(connect):
    """The answers do not depend on how the stream is split into packets."""
    stream = SET_A + http("GET", "/a") + frame_of_keys(GET_BULK, [(0, b"a")]) + rpc("check", {"key": "a"}, encoding="U")
    for at in range(1, len(stream)):
        with connect.kyoto() as kyoto:
            kyoto.send(stream[:at])
            kyoto.send(stream[at:])
            assert kyoto.answer() == ok()
            assert kyoto.response().body == b"b"
            assert len(kyoto.records()) == 1
            assert kyoto.answer() == ok(vsiz=1)


def test_a_request_byte_by_byte(kyoto):
    """Each byte is sent in its own packet."""
    for byte in SET_A:
        kyoto.send(bytes([byte]))
    assert kyoto.answer() == ok()


@pytest.mark.parametrize(
    "request_bytes", [b"GET /rpc/void HTTP/1.1\nHost: localhost\n\n", b"GET /rpc/void HTTP/1.1\nHost: localhost\r\n\n"]
)
def test_lines_end_at_lf(kyoto, request_bytes):
    """CR LF, LF and both."""
    kyoto.send(request_bytes)
    assert kyoto.answer() == ok()


@pytest.mark.parametrize(
    "line",
    [
        "GARBAGE", "GET /a", "GET", "GET /a HTTP/1.2", "GET /a HTTP/2.0", "GET /a http/1.1", "GET /a HTTP/1.1x", "GET  /a HTTP/1.1",
        "GET /a  HTTP/1.1", "GET /a b HTTP/1.1", "GET /a HTTP/11", "GET /a HTTP/1", " GET /a HTTP/1.1", "",
    ],
)
def test_a_bad_request_line_closes_without_a_reply(kyoto, line):
    """The server sends no reply, as ktserver does."""
    assert kyoto.ends_silently(line.encode() + b"\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "post", "X"])
def test_any_method_runs_a_procedure(kyoto, method):
    """Known and unknown methods run the procedure."""
    response = kyoto.ask(method, "/rpc/echo?a=1")
    assert (response.status, response.body) == (200, b"a\t1\n")


def test_head_runs_a_procedure_and_has_no_body(kyoto):
    """The answer has no length either."""
    response = kyoto.ask("HEAD", "/rpc/set?key=a&value=b")
    assert (response.status, response.headers.get("Content-Length"), response.headers["Content-Type"]) == (200, None, TSV)
    assert kyoto.value("a") == b"b"


@pytest.mark.parametrize("method", ["PATCH", "get", "Put", "OPTIONS", "TRACE", "POST"])
def test_unknown_methods_have_no_meaning_beside_procedures(kyoto, method):
    """Methods are case-sensitive."""
    response = kyoto.ask(method, "/a", body=b"")
    assert (response.status, response.body) == (501, b"")


@pytest.mark.parametrize("name", ["content-type", "CONTENT-TYPE", "Content-type", "CoNtEnT-TyPe"])
def test_header_names_in_any_case(kyoto, name):
    """Header names are case-insensitive in HTTP."""
    assert kyoto.ask("POST", "/rpc/echo", [(name, TSV)], b"a\t1\n").body == b"a\t1\n"


@pytest.mark.parametrize("space", ["", " ", "    "])
def test_spaces_before_a_header_value(kyoto, space):
    """The blanks are not part of the value."""
    kyoto.send(b"POST /rpc/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length:%s4\r\nContent-Type:%s%s\r\n\r\na\t1\n" % (
        space.encode(), space.encode(), TSV.encode(),
    ))
    assert kyoto.answer() == ok(a=1)


def test_the_last_of_several_headers_counts(kyoto):
    """The last `Content-Type` counts."""
    assert kyoto.ask("POST", "/rpc/echo", [("Content-Type", "text/plain"), ("Content-Type", TSV)], b"a\t1\n").body == b"a\t1\n"
    assert kyoto.ask("POST", "/rpc/echo", [("Content-Type", TSV), ("Content-Type", "text/plain")], b"a\t1\n").body == b""


def test_the_host_that_the_cpp_client_sends(kyoto):
    """The name before the port is empty."""
    kyoto.send(b"POST /rpc/void HTTP/1.1\r\nHost: :1978\r\nContent-Length: 0\r\nContent-Type: text/tab-separated-values\r\n\r\n")
    assert kyoto.answer() == ok()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_no_length_is_no_body(kyoto, method):
    """A missing length is not an error."""
    assert kyoto.ask(method, "/rpc/echo", [("Content-Type", TSV)]).body == b""
    assert kyoto.ask("GET", "/rpc/void").status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_an_unexpected_body_is_never_a_request(kyoto, method):
    """The server ignores the body. ktserver parses it as a request, so that one client could send requests as another."""
    kyoto.send(http(method, "/rpc/void", body=SET_A) + http("GET", "/a"))
    kyoto.response(head=method == "HEAD")
    assert kyoto.response().status == 404


def test_expect_is_answered_or_passed_over(kyoto):
    """The server answers 100 to a client that waits; a client that does not wait gets only the final answer."""
    body = b"a\t1\n"
    kyoto.send(http("POST", "/rpc/echo", [("Content-Type", TSV), ("Expect", "100-continue")], body))
    head = after(kyoto, b"", b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100 "):
        head = after(kyoto, b"", b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    kyoto.hear(body)


@pytest.mark.parametrize(
    "body",
    [
        chunked(b"a\t1\n", b"b\t2\n"), b"8\r\na\t1\nb\t2\n\r\n0\r\n\r\n", b"08\r\na\t1\nb\t2\n\r\n0\r\n\r\n",
        b"".join(b"1\r\n%c\r\n" % byte for byte in b"a\t1\nb\t2\n") + b"0\r\n\r\n",
    ],
    ids=["two chunks", "one", "leading zero", "many"],
)
def test_chunked_bodies(kyoto, body):
    """The server joins the chunks, and the connection stays open."""
    kyoto.send(http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + body)
    assert kyoto.answer() == ok(a=1, b=2)
    assert kyoto.call("void") == ok()


@pytest.mark.parametrize("size", [b"a", b"A", b"0a", b"000A"])
def test_chunk_sizes_are_hexadecimal(kyoto, size):
    """The digits may be in either case."""
    kyoto.send(
        http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + size + b"\r\na\t2345678\n\r\n0\r\n\r\n"
    )
    assert kyoto.answer() == ok(a="2345678")


@pytest.mark.one_backend
def test_a_chunked_body_cut_at_every_byte(connect):
    """The answer does not depend on how the body is split into packets."""
    stream = http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + chunked(b"a\t1\nb", b"\t2\n")
    for at in range(stream.index(b"\r\n\r\n"), len(stream)):
        with connect.kyoto() as kyoto:
            kyoto.send(stream[:at])
            kyoto.send(stream[at:])
            assert kyoto.answer() == ok(a=1, b=2)


@pytest.mark.parametrize("chunk", [b"x\r\n", b"-1\r\n", b"8\r\na\t1\nb\t2\nxx0\r\n\r\n", b"fffffffffffffffff\r\n"])
def test_a_bad_chunk(kyoto, chunk):
    """The server returns an error and closes the connection."""
    kyoto.send(http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + chunk)
    response = kyoto.response()
    assert response.status in (400, 413)
    assert response.headers["Connection"] == "close"
    if response.status == 400:
        assert response.body == b"400 Bad Request (invalid chunk)\n"
    assert kyoto.rest() == b""


def test_a_body_that_ends_early(kyoto):
    """The server returns an error and closes the connection."""
    kyoto.send(http("POST", "/rpc/echo", [("Content-Type", FORM), ("Content-Length", "10")]) + b"a=1")
    kyoto.half_close()
    rest = kyoto.rest()
    assert rest == b"" or (rest.startswith(b"HTTP/1.1 400 Bad Request\r\n") and rest.endswith(b"400 Bad Request (receiving data failed)\n"))


def test_a_head_that_ends_early(kyoto):
    """The server sends no answer."""
    kyoto.send(b"POST /rpc/void HTTP/1.1\r\nHost: local")
    kyoto.half_close()
    assert kyoto.rest() == b""


def test_idle_connections_stay(kyoto):
    """The server sends nothing on an idle connection."""
    assert kyoto.call("void") == ok()
    assert kyoto.is_silent(0.3)
    assert kyoto.call("void") == ok()
