"""The HTTP port for monitors: metrics, health, status, and what it refuses."""

import base64
import contextlib
import http.client
import json
import random
import re
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

import served
import wire
from fixtures import PASSWORD
from wire import OK

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TIMEOUT_S = 60
# No request may hold the server of the port longer, whatever it sends: its time limits are below this.
ANSWER_TIMEOUT_S = 60
HTTP = ("--listen-http", "127.0.0.1:0")
# A connection that is idle for longer may be closed: the server allows 5 s.
IDLE_S = 4


@pytest.fixture(scope="module")
def monitored(request):
    """A server with a port for monitors."""
    from fixtures import start

    server = start(request.config, *HTTP)
    yield server
    assert server.stop()[0] == 0, server.output()


@pytest.fixture(scope="module")
def locked(request, tmp_path_factory):
    """A server with a password and a port for monitors."""
    from fixtures import start

    path = tmp_path_factory.mktemp("locked") / "password"
    path.write_text(PASSWORD + "\n")
    path.chmod(0o600)
    server = start(request.config, *HTTP, "--password-file", path)
    yield server
    assert server.stop()[0] == 0, server.output()


def get(server, path, method="GET", headers=None, body=None):
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection(*server.http, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def basic(password, user="monitor"):
    """The header of HTTP basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def metrics(server, **keywords):
    """The samples of /metrics, as the client library of Prometheus parses them: (name, labels) -> value."""
    status, headers, body = get(server, "/metrics", **keywords)
    assert status == 200, body
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    names = set()
    for family in text_string_to_metric_families(body):
        assert family.name not in names, family.name
        names.add(family.name)
        assert family.type in ("counter", "gauge", "histogram", "summary"), family
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(found, name, **labels):
    """One sample."""
    return found[name, frozenset(labels.items())]


def test_commands_are_counted(monitored):
    """Calls, errors and the histogram of a command agree with each other and with what was sent."""
    with wire.Resp(monitored.resp) as resp:
        resp.call("SET", "n", "x")
        before = metrics(monitored)
        for _ in range(100):
            assert resp.call("GET", "n") == b"x"
        resp.call("INCR", "n")
        after = metrics(monitored)
    get_labels = {"protocol": "resp", "command": "get"}
    name = "todana_command_duration_seconds"
    assert value(after, name + "_count", **get_labels) - before.get((name + "_count", frozenset(get_labels.items())), 0) == 100
    assert value(after, "todana_command_errors_total", protocol="resp", command="incr") >= 1
    assert value(after, "todana_commands_total", protocol="resp") - value(before, "todana_commands_total", protocol="resp") == 101
    assert value(after, "todana_lookup_hits_total") - value(before, "todana_lookup_hits_total") >= 100
    buckets = sorted(
        (float(dict(labels)["le"]), count)
        for (sample, labels), count in after.items()
        if sample == name + "_bucket" and dict(labels)["command"] == "get"
    )
    counts = [count for _, count in buckets]
    assert counts == sorted(counts) and buckets[-1][0] == float("inf")
    assert counts[-1] == value(after, name + "_count", **get_labels)
    assert 0 < value(after, name + "_sum", **get_labels) < 60


def test_half_sent_requests_hold_up_no_probe(monitored):
    """Connections beyond the limit are served; those that have waited longest are closed, before their time is over."""
    with contextlib.ExitStack() as stack:
        half_sent = []
        for number in range(400):
            connection = stack.enter_context(socket.create_connection(monitored.http, TIMEOUT_S))
            connection.sendall(b"GET /heal" if number % 2 else b"")
            half_sent.append(connection)
        status, _, body = get(monitored, "/healthz")
        assert (status, body) == (200, "ok\n")
        # Cowboy would answer a request that takes too long with 408.
        for connection in half_sent[:200]:
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""


def test_a_connection_in_use_outlives_idle_ones(monitored):
    """A connection of a monitor is not closed for the sake of clients that send nothing."""
    # On a busy machine, it may be closed because it was idle itself.
    while idle_s := outlives_idle_ones(monitored):
        assert idle_s > IDLE_S


def outlives_idle_ones(monitored) -> float:
    """Zero, or the time since the last request when the connection was found closed."""
    with contextlib.ExitStack() as stack:
        connection = http.client.HTTPConnection(*monitored.http, timeout=TIMEOUT_S)
        stack.callback(connection.close)
        connection.connect()
        kept, used = connection.sock, time.monotonic()
        for _ in range(300):
            stack.enter_context(socket.create_connection(monitored.http, TIMEOUT_S))
            used, before = time.monotonic(), used
            try:
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                return time.monotonic() - before
            assert (answer.status, answer.read()) == (200, b"ok\n")
        assert connection.sock is kept
    return 0


def test_each_protocol_is_counted(monitored):
    """memcached's and Kyoto Tycoon's commands have their own series."""
    with wire.Connection(monitored.memcached) as connection:
        connection.send(b"set m 0 0 1\r\nx\r\n")
        assert connection.line() == b"STORED"
    found = metrics(monitored)
    assert value(found, "todana_command_duration_seconds_count", protocol="memcached", command="set") >= 1
    assert value(found, "todana_connections", protocol="kyoto") == 0


def test_every_figure_of_info_is_a_metric(monitored):
    """The figures that INFO measures are found under a name of Prometheus, with about the same values."""
    with wire.Resp(monitored.resp) as resp:
        resp.call("SET", "a", "x", "PX", "1000000")
        info = dict(line.split(":", 1) for line in resp.call("INFO").decode().splitlines() if ":" in line)
        found = metrics(monitored)
    totals = {name: sum(count for (sample, _), count in found.items() if sample == name) for name, _ in found}
    same = {
        "maxclients": "todana_connections_limit",
        "connected_clients": "todana_connections",
        "peak_clients": "todana_connections_peak",
        "total_connections_received": "todana_connections_accepted_total",
        "rejected_connections": "todana_connections_rejected_total",
        "expired_keys": "todana_expired_records_total",
        "evicted_keys": "todana_evicted_records_total",
        "refused_writes": "todana_refused_writes_total",
        "keyspace_hits": "todana_lookup_hits_total",
        "keyspace_misses": "todana_lookup_misses_total",
        "total_error_replies": "todana_error_replies_total",
        "acl_access_denied_auth": "todana_authentication_failures_total",
        "maxmemory": "todana_memory_limit_bytes",
        "maxmemory_clients": "todana_clients_memory_limit_bytes",
        "total_system_memory": "todana_system_memory_bytes",
    }
    for field, name in same.items():
        assert float(info[field]) == totals[name], (field, name)
    about = {
        "total_commands_processed": "todana_commands_total",
        "total_net_input_bytes": "todana_received_bytes_total",
        "used_memory_rss": "process_resident_memory_bytes",
    }
    for field, name in about.items():
        assert totals[name] >= float(info[field]) * 0.5, (field, name)
    assert value(found, "todana_memory_bytes", use="records") >= float(info["used_memory_dataset"])
    keys = dict(pair.split("=") for pair in info["db0"].split(","))
    assert value(found, "todana_database_records", database="0") == float(keys["keys"])
    assert value(found, "todana_database_records_with_expiry", database="0") == float(keys["expires"])
    assert value(found, "process_start_time_seconds") <= time.time() + 1


def test_counters_survive_a_reset_by_a_client(monitored):
    """CONFIG RESETSTAT changes INFO; a counter of Prometheus goes on."""
    with wire.Resp(monitored.resp) as resp:
        resp.call("GET", "n")
        before = metrics(monitored)
        assert resp.call("CONFIG", "RESETSTAT") == OK
        after = metrics(monitored)
    assert value(after, "todana_commands_total", protocol="resp") > value(before, "todana_commands_total", protocol="resp")


def test_event_loops_and_schedulers_are_timed(monitored):
    """Busy times grow, and no scheduler is busier than time has passed."""
    before = metrics(monitored)
    with wire.Resp(monitored.resp) as resp:
        for _ in range(200):
            resp.call("PING")
    after = metrics(monitored)

    def total(found, name):
        return sum(count for (sample, _), count in found.items() if sample == name)

    name = "todana_event_loop_busy_seconds_total"
    assert total(after, name) > total(before, name)
    assert total(after, "todana_event_loop_round_duration_seconds_count") >= 200
    schedulers = [(labels, count) for (sample, labels), count in after.items() if sample == "todana_scheduler_busy_seconds_total"]
    assert schedulers
    for labels, busy in schedulers:
        assert 0 <= busy <= after["todana_scheduler_seconds_total", labels] + 0.01


def test_status_is_json(monitored):
    """/status.json has the listeners, the figures, and whether the node is ready."""
    status, headers, body = get(monitored, "/status.json")
    found = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert found["ready"] is True and found["reason"] is None
    assert found["listeners"]["resp"] == ["%s:%d" % monitored.resp]
    assert found["listeners"]["http"] == ["%s:%d" % monitored.http]
    assert found["server"]["connections_max"] == 10_000
    assert found["log"]["state"] == "serving"


def test_names_of_a_server_without_scopes(monitored):
    """Only Erlang code starts scopes: todana_name_reads_SUITE has those. Here are the sentences of a server that has none."""
    assert json.loads(get(monitored, "/names")[2]) == json.loads(get(monitored, "/groups")[2]) == {"scopes": []}
    for path, status, words in (
        ("/names/x", 404, "no scope"), ("/names/x?name=a", 404, "no scope"), ("/groups/x", 404, "no scope"),
        ("/names/x?name=%7B", 400, "not complete"), ("/names/x?y=1", 400, "no parameter"), ("/names?y=1", 400, "no parameter"),
    ):
        found, headers, body = get(monitored, path)
        assert (found, words in body) == (status, True), (path, body)
        assert headers["Content-Type"].startswith("text/plain")
    with wire.Resp(monitored.resp) as resp:
        assert resp.call("TODANA.SCOPES") == []
        assert resp.call("TODANA.NAMES", "x") == wire.Error("ERR there is no scope of this name")
        assert "not complete" in str(resp.call("TODANA.WHEREIS", "x", "{user,7"))
        resp.send(wire.encode("TODANA.GROUPS", "x") * 200 + wire.encode("PING"))
        assert {resp.reply().text for _ in range(200)} == {"ERR there is no scope of this name"}
        assert resp.reply() == wire.Status("PONG")


def test_health(monitored):
    """Both are 200 on a node that serves."""
    for path in ("/healthz", "/readyz"):
        assert get(monitored, path)[::2] == (200, "ok\n")


def test_the_index_and_what_is_not_there(monitored):
    """The first page names the others; paths are exact; other methods are refused; HEAD has no body."""
    assert "/metrics" in get(monitored, "/")[2]
    for path in ("/metric", "/metrics/", "//metrics", "/metrics%00", "/../metrics", "/STATUS.json"):
        assert get(monitored, path)[0] in (400, 404), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = get(monitored, "/metrics", method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD"), method
    status, headers, body = get(monitored, "/metrics", method="HEAD")
    assert status == 200 and body == "" and int(headers["Content-Length"]) > 1000
    assert get(monitored, "/metrics", headers={"Accept-Encoding": "gzip"})[1]["Content-Encoding"] is None


def test_a_page_of_another_site_cannot_read_the_figures(monitored):
    """Without a password, the Host must be an address or localhost: a browser sends the name of the page's site."""
    for host, status in (("evil.example", 403), ("localhost.evil.example:80", 403), ("localhost:9379", 200), ("127.0.0.1", 200), ("[::1]:1", 200)):
        for path in ("/metrics", "/status.json", "/names", "/groups"):
            assert get(monitored, path, headers={"Host": host})[0] == status, host
            # A page may add this header to requests to its own site.
            assert get(monitored, path, headers={"Host": host, **basic("any")})[0] == status, host
    assert get(monitored, "/readyz", headers={"Host": "node.internal"})[0] == 200


def test_a_request_has_no_body(monitored):
    """A body is refused without being read, and the connection is closed."""
    status, headers, _ = get(monitored, "/metrics", body=b"x" * 10_000)
    assert (status, headers["Connection"]) == (413, "close")
    with wire.Connection(monitored.http) as connection:
        connection.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert connection.line().startswith(b"HTTP/1.1 413")


def test_a_password_locks_the_figures(locked):
    """Figures and names need the password, with any user name; health does not."""
    for path in ("/metrics", "/status.json", "/names", "/groups"):
        status, headers, body = get(locked, path)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic ")
        assert "todana_" not in body
        assert get(locked, path, headers=basic(PASSWORD))[0] == 200
        assert get(locked, path, headers=basic(PASSWORD, user=""))[0] == 200
    for path in ("/names/x", "/groups/x?group=a"):
        assert [get(locked, path, headers=headers)[0] for headers in ({}, basic(PASSWORD))] == [401, 404]
    for path in ("/healthz", "/readyz", "/"):
        assert get(locked, path)[0] == 200
    for wrong in ("Basic", "Basic !", "Basic " + "x" * 3000, "Bearer " + PASSWORD, "Digest username=x", "\x80"):
        assert get(locked, "/metrics", headers={"Authorization": wrong})[0] in (400, 401), wrong


def test_wrong_passwords_are_counted_and_slowed_down(locked):
    """They are authentication failures like those of other ports, and a guess costs time after some of them."""
    before = metrics(locked, headers=basic(PASSWORD))
    begun = time.monotonic()
    for number in range(8):
        assert get(locked, "/metrics", headers=basic(f"guess {number}"))[0] == 401
    assert time.monotonic() - begun > 1.0
    after = metrics(locked, headers=basic(PASSWORD))
    name = "todana_authentication_failures_total"
    assert value(after, name) - value(before, name) == 8
    assert PASSWORD not in locked.output()


def test_hostile_bytes_are_answered_or_the_connection_is_closed(monitored):
    """Broken, long and slow requests harm nobody: the port answers the next one, and the log stays empty."""
    chance = random.Random(20261123)
    line = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"
    requests = [
        b"", b"\0" * 10_000, b"\r\n" * 10_000, b"GET", b"GET /metrics", b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n", b"A" * 100_000 + b" / HTTP/1.1\r\n\r\n",
        line + b"X: " + b"y" * 100_000 + b"\r\n\r\n", line + b"X: y\r\n" * 10_000 + b"\r\n",
        line + b"n" * 10_000 + b": y\r\n\r\n", line + b"Content-Length: -1\r\n\r\n",
        line + b"Content-Length: 99999999999999999999\r\n\r\n",
        line + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        line + b"Transfer-Encoding: gzip\r\n\r\n", line + b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n",
        line + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0", b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n",
        line + b"Authorization: Basic \xff\xfe\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    ]
    requests += [chance.randbytes(chance.randint(1, 3000)) for _ in range(50)]
    for request in requests:
        with socket.create_connection(monitored.http, ANSWER_TIMEOUT_S) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := connection.recv(65_536):
                    answer += chunk
            except TimeoutError:
                raise
            except OSError:
                # The server has closed the connection.
                continue
            assert answer == b"" or answer.startswith(b"HTTP/1.1 "), (request[:80], answer[:80])
    assert get(monitored, "/readyz")[0] == 200
    assert "crash" not in monitored.output().lower() and "error" not in monitored.output().lower(), monitored.output()


def test_many_idle_connections_do_not_lock_others_out(monitored):
    """Connections are bounded; those that say nothing are closed in time, so that a scrape comes through."""
    idle = [socket.create_connection(monitored.http, TIMEOUT_S) for _ in range(200)]
    try:
        assert get(monitored, "/healthz")[0] == 200
        with wire.Resp(monitored.resp) as resp:
            assert resp.call("PING").text == "PONG"
    finally:
        for connection in idle:
            connection.close()


def test_a_taken_port(start_server, tmp_path):
    """The default gives way to another server with a warning; a given address is an error."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "%s:%d" % taken.getsockname()
        with pytest.raises(served.NotStarted, match="listen_http: cannot listen on " + address):
            start_server("--listen-http", address)
    both = [start_server("--listen-http", "auto").http for _ in range(2)]
    # A server of another test may have the port, and give it up between the two starts.
    assert both.count(None) >= 1 and set(both) <= {None, ("127.0.0.1", 9379)}


def test_a_node_without_listeners_is_monitored(start_server):
    """The figures of the Erlang side have no need for a port of a protocol."""
    off = ("--listen-resp", "off", "--listen-memcached", "off", "--listen-kyoto", "off")
    server = start_server(*off, *HTTP)
    assert get(server, "/readyz")[0] == 200
    assert value(metrics(server), "todana_connections_peak") == 0


@pytest.mark.memory_only
def test_a_node_is_ready_when_its_log_is_read(start_server, tmp_path):
    """A durable node has the figures of its log, and says why it is not ready."""
    server = start_server(*HTTP, "--data-dir", tmp_path / "data")
    with wire.Resp(server.resp) as resp:
        assert resp.call("SET", "k", "v") == OK
    found = metrics(server)
    assert value(found, "todana_log_commands_total") >= 1
    assert value(found, "todana_disk_free_bytes") > 0
    assert value(found, "todana_ready") == 1
    # Too little room for the reserve: writes are refused, and so the node is not ready.
    full = start_server(*HTTP, "--data-dir", tmp_path / "full", "--disk-reserve", "1tb")
    deadline = time.monotonic() + served.READY_TIMEOUT_S
    while (answer := get(full, "/readyz"))[0] == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert answer[0] == 503 and "disk" in answer[2], answer
    assert get(full, "/healthz")[0] == 200
    assert value(metrics(full), "todana_ready") == 0


def test_dashboard_and_alarms_name_metrics_that_exist():
    """Every metric in deploy/ is in the table from which /metrics is made; the dashboard's panels fit on its grid."""
    known = set(re.findall(r'"((?:todana|process)_[a-z_]+)"', (served.ROOT / "src/admin/todana_metrics.erl").read_text()))
    histograms = {name + suffix for name in known if name.endswith("_duration_seconds") for suffix in ("_bucket", "_sum", "_count")}
    dashboard = json.loads((served.ROOT / "deploy/grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    expressions += [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    expressions += re.findall(r"expr: (.*)", (served.ROOT / "deploy/alerts.yml").read_text())
    assert len(expressions) > 50
    for expression in expressions:
        named = re.findall(r"\b(?:todana|process)_[a-z_]+", expression.replace('job="todana"', ""))
        assert set(named) <= known | histograms, expression
        assert named or expression.startswith("up{"), expression
        assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}"), expression
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
