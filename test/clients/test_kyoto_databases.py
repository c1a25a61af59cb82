"""Section 5: databases by name, and ktserver's command line."""

import re
import signal
import subprocess

import pytest

import served
import wire
from fixtures import KYOTO_DATABASES
from kyoto_wire import Kyoto, ok
from test_configuration import assert_refused, run

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]


@pytest.fixture(autouse=True)
def only_the_real_program(request):
    """The command line under test is bin/todana's."""
    if request.config.getoption("--server") != "todana":
        pytest.skip("not bin/todana")


# --- names


@pytest.mark.parametrize(
    "identifier, number", [("", 0), ("0", 0), ("1", 1), ("06", 6), ("2x", 2), (":", 0), ("*", 2), ("-", 3), ("+", 4), ("%", 6)]
)
@pytest.mark.memory_only
def test_databases_are_named_by_number_or_name(kyoto, identifier, number):
    """If two databases have the same name, the last one counts; parameters are not part of a name."""
    assert kyoto.call("set", DB=identifier, key="k", value="v") == ok()
    assert [kyoto.count(n) for n in range(len(KYOTO_DATABASES))] == [int(n == number) for n in range(len(KYOTO_DATABASES))]


def test_resp_selects_the_same_databases(kyoto, resp):
    """RESP selects databases by number."""
    for number in range(len(KYOTO_DATABASES)):
        kyoto.call("set", DB=number, key="k", value=number)
        resp.call("SELECT", number)
        assert resp.call("GET", "k") == b"%d" % number


@pytest.fixture(scope="module")
def named(request):
    """Databases with many kinds of names."""
    from fixtures import start

    names = ("a.kcs", "b.kcg", "dir/c.kcc", "d.kcph", "e.kcpt", "f#type=%", "%#rcomp=lexdesc", "%#rcomp=decdesc", ":#ktopts=p", "b.kcg")
    server = start(request.config, databases=names)
    yield server
    server.stop()


@pytest.mark.parametrize(
    "identifier, number, kind",
    [("a.kcs", 0, 24), ("c.kcc", 2, 32), ("d.kcph", 3, 16), ("e.kcpt", 4, 17), ("f", 5, 33), ("%", 7, 33), (":", 8, 24), ("b.kcg", 9, 33)],
)
@pytest.mark.memory_only
def test_suffixes_and_types(named, identifier, number, kind):
    """The last part of the path selects the kind."""
    with Kyoto(named.kyoto) as kyoto:
        kyoto.call("clear", DB=number)
        assert kyoto.done("status", DB=identifier)["realtype"] == b"%d" % kind
        kyoto.call("set", DB=identifier, key="k", value="v")
        assert kyoto.count(number) == 1


@pytest.mark.parametrize("number, keys", [(6, [b"b", b"ab", b"a", b"9", b"10"]), (7, [b"10", b"9", b"b", b"ab", b"a"])])
def test_descending_orders(named, number, keys):
    """Descending by bytes and by number."""
    with Kyoto(named.kyoto) as kyoto:
        kyoto.call("clear", DB=number)
        for key in keys:
            kyoto.call("set", DB=number, key=key, value="v")
        seen = kyoto.keys_by_cursor(DB=number)
        assert seen == keys


@pytest.mark.parametrize("name", ["casket.kch", "casket.kct", "x#type=tree", "/tmp/casket.kch#bnum=100"])
def test_databases_on_disk_need_a_data_directory(name):
    """The error is a sentence that says what to do."""
    assert_refused(run("start", name), "data_dir", "--data-dir", "TODANA_DATA_DIR")


@pytest.mark.parametrize("name", ["dir.kcd", "dir.kcf", "notes.txt", "x#type=dir"])
def test_directories_and_text_files_are_refused(name):
    """The error is a sentence that names the kinds on disk."""
    assert_refused(run("start", name), ".kch", ".kct")


@pytest.mark.parametrize("name", ["", "casket", "x", "casket.kcz", "::", "a#type=nonesuch"])
def test_names_without_a_kind_are_refused(name):
    """The error is a sentence that lists the kinds."""
    assert run("start", name).returncode == 1


@pytest.mark.parametrize("name", ["*#capcnt=x", "%#rcomp=upside", ":#ktcapcnt=1.5", "*#capsiz=99999999999999999999"])
def test_bad_parameters_are_refused(name):
    """A known parameter must have a valid value."""
    assert_refused(run("start", name), "database")


def test_sixteen_databases(start_server):
    """There are as many databases as SELECT accepts."""
    server = start_server(databases=("%",) * 16)
    with Kyoto(server.kyoto) as kyoto:
        assert kyoto.call("set", DB=15, key="k", value="v") == ok()
        assert kyoto.call("set", DB=16, key="k", value="v").status == 400


def test_seventeen_databases():
    """The server refuses to start."""
    assert_refused(run("start", *["%"] * 17), "16")


@pytest.mark.memory_only
def test_one_database_by_default(start_server):
    """The default is `:`; RESP has sixteen databases all the same."""
    server = start_server()
    with Kyoto(server.kyoto) as kyoto, wire.Resp(server.resp) as resp:
        report = kyoto.done("report")
        assert report["db_0"].endswith(b"path=:") and "db_1" not in report
        assert kyoto.call("set", DB=1, key="k", value="v").status == 400
        assert resp.call("SELECT", 15) == wire.OK


def test_unknown_parameters_are_logged_once(start_server):
    """One line names the parameters, without their values."""
    server = start_server(databases=("%#bnum=1000#zkey=secret#nonesuch=1", ":"))
    assert wire.wait_until(lambda: "bnum" in server.output())
    lines = [line for line in server.output().splitlines() if "bnum" in line]
    assert len(lines) == 1 and "zkey" in lines[0] and "nonesuch" in lines[0]
    assert "secret" not in server.output()


# --- limits


@pytest.mark.parametrize("name", ["*#capcnt=100", ":#ktcapcnt=100", "%#ktcapcnt=100"])
@pytest.mark.memory_only
def test_a_database_has_a_limit_of_records(start_server, name):
    """Further records evict others; status returns the limit."""
    server = start_server(databases=(name, ":"))
    with Kyoto(server.kyoto) as kyoto:
        for start in range(0, 5000, 1000):
            kyoto.set_bulk(*[(0, b"k%d" % i, b"v", 1 << 62) for i in range(start, start + 1000)])
        assert 50 <= kyoto.count() <= 130
        rows = kyoto.done("status")
        assert rows["capcnt" if name[0] == "*" else "ktcapcnt"] == b"100"
        if name.startswith("*"):
            assert rows["ktcapcnt"] == b"-1"
        kyoto.set_bulk(*[(1, b"k%d" % i, b"v", 1 << 62) for i in range(500)])
        assert kyoto.count(1) == 500


def test_a_database_has_a_limit_of_bytes(start_server):
    """The same with `capsiz`."""
    server = start_server(databases=("*#capsiz=1m",))
    with Kyoto(server.kyoto) as kyoto:
        for i in range(400):
            kyoto.call("set", key=f"k{i}", value=b"x" * 10_000)
        assert 50 <= kyoto.count() <= 105


# --- ktserver's command line


def ktserver(*arguments):
    """Starts it like ktserver and returns its address."""
    process = served.Process([served.PROGRAM, "ktserver", *arguments])
    match = process.wait_for_line(re.compile(r"^todana ready\b.*\bkyoto=(\S+):(\d+)"), served.READY_TIMEOUT_S)
    return process, (match[1], int(match[2]))


def test_ktserver(tmp_path):
    """Options come first, then databases; the other protocols are off."""
    pid_file = tmp_path / "pid"
    process, address = ktserver("-port", "0", "-host", "127.0.0.1", "-th", "2", "-tout", "5", "-ls", "-pid", str(pid_file), ":", "+")
    try:
        assert "resp=" not in "\n".join(process.lines) and "memcached=" not in "\n".join(process.lines)
        assert pid_file.read_text().strip().isdigit()
        with Kyoto(address) as kyoto:
            kyoto.call("set_bulk", {"_b": 1, "_a": 2}, DB="+")
            assert kyoto.keys_by_cursor(DB="+") == [b"a", b"b"]
            assert kyoto.done("status", DB=0)["realtype"] == b"24"
    finally:
        assert process.stop(signal.SIGTERM) == 0
    assert not pid_file.exists()


def test_ktserver_without_databases():
    """Without arguments there is one database, as in ktserver."""
    process, address = ktserver("-port", "0", "-host", "127.0.0.1")
    try:
        with Kyoto(address) as kyoto:
            assert kyoto.done("report")["db_0"].endswith(b"path=:")
    finally:
        process.stop(signal.SIGTERM)


@pytest.mark.parametrize("arguments", [["-port"], ["-port", "x"], ["-nonesuch"], ["-port", "0", "a.kch", "b.kct"], ["-port", "0", ":", "-th"]])
def test_ktserver_refuses(arguments):
    """One line names the unsupported option; every argument after the first database is a database."""
    done = subprocess.run([served.PROGRAM, "ktserver", *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["-ulog", "/tmp/none"], ["-mhost", "localhost"], ["-scr", "x.lua"], ["-bgs", "/tmp/none"], ["-plsv", "x.so"]]
)
def test_ktserver_refuses_unsupported_features(arguments):
    """Ignoring replication, scripts, snapshots and plug-ins would go unnoticed."""
    done = subprocess.run([served.PROGRAM, "ktserver", "-port", "0", *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and arguments[0] in done.stderr
