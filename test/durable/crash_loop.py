"""Kills a store under load again and again on the same data, and checks after each restart what it holds."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import threading
import time
from pathlib import Path

import kyoto_wire
import served
import stores
import wire
from figures import Figures

FAULTS = served.ROOT / "_build" / "faults"
LOAD_S = (0.05, 1.2)
# How often a store is killed a second time, while it recovers.
KILLED_IN_RECOVERY = 0.25
RECOVERY_S = (0.0, 2.5)
CANARY, CANARY_VALUE = b"canary", b"present since the first round"


class Probe:
    """Clients that ask for one record while the store starts: each answer is the record, a refusal, or an honest "loading"."""

    def __init__(self, store):
        self.store = store
        self.failure = None
        self.refused = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,), daemon=True) for name in store.probed]
        for thread in self._threads:
            thread.start()

    def _run(self, protocol):
        while not self._stop.is_set():
            with contextlib.suppress(OSError, wire.Closed):
                answer = getattr(self, protocol)(self.store.address(protocol))
                if answer is None:
                    self.refused += 1
                elif answer != CANARY_VALUE:
                    self.failure = f"a client of {protocol} was answered {answer!r} while the store started"
                    return
            time.sleep(0.003)

    @staticmethod
    def resp(address):
        """The value by RESP; None if the store says that it is loading."""
        with wire.Resp(address) as connection:
            answer = connection.call("GET", CANARY)
            return None if isinstance(answer, wire.Error) and answer.text.startswith("LOADING") else answer or "no record"

    @staticmethod
    def memcached(address):
        """The value by memcached's protocol."""
        with wire.Memcached(address) as connection:
            line = connection.command(b"get " + CANARY)
            if line.startswith(b"SERVER_ERROR loading"):
                return None
            return connection.line() if line.startswith(b"VALUE") else line

    @staticmethod
    def kyoto(address):
        """The value by HTTP."""
        with kyoto_wire.Kyoto(address) as connection:
            response = connection.ask("GET", "/" + CANARY.decode())
            return None if response.status == 503 else response.body if response.status == 200 else response

    def stop(self):
        """Ends the clients; raises what one of them has seen."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure:
            raise AssertionError(self.failure)


class CrashLoop:
    """A store, its writers, and what they know."""

    def __init__(self, store, seed, name="crash-loop", is_planted=False, counted=None):
        self.figures = Figures() if counted is None else counted
        self.store, self.seed, self.name = store, seed, name
        self.random = random.Random(seed)
        self.writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0) for kind in store.writers]
        self.is_planted = is_planted
        self.rounds = self.kills = self.refused = 0
        self.slowest_start_s = 0.0

    def run(self, rounds, deadline=None):
        """Runs rounds, up to a moment of time.monotonic(); keeps the data of a failure."""
        try:
            self.begin()
            for _ in range(rounds):
                if deadline and time.monotonic() > deadline:
                    break
                self.round()
            self.end()
        except BaseException:
            if not self.is_planted:
                self.keep()
            raise
        finally:
            self.store.clean_up()
        self.count()

    def count(self):
        """Notes what the loop has done, and that every client took part."""
        self.figures |= {"rounds": self.rounds, "kills": self.kills, "answers loading": self.refused}
        self.figures["slowest start in s"] = round(self.slowest_start_s, 1)
        self.figures.assert_all_wrote(self.writers)

    def begin(self):
        """Starts the store on an empty directory."""
        self.store.start()
        self.store.wait_until_serving()
        with wire.Resp(self.store.address("resp")) as connection:
            answer = connection.call("SET", CANARY, CANARY_VALUE)
            assert answer == wire.OK, f"SET was answered {answer!r}"

    def round(self):
        """Load, kill, restart, check."""
        for writer in self.writers:
            writer.start(self.store)
        time.sleep(self.random.uniform(*LOAD_S))
        assert self.store.is_alive(), "the store has ended by itself:\n" + self.store.log()
        stopped = [f"{writer.name} ({writer.last_word})" for writer in self.writers if not writer.is_writing()]
        self.kill()
        for writer in self.writers:
            writer.join()
        assert not stopped, f"clients were stopped by a store that was not killed: {', '.join(stopped)}\n{self.store.log()}"
        probe = Probe(self.store)
        try:
            if self.random.random() < KILLED_IN_RECOVERY:
                self.store.start()
                time.sleep(self.random.uniform(*RECOVERY_S))
                assert self.store.is_alive(), "the store has ended by itself:\n" + self.store.log()
                self.kill()
            started = time.monotonic()
            self.store.start()
            self.store.wait_until_serving()
            self.slowest_start_s = max(self.slowest_start_s, time.monotonic() - started)
        finally:
            probe.stop()
        self.refused += probe.refused
        self.check()
        self.rounds += 1

    def kill(self):
        """SIGKILL."""
        self.store.kill()
        self.kills += 1

    def check(self):
        """Compares the store with every ledger."""
        self.figures.settle(self.store, self.writers)

    def end(self):
        """A stop in order, after which everything must be there too."""
        assert self.store.stop() == 0, self.store.log()
        self.store.start()
        self.store.wait_until_serving()
        self.check()
        assert self.store.stop() == 0, self.store.log()

    def keep(self):
        """Copies the data directory and the output of every process to _build/faults."""
        self.store.clean_up()
        kept = FAULTS / re.sub(r"\W+", "-", f"{self.name}-{self.seed}-round-{self.rounds}")
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        if self.store.directory.exists():
            stores.copy_directory(self.store.directory, kept / "data")
        output = "\n---- start ----\n".join("\n".join(lines) for lines in self.store.output)
        (kept / "output.txt").write_text(output + "\n")
        words = "".join(f"{writer.name}: {writer.last_word}\n" for writer in self.writers)
        (kept / "seed.txt").write_text(f"{self.seed}\n{words}")
        print(f"{self.name}: the data of the failure are in {kept.relative_to(served.ROOT)}")


def seed_of(option) -> int:
    """The seed that was asked for, or a new one."""
    return option if option is not None else random.SystemRandom().randrange(1 << 32)


def fresh(path: Path) -> Path:
    """An empty place for a data directory."""
    shutil.rmtree(path, ignore_errors=True)
    return path
