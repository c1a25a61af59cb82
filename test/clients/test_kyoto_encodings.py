"""Sections 2.1 and 2.2: the encodings of maps."""

import random

import pytest

from kyoto_wire import FORM, TSV, encoding_of, http, ok, rpc, to_form, to_tsv, tsv_as_sent

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

BINARY = bytes(range(256))


def echo(kyoto, kind, body, query=""):
    """The map that the server parses from a body."""
    headers = [] if kind is None else [("Content-Type", kind)]
    kyoto.send(http("POST", "/rpc/echo" + query, headers, body))
    return kyoto.answer()


# --- maps in requests


@pytest.mark.parametrize("encoding", ["B", "Q", "U"])
def test_every_encoding_carries_every_byte(kyoto, encoding):
    """Both names and values may contain every byte."""
    rows = {BINARY: BINARY[::-1], b"plain": b"text", b"": b""}
    kyoto.send(rpc("echo", rows, encoding))
    assert kyoto.answer() == ok(rows)


@pytest.mark.parametrize(
    "kind",
    [
        TSV + "; colenc=B", TSV + ";colenc=B", TSV + "; colenc=b", TSV + ';  colenc="B"', TSV + '; colenc="b"', TSV.upper() + "; COLENC=B",
        TSV + "; charset=UTF-8; colenc=B",
    ],
)
def test_content_types_that_say_base64(kyoto, kind):
    """The parameter is in any case, quoted, and among other parameters."""
    assert echo(kyoto, kind, to_tsv({"a": BINARY}, "B")) == ok(a=BINARY)


@pytest.mark.parametrize("kind", ["application/octet-stream", "text/plain", "", None, "text/html", "x" + TSV])
def test_bodies_of_other_types_are_passed_over(kyoto, kind):
    """The server ignores the body without an error."""
    assert echo(kyoto, kind, b"a\t1\n") == ok()


@pytest.mark.parametrize(
    "body, rows",
    [
        (b"a\t1\nb\t2\n", {b"a": b"1", b"b": b"2"}),
        (b"a\t1\nb\t2", {b"a": b"1", b"b": b"2"}),
        (b"a\t1\r\nb\t2\r\n", {b"a": b"1", b"b": b"2"}),
        (b"a\t1\t2\t3\n", {b"a": b"1\t2\t3"}),
        (b"no tab\na\t1\n\n\n", {b"a": b"1"}),
        (b"a\t1\na\t2\n", {b"a": b"2"}),
        (b"\t1\n", {b"": b"1"}),
        (b"a\t\n", {b"a": b""}),
        (b"", {}),
        (b"\n\n", {}),
        (b"a\tx\0y\n", {b"a": b"x\0y"}),
        (b"a\t1\r\r\n", {b"a": b"1\r"}),
        ("ä\tö\n".encode(), {"ä".encode(): "ö".encode()}),
    ],
)
def test_lines(kyoto, body, rows):
    """The ends of columns and lines."""
    assert echo(kyoto, TSV, body) == ok(rows)


@pytest.mark.parametrize(
    "query, rows",
    [
        ("?a=1&b=2", {"a": "1", "b": "2"}), ("?a=1;b=2", {"a": "1", "b": "2"}), ("?a", {"a": ""}), ("?a=", {"a": ""}),
        ("?a=1&a=2", {"a": "2"}), ("?a=x+y%20z", {"a": "x y z"}), ("?a%3Db=c%26d", {"a=b": "c&d"}), ("?a=1=2", {"a": "1=2"}),
        ("?a=%00%ff%0A", {"a": b"\0\xff\n"}), ("?a=1?2", {"a": "1?2"}), ("", {}),
    ],
)
def test_queries(kyoto, query, rows):
    """Queries are encoded like forms."""
    kyoto.send(http("GET", "/rpc/echo" + query))
    assert kyoto.answer() == ok(rows)


def test_bytes_that_do_not_belong_into_a_url_vanish(kyoto):
    """The server drops bytes outside ASCII that are not escaped."""
    kyoto.send(b"GET /rpc/echo?a=x\xc3\xa4\x80\xffy HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert kyoto.answer() == ok(a="xy")


def test_forms(kyoto):
    """A form is encoded like a query."""
    assert echo(kyoto, FORM, to_form({"a": BINARY, "b": "x y"})) == ok(a=BINARY, b="x y")
    assert echo(kyoto, FORM + "; charset=utf-8", b"a=1;b=2") == ok(a=1, b=2)
    assert echo(kyoto, FORM.upper(), b"a=1") == ok(a=1)


def test_forms_end_at_a_zero_byte(kyoto):
    """The server ignores the rest."""
    assert echo(kyoto, FORM, b"a=1\0&b=2") == ok(a=1)


def test_the_body_overwrites_the_query(kyoto):
    """Rows of the body replace those of the query one by one."""
    assert echo(kyoto, TSV, b"b\t3\nc\t4\n", "?a=1&b=2") == ok(a=1, b=3, c=4)


def test_a_query_beside_an_encoded_body_is_decoded_twice(kyoto):
    """The encoding applies to the whole map."""
    assert echo(kyoto, TSV + "; colenc=U", b"b\t%2B\n", "?a=%252B") == ok(a="+", b="+")


def test_base64_passes_over_foreign_characters(kyoto):
    """The decoder skips blanks and other foreign characters."""
    assert echo(kyoto, TSV + "; colenc=B", b"Y W E=\tMS Iz*\n") == ok(aa='1"3')


def test_quoted_printable_in_either_case(kyoto):
    """Hexadecimal digits may be in either case."""
    assert echo(kyoto, TSV + "; colenc=Q", b"a=3Db\t=c3=A4\n") == ok({"a=b": "ä".encode()})


def test_url_columns_have_plus_signs_for_spaces(kyoto):
    """As in queries."""
    assert echo(kyoto, TSV + "; colenc=U", b"a+b\tc%20d+e\n") == ok({"a b": "c d e"})


# --- maps in answers; the client of this suite checks the encoding of each


@pytest.mark.parametrize(
    "rows, encoding",
    [
        ({b"a": b"x" * 255}, None), ({b"a": b"x" * 256}, "U"), ({b"k" * 255: b"v"}, None), ({b"k" * 256: b"v"}, "U"),
        ({b"a": b"\x80\xff\xe3\x81\x82"}, None), ({b"a": b"\x1f"}, "U"), ({b"a": b"\x7f"}, "U"), ({b"a": b" "}, None),
        ({b"a": b"\n"}, "U"), ({b"a": b"x\ty"}, "U"), ({b"num": bytes(7) + b"\x64"}, "B"), ({b"a": b"x" * 300}, "U"),
        ({b"a": b"\0" * 300}, "B"), ({b"a": b"x" * 255 + b"\0"}, "U"), ({b"a": b"\xff" * 255}, None), ({b"a": b"\xff" * 256}, "B"),
        ({b"": b""}, None),
    ],
)
def test_the_encoding_of_an_answer(kyoto, rows, encoding):
    """The encoding is none, Base64 or URL, depending on length and bytes."""
    assert encoding_of(rows) == encoding
    kyoto.send(rpc("echo", rows))
    response = kyoto.response()
    assert (response.headers["Content-Type"], response.body) == tsv_as_sent(rows)


def test_an_integer_of_eight_bytes_is_sent_in_base64(kyoto):
    """All eight bytes arrive."""
    kyoto.call("increment", key="n", num=100)
    kyoto.send(rpc("get", {"key": "n"}))
    response = kyoto.response()
    assert response.headers["Content-Type"] == "text/tab-separated-values; colenc=B"
    assert response.body == b"dmFsdWU=\tAAAAAAAAAGQ=\n"


def test_url_columns_are_escaped_in_lower_case(kyoto):
    """More characters are escaped than the estimate assumes."""
    kyoto.send(rpc("echo", {"a": b"\n!~*'()-_.Z/\xff"}))
    assert kyoto.response().body == b"a\t%0a%21~%2a%27%28%29-_.Z%2f%ff\n"


def test_rows_are_in_the_order_of_their_encoded_names(kyoto):
    """This order differs from that of the names."""
    rows = {b"A": b"\n", b"a": b"1", b"\x80": b"2", b"~": b"3", b"0": b"4", b"%": b"5"}
    kyoto.send(rpc("echo", rows))
    response = kyoto.response()
    assert [line.split(b"\t")[0] for line in response.body.splitlines()] == sorted(
        {b"A", b"a", b"%80", b"~", b"0", b"%25"}
    ) or response.headers["Content-Type"].endswith("B")
    assert (response.headers["Content-Type"], response.body) == tsv_as_sent(rows)


def test_no_row_is_no_byte(kyoto):
    """The body is empty, without a line end."""
    kyoto.send(rpc("echo"))
    response = kyoto.response()
    assert (response.headers["Content-Length"], response.headers["Content-Type"]) == ("0", TSV)


@pytest.mark.parametrize("seed", range(20))
def test_random_maps(kyoto, seed):
    """The map is encoded as ktserver would encode it."""
    chance = random.Random(seed)
    alphabets = [b"abcXYZ019", b"a\xe3\x80", b" !~*'()/%&", BINARY, b"\0\x7f\x1f"]
    for _ in range(25):
        rows = {}
        for _ in range(chance.randrange(6)):
            columns = [bytes(chance.choices(chance.choice(alphabets), k=chance.choice((0, 1, 3, 20, 255, 256, 300)))) for _ in range(2)]
            rows[columns[0]] = columns[1]
        for special in (b"WAIT", b"SIGNAL", b"CUR", b"DB"):
            rows.pop(special, None)
        kyoto.send(rpc("echo", rows))
        response = kyoto.response()
        assert (response.headers["Content-Type"], response.body) == tsv_as_sent(rows)
