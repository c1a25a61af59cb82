"""A disk that fails costs no acknowledged write, is reported in one sentence, and serves again once it works again."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import crash_loop
import cut_points
import disk_faults
import power_cut
import stores
import wire
from disk_faults import Control

LOAD_S = 0.8
# Longer than write_timeout_ms, so that clients that wait get their answer.
BROKEN_S = 7.0
REPAIRED_S = 90.0
OUTCOME_S = 45.0
LAST_RECORDS = 20
CUTS_OF_A_FAILED_SYNC = 100
# Half of the cuts come within this many steps after the sync that failed.
STEPS_BEHIND = 400
# The kinds of files that a data directory of Todana must have for the flips to prove something.
KINDS = {".wal", ".segment", "data.tds", "meta", "names.dets", "meta.dets", "config", "node"}
pytestmark = pytest.mark.faults


class Subject:
    """A store under the shim, with writers and the control of its disk."""

    def __init__(self, store_class, seed, directory, counted):
        self.figures = counted
        self.seed, self.store = seed, store_class(directory / "data")
        self.control = Control(directory / "faults")
        self.environment = self.control.environment(self.store.directory)
        self.random = random.Random(seed)
        self.writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0) for kind in self.store.writers]

    def start(self):
        """Starts the store under the shim."""
        self.store.start(self.environment)
        self.store.wait_until_serving()

    def load(self, seconds, *, until_stopped=False):
        """Runs all writers for a while."""
        for writer in self.writers:
            writer.start(self.store)
        time.sleep(seconds)
        if not until_stopped:
            for writer in self.writers:
                writer.stop()
            self.join()

    def join(self):
        """Waits for the writers."""
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join()

    def check(self):
        """Compares the store with what was acknowledged."""
        self.figures.settle(self.store, self.writers)

    def prepare(self):
        """Leaves the directory of a store that was killed under load, and knows its state."""
        self.start()
        self.load(LOAD_S, until_stopped=True)
        self.store.kill()
        self.join()
        self.start()
        self.check()
        self.load(LOAD_S / 2)
        self.check()
        # A damaged record at the very end of a log looks like one that was being written when the power failed, so the
        # last records are of no client.
        with wire.Resp(self.store.address("resp")) as connection:
            for number in range(LAST_RECORDS):
                assert connection.call("SET", "the end of the log", number) == wire.OK
        self.store.kill()

    def keep(self, name):
        """Copies the directory of a failure."""
        kept = crash_loop.FAULTS / re.sub(r"\W+", "-", f"{name}-{self.seed}")
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        stores.copy_directory(self.store.directory, kept / "data")
        (kept / "output.txt").write_text("\n---- start ----\n".join("\n".join(lines) for lines in self.store.output))
        print(f"{name}: kept in {kept}")


@pytest.fixture
def subject(request, store_class, seed, figures, fast_directory):
    """A store whose disk can be made to fail."""
    found = Subject(store_class, seed, fast_directory, figures)
    failed_before = request.session.testsfailed
    yield found
    found.control.mend()
    found.store.clean_up()
    if request.session.testsfailed > failed_before:
        found.keep(request.node.name)
    found.control.close()


@pytest.mark.parametrize("fault", disk_faults.RUNNING)
def test_a_store_survives_a_fault_while_it_runs_and_serves_again_by_itself(subject, fault):
    subject.start()
    subject.load(LOAD_S)
    subject.load(LOAD_S / 2, until_stopped=True)
    subject.control.fail(**disk_faults.RUNNING[fault])
    time.sleep(BROKEN_S)
    subject.join()
    assert subject.store.is_alive(), subject.store.log()
    assert isinstance(subject.store.look(), (int, wire.Error)), "a read hangs"
    subject.control.mend()
    subject.figures["calls failed"] = subject.control.hits
    subject.figures["clients heard"] = sorted({str(writer.last_word) for writer in subject.writers})
    assert subject.control.hits, "no call has failed"
    disk_faults.wait_for_writes(subject.store, REPAIRED_S)
    subject.check()
    subject.figures.assert_all_wrote(subject.writers)
    subject.load(LOAD_S)
    subject.store.kill()
    subject.start()
    subject.check()


def test_nothing_is_acknowledged_from_a_file_whose_sync_failed(store_class, seed, figures, fast_directory):
    """The system drops what it could not write, so a later sync of the same file proves nothing."""
    store = store_class(fast_directory / "data")
    recorder = cut_points.Recorder(store, seed, fast_directory)
    control = Control(fast_directory / "faults")
    recorder.environment |= control.environment(store.directory)
    recorder.start()
    recorder.load(LOAD_S)
    control.fail(disk_faults.SYNC, errno.EIO, times=1, pattern=".wal" if store.kind == "todana" else "")
    time.sleep(BROKEN_S)
    recorder.end_load()
    hits = control.hits
    control.mend()
    assert hits == 1
    disk_faults.wait_for_writes(store, REPAIRED_S)
    for writer in recorder.writers:
        # What a client could not know is settled; the units stay, because the cuts need them all.
        if len(writer.ledger.units) == writer.ledger.acknowledged:
            writer.start(store)
    time.sleep(LOAD_S)
    store.kill()
    recorder.join()
    recording = recorder.finish()
    (failed,) = [step for step, event in enumerate(recording.events) if event.kind == power_cut.SYNC_FAILED]
    rng = random.Random(seed)
    behind = range(failed, min(failed + STEPS_BEHIND, len(recording.events)))
    chosen = set(rng.sample(behind, min(len(behind), CUTS_OF_A_FAILED_SYNC // 2)))
    chosen |= set(power_cut.choose(recording.events, CUTS_OF_A_FAILED_SYNC // 2, rng))
    figures["cuts just after the failed sync"] = len(chosen & set(behind))
    cutter = cut_points.Cutter(recording, store_class, seed, fast_directory, "cut-failed-sync")
    cutter.run(len(chosen), figures, chosen)


@pytest.mark.parametrize("fault", disk_faults.STARTING)
def test_a_fault_at_the_start_is_reported_and_forgotten(subject, fault):
    subject.prepare()
    for pattern in ("", *sorted({path.suffix or path.name for path in disk_faults.damageable(subject.store.directory)})):
        subject.control.fail(pattern=pattern, **disk_faults.STARTING[fault])
        subject.store.start(subject.environment)
        how, words = disk_faults.outcome(subject.store, OUTCOME_S)
        print(f"{fault} of *{pattern}: {how}: {words.splitlines()[-1] if words else ''} ({subject.control.hits} calls failed)", flush=True)
        subject.figures.add("starts")
        subject.figures.add(f"starts {how}")
        subject.figures.add("calls failed", subject.control.hits)
        assert subject.control.hits or pattern, "no call has failed"
        if how == "serving":
            subject.check()
        assert how != "silent", f"{fault} of *{pattern}: neither serves nor says why not: {words}"
        if how == "ended":
            assert disk_faults.is_clear(words), f"{fault} of *{pattern}: not one clear sentence:\n{words}"
        subject.control.mend()
        if how == "waiting":
            assert "{" not in words, f"{fault} of *{pattern}: not a clear sentence: {words}"
            try:
                subject.store.wait_until_serving(REPAIRED_S)
            except stores.NotServing:
                # The machine was slow, and the attempts were over.
                assert not subject.store.is_alive() and "attempts)" in subject.store.log(), subject.store.log()
                subject.start()
            subject.check()
        subject.store.kill()
    subject.start()
    subject.check()


def test_a_flipped_bit_is_found_or_harmless(request, subject, fast_directory):
    subject.prepare()
    intact, files = fast_directory / "intact", disk_faults.damageable(subject.store.directory)
    stores.copy_directory(subject.store.directory, intact)
    kinds = {}
    for path in files:
        kinds.setdefault(disk_faults.kind(path), []).append(path)
    assert subject.store.kind != "todana" or kinds.keys() >= KINDS, f"the directory has only {sorted(kinds)}"
    outcomes = {kind: {} for kind in sorted(kinds)}
    unclear = []
    for kind in sorted(kinds) * request.config.getoption("--flips"):
        shutil.rmtree(subject.store.directory)
        stores.copy_directory(intact, subject.store.directory)
        path = subject.random.choice(kinds[kind])
        offset = disk_faults.flip(path, subject.random)
        name = path.relative_to(subject.store.directory)
        subject.store.start()
        how, words = disk_faults.outcome(subject.store, OUTCOME_S)
        assert how != "silent", f"{name} at {offset}: {words}"
        outcomes[kind][how] = outcomes[kind].get(how, 0) + 1
        subject.figures.add("flips")
        subject.figures.add(f"flips {how}")
        if how == "serving":
            state = {writer.name: dict(writer.ledger.state) for writer in subject.writers}
            try:
                subject.check()
            except AssertionError as wrong:
                raise AssertionError(f"a bit flipped in {name} at {offset} is served as if nothing was wrong: {wrong}") from None
            assert state == {writer.name: writer.ledger.state for writer in subject.writers}
        elif how == "ended" and not disk_faults.is_clear(words) or how == "waiting" and "{" in words:
            unclear.append(f"{name} at {offset}: {words[-800:]}")
        subject.store.kill()
    subject.figures["flips of each kind of file"] = outcomes
    assert not unclear, "\n".join([f"{len(unclear)} times not one clear sentence, such as", *unclear[:3]])
    assert subject.store.kind != "todana" or outcomes[".wal"].keys() != {"serving"}, "no flipped bit of the log was found"


def test_a_torn_tail_is_cut_off(subject, fast_directory):
    subject.prepare()
    logs = [path for path in disk_faults.damageable(subject.store.directory) if path.suffix in (".wal", ".aof")]
    if subject.store.kind == "toy":
        logs = sorted(subject.store.directory.glob("log-*"))
    newest = max(logs, key=lambda path: path.stat().st_mtime_ns)
    intact = newest.read_bytes()
    for length in (1, 3, 17, 100, 5_000):
        # A copy of earlier bytes looks like a record whose end is missing.
        newest.write_bytes(intact + intact[5 : 5 + length])
        subject.start()
        subject.check()
        subject.store.kill()
        newest.write_bytes(intact)


def only_todana(store):
    """Skips what is about Todana's data directory."""
    if store.kind != "todana":
        pytest.skip("about Todana's data directory")


def test_a_directory_in_use_is_refused_and_its_node_goes_on(subject):
    only_todana(subject.store)
    subject.start()
    second = stores.Todana(subject.store.directory)
    try:
        second.start()
        assert disk_faults.is_clear(words := second.sentence()), words
        assert "in use" in words or "another" in words, words
    finally:
        second.clean_up()
    subject.load(LOAD_S)
    subject.check()


@pytest.mark.parametrize("damage", ["newer format", "another node", "no node file", "a file instead of a directory"])
def test_a_directory_that_is_not_this_nodes_is_refused_untouched(subject, damage, fast_directory):
    only_todana(subject.store)
    subject.prepare()
    node = subject.store.directory / "node"
    original = node.read_bytes()
    if damage == "newer format":
        changed = re.sub(rb"(format\D+)(\d+)", lambda m: m[1] + b"%d" % (int(m[2]) + 1), original)
        assert changed != original, original
        node.write_bytes(changed)
    elif damage == "another node":
        other = stores.Todana(fast_directory / "other")
        other.start()
        other.wait_until_serving()
        other.stop()
        other.clean_up()
        node.write_bytes((fast_directory / "other" / "node").read_bytes())
    elif damage == "no node file":
        node.unlink()
    else:
        shutil.move(subject.store.directory, fast_directory / "moved")
        subject.store.directory.write_text("not a directory\n")
    subject.store.start()
    how, words = disk_faults.outcome(subject.store, OUTCOME_S)
    print(f"{damage}: {how}: {words}")
    assert how == "ended" and disk_faults.is_clear(words), (how, words)
    assert damage != "no node file" or "node is missing" in words, words
    subject.store.kill()
    if damage.startswith("a file"):
        subject.store.directory.unlink()
        shutil.move(fast_directory / "moved", subject.store.directory)
    else:
        node.write_bytes(original)
    subject.start()
    subject.check()


def test_a_damaged_file_of_the_node_deletes_no_log(subject):
    """Without the word that there is a group, the log would be taken for that of a first start that did not finish."""
    only_todana(subject.store)
    subject.prepare()
    node = subject.store.directory / "node"
    original = node.read_bytes()
    start = original.index(b"{group")
    for offset in range(start, len(original)):
        bit = 1 << subject.random.randrange(8)
        node.write_bytes(original[:offset] + bytes([original[offset] ^ bit]) + original[offset + 1 :])
        subject.store.start()
        how, words = disk_faults.outcome(subject.store, OUTCOME_S)
        subject.figures.add("flips")
        subject.figures.add(f"flips {how}")
        assert how == "serving" or how == "ended" and disk_faults.is_clear(words), f"byte {offset}, bit {bit}: {how}: {words}"
        subject.store.kill()
        node.write_bytes(original)
    subject.start()
    subject.check()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_small_file_system_that_fills_up_and_is_freed(store_class, seed, figures, directory):
    place = directory / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    subject = None
    try:
        ballast = place / "ballast"
        subject = Subject(store_class, seed, place, figures)
        subject.store.flags += ["--disk-reserve", "1mb"] if subject.store.kind == "todana" else []
        subject.environment = {}
        subject.start()
        subject.load(LOAD_S)
        subject.load(0.2, until_stopped=True)
        with ballast.open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(1 << 16))
            except OSError as error:
                assert error.errno == errno.ENOSPC
        time.sleep(BROKEN_S)
        subject.join()
        figures["clients heard"] = sorted({str(writer.last_word) for writer in subject.writers})
        assert disk_faults.can_write(subject.store) is not True
        ballast.unlink()
        disk_faults.wait_for_writes(subject.store, REPAIRED_S)
        subject.check()
        subject.load(LOAD_S)
        subject.store.kill()
        subject.start()
        subject.check()
    finally:
        if subject:
            subject.store.clean_up()
            subject.control.close()
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def small_store(store_class, directory):
    """A Todana on a file system of its own, which is small, with 8 MiB as its reserve; and what fills that file system."""
    place = directory / "small"
    place.mkdir()
    if store_class.kind != "todana":
        pytest.skip("the reserve is Todana's")
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    store = None
    try:
        store = store_class(place / "data")
        store.flags += ["--disk-reserve", "8mb"]
        # Ra keeps the newest segment, although a snapshot has its entries.
        store.environment["ERL_FLAGS"] += " -ra todana_segment_max_entries 16"
        store.start()
        store.wait_until_serving()
        yield store, place / "ballast"
    finally:
        if store:
            store.clean_up()
        subprocess.run(["umount", "--lazy", place], check=True)


def is_refused(answer) -> bool:
    """Whether a write was refused because of the disk."""
    return isinstance(answer, wire.Error) and answer.text.startswith("MISCONF Errors writing to the AOF file: ")


def fill(connection, prefix) -> list:
    """Writes records until one is refused; returns the keys of the others."""
    keys = []
    while (answer := connection.call("SET", key := f"{prefix}{len(keys)}", os.urandom(1 << 18))) == wire.OK:
        keys.append(key)
    assert is_refused(answer) and "only removals are accepted" in answer.text, answer
    return keys


def put(store, method) -> int:
    """The status of a request of Kyoto's protocol."""
    address = "http://%s:%d/kyoto" % store.address("kyoto")
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method, data=b"x" if method == "PUT" else None)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_clients_free_the_space_of_a_full_disk_by_removals(small_store):
    store, _ = small_store
    with wire.Resp(store.address("resp")) as resp, wire.Memcached(store.address("memcached")) as memcached:
        assert resp.call("MSET", "resp", "x", "memcached", "x", "kyoto", "x") == wire.OK
        keys = fill(resp, "first")
        # Whatever is not a removal is refused, in each protocol.
        assert memcached.command("set memcached 0 0 1", b"y") == b"SERVER_ERROR temporary failure"
        assert put(store, "PUT") == 503
        for words in (["EXPIRE", "resp", "9"], ["RENAME", "resp", "other"], ["EVAL", "return redis.call('del', KEYS[1])", "1", "resp"]):
            assert is_refused(resp.call(*words)), words
        assert (resp.call("GET", "resp"), memcached.command("delete memcached"), put(store, "DELETE")) == (b"x", b"DELETED", 204)
        assert resp.call("UNLINK", "resp", "memcached", "kyoto") == 1
        # A snapshot of the few that are left replaces the log.
        assert resp.call("DEL", *keys[1:]) == len(keys) - 1
        disk_faults.wait_for_writes(store, REPAIRED_S)
        assert resp.call("DBSIZE") == 2
        fill(resp, "second")
        assert resp.call("FLUSHALL") == wire.OK
        disk_faults.wait_for_writes(store, REPAIRED_S)
        keys = fill(resp, "third")
    store.kill()
    store.start()
    store.wait_until_serving()
    with wire.Resp(store.address("resp")) as resp:
        assert resp.call("EXISTS", *keys) == len(keys)
        found = resp.call("KEYS", "*")
        assert sorted(found) == sorted([b"does the disk work", *(key.encode() for key in keys)])
        # A snapshot that is being written may take the last room, until it fails.
        deadline = time.monotonic() + REPAIRED_S
        while (answer := resp.call("FLUSHDB")) != wire.OK:
            assert is_refused(answer) and time.monotonic() < deadline, answer
            time.sleep(0.1)
        disk_faults.wait_for_writes(store, REPAIRED_S)


def test_the_first_write_to_a_full_disk_is_refused_as_later_ones_are(small_store):
    """The log did not take it, so its outcome is known."""
    store, ballast = small_store
    with wire.Resp(store.address("resp")) as resp, wire.Memcached(store.address("memcached")) as memcached:
        first = {
            "resp": lambda: is_refused(resp.call("SET", "resp", "y")),
            "memcached": lambda: memcached.command("set memcached 0 0 1", b"y") == b"SERVER_ERROR temporary failure",
            "kyoto": lambda: put(store, "PUT") == 503,
        }
        for protocol in list(first) * 2:
            with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
                while True:
                    os.write(file.fileno(), bytes(1 << 16))
            # Longer than the batcher writes without looking at the disk.
            time.sleep(0.1)
            assert first[protocol](), protocol
            assert all(refuses() for refuses in first.values())
            assert is_refused(resp.call("DEL", "resp"))
            ballast.unlink()
            disk_faults.wait_for_writes(store, REPAIRED_S)
            assert resp.call("EXISTS", *first) == 0
        # The same for the first removal, after a while in which removals were accepted.
        with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
            room = os.statvfs(ballast.parent)
            os.write(file.fileno(), bytes(room.f_bavail * room.f_frsize - (4 << 20)))
            while not is_refused(resp.call("SET", "resp", "x")):
                time.sleep(0.01)
            assert resp.call("DEL", "resp") in (0, 1)
            while True:
                os.write(file.fileno(), bytes(1 << 16))
        time.sleep(0.1)
        assert is_refused(resp.call("DEL", "resp"))
    assert "the log does not run" not in store.log(), store.log()


def test_a_start_on_a_full_disk_ends_soon_and_names_the_directory(small_store):
    store, ballast = small_store
    with wire.Resp(store.address("resp")) as resp:
        assert resp.call("SET", "k", "v") == wire.OK
    store.kill()
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            os.write(file.fileno(), bytes(1 << 12))
    store.start()
    last = store.sentence().splitlines()[-1]
    assert last.startswith(f"todana: the disk of {store.directory} is full"), last
    assert last.endswith(" (5 attempts)"), last
    assert "enospc" not in store.log(), store.log()
    assert store.process.popen.returncode == 1
    ballast.unlink()
    store.start()
    store.wait_until_serving()
    with wire.Resp(store.address("resp")) as resp:
        assert resp.call("GET", "k") == b"v"


def run_under_shim(control, root, code):
    """Runs Python code whose files below a directory can fail."""
    done = subprocess.run([sys.executable, "-c", code, str(root)], env={**os.environ, **control.environment(root)}, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr


def test_the_shim_makes_calls_fail(tmp_path):
    control = Control(tmp_path / "faults")
    root = tmp_path / "root"
    root.mkdir()
    write = "import os,sys\nf=os.open(sys.argv[1]+'/a',os.O_CREAT|os.O_WRONLY)\n"
    attempts = {
        "os.write(f,b'x')": ({"operations": disk_faults.WRITE, "error": errno.EIO}, "EIO"),
        "print(os.write(f,b'x'*100));os.write(f,b'y')": ({"operations": disk_faults.WRITE, "error": errno.ENOSPC, "bytes_left": 60}, "60 ENOSPC"),
        "os.fsync(f)": ({"operations": disk_faults.SYNC, "error": errno.EIO, "pattern": "/a"}, "EIO"),
        "os.fsync(f);print('synced')": ({"operations": disk_faults.SYNC, "error": errno.EIO, "pattern": "/b"}, "synced"),
        "open(sys.argv[1]+'/b','w')": ({"operations": disk_faults.CREATE, "error": errno.EROFS, "pattern": "/b"}, "EROFS"),
        "os.rename(sys.argv[1]+'/a',sys.argv[1]+'/c')": ({"operations": disk_faults.RENAME, "error": errno.EROFS}, "EROFS"),
    }
    for code, (fault, expected) in attempts.items():
        control.fail(**fault)
        body = f"{write}try:\n {code}\nexcept OSError as e:\n import errno\n print(errno.errorcode[e.errno])"
        assert " ".join(run_under_shim(control, root, body).split()) == expected, code
    control.close()
